"""One column given the others, in every row: p(x_j | x_-j), exact for mixtures.

    p(x_j | x_-j) = Σ_k w_k p_k(x_j | x_-j),   w_k ∝ π_k p_k(x_-j) = π_k p_k(x) / p_k(x_j | x_-j)
    Gaussian, P = Σ_k⁻¹:   x_j | x_-j, k ~ N(x_j - [P(x-μ_k)]_j / P_jj, 1 / P_jj)
Columns of other families are independent of the rest given the component, so p_k(x_j | x_-j) = p_k(x_j). P is that of
the observed columns of a row. Noise is left out: cells are compared with rows that belong to a component.

tail = P{p(X_j | x_-j) ≤ p(x_j | x_-j)} ranks cells of different columns. Numbers with bounds are compared in the
coordinates in which they are Gaussian. In a column with atoms, the outcomes are ordered by probability: an atom a by
ω_a, a number x by (1 - Σω) P{f(X) ≤ f(x)}, so that the comparison has no unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jensen.contract.given_rest import GivenRest
from jensen.data.container import Kind
from jensen.engines.em.frame import Frame
from jensen.formulas import normal_mixture
from jensen.formulas.gaussian import LOG_2PI, cholesky
from jensen.formulas.monotone import expectation, forward, inverse, log_derivative
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.inference import answers, log_joint

Ends = tuple[float, float]
FREE: Ends = (-math.inf, math.inf)
N_HALVINGS = 60


@dataclass(frozen=True)
class Cells:
    """Cells (n, d), or one column of them (n,), given the rest; as in `jensen.contract.given_rest.GivenRest`."""

    nats: Tensor
    tail: Tensor
    expected: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def side_by_side(cls, columns: list[Cells]) -> Cells:
        fields = ("nats", "tail", "expected", "low", "high")
        return cls(*(torch.stack([getattr(column, name) for column in columns], 1) for name in fields))


@dataclass(frozen=True)
class Normals:
    """A mixture of normals for every row: log-weights, means and deviations (n, K); of numbers x through g.

    `ends` are the bounds of x. On a side without one, means of x end at `reach`, as in `monotone.expectation`.
    """

    log_weights: Tensor
    means: Tensor
    deviations: Tensor
    ends: Ends = FREE
    reach: Ends = FREE

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.log_weights, self.means, self.deviations

    def log_density(self, y: Tensor) -> Tensor:
        """Of g(x)."""
        return normal_mixture.log_density(y, *self.parts)

    def tail(self, y: Tensor) -> Tensor:
        return normal_mixture.tail(y, *self.parts)

    def quantile(self, p: float) -> Tensor:
        return inverse(normal_mixture.quantile(p, self.log_weights.exp(), *self.parts[1:]), *self.ends)

    def distribution(self, x: Tensor) -> Tensor:
        """F(x) (n,) in the user's own numbers."""
        low, high = self.ends
        y = forward(x, low, high)
        inside = normal_mixture.distribution(y.nan_to_num(nan=0.0), self.log_weights.exp(), *self.parts[1:])
        return inside.masked_fill(x <= low, 0.0).masked_fill(x >= high, 1.0)

    def expected(self) -> Tensor:
        mean = expectation(self.means, self.deviations.square(), *self.ends, *self.reach)
        return (self.log_weights.exp() * mean).sum(1)

    def cells(self, x: Tensor, y: Tensor, coverage: float) -> Cells:
        """Of numbers x (n,), which are y = g(x)."""
        nats = self.log_density(y) + log_derivative(x, *self.ends)
        edge = (1 - coverage) / 2
        return Cells(nats, self.tail(y), self.expected(), self.quantile(edge), self.quantile(1 - edge))


