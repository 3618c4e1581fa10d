"""Rows that each miss other entries: densities, statistics and draws without blocks of rows that share a pattern."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.formulas.gaussian import LOG_2PI
from jensen.formulas.incomplete import ByRows, BySides, Completed
from jensen.models.mixtures.gaussians.base import Gaussians
from jensen.models.mixtures.gaussians.moments import Moments


def has_own_patterns(batch: Batch) -> bool:
    """Whether every row has a mask of its own, instead of a pattern per block."""
    return batch.observed is not None and batch.observed.ndim == batch.x.ndim


@dataclass(frozen=True)
class RowsView:
    """Rows given what is observed of them.

    Args:
        means: μ (K, d).
        covariances: Σ (K or 1, d, d).
        observed: (d, n).
        given: the rows completed by their expectations.
        keeps_digits: whether the inverse of Σ does.
    """

    means: Tensor
    covariances: Tensor
    observed: Tensor
    given: Completed
    keeps_digits: bool

    @classmethod
    def of(cls, means: Tensor, covariances: Tensor, batch: Batch, keeps_digits: bool) -> RowsView:
        assert batch.observed is not None
        given = complete(means, covariances, batch.x, batch.observed, keeps_digits)
        return cls(means, covariances, batch.observed, given, keeps_digits)

    @property
    def mean(self) -> Tensor:
        """E[x | x_o, k] (K, d, n)."""
        return self.means[..., None] + self.given.deviation

    def log_density(self) -> Tensor:
        n_observed = self.observed.sum(0).to(self.means.dtype)
        return -0.5 * (n_observed * LOG_2PI + self.given.log_det + self.given.square)

    def moments(self, responsibilities: Tensor) -> Moments:
        """Statistics of every component, of which a structure may pool the last."""
        x = self.mean
        weighted = responsibilities[:, None] * x
        second = weighted @ x.mT + self.given.residual(responsibilities)
        return Moments(responsibilities.sum(-1), weighted.sum(-1), second)

    def of_rows(self, x: Tensor) -> RowsView:
        """The same patterns for other rows (d, n)."""
        return replace(self, given=complete(self.means, self.covariances, x, self.observed, self.keeps_digits))


def complete(means: Tensor, covariances: Tensor, x: Tensor, observed: Tensor, keeps_digits: bool) -> Completed:
    z = (x - means[..., None]) * observed
    return (BySides if keeps_digits else ByRows).of(covariances, z, observed)


@dataclass(frozen=True)
class GivenRows:
    """Whole rows given what is observed of them."""

    components: Gaussians[Any]
    view: RowsView

    @cached_property
    def mean(self) -> Tensor:
        return self.view.mean

    def number(self, feature: int) -> tuple[Tensor, Tensor]:
        return self.mean[:, feature], self.view.given.variance(feature)

    def expected(self, responsibilities: Tensor) -> Tensor:
        return (responsibilities[:, None] * self.mean).sum(0)

    def draw(self, component: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of whole rows, moved by the difference of the two means given what is observed of each."""
        drawn = self.components.draw(component.cpu(), generator).T.to(self.mean)
        moved = self.mean - self.view.of_rows(drawn).mean
        return drawn + moved.gather(0, component.expand(1, *drawn.shape)).squeeze(0)
