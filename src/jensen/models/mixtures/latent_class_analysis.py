"""Latent class analysis.

    z ~ Categorical(π),  x_j | z=k ~ Categorical(θ_kj), independent over the columns j
    E:  q_ik ∝ π_k Π_j θ_kj[x_ij] over the observed columns
    M:  π_k = N_k / N,  θ_kjl = (Σ_i q_ik [x_ij = l] + α) / (N_kj + L_j α)
α = 0 is maximum likelihood, α > 0 the mode under a Dirichlet(α+1) prior of every θ_kj. The bound is exact.
Lazarsfeld & Henry (1968); Goodman (1974); poLCA: Linzer & Lewis (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jensen.data.cells import Cells
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.infer import learn_columns
from jensen.data.statistics import TableStatistics
from jensen.models.mixtures.mixture import Mixture


class LatentClassAnalysis(Mixture):
    """A mixture whose columns are all levels, such as the answers of a survey; they are independent within a class.

    Args:
        n_components: K, the number of latent classes; None is the number of classes in y, or 1.
        alpha: pseudo-counts of every level; 0 is maximum likelihood.
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
        weights_: π (K,), the shares of the classes.
        probabilities_: {column: θ (K, L)}, the levels in the order of `columns_`.
        columns_: the levels of every column.
        theta_: the parameters as one frozen value of tensors.
        lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_, classes_: as in `GaussianMixture`.

    Example:
        >>> import pandas as pd
        >>> from jensen import LatentClassAnalysis
        >>> X = pd.DataFrame({"lies": ["yes", "yes", "no", "no", None], "cheats": ["yes", "yes", "no", "no", "no"]})
        >>> model = LatentClassAnalysis(2, random_state=0).fit(X)
        >>> model.impute(X)["lies"].tolist()
        ['yes', 'yes', 'no', 'no', 'no']
    """

    # What a mixture of numbers would be told.
    families, columns, covariance_type, prior, reg_covar = "auto", None, "full", None, 0.0

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 0.0,
        tol: float = 1e-6,
        max_iter: int = 1000,
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

    @property
    def probabilities_(self) -> dict[str | int, np.ndarray]:
        """The probabilities of the levels of every column, (K, L)."""
        return {name: found["probabilities"] for name, found in self.parameters_.items()}

    def _learn(self, X: Table | Cells | TableStatistics) -> Columns:
        return learn_columns(X, "level", kinds="all")
