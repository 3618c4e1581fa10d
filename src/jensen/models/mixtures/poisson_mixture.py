"""Mixture of Poisson distributions.

    z ~ Categorical(π),  x_j | z=k ~ Poisson(λ_kj), independent over the columns j
    E:  q_ik ∝ π_k Π_j λ_kj^x_ij e^-λ_kj / x_ij! over the observed columns
    M:  π_k = N_k / N,  λ_kj = (Σ_i q_ik x_ij + a - 1) / (N_kj + b),  N_kj = Σ_i q_ik over the rows that have j
a = 1, b = 0 is maximum likelihood, others the mode under a Gamma(a, rate b) prior of every λ_kj. The bound is exact.
Hasselblad (1969).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from jensen.contract import Rows
from jensen.contract.fitted import Fitted, Values, not_negative
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.poisson import PoissonFamily, Poissons


class PoissonMixture(MixtureModel):
    """A mixture for columns of counts, which are independent within a component.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        shape: a of a Gamma(a, rate b) prior of every rate, at least 1.
        rate: b of this prior; 0, with shape 1, is maximum likelihood.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        max_iter: M-steps at most; 0 returns the start.
        n_init: fits from different starts; the most plausible is kept.
        init_params: "portfolio" (several partitions, short runs, the best continues), or scikit-learn's "kmeans",
            "k-means++", "random", "random_from_data".
        label_weight: α, how much a labelled row counts compared to an unlabelled one.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        random_state: seed or RandomState.
        warm_start: start from the last fit.
        verbose: 1 shows a progress bar on a terminal.
        verbose_interval: steps between updates of the objective in the bar.

    Attributes:
        weights_: π (K,).
        rates_: λ, the mean of every column (K, d).
        theta_: both as one frozen value of tensors.
        lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_, classes_: as in `GaussianMixture`.

    Example:
        >>> import numpy as np
        >>> from jensen import PoissonMixture
        >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0], [20.0]], 100, axis=0))
        >>> np.sort(PoissonMixture(2, random_state=0).fit(X).rates_.ravel()).round().tolist()
        [1.0, 21.0]
    """

    theta_: MixtureTheta[Poissons]
    capabilities = replace(MixtureModel.capabilities, values="counts")
    rates_ = Fitted[np.ndarray](lambda model: model.theta_.components.rates, columns=(1,), constant=None)
    _components = Poissons
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MixtureModel._parameter_constraints | {
        "shape": [Interval(Real, 1.0, None, closed="left")],
        "rate": [Interval(Real, 0.0, None, closed="left")],
        "acceleration": [StrOptions({"squarem"}), None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shape: float = 1.0,
        rate: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 200,
        n_init: int = 1,
        init_params: str = "portfolio",
        label_weight: float = 1.0,
        acceleration: str | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.shape = shape
        self.rate = rate
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.label_weight = label_weight
        self.acceleration = acceleration
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def _family(self, rows: Rows, k: int) -> PoissonFamily:
        if self.shape != 1 and self.rate == 0:
            raise ValueError(f"rate=0 is no gamma prior with shape={self.shape}; give a rate above 0, or shape=1")
        return PoissonFamily(float(self.shape), float(self.rate))

    def _schema(self) -> Mapping[str, Values]:
        return {"rates": Values("K", "d", check=not_negative)}
