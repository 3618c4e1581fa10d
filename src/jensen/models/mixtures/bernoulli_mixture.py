"""Mixture of Bernoulli distributions.

    z ~ Categorical(π),  x_j | z=k ~ Bernoulli(θ_kj), independent over the columns j
    E:  q_ik ∝ π_k Π_j θ_kj^x_ij (1-θ_kj)^(1-x_ij) over the observed columns
    M:  π_k = N_k / N,  θ_kj = (Σ_i q_ik x_ij + α) / (N_kj + 2α),  N_kj = Σ_i q_ik over the rows that have j
α = 0 is maximum likelihood, α > 0 the mode under a Beta(α+1, α+1) prior of every θ_kj. The bound is exact.
Bishop (2006) 9.3.3; Lazarsfeld & Henry (1968).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from jensen.contract import Rows
from jensen.contract.fitted import Fitted, Values
from jensen.data.reader import known_names
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.bernoulli import BernoulliFamily, Bernoullis
from jensen.models.mixtures.families.choice import share


class BernoulliMixture(MixtureModel):
    """A mixture for columns of 0 and 1, which are independent within a component.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        alpha: pseudo-counts of both values of every column; 0 is maximum likelihood.
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
        probabilities_: θ, the probability of 1 (K, d).
        theta_: both as one frozen value of tensors.
        lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_, classes_: as in `GaussianMixture`.

    Example:
        >>> import numpy as np
        >>> from jensen import BernoulliMixture
        >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 10, axis=0)
        >>> model = BernoulliMixture(2, random_state=0).fit(X)
        >>> model.impute([[1, np.nan, 0, np.nan]]).round(2)
        array([[1., 1., 0., 0.]])
    """

    theta_: MixtureTheta[Bernoullis]
    capabilities = replace(MixtureModel.capabilities, values="counts")
    probabilities_ = Fitted[np.ndarray](
        lambda model: model.theta_.components.probabilities, columns=(1,), constant=None
    )
    _components = Bernoullis
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MixtureModel._parameter_constraints | {
        "alpha": [Interval(Real, 0.0, None, closed="left")],
        "acceleration": [StrOptions({"squarem"}), None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 0.0,
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
        self.alpha = alpha
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

    def _family(self, rows: Rows, k: int) -> BernoulliFamily:
        family = BernoulliFamily(1.0 + self.alpha, 1.0 + self.alpha)
        family.check(rows.kind.wide(rows.x, 1), [str(name) for name in known_names(self)])
        return family

    def _schema(self) -> Mapping[str, Values]:
        return {"probabilities": Values("K", "d", check=share)}
