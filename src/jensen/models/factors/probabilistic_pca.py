"""Probabilistic PCA.

    z ~ N(0, I_m),  x | z ~ N(μ + W z, σ²I);   x ~ N(μ, C),  C = W Wᵀ + σ²I
    complete rows:  μ = x̄,  W = U_m (Λ_m - σ²I)^½,  σ² = mean of the d-m smallest eigenvalues of the covariance
        (divisor n)
    missing values:  EM with the posterior N(M⁻¹ Wᵀ(x-μ), σ²M⁻¹), M = WᵀW + σ²I, over what is observed
Tipping & Bishop (1999). The bound is exact.
"""

from __future__ import annotations

import sys
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.contract.fitted import Fitted
from jensen.contract.rows import StreamedRows
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.models.factors.base import LinearLatentModel
from jensen.models.factors.fit import (
    ClosedForm,
    SubspaceTheta,
    closed_form,
    closed_mode,
    one,
    start_of_least_bic,
    subspace_problem,
    that_vary,
)
from jensen.models.factors.principal import (
    RowMoments,
    Spectrum,
    largest_rank,
    minka_rank,
    spectrum_of,
    spectrum_of_rows,
)
from jensen.models.factors.subspace import SubspaceStructure
from jensen.models.mixtures.conjugate_prior import ConjugatePrior, prior_of_columns
from jensen.runtime.messages import levels_inside
from jensen.runtime.progress import tqdm_of_here
from jensen.runtime.threads import threads_for

# Where EM must run, the dimensions that are taken without being asked for: a step costs m² a row.
MOST_BY_DEFAULT = 20


def axes(model: ProbabilisticPCA) -> Tensor:
    """Orthonormal principal axes (d, m), each with the sign of its loadings."""
    w = model.theta_.components.loadings[0]
    vectors: Tensor = torch.linalg.svd(w, full_matrices=False).U
    return vectors * torch.where((vectors * w).sum(0) < 0, -1.0, 1.0)


def axis_variances(model: ProbabilisticPCA) -> Tensor:
    components = model.theta_.components
    return components.loadings[0].square().sum(0) + components.noise[0]


