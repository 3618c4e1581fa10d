"""The methods of a model with a reverse chain of denoising steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import whole_number
from jensen.contract.gradient import has_classes
from jensen.data.container import Table
from jensen.data.labels import classes_to_draw
from jensen.models.diffusion import inference as answers
from jensen.models.diffusion.classifier import Classification, classify_rows
from jensen.models.diffusion.inference import chain_of, walked
from jensen.models.diffusion.scores import ScoringModel
from jensen.runtime.row_draws import Source


class DenoisingModel(ScoringModel):
    """Samples, imputations and classes from the network `module_`, beside its scores."""

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Table, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 48
    ) -> Any:
        """p(y|x) ∝ p(y) exp(bound of ln p(x|y)), (n, C): the diffusion classifier.

        Args:
            X: rows.
            weighting: "variational" for the bound; "simple" for minus the mean simple loss, with uniform p(y).
            class_prior: "learned", the frequencies of the labels, or "uniform".
            budget: largest number of evaluations of the network per row and class, 16 or more, two at every level;
                unlikely classes are dropped early. `classify` also returns the standard errors.
        """
        found = self.classify(X, weighting=weighting, class_prior=class_prior, budget=budget)
        return found.probabilities

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(
        self, X: Table, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 48
    ) -> Any:
        """The most probable class of every row; arguments as in `predict_proba`."""
        return self._decided(self.predict_proba(X, weighting=weighting, class_prior=class_prior, budget=budget))

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def classify(
        self, X: Table, *, weighting: str = "variational", class_prior: str = "learned", budget: int = 48
    ) -> Classification:
        """The diffusion classifier with details: log-odds, their standard errors and the number of evaluations.

        All classes of a row are compared at the same levels, each with a noise ε and with -ε, which cancels most of
        the error of their differences. After a quarter and after a half of the budget, classes far behind the best are
        dropped; a budget below 48 is spent in one stage. A budget above twice the number of levels uses each level
        several times. Li et al. (2023).
        """
        if weighting not in ("variational", "simple"):
            raise ValueError(f"weighting={weighting!r} is not known; choose 'variational' or 'simple'")
        if class_prior not in ("learned", "uniform"):
            raise ValueError(f"class_prior={class_prior!r} is not known; choose 'learned' or 'uniform'")
        if not isinstance(budget, Integral) or int(budget) < 16:
            raise ValueError(f"budget={budget!r} is a number of evaluations per row and class, and must be 16 or more")
        x, kind = self._read_complete(X)
        prior = torch.tensor(self._facts.prior, dtype=torch.float64).log()
        if class_prior == "uniform" or weighting == "simple":
            prior = torch.zeros_like(prior)
        with self._inference() as (module, device):
            found = classify_rows(module, x, prior, weighting, int(budget), self._draws(x), device, bool(self.verbose))
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

    def impute(self, X: Table, *, n_draws: int = 10, steps: int = 50, resamplings: int | None = None) -> Any:
        """X with missing values at the mean of the draws, or at the most frequent level; observed values are unchanged.

        Arguments as in `impute_draws`.
        """
        rows = self._read_fitted(X)
        n = whole_number("n_draws", n_draws)
        incomplete = rows.x[rows.missing.any(1)]
        with self._imputer(self._draws(incomplete), steps, resamplings) as imputer:
            filled = imputer.means(incomplete, n, self._parts)
        return self._with_rows(X, rows, filled)

    def impute_draws(
        self,
        X: Table,
        n_draws: int = 1,
        random_state: Any = None,
        *,
        steps: int = 50,
        resamplings: int | None = None,
    ) -> list[Any]:
        """Copies of X with missing values drawn given the observed ones, which are unchanged.

        By default draws come from RePaint (Lugmayr et al. 2022), without a class. They approximate the posterior: they
        stay too close to what is likely without the observed values, and less so with more resamplings. After a fit
        with imputation="masks" the network receives the observed values, and one chain draws the others.

        Args:
            X: rows, NaN where missing.
            n_draws: number of copies.
            random_state: seed or RandomState; None is the model's own.
            steps: number of levels to go through, at most those of the schedule.
            resamplings: for RePaint, number of times each step is taken, which makes the drawn values agree with the
                observed ones; None is 10. Rows with missing values go steps x resamplings times through the network per
                draw. A network trained briefly, or on few complete rows, adds an error each time: use fewer.
        """
        rows = self._read_fitted(X)
        n = whole_number("n_draws", n_draws)
        # Of independent draws: equal rows have different ones.
        with self._imputer(self._generator(random_state), steps, resamplings) as imputer:
            drawn = self._parts.join(imputer.draws(rows.x[rows.missing.any(1)], n))
        return [self._with_rows(X, rows, filled) for filled in drawn]

    @contextmanager
    def _imputer(self, source: Source, steps: int, resamplings: int | None) -> Iterator[answers.Imputer]:
        schedule, way = self.theta_.schedule, answers.way_of(self.theta_, resamplings)
        n_steps = min(whole_number("steps", steps), schedule.n_levels)
        levels = walked(schedule, n_steps, "uniform", self.theta_.space.least_signal)
        with self._inference() as (module, device):
            yield answers.Imputer(module, levels, way, source, device, bool(self.verbose))

    def _chain(
        self, n_samples: int, y: Any, steps: int | None, sampler: str, eta: float, guidance: float
    ) -> tuple[int, answers.Chain, Tensor | None]:
        """The number of rows, the reverse chain and the classes."""
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        label = classes_to_draw(y, getattr(self, "classes_", None), n)
        chain = chain_of(self.theta_.schedule, steps, sampler, eta, guidance, self.theta_.space.least_signal)
        if guidance and label is None:
            raise ValueError(f"guidance={guidance!r} needs a class; give y, or leave guidance out")
        return n, chain, label
