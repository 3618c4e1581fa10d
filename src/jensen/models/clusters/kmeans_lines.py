"""A search for stores whose customers go to the nearest one, though the depot's supply counts.

    F(μ) = Σ_i w_i (r_{i y_i} + λ‖μ_{y_i} - x_D‖²),   y_i = argmin_j r_ij
Steps between y and μ do not descend on F, which jumps where a customer changes stores. Along a line μ_j + t u the
customers of store j are those with r_ij(t) < min_{k≠j} r_ik, an interval of t each. So F is quadratic in t between the
ends of these intervals, and its least value on the whole line is found exactly, from one sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jensen.models.clusters.centres import Pull

# Rounds without a gain of GAIN that end a descent, and rounds at most.
PATIENCE, GAIN, ROUNDS = 2, 1e-5, 60
# Steps of all stores at once that a round tries.
JOINT = 64
# Descents from elsewhere that a search tries, where rows times stores are no more than so many.
KICKS, FEW = 6, 5000
# Numbers in the arrays of one trial.
NUMBERS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Customers:
    """Rows (n, d), 0 where missing; which entries are observed (n, d), as numbers; weights (n,); and their depot."""

    x: np.ndarray
    seen: np.ndarray
    weight: np.ndarray
    pull: Pull

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray, pull: Pull) -> Customers:
        """From rows with NaN where missing, in the coordinates of the pull."""
        return cls(np.nan_to_num(x, nan=0.0), (~np.isnan(x)).astype(np.float64), weight, pull)

    def distances(self, stores: np.ndarray) -> np.ndarray:
        """r (..., n, K) to stores (..., K, d)."""
        norms, products = (
            values @ np.swapaxes(weights, -1, -2)
            for values, weights in ((self.seen, np.square(stores)), (self.x, stores))
        )
        return np.asarray((self.squared[:, None] - 2 * products + norms).clip(min=0))

    @cached_property
    def squared(self) -> np.ndarray:
        return np.asarray(np.square(self.x).sum(1))

    def supply(self, stores: np.ndarray) -> np.ndarray:
        """λ‖μ_j - x_D‖² (..., K)."""
        return np.asarray(self.pull.weight * np.square(stores - self.pull.location.numpy()).sum(-1))

    def cost(self, stores: np.ndarray) -> np.ndarray:
        """F (...) of stores (..., K, d)."""
        r = self.distances(stores)
        nearest = r.argmin(-1)
        return np.asarray((r.min(-1) + np.take_along_axis(self.supply(stores), nearest, -1)) @ self.weight)

    def means(self, stores: np.ndarray) -> np.ndarray:
        """The best places (K, d) for the customers whom these stores serve; a store that serves nobody stays."""
        served = np.eye(len(stores))[self.distances(stores).argmin(1)] * self.weight[:, None]
        pulled = self.pull.weight * served.sum(0)[:, None]
        mass = served.T @ self.seen + pulled
        best = (served.T @ self.x + pulled * self.pull.location.numpy()) / np.where(mass > 0, mass, 1.0)
        return np.where(mass > 0, best, stores)


def search_lines(customers: Customers, stores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Stores (K, d) that cost no more than these: the best of a descent from here and of some from elsewhere."""
    best, least = descend(customers, stores, rng)
    for _ in range(KICKS if len(customers.x) * len(stores) <= FEW else 0):
        found, cost = descend(customers, kicked(customers, best, rng), rng)
        if cost < least:
            best, least = found, cost
    return best