class ProbabilisticPCA(LinearLatentModel):
    """PCA with a likelihood: missing values, weights, samples and the number of dimensions by evidence.

    Args:
        n_components: m; None is as many as the rows allow. For rows with missing values and more than 20 features, BIC
            chooses among 1 to 20 (fewer if rows are few), because a step of EM costs m² per row. "mle" is the choice
            of Minka (2000), and a number between 0 and 1 is the share of the variance to explain; both need complete
            rows.
        tol: for rows with missing values, EM stops when a step gains less than this many nats per unit of weight.
        max_iter: maximum number of EM steps; 0 returns the start.
        acceleration: "squarem" to extrapolate EM's steps, or None.
        prior: None for maximum likelihood, or a `ConjugatePrior` on μ and C for the posterior mode.
        random_state: seed or RandomState, for the start of EM and for samples.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        components_: orthonormal principal axes (m, d), the first with the largest variance.
        explained_variance_: the variance along each axis (m,), by the maximum-likelihood convention, divisor n where
            scikit-learn's PCA has n - 1.
        explained_variance_ratio_: its share of the total.
        singular_values_: of the centred rows, √(n λ).
        mean_, noise_variance_: μ (d,) and σ², the mean of the eigenvalues that are left (divisor n).
        loadings_: W (d, m), with columns along the axes.
        n_components_: m, as given or as chosen.
        chosen_by_bic_: whether BIC chose m; `partial_fit` then keeps it.
        theta_: the parameters as one frozen value of tensors.
        total_weight_: total weight of the training rows.
        lower_bound_: the objective per unit of weight; equals score(X) without weights and prior.
        n_iter_, converged_: M-steps (one, in closed form), and whether the last one gained less than tol.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import ProbabilisticPCA
        >>> X = load_iris().data
        >>> model = ProbabilisticPCA(n_components=2).fit(X)
        >>> round(model.score(X) * len(X), 4), model.transform(X).shape
        (-404.9628, (150, 2))
    """

    components_ = Fitted[np.ndarray](lambda model: axes(model).mT, columns=(1,))
    explained_variance_ = Fitted[np.ndarray](axis_variances)
    explained_variance_ratio_ = Fitted[np.ndarray](
        lambda model: axis_variances(model) / model.theta_.components.feature_variances().sum()
    )
    singular_values_ = Fitted[np.ndarray](lambda model: (model.total_weight_ * axis_variances(model)).sqrt())
    loadings_ = Fitted[np.ndarray](lambda model: model.theta_.components.loadings[0], columns=(0,))

    _is_isotropic = True
    # False of files that were written before BIC chose.
    chosen_by_bic_: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
            StrOptions({"mle"}),
            None,
        ],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "acceleration": [StrOptions({"squarem"}), None],
        "prior": [ConjugatePrior, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        tol: float = 1e-5,
        max_iter: int = 1000,
        acceleration: str | None = "squarem",
        prior: ConjugatePrior | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.acceleration = acceleration
        self.prior = prior
        self.random_state = random_state
        self.verbose = verbose

    @property
    def noise_variance_(self) -> float:
        """σ², the variance outside of the subspace."""
        check_is_fitted(self)
        return float(self.theta_.components.noise) if self._n_varying else 0.0

    @property
    def n_components_(self) -> int:
        """q, the number of dimensions of the subspace."""
        check_is_fitted(self)
        return self.theta_.components.n_latent

    def _solve(self, moments: RowMoments, start: SubspaceTheta | None) -> SubspaceTheta:
        spectrum = spectrum_of(moments.cov)
        if start is None:
            self.chosen_by_bic_ = False
        if start is not None and self.n_components is None and self.chosen_by_bic_:
            m = start.components.n_latent
        else:
            m = self._n_latent(len(moments.mean), moments.mass, spectrum)
        prior = prior_of_columns(self.prior, self._kind)
        if prior is not None:
            return self._take(closed_mode(moments, m, prior), m)
        return self._take(closed_form(moments.mean, spectrum, m), m)

    def _solve_rows(self, rows: Rows) -> SubspaceTheta:
        n, d, has_missing = rows.n_rows, rows.x.shape[1], rows.has_missing
        self.chosen_by_bic_ = False
        if self.prior is None and not has_missing and not isinstance(rows, StreamedRows):
            mean, spectrum = spectrum_of_rows(rows.x, rows.weight)
            m = self._n_latent(d, n, spectrum)
            return self._take(closed_form(mean, spectrum, m), m)
        m, start = self._n_latent(d, n, None), None
        if self.n_components is None and d > MOST_BY_DEFAULT and has_missing:
            most = largest_rank(n, d, rows.n_entries, MOST_BY_DEFAULT)
            problem, frame = self._em_problem(rows, most, None)
            with threads_for(problem.source.n_numbers):
                name = "ProbabilisticPCA, dimensions" if self.verbose else None
                start = start_of_least_bic(problem, self._generator(), name).outside(frame)
            m, self.chosen_by_bic_ = start.components.n_latent, True
            if self.verbose:
                tqdm_of_here().write(f"ProbabilisticPCA: n_components={m} of {d}, chosen by BIC", file=sys.stderr)
        problem, frame = self._em_problem(rows, m, start)
        fitted = self._run(problem, self._generator(), n_init=1)
        self.lower_bound_, self.n_iter_, self.converged_ = fitted.objective, fitted.n_iter, fitted.converged
        found: SubspaceTheta = fitted.theta.outside(frame)
        return found

    def _em_problem(self, rows: Rows, m: int, start: SubspaceTheta | None) -> tuple[Problem, Frame]:
        algorithm = em.squarem if self.acceleration == "squarem" else em.plain
        structure, stop = SubspaceStructure(m, is_isotropic=True), em.small_gain(self.tol)
        prior = prior_of_columns(self.prior, rows.kind)
        return subspace_problem(rows, structure, prior, lambda mass: stop, algorithm, start)

    def _take(self, found: ClosedForm, m: int) -> SubspaceTheta:
        if found.is_floored:
            warnings.warn(
                f"n_components={m} axes hold all of the rows, so that the noise variance is 0 but for rounding and the "
                "likelihood means nothing; lower n_components or give a prior",
                UserWarning,
                stacklevel=levels_inside(),
            )
        self.lower_bound_, self.n_iter_, self.converged_ = found.objective, 1, True
        return found.theta

    def _presented(self, theta: SubspaceTheta) -> SubspaceTheta:
        return one(theta.components.canonical())

    def _n_latent(self, d: int, n: float, spectrum: Spectrum | None) -> int:
        wanted = self.n_components
        if wanted is None:
            # When the rows do not fill the space, one axis less than they span leaves something for the noise.
            rank = d if spectrum is None else int((spectrum.values > 1e-10 * spectrum.values[0]).sum())
            return d if rank == d else max(1, rank - 1)
        if isinstance(wanted, Integral):
            if wanted > d:
                raise ValueError(
                    f"n_components={wanted} is more than the {d} features of X{that_vary(self._kind)}; lower it"
                )
            if spectrum is not None and wanted > len(spectrum.values):
                raise ValueError(f"n_components={wanted} is more than the {len(spectrum.values)} rows of X; lower it")
            return int(wanted)
        if spectrum is None:
            raise ValueError(
                f"n_components={wanted!r} needs complete rows, and X has missing values; give a whole number, or "
                "choose one by jensen.select"
            )
        if wanted == "mle":
            if n < d:
                raise ValueError(f"n_components='mle' needs at least as many rows as features, got {n:g} and {d}")
            return minka_rank(spectrum.values, n) if d > 1 else 1
        share = np.cumsum(spectrum.values.numpy()) / spectrum.total
        return min(int(np.searchsorted(share, float(wanted), side="right")) + 1, d)
