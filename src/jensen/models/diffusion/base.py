"""The methods of a model with a reverse chain of denoising steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import whole_number
from jensen.contract.gradient import GradientEstimator, has_classes
from jensen.data.container import Kind, Table
from jensen.data.labels import encode_labels, numbers_of_classes
from jensen.data.rows import known_rows
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion import inference as answers
from jensen.models.diffusion.build import DiffusionFacts
from jensen.models.diffusion.classifier import Classification, classify_rows
from jensen.models.diffusion.completion import with_atoms, with_levels
from jensen.models.diffusion.inference import chain_of, walked
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.profile import profile_distances
from jensen.runtime.randomness import mixed

INCOMPLETE = (
    "X holds NaN in row {row}, but a diffusion has no marginal likelihood for partly observed rows; impute X first, "
    "with impute(X) or impute_draws(X), or leave the row out"
)


class DenoisingModel(GradientEstimator[DiffusionFacts, DiffusionModule]):
    """Scores by noise level, samples, imputations and classes from the network `module_`."""

    # A diffusion has no marginal likelihood for partly observed rows.
    capabilities = replace(GradientEstimator.capabilities, score="bound", labels=True, predict="labels")
    evaluation_levels: str | int

    @property
    def schedule_(self) -> Schedule:
        """The noise schedule."""
        check_is_fitted(self)
        return self.theta_.schedule

    def score_samples(self, X: Table) -> Any:
        """The bound of ln p(x) per row, estimated from `evaluation_levels` levels; `bound` has its standard error.

        Rows must be complete: a diffusion has no marginal likelihood for partly observed rows.
        """
        return self.bound(X).total

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
            found = answers.some_levels(module, x, n_levels, self._generator(), device, bool(self.verbose), label)
        return Bound(
            kind.values(found.reconstruction + outside),
            {"prior": kind.values(found.prior), "denoising": kind.values(found.denoising)},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
        )

    def bound_by_level(self, X: Table) -> Any:
        """The terms of the bound by level, (n, T) nats: L_0 = -ln p(x_0|x_1) first, then the KLs L_1, ..., L_{T-1}.

        Together with the prior's KL they sum to minus the bound, in expectation over the noise.
        """
        x, kind, outside = self._read_with_cost(X)
        with self._inference() as (module, device):
            nats = answers.all_levels(module, x, self._generator(), device, bool(self.verbose)).nats
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
            profile = answers.all_levels(module, x, self._generator(), device, bool(self.verbose))
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

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Table, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 100
    ) -> Any:
        """p(y|x) ∝ p(y) exp(bound of ln p(x|y)), (n, C): the diffusion classifier.

        Args:
            X: rows.
            weighting: "variational" for the bound; "simple" for minus the mean simple loss, with uniform p(y).
            class_prior: "learned", the frequencies of the labels, or "uniform".
            budget: largest number of levels per row and class, 16 or more; unlikely classes are dropped early.
                `classify` also returns the standard errors.
        """
        found = self.classify(X, weighting=weighting, class_prior=class_prior, budget=budget)
        return found.probabilities

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(
        self, X: Table, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 100
    ) -> Any:
        """The most probable class of every row; arguments as in `predict_proba`."""
        return self._decided(self.predict_proba(X, weighting=weighting, class_prior=class_prior, budget=budget))

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def classify(
        self, X: Table, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 100
    ) -> Classification:
        """The diffusion classifier with details: log-odds, their standard errors and the number of evaluations.

        All classes of a row are compared at the same levels with the same noise. After a quarter and after a half of
        the budget, classes far behind the best are dropped; a budget below 48 levels is spent in one stage. A budget
        above the number of levels uses each level several times. Li et al. (2023).
        """
        if weighting not in ("variational", "simple"):
            raise ValueError(f"weighting={weighting!r} is not known; choose 'variational' or 'simple'")
        if class_prior not in ("learned", "uniform"):
            raise ValueError(f"class_prior={class_prior!r} is not known; choose 'learned' or 'uniform'")
        if not isinstance(budget, Integral) or int(budget) < 16:
            raise ValueError(f"budget={budget!r} is a number of levels per row and class, and must be 16 or more")
        x, kind = self._read_complete(X)
        prior = torch.tensor(self._facts.prior, dtype=torch.float64).log()
        if class_prior == "uniform" or weighting == "simple":
            prior = torch.zeros_like(prior)
        with self._inference() as (module, device):
            found = classify_rows(
                module, x, prior, weighting, int(budget), self._generator(), device, bool(self.verbose)
            )
        return Classification(*(kind.values(part) for part in found))

    def sample(
        self,
        n_samples: int = 1,
        y: Any = None,
        random_state: Any = None,
        *,
        steps: int | None = None,
        sampler: str = "ancestral",
        eta: float = 0.0,
        guidance: float = 0.0,
    ) -> tuple[Any, Any]:
        """New rows, and the noise (n, D) that each started from, in the standardised space of the network.

        Args:
            n_samples: number of rows.
            y: after a fit with labels, the class of all rows, or one per row; None samples without a class.
            random_state: seed or RandomState; None is the model's own.
            steps: number of number of levels to use; None uses all.
            sampler: "ancestral" samples the model whose bound is scored; "ddim" and "dpm" (DPM-Solver++(2M)) need few
                steps, 20 to 50.
            eta: the fraction of the noise that "ddim" keeps, 0 for none.
            guidance: strength of classifier-free guidance towards the class y. Rows become more typical of their class
                and less varied, and are no longer samples of p(x|y).
        """
        n, chain, label = self._chain(n_samples, y, steps, sampler, eta, guidance)
        generator = self._generator(random_state)
        noise = torch.randn((n, self.theta_.space.n_dims), generator=generator)
        with self._inference() as (module, device):
            drawn = answers.sample(module, chain, noise, generator, device, label, bool(self.verbose))
        return self._present(drawn, self._kind), self._kind.values(noise)

    def sample_path(
        self,
        n_samples: int = 1,
        y: Any = None,
        random_state: Any = None,
        *,
        steps: int | None = None,
        sampler: str = "ancestral",
        eta: float = 0.0,
        guidance: float = 0.0,
    ) -> list[Any]:
        """The whole reverse chain: the rows at every level from pure noise to x_0, in the units of the data."""
        n, chain, label = self._chain(n_samples, y, steps, sampler, eta, guidance)
        generator = self._generator(random_state)
        noise = torch.randn((n, self.theta_.space.n_dims), generator=generator)
        with self._inference() as (module, device):
            own = None if label is None else label.to(device)
            path = list(chain(module, noise.to(device), generator, own))
            rows = chain.decoded(module, path[-1], generator, own)
        return [*(self._present_points(points.cpu(), self._kind) for points in path), self._present(rows, self._kind)]

    def impute(self, X: Table, *, n_draws: int = 10, steps: int = 50, resamplings: int = 10) -> Any:
        """X with missing values at the mean of the draws, or at the most frequent level; observed values are unchanged.

        Arguments as in `impute_draws`.
        """
        rows = self._read_fitted(X)
        n = whole_number("n_draws", n_draws)
        with self._imputer(None, steps, resamplings) as imputer:
            filled = imputer.means(rows.x[rows.missing.any(1)], n, self._parts)
        return self._with_rows(X, rows, filled)

    def impute_draws(
        self, X: Table, n_draws: int = 1, random_state: Any = None, *, steps: int = 50, resamplings: int = 10
    ) -> list[Any]:
        """Copies of X with missing values drawn given the observed ones, which are unchanged.

        Draws come from RePaint (Lugmayr et al. 2022), without a class. They approximate the posterior: they stay too
        close to what is likely without the observed values, and less so with more resamplings.

        Args:
            X: rows, NaN where missing.
            n_draws: number of copies.
            random_state: seed or RandomState; None is the model's own.
            steps: number of levels to go through, at most those of the schedule.
            resamplings: number of times each step is taken, which makes the drawn values agree with the observed ones.
                Rows with missing values go steps x resamplings times through the network per draw. A network trained
                briefly, or on few complete rows, adds an error each time: use fewer.
        """
        rows = self._read_fitted(X)
        n = whole_number("n_draws", n_draws)
        with self._imputer(random_state, steps, resamplings) as imputer:
            drawn = self._parts.join(imputer.draws(rows.x[rows.missing.any(1)], n))
        return [self._with_rows(X, rows, filled) for filled in drawn]

    @contextmanager
    def _imputer(self, random_state: Any, steps: int, resamplings: int) -> Iterator[answers.Imputer]:
        schedule, times = self.theta_.schedule, whole_number("resamplings", resamplings)
        n_steps = min(whole_number("steps", steps), schedule.n_levels)
        levels = walked(schedule, n_steps, "uniform", self.theta_.space.least_signal)
        with self._inference() as (module, device):
            yield answers.Imputer(module, levels, times, self._generator(random_state), device, bool(self.verbose))

    def _chain(
        self, n_samples: int, y: Any, steps: int | None, sampler: str, eta: float, guidance: float
    ) -> tuple[int, answers.Chain, Tensor | None]:
        """The number of rows, the reverse chain and the classes."""
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        known = getattr(self, "classes_", None)
        if y is not None and known is None:
            raise ValueError(f"y={y!r} asks for a class, but the model was fitted without labels; pass y=None")
        label = None if y is None or known is None else numbers_of_classes(y, known, n)
        chain = chain_of(self.theta_.schedule, steps, sampler, eta, guidance, self.theta_.space.least_signal)
        if guidance and label is None:
            raise ValueError(f"guidance={guidance!r} needs a class; give y, or leave guidance out")
        return n, chain, label

    def _labels(self, y: Any, n_rows: int) -> Tensor | None:
        """The class numbers for the network, of classes that may be known for some rows only."""
        if y is None:
            return None
        known = getattr(self, "classes_", None)
        if known is None:
            raise ValueError("y asks for classes, but the model was fitted without labels; pass y=None")
        label, _ = encode_labels(y, n_rows, known)
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
            # A generator of its own: the noise of other rows stays the same.
            generator = torch.Generator().manual_seed(mixed(self._generator().initial_seed()))
            x, of_levels = with_levels(space, x, rows.unseen, generator)
            x, of_atoms = with_atoms(space, x, generator)
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
