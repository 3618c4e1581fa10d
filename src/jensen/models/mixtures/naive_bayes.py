"""Naive Bayes.

    y ~ Categorical(π),  x_j | y=k ~ p_kj, independent over the columns j
    p(y | x) ∝ π_y Π_j p_yj(x_j) over the observed columns
    labelled rows:    π_k = N_k / N, and the MLE or mode of every p_kj from the rows of class k; one M-step ends the fit
    unlabelled rows:  EM raises Σ_labelled ln p(x_i, y_i) + Σ_unlabelled ln p(x_i)
Maximum likelihood of 2d+1 separate problems for d yes/no columns and two classes: KL(P̂ ‖ p) is a sum over them.
Hand & Yu (2001); with unlabelled rows Nigam, McCallum, Thrun & Mitchell (2000).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin

from jensen.data.cells import Cells
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.infer import learn_columns
from jensen.data.statistics import TableStatistics
from jensen.models.mixtures.classifier import check_classes, labelled
from jensen.models.mixtures.families.choice import KIND_OF, check_no_kinds, takes_sparse
from jensen.models.mixtures.mixture import Mixture


class NaiveBayes(ClassifierMixin, Mixture):
    """A classifier for tables with columns of any kind, which are independent given the class.

    With all rows labelled and the same prior it equals scikit-learn's GaussianNB(var_smoothing=0), BernoulliNB,
    CategoricalNB and MultinomialNB. It also takes missing values, columns of several kinds, unlabelled rows and row
    weights.

    Args:
        families: "auto" chooses by the kind of each column: numbers and dates are Gaussian, counts negative binomial,
            yes/no Bernoulli, levels categorical. One family for all columns is "gaussian", "poisson",
            "negative binomial", "multinomial" (one for all columns, such as the words of a text; X may be sparse),
            "gamma", "exponential", "bernoulli" or "categorical"; {column: family} chooses for some.
        columns: {column: kind} for columns that are not what they look like: "number", "count", "level", "yes/no" or
            "date".
        alpha: pseudo-counts of every level, of both values of yes/no and of every word, as scikit-learn's: the mode
            under a Dirichlet(alpha + 1) or Beta(alpha + 1, alpha + 1) prior; 0 is maximum likelihood.
        unlabelled: a value of y that means unlabelled, such as -1, beside NaN and None.
        label_weight: α, how much a labelled row counts compared to an unlabelled one.
        reg_covar: no variance of a number falls below this share of the data's.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        max_iter: M-steps at most.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        random_state: seed or RandomState, for samples and draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        classes_: the classes of y, in order.
        class_prior_: π (K,), also as weights_.
        columns_: what every column is.
        families_: the family of every modelled column.
        parameters_: {column: {name: array (K, ...)}}, such as mean and variance, rate or probabilities.
        theta_: the same parameters as one frozen value of tensors.
        lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_: as in `GaussianMixture`.

    Example:
        >>> import pandas as pd
        >>> from jensen import NaiveBayes
        >>> X = pd.DataFrame({"age": [20.5, 22.1, 61.0, None, 58.2], "town": ["Bonn", "Bonn", "Rome", "Rome", None]})
        >>> NaiveBayes().fit(X, ["no", "no", "yes", "yes", None]).predict(X).tolist()
        ['no', 'no', 'yes', 'yes', 'yes']
    """

    capabilities = replace(Mixture.capabilities, labels="needed")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = Mixture._parameter_constraints | {
        "unlabelled": [Real, str, None]
    }
    # One component per class, which starts from its own rows.
    covariance_type, prior, init_params, warm_start = "diag", None, "portfolio", False

    def __init__(
        self,
        *,
        families: str | Mapping[str | int, str] = "auto",
        columns: Mapping[str | int, Any] | None = None,
        alpha: float = 1.0,
        unlabelled: Any = None,
        label_weight: float = 1.0,
        reg_covar: float = 1e-9,
        tol: float = 1e-6,
        max_iter: int = 500,
        acceleration: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.families = families
        self.columns = columns
        self.alpha = alpha
        self.unlabelled = unlabelled
        self.label_weight = label_weight
        self.reg_covar = reg_covar
        self.tol = tol
        self.max_iter = max_iter
        self.acceleration = acceleration
        self.random_state = random_state
        self.verbose = verbose

    @property
    def class_prior_(self) -> np.ndarray:
        """π (K,), the shares of the classes."""
        return np.asarray(self.weights_)

    def score(self, X: Table, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: of the rows with a label, the share whose predicted class is right.

        Labels that are None, NaN or `unlabelled` are unknown; at least one row must have a label.

        Example:
            >>> from jensen import NaiveBayes
            >>> X = [[0.0], [0.2], [3.0], [3.1]]
            >>> round(NaiveBayes().fit(X, ["a", "a", "b", "b"]).score(X, ["a", None, "b", "a"]), 3)
            0.667
        """
        return float(ClassifierMixin.score(self, *labelled(X, y, sample_weight, self.unlabelled)))

    def partial_fit(
        self, X: Table, y: Any = None, sample_weight: Any = None, classes: Any = None, *, decay: float | None = None
    ) -> Self:
        """One step of stepwise EM with a batch of rows; the first batch is a `fit`, which sets the classes.

        `classes` are optional, as in scikit-learn; the first batch must hold a row of each. With a `decay` γ in (0, 1],
        rows of earlier batches count γ times from this batch on.
        """
        is_first = not hasattr(self, "classes_")
        super().partial_fit(X, y, sample_weight, decay=decay)
        if is_first and classes is not None:
            check_classes(classes, self.classes_)
        return self

    def _learn(self, X: Table | Cells | TableStatistics) -> Columns:
        """No number has an atom, as in scikit-learn; one family for all columns asks for the kind that it models."""
        if not isinstance(self.families, str) or takes_sparse(self.families):
            return super()._learn(X)
        if self.families == "auto":
            return learn_columns(X, self.columns, kinds="all")
        check_no_kinds(self.families, self.columns)
        return learn_columns(X, KIND_OF[self.families], kinds="all")
