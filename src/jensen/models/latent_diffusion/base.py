"""The scores and classes of a latent diffusion.

    ln p(x|y) ≥ E_q[ln p(x|z) - ln q(z|x) + bound of ln p(z|y)],   ln p(x) ≥ ln Σ_y p(y) exp(bound of ln p(x|y))
The autoencoder has no classes: its latent vectors have. The second bound holds for the bounds themselves; estimates of
them raise it, because the exponential is convex.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from jensen.bound import Bound
from jensen.contract.gradient import GradientEstimator, has_classes
from jensen.data.container import Table
from jensen.data.labels import classes_of_rows, classes_to_draw
from jensen.engines.sgd.streams import TrainingData
from jensen.engines.sgd.training_set import TrainingSet
from jensen.files.scan import Scan
from jensen.formulas.schedule import Schedule
from jensen.models.autoencoders.vae import VAE
from jensen.models.diffusion.diffusion import Diffusion
from jensen.models.diffusion.inference import number_of_levels
from jensen.models.latent_diffusion import inference as answers
from jensen.models.latent_diffusion.module import LatentFacts, LatentModule


class LatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientEstimator[LatentFacts, LatentModule]):
    """Bounds and classes from the networks of `module_`."""

    capabilities = replace(
        GradientEstimator.capabilities, score="bound", missing_in_score=True, labels=True, predict="labels"
    )

    @property
    @abstractmethod
    def schedule_(self) -> Schedule:
        """The noise schedule."""

    @abstractmethod
    def _recipe_of_vae(self) -> VAE:
        """The autoencoder to fit."""

    @abstractmethod
    def _training_arguments(self) -> Diffusion:
        """The prior to fit."""

    def score_samples(self, X: Table) -> Any:
        """The bound of ln p(x) per row, over its observed values, without a class; `bound` has its standard error.

        To see the gain from the diffusion, compare with `vae_.bound(X)`: scores of `vae_` are importance-weighted, and
        tighter.
        """
        return self.bound(X).total

    def describe_score(self) -> str:
        return f"bound, {self._training_arguments().evaluation_levels} levels"

    def bound(self, X: Table, *, levels: str | int | None = None, y: Any = None) -> Bound:
        """The evidence lower bound (ELBO): reconstruction E_q ln p(x|z), and a bound of KL(q(z|x) ‖ p(z)).

        Args:
            X: rows.
            levels: "all", or the number of levels per row that the prior's bound is estimated from; None is the
                recipe's `evaluation_levels`. Every level has its own draw of z.
            y: after a fit with labels, the classes of the rows, for the bound of ln p(x|y); -1 for no class.
        """
        rows = self._read_fitted(X)
        x, kind, label = rows.x, rows.kind, self._labels(y, len(rows.x))
        n_levels, n_draws = self._n_levels(levels), self._recipe_of_vae().evaluation_samples
        with self._inference() as (module, device):
            found = answers.evidence(module, x, n_levels, n_draws, self._draws(x), device, bool(self.verbose), label)
        return Bound(
            kind.values(found.reconstruction + self._parts.inner.log_jacobian(~x.isnan()) + rows.log_unseen),
            {name: kind.values(value) for name, value in found.kl.items()},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
        )

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def class_bounds(self, X: Table, *, levels: str | int | None = None) -> Any:
        """ln p(y) + the bound of ln p(x|y) of every class, (n, C), from the same draws for all classes.

        ln Σ_y exp of a row is a bound of ln p(x), too, as far as its entries are: the noise of the estimates raises it,
        by about half the variance of their differences. More levels make that small.
        """
        rows = self._read_fitted(X)
        x, n_draws = rows.x, self._recipe_of_vae().evaluation_samples
        outside = self._parts.inner.log_jacobian(~x.isnan()) + rows.log_unseen
        log_prior = torch.tensor(self._facts.diffusion.prior, dtype=torch.float64).log()
        with self._inference() as (module, device):
            shown = bool(self.verbose)
            found = answers.class_evidence(module, x, self._n_levels(levels), n_draws, self._draws(x), device, shown)
        return rows.kind.values(found + log_prior + outside[:, None])

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Table, *, levels: str | int | None = None) -> Any:
        """p(y|x) ∝ p(y) exp(bound of ln p(x|y)), (n, C): the diffusion classifier in the latent space."""
        bounds = self.class_bounds(X, levels=levels)
        kind = bounds if isinstance(bounds, Tensor) else torch.as_tensor(bounds)
        share = kind.double().softmax(1).to(kind.dtype)
        return share if isinstance(bounds, Tensor) else share.numpy()

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(self, X: Table, *, levels: str | int | None = None) -> Any:
        """The most probable class of every row; as in `predict_proba`."""
        return self._decided(self.predict_proba(X, levels=levels))

    def _n_levels(self, levels: str | int | None) -> int:
        given = self._training_arguments().evaluation_levels if levels is None else levels
        return number_of_levels(given, self.schedule_)

    def _with_labels(self, data: TrainingData, X: Table, y: Any, sample_weight: Any) -> TrainingData:
        """The training set with the labels for the prior, which the autoencoder has not seen; sets `classes_`."""
        self.__dict__.pop("classes_", None)
        if isinstance(data, TrainingSet) and y is None:
            return data
        if isinstance(X, Scan) and X.label is None and y is None:
            return data
        return self._training_set(X, y, sample_weight)

    def _labels(self, y: Any, n_rows: int) -> Tensor | None:
        """The class numbers for the prior, of classes that may be known for some rows only."""
        label = classes_of_rows(y, getattr(self, "classes_", None), n_rows)
        return None if label is None else self.theta_.prior.class_numbers(label)

    def _classes_to_draw(self, y: Any, n: int, guidance: float) -> Tensor | None:
        """The class numbers of n rows to sample."""
        label = classes_to_draw(y, getattr(self, "classes_", None), n)
        if guidance and label is None:
            raise ValueError(f"guidance={guidance!r} needs a class; give y, or leave guidance out")
        return label
