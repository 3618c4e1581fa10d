"""What one Gaussian around a subspace answers: probabilistic PCA and factor analysis.

ln p(x) = E_q[ln p(x|z)] - KL(q(z|x) ‖ N(0, I)),   q(z|x) = N(H⁻¹ Wᵀ Ψ⁻¹ (x-μ), H⁻¹),  H = I + Wᵀ Ψ⁻¹ W
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import Answers, EMEstimator, Rows, Stream, warn_unused
from jensen.contract.capabilities import Capabilities
from jensen.contract.fitted import Fitted, Values, positive, read_values
from jensen.contract.given_rest import GivenRest, check_coverage
from jensen.contract.rows import StreamedRows
from jensen.engines.em.batch import Batch
from jensen.engines.em.checkpoint import checkpoint_at
from jensen.engines.em.frame import too_large
from jensen.engines.em.sources import ArraySource
from jensen.models.factors.fit import (
    MomentVerbs,
    SubspaceTheta,
    covariance_of,
    covariances_of,
    need_square,
    one,
    stream_of,
)
from jensen.models.factors.inference import given_terms, read_gaussians
from jensen.models.factors.principal import RowMoments, row_moments
from jensen.models.factors.subspace import SubspaceGaussians, SubspaceStructure
from jensen.models.mixtures.gaussians import FULL
from jensen.models.mixtures.given_rest import beside_constants, gaussian_cells
from jensen.models.mixtures.inference import answers, bound_terms, fill, fill_draws, log_evidence, responsibilities
from jensen.runtime.threads import threads_for


def nearest_points(theta: SubspaceTheta, x: Tensor) -> Tensor:
    """Σ_k q_k P_k x (n, d), P_k x the point of subspace k nearest in the metric of the noise; missing values filled."""
    q, filled, components = responsibilities(theta, x), fill(theta, x), theta.components
    out = torch.zeros_like(filled)
    for k in range(components.n_components):
        root = components.noise[k].sqrt().expand(x.shape[1])
        axes = torch.linalg.svd(components.loadings[k] / root[:, None], full_matrices=False).U
        nearest = components.means[k] + (filled - components.means[k]) / root @ axes @ axes.mT * root
        out += q[:, k, None] * nearest
    return out


# No covariance matrix is computed for wider rows.
WIDEST = 4096
SCHEMA = {"mean": Values("d"), "loadings": Values("d", "m")}


class LinearLatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EMEstimator):
    """z ~ N(0, I), x | z ~ N(μ + W z, Ψ)."""

    theta_: SubspaceTheta
    _is_isotropic: ClassVar[bool]
    _keeps_units = False
    capabilities = Capabilities(score="exact", missing_in_fit=True, missing_in_score=True, weights=True, batches=True)
    _answers = Answers(log_evidence, fill, fill_draws)
    mean_ = Fitted[np.ndarray](lambda model: model.theta_.components.means[0], columns=(0,), constant=None)

    @abstractmethod
    def _solve(self, moments: RowMoments, start: SubspaceTheta | None) -> SubspaceTheta:
        """Fit complete rows through their mean and covariance."""

    @abstractmethod
    def _solve_rows(self, rows: Rows) -> SubspaceTheta:
        """Fit rows with missing values, or rows that are too wide for a covariance."""

    @abstractmethod
    def _presented(self, theta: SubspaceTheta) -> SubspaceTheta:
        """The rotation to keep, among all that are the same model."""

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, is_batch: bool = False) -> Self:
        self._validate_params()
        rows = self._training_rows(X, None, sample_weight, is_batch)
        warn_unused(self, self._unused(rows))
        self._kind = rows.kind.of_other_rows()
        self.total_weight_ = rows.mass
        if not rows.x.shape[1]:
            return self._keep_constants()
        with threads_for(rows.n_rows * rows.x.shape[1]):
            moments = complete_moments(rows)
            if moments is None:
                theta = self._solve_rows(rows)
            else:
                with checkpoint_at(None):  # what is left to do takes less than a pass over the rows
                    theta = self._solve(moments, None)
        self.theta_ = self._presented(theta)
        self._stream = None if moments is None else stream_of(moments, self.theta_, self._solve)
        return self

    def _keep_constants(self) -> Self:
        """A table without a column that varies: latent dimensions, if asked for, change nothing."""
        wanted: Any = self.n_components
        m = int(wanted) if isinstance(wanted, Integral) else 0
        self.theta_, self._stream = one(SubspaceStructure(m, self._is_isotropic).standard(1, 0)), None
        self.lower_bound_, self.n_iter_, self.converged_ = 0.0, 0, True
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, decay: float | None = None) -> Self:
        """Update the model with a batch of rows.

        After batches of complete rows the model is that of all rows together. Missing values are completed given the
        current model, one step of stepwise EM. After `jensen.load` it resumes from the model's own covariance. With a
        `decay` γ in (0, 1], rows of earlier batches count γ times from this batch on.
        """
        is_first = not hasattr(self, "theta_")
        super().partial_fit(X, y, sample_weight, decay=decay)
        if is_first and self._stream is None:
            # A fit to wide rows needs no covariance, but later batches do.
            rows = self._read_rows(X, None, sample_weight, reset=False)
            if not bool(rows.x.isnan().any()):
                self._stream = stream_of(row_moments(rows.x, rows.weight), self.theta_, self._solve)
        return self

    def _resume(self, rows: Rows) -> tuple[Stream, ArraySource]:
        stream = getattr(self, "_stream", None)
        if stream is None:
            own = RowMoments(self.total_weight_, self.theta_.components.means[0], covariance_of(self.theta_))
            stream = stream_of(own, self.theta_, self._solve)
        source = ArraySource(
            rows.x.T.clone(memory_format=torch.contiguous_format),
            stream.frame,
            weight=rows.weight,
            footprint=FULL.standard(1, rows.x.shape[1]).footprint,
        )
        # The moments of complete rows do not depend on the model: all rows count alike.
        return replace(stream, exponent=0.7 if bool(rows.x.isnan().any()) else 1.0), source

    def _with_bound(self, verbs: MomentVerbs) -> MomentVerbs:
        return replace(verbs, is_scored=True)

    def bound(self, X: Any, q: torch.distributions.Distribution | None = None) -> Bound:
        """E_q[ln p(x|z)] and KL(q ‖ N(0, I)) per row: exact with the posterior as q, a lower bound with any other.

        A q is a Gaussian for every row, such as `posterior` returns: a batch of n MultivariateNormal of dimension m.
        """
        x, kind = self._read(X)
        if q is None:
            reconstruction, kl = bound_terms(self.theta_, x)
            latent = kl["latent"]
        else:
            mean, cov = read_gaussians(q, len(x), self.theta_.components.n_latent)
            reconstruction, latent = given_terms(self.theta_.components, x, mean, cov)
        return Bound(kind.scores(reconstruction), {"latent": kind.values(latent)}, is_exact=q is None)

    def posterior(self, X: Any) -> torch.distributions.MultivariateNormal:
        """q(z|x), a Gaussian (n, m) per row."""
        x, _ = self._read(X)
        m = self.theta_.components.n_latent

        def both(local: SubspaceTheta, batch: Batch) -> Tensor:
            view = local.components.view(batch)
            return torch.cat([view.mean[0], view.cov[0].flatten(0, 1).expand(-1, view.mean.shape[2])])

        values = answers(self.theta_, x, both)
        return torch.distributions.MultivariateNormal(values[:, :m], values[:, m:].reshape(len(x), m, m))

    def transform(self, X: Any) -> Any:
        """The posterior mean of z (n, m)."""
        x, kind = self._read(X)
        return kind.values(answers(self.theta_, x, lambda local, batch: local.components.view(batch).mean[0]))

    def given_rest(self, X: Any, coverage: float = 0.9) -> GivenRest:
        """How likely every cell is given the rest of its row, and what it should have been."""
        x, kind = self._read(X)
        return beside_constants(gaussian_cells(self.theta_, covariances_of, x.double(), check_coverage(coverage)), kind)

    def inverse_transform(self, X: Any) -> Any:
        """E[x|z] = μ + W z (n, d), of latent vectors (n, m)."""
        check_is_fitted(self)
        is_tensor, m = isinstance(X, Tensor), self.theta_.components.n_latent
        given = X.detach().cpu().numpy() if is_tensor else np.asarray(X)
        if given.ndim != 2 or given.shape[1] != m:
            raise ValueError(f"X has shape {given.shape}; expected latent vectors (n, {m}), as transform returns them")
        z = torch.from_numpy(given.astype(np.float64))
        if not z.isfinite().all():
            raise ValueError("X holds NaN or infinity; a latent vector must be finite")
        x = self._kind.wide(self.theta_.components.means + z @ self.theta_.components.loadings[0].mT, 1)
        return x.to(X.dtype) if is_tensor else x.numpy().astype(self._kind.dtype)

    def reconstruct(self, X: Any) -> Any:
        """Every row's nearest point of the subspace, in the metric of the noise; missing entries at their mean."""
        x, kind = self._read(X)
        return kind.table(nearest_points(self.theta_, x))

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows, and the latent vector z each came from."""
        check_is_fitted(self)
        if y is not None:
            raise ValueError(f"y={y!r} asks for a class, but {type(self).__name__} has none; leave it out")
        n = self._n_samples(n_samples)
        component = torch.zeros(n, dtype=torch.int64)
        x, z = self.theta_.components.draw_with_latent(component, self._generator(random_state))
        return self._kind.table(x), self._kind.values(z)

    def get_covariance(self) -> Any:
        """C = W Wᵀ + Ψ (d, d)."""
        check_is_fitted(self)
        return self._square(covariance_of(self.theta_))

    def get_precision(self) -> Any:
        """C⁻¹ (d, d), by the inversion of an m×m matrix."""
        check_is_fitted(self)
        components = self.theta_.components
        need_square(components.n_features)
        a = components.whitened[0]
        return self._square(torch.diag(components.precision[0]) - a.mT @ a)

    def _square(self, matrix: Tensor) -> np.ndarray:
        """A matrix (d, d) of all columns; 0 for those that do not vary."""
        return self._kind.wide(matrix, 0, 1, fill=0.0).numpy().astype(self._kind.dtype)

    @property
    def n_parameters_(self) -> int:
        """Free parameters: mean, loadings up to a rotation, and noise."""
        check_is_fitted(self)
        return self.theta_.components.n_parameters

    @property
    def _n_features_out(self) -> int:
        return self.theta_.components.n_latent

    def _theta_record(self) -> dict[str, Tensor]:
        components = self.theta_.components
        return {"mean": components.means[0], "loadings": components.loadings[0], "noise": components.noise[0]}

    def _theta_from(self, record: dict[str, Tensor]) -> SubspaceTheta:
        # One noise variance, or one for every feature.
        schema = SCHEMA | {"noise": Values(1 if len(record["noise"]) == 1 else "d", check=positive)}
        found = read_values(record, schema, d=self._n_varying)
        return one(SubspaceGaussians(found["mean"][None], found["loadings"][None], found["noise"][None]))


def complete_moments(rows: Rows) -> RowMoments | None:
    """Mean and covariance of complete rows; None where the covariance would be larger than the rows."""
    n, d = rows.n_rows, rows.x.shape[1]
    if d > min(n, WIDEST):
        return None
    moments: RowMoments | None
    if isinstance(rows, StreamedRows):
        moments = None if rows.has_missing else rows.total(moments_of_rows)
    else:
        moments = row_moments(rows.x, rows.weight)
    if moments is not None and bool(moments.cov.isfinite().all()):
        return moments
    if not rows.has_missing:
        raise too_large(rows.extent)
    return None


def moments_of_rows(rows: Rows) -> RowMoments:
    return row_moments(rows.x, rows.weight)
