"""Discriminant analysis.

    y ~ Categorical(π),  x | y=c ~ N(μ_c, Σ_c), or Σ_k π_k|c N(μ_k, Σ_k) with several components per class
    one Σ for all classes ("tied"): linear boundaries, LDA; one per class ("full"): quadratic ones, QDA
Fisher (1936); Bensmail & Celeux (1996), EDDA, for covariances of other structures; Hastie & Tibshirani (1996) and
Fraley & Raftery (2002) for several components per class. Unlabelled rows take part through EM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import Rows
from jensen.data.container import Table
from jensen.data.labels import decode_labels, numbers_of_classes
from jensen.models.mixtures.classifier import check_classes, labelled
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.models.mixtures.inference import draw, responsibilities
from jensen.models.mixtures.parameters import GaussianTheta


class DiscriminantAnalysis(ClassifierMixin, GaussianMixture):
    """A classifier with Gaussian classes: LDA, QDA and what lies between, with missing values and unlabelled rows.

    Args:
        covariance_type: "tied" is linear, "full" quadratic discriminant analysis; "diag" and "spherical" have no
            covariances between features, and mclust's names, such as "VEV", lie between (EDDA).
        components_per_class: Gaussians in every class, or {class: number}.
        unlabelled: a value of y that means unlabelled, such as -1, beside NaN and None.
        label_weight: α, how much a labelled row counts compared to an unlabelled one.
        prior: None for maximum likelihood, or a `ConjugatePrior` of means and covariances.
        reg_covar: smallest variance, as in `GaussianMixture`.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        max_iter: M-steps at most.
        n_init: fits from different starts, where a class has several components; the most plausible is kept.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        random_state: seed or RandomState.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        classes_: the classes of y, in order.
        class_of_: the number of the class of every component (K,).
        class_prior_: the shares of the classes.
        weights_, means_, covariances_, precisions_, precisions_cholesky_: of the components, as in `GaussianMixture`.
        theta_, lower_bound_, lower_bounds_, n_iter_, converged_, total_weight_: as in `GaussianMixture`.

    Example:
        >>> import numpy as np
        >>> from jensen import DiscriminantAnalysis
        >>> X = np.array([[0.0, 1.0], [0.5, np.nan], [0.2, 0.8], [5.0, 5.1], [5.5, 4.9], [np.nan, 5.2]])
        >>> DiscriminantAnalysis().fit(X, ["a", "a", None, "b", "b", None]).predict(X).tolist()
        ['a', 'a', 'a', 'b', 'b', 'b']
    """

    capabilities = replace(GaussianMixture.capabilities, labels="needed")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = GaussianMixture._parameter_constraints | {
        "components_per_class": [Interval(Integral, 1, None, closed="left"), Mapping],
        "unlabelled": [Real, str, None],
    }
    weights_init = means_init = precisions_init = None
    noise = False
    algorithm, learning_rate, freeze, init_params, warm_start, verbose_interval = "em", 1.0, (), "portfolio", False, 10
    class_of_: np.ndarray

    def __init__(
        self,
        covariance_type: str = "tied",
        *,
        components_per_class: int | Mapping[Any, int] = 1,
        unlabelled: Any = None,
        label_weight: float = 1.0,
        prior: ConjugatePrior | None = None,
        reg_covar: float = 1e-6,
        tol: float = 1e-6,
        max_iter: int = 500,
        n_init: int = 1,
        acceleration: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.covariance_type = covariance_type
        self.components_per_class = components_per_class
        self.unlabelled = unlabelled
        self.label_weight = label_weight
        self.prior = prior
        self.reg_covar = reg_covar
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.acceleration = acceleration
        self.random_state = random_state
        self.verbose = verbose

    @property
    def class_prior_(self) -> np.ndarray:
        """The shares of the classes (C,)."""
        return np.bincount(self.class_of_, np.asarray(self.weights_), minlength=len(self.classes_))

    def fit_from(
        self, mixture: GaussianMixture, class_of: np.ndarray, X: Table, y: Any, sample_weight: Any = None
    ) -> Self:
        """Fit by EM that starts from a fitted mixture of the same columns, whose components have classes.

        So a class may have more components than labelled rows: the other rows find them. `components_per_class` is not
        used.

        Args:
            mixture: with the same structure of covariances, without noise.
            class_of: the number of the class of every component (K,), in the order of the sorted labels.
            X, y, sample_weight: as in `fit`.
        """
        check_is_fitted(mixture)
        self.theta_, self._kind = mixture.theta_, mixture._kind
        self.class_of_, self.warm_start = np.asarray(class_of), True
        if self.class_of_.shape != tuple(self.theta_.weights.shape):
            raise ValueError(
                f"class_of has shape {self.class_of_.shape}; give a class for each of the mixture's "
                f"{len(self.theta_.weights)} components, and a mixture without noise"
            )
        try:
            return self.fit(X, y, sample_weight)
        finally:
            del self.warm_start

    def predict_proba(self, X: Any) -> Any:
        """p(y|x), (n, C)."""
        x, kind = self._read(X)
        return kind.values(self._of_classes(responsibilities(self.theta_, x)))

    def predict(self, X: Any) -> Any:
        """The most probable class."""
        x, kind = self._read(X)
        number = self._of_classes(responsibilities(self.theta_, x)).argmax(1)
        labels = decode_labels(number.cpu().numpy(), self.classes_)
        return torch.as_tensor(labels) if kind.container == "torch" and labels.dtype.kind in "iufb" else labels

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the class of each; y selects a class, one for all or one per row."""
        check_is_fitted(self)
        n, generator = self._n_samples(n_samples), self._generator(random_state)
        component = None
        if y is not None:
            chosen = numbers_of_classes(y, self.classes_, n)
            of_class = torch.nn.functional.one_hot(torch.from_numpy(self.class_of_), len(self.classes_))
            component = torch.multinomial((self.theta_.weights[:, None] * of_class).T[chosen], 1, generator=generator)
        x, component = draw(self.theta_, n, generator, None if component is None else component.squeeze(1))
        return self._kind.table(x), self.classes_[self.class_of_[component.numpy()]]

    def score(self, X: Table, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: of the rows with a label, the share whose predicted class is right.

        Labels that are None, NaN or `unlabelled` are unknown; at least one row must have a label.

        Example:
            >>> from jensen import DiscriminantAnalysis
            >>> X = [[0.0], [0.2], [3.0], [3.1]]
            >>> round(DiscriminantAnalysis().fit(X, ["a", "a", "b", "b"]).score(X, ["a", None, "b", "a"]), 3)
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

    def _of_classes(self, q: Tensor) -> Tensor:
        """Probabilities of classes (n, C) from those of components (n, K)."""
        summed = q.new_zeros(len(q), len(self.classes_))
        return summed.index_add_(1, torch.from_numpy(self.class_of_).to(q.device), q)

    def _sizes(self, rows: Rows, start: GaussianTheta | None) -> tuple[int, Tensor | None]:
        if len(rows.classes) < 2:
            raise ValueError(
                f"y has 1 class, {rows.classes.tolist()}, and {type(self).__name__} needs at least 2 classes; give "
                "labels of another, or fit a GaussianMixture"
            )
        if start is not None and set(self.class_of_.tolist()) != set(range(len(rows.classes))):
            raise ValueError(
                f"class_of={self.class_of_.tolist()} must give every class of y a component, 0 to "
                f"{len(rows.classes) - 1}, and no other number"
            )
        if start is None:
            self.class_of_ = np.repeat(np.arange(len(rows.classes)), self._counts(rows))
        k = len(self.class_of_)
        return k, None if k == len(set(self.class_of_.tolist())) else torch.from_numpy(self.class_of_)

    def _counts(self, rows: Rows) -> list[int]:
        """The components of every class; an error for more than a class has labelled rows."""
        asked, classes = self.components_per_class, rows.classes.tolist()
        if not isinstance(asked, Mapping):
            counts = [int(asked)] * len(classes)
        elif set(asked) != set(classes) or not all(isinstance(n, Integral) and n > 0 for n in asked.values()):
            raise ValueError(
                f"components_per_class={dict(asked)!r} must give a positive number for every class, {classes}"
            )
        else:
            counts = [int(asked[name]) for name in classes]
        assert rows.label is not None
        n_rows = torch.bincount(rows.label[rows.label >= 0], minlength=len(classes)).tolist()
        for name, n, count in zip(classes, n_rows, counts, strict=True):
            if count > n:
                raise ValueError(
                    f"components_per_class={asked!r} gives class {name!r} {count} components, but it has {n} labelled "
                    "rows; give fewer"
                )
        return counts

    def _unused(self, rows: Rows) -> dict[str, str]:
        return {}

    def _derived(self, theta: GaussianTheta, columns: list[int]) -> GaussianMixture:
        part = super()._derived(theta, columns)
        part.class_of_ = self.class_of_
        return part

    def _theta_record(self) -> dict[str, Tensor]:
        return super()._theta_record() | {"class_of": torch.from_numpy(self.class_of_)}

    def _theta_from(self, record: dict[str, Tensor]) -> GaussianTheta:
        self.class_of_ = record["class_of"].numpy()
        theta = super()._theta_from(record)
        if self.class_of_.shape != tuple(theta.weights.shape):
            raise ValueError(f"class_of has shape {self.class_of_.shape} for {len(theta.weights)} components")
        return theta
