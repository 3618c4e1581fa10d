"""Mixtures of probabilistic PCA and of factor analysers.

    k ~ Categorical(π),  z ~ N(0, I_m),  x | z, k ~ N(μ_k + W_k z, Ψ_k);   Ψ_k = σ_k²I, or diag(ψ_k)
    ln p(x) = Σ_k q_k E[ln p(x|z,k)] - KL(q(k) ‖ π) - Σ_k q_k KL(q(z|k) ‖ N(0, I))
A row costs K d m, and no matrix of d×d is made: for images and other wide rows.
Tipping & Bishop (1999); Ghahramani & Hinton (1996). The bound is exact.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.contract.fitted import Fitted, Values, positive
from jensen.contract.given_rest import GivenRest, check_coverage
from jensen.engines.em.batch import Batch
from jensen.engines.em.frame import Frame
from jensen.models.factors.base import nearest_points
from jensen.models.factors.fit import SubspaceTheta, covariances_of
from jensen.models.factors.mixture_fit import subspace_mixture_problem
from jensen.models.factors.subspace import SubspaceGaussians, SubspaceStructure
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.given_rest import beside_constants, gaussian_cells
from jensen.models.mixtures.inference import answers, responsibilities


class SubspaceMixture(MixtureModel):
    """What both have in common; a final class sets whether the noise has one variance for all features."""

    theta_: SubspaceTheta
    means_ = Fitted[np.ndarray](lambda model: model.theta_.components.means, columns=(1,), constant=None)
    loadings_ = Fitted[np.ndarray](lambda model: model.theta_.components.loadings, columns=(1,))
    _components = SubspaceGaussians
    _is_isotropic: ClassVar[bool]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MixtureModel._parameter_constraints | {
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "init_params": [StrOptions({"portfolio", "kmeans"})],
        "prior": [ConjugatePrior, None],
        "acceleration": [StrOptions({"squarem"}), None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        n_latent: int = 2,
        *,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "portfolio",
        label_weight: float = 1.0,
        prior: ConjugatePrior | None = None,
        acceleration: str | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.n_latent = n_latent
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.label_weight = label_weight
        self.prior = prior
        self.acceleration = acceleration
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def posterior(self, X: Any) -> torch.distributions.MixtureSameFamily:
        """q(k, z|x): a mixture per row of Gaussians (m) over z, each in its own component's coordinates."""
        x, _ = self._read(X)
        k, _, m = self.theta_.components.loadings.shape

        def means(local: SubspaceTheta, batch: Batch) -> Tensor:
            return local.components.view(batch).mean.reshape(k * m, -1)

        def factors(local: SubspaceTheta, batch: Batch) -> Tensor:
            factor: Tensor = torch.linalg.cholesky(local.components.view(batch).cov.movedim(-1, 0))
            return factor.reshape(-1, k * m * m).expand(batch.x.shape[1], -1).mT

        if x.isnan().any():
            tril = answers(self.theta_, x, factors).reshape(-1, k, m, m)
        else:
            tril = torch.linalg.cholesky(self.theta_.components.cov).expand(len(x), -1, -1, -1)
        mean = answers(self.theta_, x, means).reshape(-1, k, m)
        gaussians = torch.distributions.MultivariateNormal(mean, scale_tril=tril, validate_args=False)
        component = torch.distributions.Categorical(probs=responsibilities(self.theta_, x))
        return torch.distributions.MixtureSameFamily(component, gaussians)

    def given_rest(self, X: Any, coverage: float = 0.9) -> GivenRest:
        """How likely every cell is given the rest of its row, and what it should have been."""
        x, kind = self._read(X)
        return beside_constants(gaussian_cells(self.theta_, covariances_of, x.double(), check_coverage(coverage)), kind)

    def reconstruct(self, X: Any) -> Any:
        """Every row's nearest point of each subspace, in the metric of its noise, averaged by q(k|x)."""
        x, kind = self._read(X)
        return kind.table(nearest_points(self.theta_, x))

    def _problem(self, rows: Rows, start: SubspaceTheta | None, frame: Frame | None) -> tuple[Problem, Frame]:
        structure = SubspaceStructure(self.n_latent, self._is_isotropic)
        return subspace_mixture_problem(self, structure, rows, start, frame)

    def _presented(self, theta: SubspaceTheta) -> SubspaceTheta:
        return MixtureTheta(theta.weights, theta.components.canonical())

    def _schema(self) -> dict[str, Values]:
        return {
            "means": Values("K", "d"),
            "loadings": Values("K", "d", self.n_latent),
            "noise": Values("K", 1 if self._is_isotropic else "d", check=positive),
        }


