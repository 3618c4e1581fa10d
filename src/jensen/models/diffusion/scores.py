"""The scores of a diffusion, and what else follows from the network and given rows alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import whole_number
from jensen.contract.gradient import GradientEstimator
from jensen.data.container import Kind, Table
from jensen.data.labels import classes_of_rows
from jensen.data.rows import known_rows
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion import inference as answers
from jensen.models.diffusion.build import DiffusionFacts
from jensen.models.diffusion.completion import with_atoms, with_levels
from jensen.models.diffusion.flow import OdeLogProb, check_columns, ode_levels, ode_log_prob
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.profile import profile_distances

INCOMPLETE = (
    "X holds NaN in row {row}, but a diffusion has no marginal likelihood for partly observed rows; impute X first, "
    "with impute(X) or impute_draws(X), or leave the row out"
)

# The numbers that complete rows are apart from those of the noise.
COMPLETION = 1


class ScoringModel(GradientEstimator[DiffusionFacts, DiffusionModule]):
    """Scores by noise level from the network `module_`."""

    # A diffusion has no marginal likelihood for partly observed rows.
    capabilities = replace(GradientEstimator.capabilities, score="bound", labels=True, predict="labels")
    evaluation_levels: str | int

    @property
    def schedule_(self) -> Schedule:
        """The noise schedule."""
        check_is_fitted(self)
        return self.theta_.schedule

    def score_samples(self, X: Table, *, method: str = "bound") -> Any:
        """The bound of ln p(x) per row, estimated from `evaluation_levels` levels; `bound` has its standard error.

        Rows must be complete: a diffusion has no marginal likelihood for partly observed rows. A score depends on the
        row and on random_state, not on other rows.

        Args:
            X: complete rows.
            method: "bound"; or "ode" for the estimate of `ode_log_prob`, which is no bound.
        """
        if method not in ("bound", "ode"):
            raise ValueError(f"method={method!r} is not known; choose 'bound' or 'ode'")
        return self.bound(X).total if method == "bound" else self.ode_log_prob(X).value

    def can_score(self, X: Table) -> np.ndarray:
        """Which rows (n,) have a score: complete rows; images also need levels that were all in the training data."""
        check_is_fitted(self)
        return known_rows(self, X, self._columns, self._shape, takes_missing=False)

    def describe_score(self) -> str:
        return f"bound, {self.evaluation_levels} levels"

    def bound(self, X: Table, *, levels: str | int | None = None, y: Any = None) -> Bound:
        """The evidence lower bound (ELBO), term by term: reconstruction E ln p(x_0|x_1), prior KL and denoising KLs.

        Args:
            X: complete rows.
            levels: "all" sums over all levels, with one draw of the noise at each. A number, 4 or more, estimates the
                sum from so many levels per row, most of them where the terms are large; the number of levels of the
                schedule, or more, is "all". None is `evaluation_levels`.
            y: after a fit with labels, the classes of the rows, for the bound of ln p(x|y); -1 for no class.
        """
        x, kind, outside = self._read_with_cost(X)
        label = self._labels(y, len(x))
        n_levels = answers.number_of_levels(self.evaluation_levels if levels is None else levels, self.theta_.schedule)
        with self._inference() as (module, device):
            found = answers.some_levels(module, x, n_levels, self._draws(x), device, bool(self.verbose), label)
        return Bound(
            kind.values(found.reconstruction + outside),
            {"prior": kind.values(found.prior), "denoising": kind.values(found.denoising)},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
        )

    def ode_log_prob(self, X: Table, *, levels: str | int | None = None, n_draws: int = 8, y: Any = None) -> OdeLogProb:
        """ln p(x) of the path without noise, estimated by the probability-flow ODE; it is neither exact nor a bound.

        The density is another one than that of the reverse chain whose bound `score_samples` returns, though both are
        near that of the data if the network is. Data on a grid and columns with levels are an error.

        Args:
            X: complete rows.
            levels: number of steps of Heun's method, each from one noise level to another, or "all"; None is
                `evaluation_levels`. A step takes two passes through the network and `n_draws` gradients.
            n_draws: number of random vectors that estimate the divergence of the path (Hutchinson's estimator).
                With as many as a row has numbers, the divergence is exact.
            y: after a fit with labels, the classes of the rows, for ln p(x|y); -1 for no class.
        """
        x, kind, outside = self._read_with_cost(X)
        check_columns(self._parts.inner)
        label, k = self._labels(y, len(x)), whole_number("n_draws", n_draws)
        n_levels = answers.number_of_levels(self.evaluation_levels if levels is None else levels, self.theta_.schedule)
        with self._inference() as (module, device), torch.inference_mode(False), torch.no_grad():
            steps = ode_levels(module.share.cpu(), n_levels)
            value, error = ode_log_prob(module, x, steps, k, self._draws(x), device, label, bool(self.verbose))
        return OdeLogProb(kind.values(value + outside), kind.values(error))

    def bound_by_level(self, X: Table) -> Any:
        """The terms of the bound by level, (n, T) nats: L_0 = -ln p(x_0|x_1) first, then the KLs L_1, ..., L_{T-1}.

        Together with the prior's KL they sum to minus the bound, in expectation over the noise.
        """
        x, kind, outside = self._read_with_cost(X)
        with self._inference() as (module, device):
            nats = answers.all_levels(module, x, self._draws(x), device, bool(self.verbose)).nats
        return kind.values(torch.cat([nats[:, :1] - outside[:, None], nats[:, 1:]], 1))

    def bits_per_dimension(self, X: Table, levels: str | int | None = None) -> Any:
        """-bound / (d ln 2) of every row: for data on a grid, the bits per value of a lossless code."""
        return self.bound(X, levels=levels).total / (-math.log(2) * len(self._columns.names))

    def rate_distortion(self, X: Table) -> Any:
        """The rate-distortion curve of progressive coding, a data frame with a row per level t (Ho et al. 2020).

        Columns: level; rate, the bits per dimension to transmit x_t, L_T + L_{T-1} + ... + L_t; distortion, the root
        mean square of x_0 - x̂_0(x_t) in the space of the network.
        """
        import pandas as pd

        x, _ = self._read_complete(X)
        with self._inference() as (module, device):
            profile = answers.all_levels(module, x, self._draws(x), device, bool(self.verbose))
            prior = answers.prior_of(module, x)
        n_levels, bits = profile.nats.shape[1], math.log(2) * len(self._columns.names)
        spent = profile.nats[:, 1:].mean(0).flip(0).cumsum(0).flip(0)
        rate = (torch.cat([spent, torch.zeros(1, dtype=spent.dtype)]) + prior.mean()) / bits
        distortion = (profile.error.mean(0) / self.theta_.space.n_dims).sqrt()
        return pd.DataFrame({"level": range(1, n_levels + 1), "rate": rate, "distortion": distortion})

    def profile_distances(self, X: Table, reference: Table) -> Any:
        """The distance (n,) of every row from reference rows, by its terms of the bound from coarse to fine levels."""
        return profile_distances(self, X, reference)

    def posterior(self, X: Table, level: int | None = None) -> torch.distributions.Distribution:
        """q(x_t|x_0) of every row at a level, by default the last, in the space of the network."""
        return self._noised(self._read_complete(X)[0], level)

    def _noised(self, x: Tensor, level: int | None) -> torch.distributions.Distribution:
        """q(x_t|x_0) of rows (n, d) in the units of `Columns`."""
        schedule = self.theta_.schedule
        t = schedule.n_levels if level is None else whole_number("level", level)
        if t > schedule.n_levels:
            raise ValueError(f"level={t} is beyond the {schedule.n_levels} levels of the schedule")
        mean = math.sqrt(schedule.alpha_bar[t - 1]) * self.theta_.space.embed(x)
        std = torch.full_like(mean, math.sqrt(schedule.noise_variance[t - 1]))
        return torch.distributions.Independent(torch.distributions.Normal(mean, std), 1)

    def q_sample(self, X: Table, level: int, random_state: Any = None) -> Any:
        """Rows noised to a level, x_t = √ᾱ_t x_0 + √(1-ᾱ_t) ε, in the units of the data; level 0 returns X."""
        x, kind = self._read_complete(X)
        if level == 0:
            return self._present(x, kind)
        noised = self._noised(x, level)
        mean, std = noised.mean, noised.stddev
        noise = torch.randn(mean.shape, generator=self._generator(random_state), dtype=mean.dtype)
        return self._present_points(mean + std * noise, kind)

    def _labels(self, y: Any, n_rows: int) -> Tensor | None:
        """The class numbers for the network, of classes that may be known for some rows only."""
        label = classes_of_rows(y, getattr(self, "classes_", None), n_rows)
        return None if label is None else self.theta_.class_numbers(label)

    def _read_complete(self, X: Table) -> tuple[Tensor, Kind]:
        return self._read_with_cost(X)[:2]

    def _read_with_cost(self, X: Table) -> tuple[Tensor, Kind, Tensor]:
        """Complete rows, and what their bound has beside that of the network (n,): see `completion`."""
        if isinstance(X, np.ndarray) and X.dtype.kind == "f":
            # Before other errors about such rows.
            refuse_missing(torch.from_numpy(np.isnan(X).reshape(len(X), math.prod(X.shape[1:])).any(1)))
        rows, space = self._read_fitted(X), self.theta_.space
        x, outside, inner = rows.x, rows.log_unseen, self._parts
        refuse_missing(rows.missing[:, list(inner.places)].any(1))
        if bool(rows.unseen.any()) or bool(x.isnan().any()):
            # Streams of their own: the noise of other rows stays the same.
            draws = self._draws(x).apart(COMPLETION)
            x, of_levels = with_levels(space, x, rows.unseen, draws)
            x, of_atoms = with_atoms(space, x, draws)
            outside = outside + of_levels.double() + of_atoms.double()
        return x, rows.kind, outside

    def _present_points(self, points: Tensor, kind: Kind) -> Any:
        """Points in the network's space at any level, as rows of the user's kind."""
        return self._present(self.theta_.space.rows_of(points), kind)

    def _facts_from(self, record: dict[str, Any]) -> DiffusionFacts:
        return DiffusionFacts.from_record(record)


def refuse_missing(is_incomplete: Tensor) -> None:
    """Raise an error if any of the rows (n,) is incomplete."""
    if is_incomplete.any():
        raise ValueError(INCOMPLETE.format(row=int(is_incomplete.nonzero()[0, 0])))
