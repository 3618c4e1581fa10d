"""What a model with a reverse chain of denoising steps answers, however its network was trained."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from jensen.contract.gradient import GradientEstimator, blocks, has_classes
from jensen.data.container import Kind
from jensen.data.labels import decode_labels, encode_labels, numbers_of_classes
from jensen.data.rows import known_rows
from jensen.formulas.schedule import Schedule
from jensen.models.diffusion import inference as answers
from jensen.models.diffusion.classifier import Classification, classify_rows
from jensen.models.diffusion.inference import chain_of, walked
from jensen.models.diffusion.module import DiffusionModule
from jensen.models.diffusion.profile import profile_distances
from jensen.runtime.progress import progress

__all__ = ["DenoisingModel"]

HOLES = (
    "X holds NaN in row {row}, and the bound is of complete rows: what a diffusion makes of some entries alone is not "
    "known; impute X first, with impute(X) or impute_draws(X), or leave the row out"
)


class DenoisingModel(GradientEstimator):
    """Scores, level by level, samples and imputations from the network of `module_`."""

    theta_: DiffusionModule
    # A diffusion has no marginal likelihood of the observed entries of a row.
    capabilities = replace(GradientEstimator.capabilities, score="bound", labels=True, predict="labels")
    classes_: np.ndarray
    evaluation_levels: str | int

    @property
    def schedule_(self) -> Schedule:
        """The noise, level by level."""
        check_is_fitted(self)
        return self.theta_.schedule

    def score_samples(self, X: Any) -> Any:
        """The bound of ln p(x) per row, estimated from `evaluation_levels` levels; `bound` tells its standard error.

        Rows must be complete: there is no bound of some entries alone.
        """
        return self.bound(X).total

    def can_score(self, X: Any) -> np.ndarray:
        """Which rows (n,) have a score: complete ones, without a level that was not trained on."""
        check_is_fitted(self)
        return known_rows(self, X, self._columns, self._shape, takes_missing=False)

    def describe_score(self) -> str:
        return f"bound, {self.evaluation_levels} levels"

    def bound(self, X: Any, *, levels: str | int | None = None, y: Any = None) -> Bound:
        """The evidence lower bound, term by term: reconstruction E ln p(x_0|x_1), and what noise and denoising cost.

        Args:
            X: complete rows.
            levels: "all" sums over all levels, with one draw of the noise at each; a number estimates the sum from so
                many levels per row, 4 or more, spread evenly over where the bound is large; as many as the schedule
                has, or more, are all of them. None is `evaluation_levels`.
            y: after a fit with labels, classes of the rows, for the bound of ln p(x|y); -1 is none.
        """
        x, kind = self._read_complete(X)
        label = self._labels(y, len(x))
        n_levels = answers.number_of_levels(self.evaluation_levels if levels is None else levels, self.theta_.schedule)
        with self._answering() as (module, device):
            found = answers.some_levels(module, x, n_levels, self._generator(), device, bool(self.verbose), label)
        return Bound(
            kind.values(found.reconstruction),
            {"prior": kind.values(found.prior), "denoising": kind.values(found.denoising)},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
        )

    def bound_by_level(self, X: Any) -> Any:
        """What every level costs, (n, T) nats: L_0 = -ln p(x_0|x_1) first, then the divergences L_1, ..., L_{T-1}.

        With the prior's term they sum to minus the bound, on average over the draws of the noise.
        """
        x, kind = self._read_complete(X)
        with self._answering() as (module, device):
            return kind.values(answers.all_levels(module, x, self._generator(), device, bool(self.verbose)).nats)

    def bits_per_dimension(self, X: Any, levels: str | int | None = None) -> Any:
        """-bound / (d ln 2) of every row: of data on a grid, the bits that a code needs per number."""
        return self.bound(X, levels=levels).total / (-math.log(2) * math.prod(self._shape))

    def rate_distortion(self, X: Any) -> Any:
        """How the bound is spent, a data frame with a row per level t: what it costs to send x_t, and what it tells.

        Columns: level; rate, bits per dimension to send x_t, L_T + L_{T-1} + ... + L_t; distortion, the root mean
        square of x_0 - x̂_0(x_t) in the space of the network.
        """
        import pandas as pd

        x, _ = self._read_complete(X)
        with self._answering() as (module, device):
            profile = answers.all_levels(module, x, self._generator(), device, bool(self.verbose))
            prior = answers.prior_of(module, x)
        n_levels, bits = profile.nats.shape[1], math.log(2) * math.prod(self._shape)
        spent = profile.nats[:, 1:].mean(0).flip(0).cumsum(0).flip(0)
        rate = (torch.cat([spent, torch.zeros(1, dtype=spent.dtype)]) + prior.mean()) / bits
        distortion = (profile.error.mean(0) / self.theta_.space.n_dims).sqrt()
        return pd.DataFrame({"level": range(1, n_levels + 1), "rate": rate, "distortion": distortion})

    def profile_distances(self, X: Any, reference: Any) -> Any:
        """How far every row is from reference rows, (n,), by its costs from coarse to fine levels (`profile`)."""
        return profile_distances(self, X, reference)

    def posterior(self, X: Any, level: int | None = None) -> torch.distributions.Distribution:
        """q(x_t|x_0) at a level, the last unless given: what noising makes of every row, in the network's space."""
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

    def q_sample(self, X: Any, level: int, random_state: Any = None) -> Any:
        """Rows noised to a level, x_t = √ᾱ_t x_0 + √(1-ᾱ_t) ε, in the units of the data; at level 0 as they are."""
        x, kind = self._read_complete(X)
        if level == 0:
            return self._present(x, kind)
        noised = self._noised(x, level)
        mean, std = noised.mean, noised.stddev
        noise = torch.randn(mean.shape, generator=self._generator(random_state), dtype=mean.dtype)
        return self._present_points(mean + std * noise, kind)

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 100
    ) -> Any:
        """p(y|x) ∝ p(y) exp(bound of ln p(x|y)), (n, C): the diffusion classifier.

        Args:
            X: rows.
            weighting: "variational" for the bound; "simple" for minus the mean simple loss, with equal classes.
            class_prior: "learned", the frequencies of the labels, or "uniform".
            budget: levels per row and class at most, 16 or more; losing classes are dropped on the way. `classify`
                tells how sure the answer is of its draws.
        """
        found = self.classify(X, weighting=weighting, class_prior=class_prior, budget=budget)
        return found.probabilities

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(
        self, X: Any, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 100
    ) -> Any:
        """The most probable class of every row; arguments as in `predict_proba`."""
        proba = self.predict_proba(X, weighting=weighting, class_prior=class_prior, budget=budget)
        labels = decode_labels(np.asarray(proba).argmax(1), self.classes_)
        return torch.as_tensor(labels) if isinstance(proba, Tensor) and labels.dtype.kind in "iufb" else labels

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def classify(
        self, X: Any, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 100
    ) -> Classification:
        """The diffusion classifier with what its answer rests on: log-odds, their standard errors and the work done.

        All classes of a row are compared at the same levels with the same noise. After a quarter and a half of the
        budget classes are dropped that lie far behind the best; below 48 levels it is spent at once. A budget beyond
        the number of levels takes them several times. Li et al. (2023).
        """
        if weighting not in ("variational", "simple"):
            raise ValueError(f"weighting={weighting!r} is not known; choose 'variational' or 'simple'")
        if class_prior not in ("learned", "uniform"):
            raise ValueError(f"class_prior={class_prior!r} is not known; choose 'learned' or 'uniform'")
        if not isinstance(budget, Integral) or int(budget) < 16:
            raise ValueError(f"budget={budget!r} is a number of levels per row and class, and must be 16 or more")
        x, kind = self._read_complete(X)
        prior = torch.tensor(self._facts["prior"], dtype=torch.float64).log()
        if class_prior == "uniform" or weighting == "simple":
            prior = torch.zeros_like(prior)
        with self._answering() as (module, device):
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
        """New rows, and the noise each came from, (n, D) in the standardised space of the network.

        Args:
            n_samples: how many.
            y: after a fit with labels, the class of all rows or one each; None is of no particular class.
            random_state: seed or RandomState; None is the model's own.
            steps: levels to go through; None is all of them.
            sampler: "ancestral" draws from the model whose bound is scored; "ddim" and "dpm" (DPM-Solver++(2M)) need
                few steps, 20 to 50.
            eta: the share of the noise that "ddim" keeps, 0 for none.
            guidance: how far to go beyond the class y, away from rows of no class; rows become more typical of their
                class and less varied, and are no longer drawn from p(x|y).
        """
        n, chain, label = self._chain(n_samples, y, steps, sampler, eta, guidance)
        generator = self._generator(random_state)
        noise = torch.randn((n, self.theta_.space.n_dims), generator=generator)
        parts = []
        with self._answering() as (module, device):
            for rows in blocks(n, module.n_entries):
                own = None if label is None else label[rows].to(device)
                walk = chain(module, noise[rows].to(device), generator, own)
                *_, last = progress(walk, "Samples", bool(self.verbose), chain.schedule.n_levels)
                parts.append(chain.decoded(module, last, generator, own))
        return self._present(torch.cat(parts), self._kind), self._kind.values(noise)

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
        """The whole reverse chain: rows at every level from pure noise to x_0, in the units of the data."""
        n, chain, label = self._chain(n_samples, y, steps, sampler, eta, guidance)
        generator = self._generator(random_state)
        noise = torch.randn((n, self.theta_.space.n_dims), generator=generator)
        with self._answering() as (module, device):
            own = None if label is None else label.to(device)
            path = list(chain(module, noise.to(device), generator, own))
            rows = chain.decoded(module, path[-1], generator, own)
        return [*(self._present_points(points.cpu(), self._kind) for points in path), self._present(rows, self._kind)]

    def impute(self, X: Any, *, n_draws: int = 10, steps: int = 50, resamplings: int = 10) -> Any:
        """X with missing entries at the mean of draws, or the level most frequent in them; observed ones bit for bit.

        Arguments are those of `impute_draws`.
        """
        x, kind = self._read_events(X)
        return self._filled(X, x, self._drawn(answers.fill_means, x, n_draws, None, steps, resamplings), kind)

    def impute_draws(
        self, X: Any, n_draws: int = 1, random_state: Any = None, *, steps: int = 50, resamplings: int = 10
    ) -> list[Any]:
        """Copies of X with missing entries drawn given the observed ones, which come back bit for bit.

        The draws are RePaint's (Lugmayr et al. 2022), of no particular class, and not quite the posterior's: they stay
        too near to what is likely without the observed entries, the less the more resamplings there are.

        Args:
            X: rows, NaN where missing.
            n_draws: how many copies.
            random_state: seed or RandomState; None is the model's own.
            steps: levels to go through; of fewer levels all.
            resamplings: how often each step is taken, so that what is drawn agrees with what is observed; rows with
                holes go steps x resamplings times through the network for every draw. A network that was trained
                little, or on few complete rows, errs a little more every time: give it fewer.
        """
        x, kind = self._read_events(X)
        drawn = self._drawn(answers.fill_draws, x, n_draws, random_state, steps, resamplings)
        return [self._filled(X, x, copy, kind) for copy in drawn]

    def _drawn(
        self, fill: Callable[..., Tensor], x: Tensor, n_draws: int, random_state: Any, steps: int, resamplings: int
    ) -> Tensor:
        """Of those of the rows x (n, d) that have holes, copies (n_draws, m, d) with draws in them or their mean."""
        n, times = whole_number("n_draws", n_draws), whole_number("resamplings", resamplings)
        schedule, least = self.theta_.schedule, self.theta_.space.least_signal
        schedule = walked(schedule, min(whole_number("steps", steps), schedule.n_levels), "uniform", least)
        generator, holed = self._generator(random_state), x[x.isnan().any(1)]
        with self._answering() as (module, device):
            return fill(module, holed, n, schedule, times, generator, device, bool(self.verbose))

    def _filled(self, X: Any, x: Tensor, drawn: Tensor, kind: Kind) -> Any:
        """X with the holes of its rows x (n, d) from the rows `drawn` for those that have some."""
        holes, rows = x.isnan(), x.clone()
        rows[holes.any(1)] = drawn
        return self._restored(X, holes, rows, kind)

    def _chain(
        self, n_samples: int, y: Any, steps: int | None, sampler: str, eta: float, guidance: float
    ) -> tuple[int, answers.Chain, Tensor | None]:
        """How many rows, the way down to them, and their classes."""
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        known = getattr(self, "classes_", None)
        if y is not None and known is None:
            raise ValueError(f"y={y!r} asks for a class, but the model was fitted without labels; pass y=None")
        label = None if y is None or known is None else numbers_of_classes(y, known, n)
        chain = chain_of(self.theta_.schedule, steps, sampler, eta, guidance, self.theta_.space.least_signal)
        if guidance and label is None:
            raise ValueError(f"guidance={guidance!r} goes beyond a class; give y, or leave guidance out")
        return n, chain, label

    def _labels(self, y: Any, n_rows: int) -> Tensor | None:
        """What the network is told of classes that are known for some rows."""
        if y is None:
            return None
        known = getattr(self, "classes_", None)
        if known is None:
            raise ValueError("y asks for classes, but the model was fitted without labels; pass y=None")
        label, _ = encode_labels(y, n_rows, known)
        return None if label is None else self.theta_.class_numbers(label)

    def _read_complete(self, X: Any) -> tuple[Tensor, Kind]:
        if isinstance(X, np.ndarray) and X.dtype.kind == "f":
            # Before anything else is found wrong with such rows.
            refuse_holes(torch.from_numpy(np.isnan(X).reshape(len(X), math.prod(X.shape[1:])).any(1)))
        x, kind = self._read_events(X)
        refuse_holes(x.isnan().any(1))
        return x, kind

    def _present_points(self, points: Tensor, kind: Kind) -> Any:
        """Points of the network's space at any level, as rows of the user's."""
        return self._present(self.theta_.space.rows_of(points), kind)


def refuse_holes(has_hole: Tensor) -> None:
    """Of rows (n,)."""
    if has_hole.any():
        raise ValueError(HOLES.format(row=int(has_hole.nonzero()[0, 0])))
