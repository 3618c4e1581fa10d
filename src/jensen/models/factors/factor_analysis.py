"""Factor analysis.

    z ~ N(0, I_m),  x | z ~ N(μ + W z, Ψ),  Ψ = diag(ψ);   x ~ N(μ, W Wᵀ + Ψ)
    EM:  W, μ, ψ by regression of the features on ⟨z⟩, then the prior of z fitted, too, and taken back into W and μ
Rubin & Thayer (1982); PX-EM, Liu, Rubin & Wu (1998). The bound is exact.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from jensen.contract import Rows
from jensen.contract.fitted import Fitted, Values
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.models.factors.base import LinearLatentModel
from jensen.models.factors.fit import SubspaceTheta, compressed, one, subspace_problem, that_vary
from jensen.models.factors.principal import RowMoments
from jensen.models.factors.rotation import ROTATIONS, rotated
from jensen.models.factors.subspace import SubspaceStructure
from jensen.models.mixtures.conjugate_prior import ConjugatePrior, prior_of_columns
from jensen.runtime.messages import levels_inside


class FactorAnalysis(LinearLatentModel):
    """Factor analysis: scikit-learn's class with missing values, row weights and priors.

    Args:
        n_components: m; None is the number of features, 0 means independent features.
        tol: EM stops when a step gains less than this many nats in total, as scikit-learn's does.
        copy: exists for compatibility with scikit-learn; X is never changed.
        max_iter: maximum number of EM steps; 0 returns the start.
        noise_variance_init: noise variances (d,) of the start; None is the variance that the first axes leave, and for
            complete rows the better of that and all of the variance.
        svd_method: how the axes of the start are found: "randomized", or "lapack" for the exact ones.
        iterated_power: steps of the randomized method.
        rotation: None (Wᵀ Ψ⁻¹ W diagonal), "varimax" or "quartimax".
        random_state: seed or RandomState, for the randomized start and for samples.
        acceleration: "squarem" to extrapolate EM's steps, or None.
        prior: None for maximum likelihood, or a `ConjugatePrior` on μ and C for the posterior mode.
        noise_floor: smallest noise variance, as a share of the mean variance of all features; 0 sets no floor. For
            pixels, whose unit is the same: with 1/(n+1), a pixel that hardly varies in n training rows may vary in
            others.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        components_: Wᵀ (m, d), rotated if asked.
        noise_variance_: ψ (d,).
        mean_: μ (d,).
        loglike_: the log-likelihood (with a prior, the objective) of all rows after every step.
        theta_: the parameters as one frozen value of tensors.
        total_weight_: total weight of the training rows.
        lower_bound_: the objective per unit of weight; equals score(X) without weights and prior.
        n_iter_, converged_: M-steps, and whether the last one gained less than tol.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from jensen import FactorAnalysis
        >>> X = load_digits().data
        >>> FactorAnalysis(n_components=7, random_state=0).fit_transform(X).shape
        (1797, 7)
    """

    components_ = Fitted[np.ndarray](lambda model: model.theta_.components.loadings[0].mT, columns=(1,))
    noise_variance_ = Fitted[np.ndarray](lambda model: model.theta_.components.noise[0], columns=(0,))

    _is_isotropic = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 0, None, closed="left"), None],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "copy": ["boolean"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "noise_variance_init": ["array-like", None],
        "svd_method": [StrOptions({"randomized", "lapack"})],
        "iterated_power": [Interval(Integral, 0, None, closed="left")],
        "rotation": [StrOptions(set(ROTATIONS)), None],
        "random_state": ["random_state"],
        "acceleration": [StrOptions({"squarem"}), None],
        "prior": [ConjugatePrior, None],
        "noise_floor": [Interval(Real, 0.0, 1.0, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        tol: float = 1e-2,
        copy: bool = True,
        max_iter: int = 1000,
        noise_variance_init: Any = None,
        svd_method: str = "randomized",
        iterated_power: int = 3,
        rotation: str | None = None,
        random_state: Any = 0,
        acceleration: str | None = "squarem",
        prior: ConjugatePrior | None = None,
        noise_floor: float = 0.0,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.tol = tol
        self.copy = copy
        self.max_iter = max_iter
        self.noise_variance_init = noise_variance_init
        self.svd_method = svd_method
        self.iterated_power = iterated_power
        self.rotation = rotation
        self.random_state = random_state
        self.acceleration = acceleration
        self.prior = prior
        self.noise_floor = noise_floor
        self.verbose = verbose

    def _solve(self, moments: RowMoments, start: SubspaceTheta | None) -> SubspaceTheta:
        x, weight = compressed(moments)
        about = Frame(moments.mean, torch.ones_like(moments.mean))
        rows = Rows(x.T, weight, None, np.array([]), self._kind)
        ways: list[tuple[SubspaceTheta | None, Tensor | None]] = [(None, None)]
        if start is not None:
            # More rows may leave the old maximum behind, or start towards one that is lower.
            ways.append((start.within(about), None))
        if self.noise_variance_init is None and self.n_components:
            # Where a factor holds all of a feature there are several maxima. Little noise leads to one and much noise
            # to another, and on a covariance a second fit costs little.
            ways.append((None, moments.cov.diagonal()))
        fits: list[tuple[em.Fit[SubspaceTheta, Any], Frame]] = []
        for begin, noise in ways:
            fits.append(self._by_em(rows, about, begin, noise))
            if not fits[-1][0].converged and fits[-1][0].n_iter < self.max_iter:
                break  # Ctrl-C has ended it
        return self._keep(max(fits, key=lambda fit: fit[0].objective)).outside(about)

    def _unused(self, rows: Rows) -> dict[str, str]:
        is_exact = self.svd_method == "lapack"
        return {"iterated_power": "svd_method='lapack' has no such steps; give 'randomized'"} if is_exact else {}

    def _solve_rows(self, rows: Rows) -> SubspaceTheta:
        about = Frame(torch.zeros_like(rows.x[0]), torch.ones_like(rows.x[0]))
        return self._keep(self._by_em(rows, about, None))

    def _keep(self, found: tuple[em.Fit[SubspaceTheta, Any], Frame]) -> SubspaceTheta:
        fitted, frame = found
        self.lower_bound_, self.n_iter_, self.converged_ = fitted.objective, fitted.n_iter, fitted.converged
        self.loglike_ = [value * fitted.weight for value in fitted.history[1:]]
        theta: SubspaceTheta = fitted.theta.outside(frame)
        components = theta.components
        if bool((components.noise < 1e-8 * components.feature_variances()).all()):
            warnings.warn(
                f"n_components={components.n_latent} factors hold all of the rows, so that no feature has noise and "
                "the likelihood means nothing; lower n_components or give a prior",
                UserWarning,
                stacklevel=levels_inside(),
            )
        return theta

    def _by_em(
        self,
        rows: Rows,
        about: Frame,
        start: SubspaceTheta | None,
        noise: Tensor | None = None,
    ) -> tuple[em.Fit[SubspaceTheta, Any], Frame]:
        """Of rows less an origin, from noise variances (d,) or `noise_variance_init`."""
        d = rows.x.shape[1]
        m = d if self.n_components is None else self.n_components
        if m > d:
            raise ValueError(f"n_components={m} is more than the {d} features of X{that_vary(self._kind)}; lower it")
        prior = prior_of_columns(self.prior, self._kind)
        if self.noise_variance_init is not None:
            given = Values(int(self.n_features_in_)).read("noise_variance_init", self.noise_variance_init)
            noise = self._kind.narrow(given, 0)
        problem, frame = subspace_problem(
            rows,
            SubspaceStructure(m, is_isotropic=False),
            None if prior is None else prior.about(about.origin),
            lambda mass: em.small_gain(self.tol / mass),
            em.squarem if self.acceleration == "squarem" else em.plain,
            start,
            noise,
            self.iterated_power if self.svd_method == "randomized" else None,
            self.noise_floor,
        )
        return self._run(problem, self._generator(), n_init=1), frame

    def _presented(self, theta: SubspaceTheta) -> SubspaceTheta:
        components = theta.components.canonical()
        if self.rotation is None or components.n_latent < 2:
            return one(components)
        return one(components.turned(rotated(components.loadings[0], self.rotation)[None]))