def numbers_given_rest(means: Tensor, covariances: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (n, K, d) of every observed entry of rows (n, d) given the other observed ones; NaN elsewhere.

    Args:
        means: (K, d).
        covariances: (K, d, d).
        x: rows, NaN where missing.
    """
    mean = x.new_full((len(x), *means.shape), torch.nan)
    variance = mean.clone()
    patterns, number = torch.unique(~x.isnan(), dim=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        own, rows = pattern.nonzero().squeeze(1), (number == i).nonzero().squeeze(1)
        if not len(own):
            continue
        precision = torch.cholesky_inverse(cholesky(covariances[:, own][:, :, own]))
        diagonal = precision.diagonal(dim1=-2, dim2=-1)
        values = x[rows][:, own]
        pull = ((values - means[:, None, own]) @ precision).movedim(0, 1) / diagonal
        place = rows[:, None, None], torch.arange(len(means))[None, :, None], own[None, None, :]
        mean[place], variance[place] = values[:, None] - pull, (1 / diagonal).expand_as(pull)
    return mean, variance


def joint(theta: MixtureTheta[Any], y: Tensor) -> Tensor:
    """ln π_k p_k(x) (n, K) over what is observed, without noise."""
    return answers(theta.with_noise(None), y, log_joint)


def normalised(log_weights: Tensor, shares: Tensor) -> Tensor:
    """Log-weights (n, K) that sum to 1; the shares of the components where no component can have the rest."""
    total = torch.logsumexp(log_weights, 1, keepdim=True)
    return torch.where(total > -torch.inf, log_weights - total, shares.log())


def gaussian_cells(theta: MixtureTheta[Any], full: Callable[[Any], Tensor], x: Tensor, coverage: float) -> Cells:
    """Cells of a mixture of Gaussians, whose covariances (K, d, d) `full` returns; rows (n, d), NaN where missing."""
    frame = theta.frame()
    local = theta.within(frame).components
    mean, variance = in_units(frame, *numbers_given_rest(local.means, full(local), (x - frame.origin) / frame.scale))
    log_joint_ = joint(theta, x)

    def column(j: int) -> Cells:
        seen = ~x[:, j].isnan()
        y, of_rest = x[seen, j], (log_joint_[seen], mean[seen, :, j], variance[seen, :, j])
        return in_place(seen, number_cells(y, y, *of_rest, theta.shares, coverage))

    return Cells.side_by_side([column(j) for j in range(x.shape[1])])


def in_units(frame: Frame, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances (n, K, d) of the frame in the user's units."""
    return mean * frame.scale + frame.origin, variance * frame.scale.square()


def answered(cells: Cells, table: Callable[[Tensor], Any]) -> GivenRest:
    """Cells for the user; `table` makes a table of values (n, d)."""
    tables = (table(values) for values in (cells.expected, cells.low, cells.high))
    return GivenRest(cells.nats.numpy(), cells.tail.numpy(), *tables)


def beside_constants(cells: Cells, kind: Kind) -> GivenRest:
    """Cells of numbers for the user, with the columns that have one value: others are as unlikely there as unseen."""
    constants = kind.constants
    if constants is None or kind.beside is None or kind.unseen is None:
        return answered(cells, kind.table)
    nats, tail = kind.wide(cells.nats, 1, fill=0.0), kind.wide(cells.tail, 1, fill=1.0)
    epsilon = 1 / (constants.n_observed[constants.columns].double() + 1)
    own = torch.where(kind.unseen, epsilon, 1.0).masked_fill(kind.beside.isnan(), torch.nan)
    nats[:, constants.columns], tail[:, constants.columns] = own.log(), own
    tables = (kind.table(values) for values in (cells.expected, cells.low, cells.high))
    return GivenRest(nats.numpy(), tail.numpy(), *tables)


def number_cells(
    x: Tensor,
    y: Tensor,
    log_joint_: Tensor,
    mean: Tensor,
    variance: Tensor,
    shares: Tensor,
    coverage: float,
    ends: Ends = FREE,
    reach: Ends = FREE,
) -> Cells:
    """A Gaussian column y = g(x) (n,), given its mean and variance (n, K) by component."""
    own = -0.5 * ((y[:, None] - mean).square() / variance + LOG_2PI + variance.log())
    found = Normals(normalised(log_joint_ - own, shares), mean, variance.sqrt(), ends, reach)
    return found.cells(x, y, coverage)


def in_place(seen: Tensor, some: Cells) -> Cells:
    """Cells of all rows (n,) from those of the rows that are marked; NaN elsewhere."""

    def placed(values: Tensor) -> Tensor:
        every = torch.full(seen.shape, torch.nan, dtype=torch.float64)
        every[seen] = values
        return every

    return Cells(*(placed(values) for values in (some.nats, some.tail, some.expected, some.low, some.high)))


def discrete_cells(
    values: Tensor, probabilities: Tensor, nats: Tensor, coverage: float, has_order: bool, width: float = 1.0
) -> Cells:
    """Cells of a column with countably many values.

    Args:
        values: (V,) in order.
        probabilities: p(value | rest) (n, V) of one value each.
        nats: ln p(x | rest) (n,).
        coverage: of the interval.
        has_order: whether the values are numbers; of others the most probable one is expected.
        width: how many neighbours a value stands for.
    """
    # Equal probabilities differ by rounding.
    is_in_tail = probabilities <= nats.exp()[:, None] * (1 + 1e-9)
    rest = (1 - width * probabilities.sum(1)).clamp(min=0.0)
    tail = (width * (probabilities * is_in_tail).sum(1) + rest).clamp(max=1.0)
    # At least the value itself is in its own tail.
    tail = torch.maximum(tail, nats.exp())
    if not has_order:
        mode = values[probabilities.argmax(1)]
        return Cells(nats, tail, mode, mode, mode)
    share = probabilities / probabilities.sum(1, keepdim=True)
    below, edge = share.cumsum(1), (1 - coverage) / 2
    low = values[(below < edge).sum(1).clamp(max=len(values) - 1)]
    high = values[(below < 1 - edge).sum(1).clamp(max=len(values) - 1)]
    return Cells(nats, tail, share @ values, low, high)


def cells_with_atoms(
    x: Tensor, y: Tensor, number: Normals, log_levels: Tensor, atoms: tuple[float, ...], coverage: float
) -> Cells:
    """Cells of a column that has atoms.

    Args:
        x: values (n,).
        y: g(x), NaN at an atom.
        number: the numbers that are no atoms, given the rest.
        log_levels: ln of the probabilities (n, 1 + A) of no atom and of every atom, given the rest.
        atoms: their values (A,).
        coverage: of the interval.
    """
    omega, at = log_levels.exp(), torch.tensor(atoms, dtype=x.dtype)
    level = (x[:, None] == at).to(torch.int64)
    level = torch.where(level.any(1), level.argmax(1) + 1, 0)
    is_number = level == 0
    safe = torch.where(is_number, y, number.means[:, 0])
    density = number.log_density(safe) + log_derivative(torch.where(is_number, x, torch.nan), *number.ends)
    own = log_levels.gather(1, level[:, None])[:, 0]
    nats = torch.where(is_number, own + density, own)
    rank = torch.where(is_number, omega[:, 0] * number.tail(safe), own.exp())
    atoms_below = (omega[:, 1:] * (omega[:, 1:] <= rank[:, None] * (1 + 1e-9))).sum(1)
    tail = (torch.minimum(rank, omega[:, 0]) + atoms_below).clamp(max=1.0)
    expected = omega[:, 0] * number.expected() + omega[:, 1:] @ at
    edge = (1 - coverage) / 2
    low, high = (quantile_with_atoms(p, number, omega, at) for p in (edge, 1 - edge))
    return Cells(nats, tail, expected, low, high)


def quantile_with_atoms(p: float, number: Normals, omega: Tensor, atoms: Tensor) -> Tensor:
    """The least x (n,) with F(x) ≥ p, where F has a jump at every atom."""
    low = torch.minimum(number.quantile(1e-9), atoms.min())
    high = torch.maximum(number.quantile(1 - 1e-9), atoms.max())
    span = high - low
    low = low - span
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        mass = omega[:, 0] * number.distribution(middle) + (omega[:, 1:] * (atoms <= middle[:, None])).sum(1)
        low, high = torch.where(mass < p, middle, low), torch.where(mass < p, high, middle)
    # Halving ends beside the atom at which F passes p.
    distance = (high[:, None] - atoms).abs()
    nearest = distance.argmin(1)
    return torch.where(distance.amin(1) <= 1e-9 * span, atoms[nearest], high)
