"""Mixture of any columns.

    z ~ Categorical(π),  x | z=k ~ N(x_numbers; μ_k, Σ_k) Π_j p_kj(x_j) over the other columns
    E:  q_ik ∝ π_k p_k(x_i) over the observed columns
    M:  weighted means, covariances, frequencies and rates of each component
Numbers share a covariance within a component; counts, yes/no and levels are independent given the component. A missing
entry is a factor 1. The bound is exact.
McLachlan & Peel (2000), chapter 5; latent classes: Lazarsfeld & Henry (1968); mixed columns: Hunt & Jorgensen (1999).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import Problem, Rows, whole_number
from jensen.data.cells import check_finite
from jensen.data.columns import Columns
from jensen.data.container import Kind, Table
from jensen.data.infer import learn_columns
from jensen.data.labels import encode_labels, numbers_of_classes, read_posterior
from jensen.data.reader import LARGEST, read_rows, read_weights
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.families.choice import FAMILIES, chosen_families, product_family, theta_from, theta_record
from jensen.models.mixtures.fit import mixture_problem, n_components_of, start_by
from jensen.models.mixtures.gaussians import STRUCTURES
from jensen.models.mixtures.inference import bound_terms, draw, fill, fill_draws, log_evidence
from jensen.models.mixtures.product import Product
from jensen.models.mixtures.start import STARTS


class Mixture(MixtureModel):
    """A mixture of rows with columns of any kind: numbers, counts, yes/no, levels, dates, constants; a table in, a table out.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        families: "auto" chooses by the kind of each column: numbers and dates are Gaussian with one covariance, counts
            negative binomial, yes/no Bernoulli, levels categorical. {column: family} chooses "gaussian", "poisson",
            "negative binomial", "gamma", "exponential", "bernoulli" or "categorical" for some.
        columns: {column: kind} for columns that are not what they look like: "number", "count", "level", "yes/no" or
            "date".
        covariance_type: of the Gaussian columns, "full", "tied", "diag" or "spherical".
        alpha: pseudo-counts of every level, and of both values of yes/no; 0 is maximum likelihood.
        prior: None for maximum likelihood, or a `ConjugatePrior` of means and covariances.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        reg_covar: no variance of a Gaussian column falls below this share of the data's.
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
        columns_: what every column is.
        families_: the family of every modelled column.
        parameters_: {column: {name: array (K, ...)}}, such as mean and variance, rate or probabilities.
        theta_: the same parameters as one frozen value of tensors.
        lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_, classes_: as in `GaussianMixture`.

    Example:
        >>> import pandas as pd
        >>> from jensen import Mixture
        >>> X = pd.DataFrame({"age": [20.5, 22.1, 61.0, None, 58.2], "town": ["Bonn", "Bonn", "Rome", "Rome", None]})
        >>> model = Mixture(2, random_state=0).fit(X)
        >>> model.impute(X)["town"].tolist()
        ['Bonn', 'Bonn', 'Rome', 'Rome', 'Rome']
    """

    theta_: MixtureTheta[Product]
    capabilities = replace(MixtureModel.capabilities, text=True)
    _columns: Columns
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MixtureModel._parameter_constraints | {
        "families": [StrOptions({"auto", *FAMILIES}), Mapping],
        "columns": [Mapping, None],
        "covariance_type": [StrOptions(set(STRUCTURES))],
        "alpha": [Interval(Real, 0.0, None, closed="left")],
        "prior": [ConjugatePrior, None],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "init_params": [StrOptions(set(STARTS))],
        "acceleration": [StrOptions({"squarem"}), None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        families: str | Mapping[str | int, str] = "auto",
        columns: Mapping[str | int, Any] | None = None,
        covariance_type: str = "full",
        alpha: float = 0.0,
        prior: ConjugatePrior | None = None,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
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
        self.families = families
        self.columns = columns
        self.covariance_type = covariance_type
        self.alpha = alpha
        self.prior = prior
        self.tol = tol
        self.reg_covar = reg_covar
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
    def columns_(self) -> Columns:
        """What every column is."""
        check_is_fitted(self)
        return self._columns

    @property
    def measure_(self) -> tuple[str, ...]:
        """For every column, whether scores are a "density" of its numbers or a "probability" of its values."""
        check_is_fitted(self)
        return self._columns.measure