def kicked(customers: Customers, stores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some of the stores, or all, to where a store for one customer alone would be."""
    k, pull = len(stores), customers.pull
    chosen = rng.choice(len(customers.x), size=k, p=customers.weight / customers.weight.sum())
    places = (customers.x[chosen] + pull.weight * pull.location.numpy()) / (1 + pull.weight)
    goes = rng.permutation(k) < rng.integers(1, k + 1)
    return np.where(goes[:, None], places, stores)


def descend(customers: Customers, stores: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    best, waited = float(customers.cost(stores)), 0
    for _ in range(ROUNDS):
        before = best
        for step in (one_by_one, all_together, towards_means):
            stores, best = step(customers, stores, best, rng)
        waited = 0 if best < before * (1 - GAIN) else waited + 1
        if waited == PATIENCE:
            break
    return stores, best


def one_by_one(
    customers: Customers, stores: np.ndarray, best: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Every store to the best place on some lines: along the features, to the other stores, and anywhere."""
    k, d = stores.shape
    for j in range(k):
        towards = np.delete(stores, j, axis=0) - stores[j]
        lines = np.vstack([np.eye(d), towards, rng.normal(size=(2 * d, d))]) if d > 1 else np.eye(1)
        lines = lines[np.square(lines).sum(1) > 0]
        lines = lines[: max(1, NUMBERS_AT_ONCE // (2 * len(customers.x)))]
        place = best_on_lines(customers, stores, j, lines / np.sqrt(np.square(lines).sum(1, keepdims=True)))
        moved = np.where((np.arange(k) == j)[:, None], place, stores)
        stores, best = best_of(customers, moved[None], stores, best)
    return stores, best


def all_together(
    customers: Customers, stores: np.ndarray, best: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Steps of all stores, over four orders of magnitude: two may be tied to each other by a customer between them."""
    sizes = 0.3 * 10.0 ** -rng.uniform(0, 4, size=(JOINT, 1, 1))
    steps = sizes * rng.normal(size=(JOINT, *stores.shape))
    at_once = max(1, NUMBERS_AT_ONCE // (len(customers.x) * len(stores)))
    for first in range(0, JOINT, at_once):
        stores, best = best_of(customers, stores + steps[first : first + at_once], stores, best)
    return stores, best


def towards_means(
    customers: Customers, stores: np.ndarray, best: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Part of the way to the best places for the customers of now."""
    shares = np.array([1, 0.5, 0.25, 0.1, 0.03, 0.01])[:, None, None]
    return best_of(customers, stores + shares * (customers.means(stores) - stores), stores, best)


def best_of(customers: Customers, trials: np.ndarray, stores: np.ndarray, best: float) -> tuple[np.ndarray, float]:
    """The cheapest of the trials (B, K, d) if it beats the stores of now."""
    costs = customers.cost(trials)
    return (trials[costs.argmin()], float(costs.min())) if costs.min() < best else (stores, best)


def best_on_lines(customers: Customers, stores: np.ndarray, j: int, lines: np.ndarray) -> np.ndarray:
    """The best place (d,) of store j on one of the lines (L, d) through it, by F, the other stores staying."""
    r, supply, location = customers.distances(stores), customers.supply(stores), customers.pull.location.numpy()
    others = np.delete(np.arange(len(stores)), j)
    second = others[r[:, others].argmin(1)]
    rival, now = r[np.arange(len(r)), second], r[:, j]
    # r_ij(t) = a t² - 2 b t + now, for L lines and n customers.
    a = np.square(lines) @ customers.seen.T
    b = lines @ (customers.seen * (customers.x - stores[j])).T
    root = np.sqrt((b * b - a * (now - rival)).clip(min=0))
    reached = (root > 0) & (a > 0)
    inverse = 1 / np.where(reached, a, 1.0)
    ends = np.hstack([np.where(reached, (b + sign * root) * inverse, np.inf) for sign in (-1, 1)])
    # What it changes to serve customer i: w_i (r_ij(t) + λ‖μ_j + tu - x_D‖² - rival - its supply), by powers of t.
    length, ahead = np.square(lines).sum(1), lines @ (stores[j] - location)
    weight = np.where(reached, customers.weight, 0.0)
    powers = (
        weight * (a + customers.pull.weight * length[:, None]),
        weight * 2 * (customers.pull.weight * ahead[:, None] - b),
        weight * (now + supply[j] - rival - supply[second]),
    )
    order = ends.argsort(1)
    ends = np.take_along_axis(ends, order, 1)
    square, linear, constant = (
        np.take_along_axis(np.hstack([power, -power]), order, 1).cumsum(1)[:, :-1] for power in powers
    )
    low, high = ends[:, :-1], ends[:, 1:]
    is_piece = np.isfinite(high) & (high > low)
    low, high = np.where(is_piece, low, 0.0), np.where(is_piece, high, 0.0)
    # An end belongs to another store when its customer is tied, so a step stops just before it.
    lowest = -linear / np.where(square > 0, 2 * square, 1.0)
    inset = 1e-6 * (high - low)
    t = np.clip(np.where(square > 0, lowest, low), low + inset, high - inset)
    value = np.where(is_piece, (square * t + linear) * t + constant, np.inf)
    line, piece = np.unravel_index(value.argmin(), value.shape)
    return np.asarray(stores[j] + t[line, piece] * lines[line])