class MixtureOfPPCA(SubspaceMixture):
    """A mixture of probabilistic PCAs: K Gaussians, each around its own subspace of m dimensions.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        n_latent: m, the dimensions of every subspace.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        reg_covar: smallest noise variance, as a share of the mean variance of the features. 0 sets no floor; a
            component that collapses then raises an error.
        max_iter: maximum number of M-steps; 0 returns the start.
        n_init: number of fits from different starts; the most plausible is kept.
        init_params: "kmeans" gives every component the principal axes of a cluster; "portfolio" tries several
            k-means partitions with a few EM steps each and continues from the most plausible (of one if rows are many).
        label_weight: α, the weight of a labelled row relative to an unlabelled one.
        prior: None for maximum likelihood, or a `ConjugatePrior` for MAP updates, which find the posterior mode.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        random_state: seed or RandomState.
        warm_start: start from the last fit.
        verbose: 1 shows a progress bar on a terminal.
        verbose_interval: number of steps between updates of the objective in the bar.

    Attributes:
        weights_, means_: π (K,) and μ (K, d).
        loadings_: W (K, d, m); columns lie along the principal directions of their component, the longest first.
        noise_variance_: σ² (K,).
        theta_: the same parameters as one frozen value of tensors.
        at_floor_: which components (K,) have a noise variance at the floor of `reg_covar`; do not trust their
            likelihood.
        total_weight_: total weight of the training rows.
        lower_bound_: the objective per unit of weight; equals score(X) without weights, labels and prior.
        lower_bounds_: its value after every step.
        n_iter_, converged_: number of M-steps after the start, and whether the last one gained less than tol.
        classes_: the classes of a fit with labels; component k < len(classes_) is class k.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from jensen import MixtureOfPPCA
        >>> X, y = load_digits(return_X_y=True)
        >>> model = MixtureOfPPCA(n_latent=6, random_state=0).fit(X[:1000], y[:1000])  # a subspace for every class
        >>> bool((model.predict(X[1000:]) == y[1000:]).mean() > 0.9)
        True
    """

    _is_isotropic = True
    noise_variance_ = Fitted[np.ndarray](lambda model: model.theta_.components.noise[:, 0])


class MixtureOfFactorAnalysers(SubspaceMixture):
    """A mixture of factor analysers: K Gaussians around subspaces of m dimensions, with a noise variance per feature.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        n_latent: m, the factors of every component.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        reg_covar: smallest noise variance, as a share of the variance of its feature. 0 sets no floor; a component
            that collapses then raises an error.
        max_iter: maximum number of M-steps; 0 returns the start.
        n_init: number of fits from different starts; the most plausible is kept.
        init_params: "kmeans" gives every component the principal axes of a cluster; "portfolio" tries several
            k-means partitions with a few EM steps each and continues from the most plausible (of one if rows are many).
        label_weight: α, the weight of a labelled row relative to an unlabelled one.
        prior: None for maximum likelihood, or a `ConjugatePrior` for MAP updates, which find the posterior mode.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        random_state: seed or RandomState.
        warm_start: start from the last fit.
        verbose: 1 shows a progress bar on a terminal.
        verbose_interval: number of steps between updates of the objective in the bar.

    Attributes:
        weights_, means_: π (K,) and μ (K, d).
        loadings_: W (K, d, m), with Wᵀ Ψ⁻¹ W diagonal and falling.
        noise_variance_: ψ (K, d).
        theta_, at_floor_, total_weight_, lower_bound_, lower_bounds_, n_iter_, converged_, classes_: as in
            `MixtureOfPPCA`.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import MixtureOfFactorAnalysers
        >>> X = load_iris().data
        >>> MixtureOfFactorAnalysers(n_components=3, n_latent=1, random_state=0).fit(X).loadings_.shape
        (3, 4, 1)
    """

    _is_isotropic = False
    noise_variance_ = Fitted[np.ndarray](lambda model: model.theta_.components.noise, columns=(1,))
