"""A local search for stores with a depot, if customers go to the nearest store.

    F(μ) = Σ_i w_i (r_{i y_i} + λ‖μ_{y_i} - x_D‖²),   y_i = argmin_j r_ij
Alternating between y and μ does not descend on F, which jumps when a customer changes stores. Along a line μ_j + t u,
store j has customer i if r_ij(t) < min_{k≠j} r_ik, which is an interval of t. So F is quadratic in t between the ends
of these intervals, and one sort gives its exact minimum on the whole line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jensen.models.clusters.centres import Pull

# A descent ends after PATIENCE rounds with a relative gain below GAIN, or after ROUNDS.
PATIENCE, GAIN, ROUNDS = 2, 1e-5, 60
# Joint steps of all stores that a round tries.
JOINT = 64
# Descents from other places that a search tries, if rows times stores are at most FEW.
KICKS, FEW = 6, 5000
# Largest size of a temporary array.
NUMBERS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Customers:
    """Rows (n, d), 0 where missing; 1 for observed entries and 0 for missing ones (n, d); weights (n,); the depot."""

    x: np.ndarray
    seen: np.ndarray
    weight: np.ndarray
    pull: Pull

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray, pull: Pull) -> Customers:
        """From rows with NaN where missing, in the coordinates of `pull`."""
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
        """The best locations (K, d) for the customers of these stores; a store without customers stays."""
        served = np.eye(len(stores))[self.distances(stores).argmin(1)] * self.weight[:, None]
        pulled = self.pull.weight * served.sum(0)[:, None]
        mass = served.T @ self.seen + pulled
        best = (served.T @ self.x + pulled * self.pull.location.numpy()) / np.where(mass > 0, mass, 1.0)
        return np.where(mass > 0, best, stores)


def search_lines(customers: Customers, stores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Stores (K, d) that cost no more than these: the best of descents from here and from other places."""
    best, least = descend(customers, stores, rng)
    for _ in range(KICKS if len(customers.x) * len(stores) <= FEW else 0):
        found, cost = descend(customers, kicked(customers, best, rng), rng)
        if cost < least:
            best, least = found, cost
    return best


def kicked(customers: Customers, stores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some or all stores moved to the best location for one random customer each."""
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
    """Move each store to the best point on some lines: along the axes, towards other stores, and random ones."""
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
    """Random joint steps, over four orders of magnitude: a customer between two stores can couple them."""
    sizes = 0.3 * 10.0 ** -rng.uniform(0, 4, size=(JOINT, 1, 1))
    steps = sizes * rng.normal(size=(JOINT, *stores.shape))
    at_once = max(1, NUMBERS_AT_ONCE // (len(customers.x) * len(stores)))
    for first in range(0, JOINT, at_once):
        stores, best = best_of(customers, stores + steps[first : first + at_once], stores, best)
    return stores, best


def towards_means(
    customers: Customers, stores: np.ndarray, best: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Part of the way to the best locations for the current customers."""
    shares = np.array([1, 0.5, 0.25, 0.1, 0.03, 0.01])[:, None, None]
    return best_of(customers, stores + shares * (customers.means(stores) - stores), stores, best)


def best_of(customers: Customers, trials: np.ndarray, stores: np.ndarray, best: float) -> tuple[np.ndarray, float]:
    """The cheapest of the trials (B, K, d) if it is better than the current stores."""
    costs = customers.cost(trials)
    return (trials[costs.argmin()], float(costs.min())) if costs.min() < best else (stores, best)


def best_on_lines(customers: Customers, stores: np.ndarray, j: int, lines: np.ndarray) -> np.ndarray:
    """The location (d,) of store j with the least F on lines (L, d) through it; the other stores stay."""
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
    # Serving customer i changes F by w_i (r_ij(t) + λ‖μ_j + tu - x_D‖² - rival - its supply), by powers of t.
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
    # At the end of an interval two stores tie for the customer, so a step stops just before it.
    lowest = -linear / np.where(square > 0, 2 * square, 1.0)
    inset = 1e-6 * (high - low)
    t = np.clip(np.where(square > 0, lowest, low), low + inset, high - inset)
    value = np.where(is_piece, (square * t + linear) * t + constant, np.inf)
    line, piece = np.unravel_index(value.argmin(), value.shape)
    return np.asarray(stores[j] + t[line, piece] * lines[line])
