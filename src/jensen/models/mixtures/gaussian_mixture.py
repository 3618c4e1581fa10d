"""Gaussian mixture.

    z ~ Categorical(π),  x | z=k ~ N(μ_k, Σ_k)
    E:  q_ik ∝ π_k N(x_i; μ_k, Σ_k)
    M:  π_k = N_k / N,  μ_k = Σ_i q_ik x_i / N_k,  Σ_k = Σ_i q_ik (x_i-μ_k)(x_i-μ_k)ᵀ / N_k
Bishop (2006) 9.23-9.27; missing features Ghahramani & Jordan (1994); priors Fraley & Raftery (2007).
The bound is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.contract.given_rest import GivenRest, check_coverage
from jensen.data.container import Kind
from jensen.engines.em import loop as em
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Source
from jensen.models.mixtures.base import MixtureModel
from jensen.models.mixtures.conjugate_prior import ConjugatePrior, prior_of_columns
from jensen.models.mixtures.em import MixtureVerbs
from jensen.models.mixtures.fit import mixture_problem, n_components_of, start_by
from jensen.models.mixtures.gaussians import MCLUST, STRUCTURES, AnyGaussians
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.given_rest import beside_constants, gaussian_cells
from jensen.models.mixtures.inference import condition, marginal
from jensen.models.mixtures.parameters import GaussianTheta, Given, parameter, theta_from, theta_record
from jensen.runtime.memory import need_memory


class GaussianMixture(MixtureModel):
    """A mixture of K Gaussians, fitted by EM: scikit-learn's class with weights, labels, missing values and priors.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        covariance_type: "full", "tied", "diag", "spherical", or one of the fourteen structures by mclust's names, such
            as "VEV": letters for volume, shape and orientation, E equal in all components, V varying, I the identity.
            "full" is "VVV", "tied" "EEE", "diag" "VVI", "spherical" "VII". `GaussianMixture.STRUCTURES` has all names.
        tol: EM stops when a step gains less than this many nats per unit of weight.
        reg_covar: smallest variance of a component, as a share of the variance of the data (at least 1e-10, where
            rounding begins). For "full" and "tied" it applies to the eigenvalues of the covariance of standardised
            features; for structures that depend on the units of the features (EII, VII, EVE, VVE, EEV, VEV) to a share
            of the mean variance. A column that is nearly constant, or a pixel, counts with its squared range in place
            of its variance. 0 sets no floor; a component that collapses then raises an error.
        max_iter: maximum number of M-steps; 0 returns the start.
        n_init: number of fits from different starts; the most plausible is kept.
        init_params: "portfolio" runs a few EM steps from several k-means partitions and continues from the most
            plausible; or scikit-learn's "kmeans", "k-means++", "random", "random_from_data".
        weights_init, means_init, precisions_init: starting values.
        random_state: seed or RandomState.
        warm_start: start from the last fit.
        verbose: 1 shows a progress bar on a terminal.
        verbose_interval: number of steps between updates of the objective in the bar.
        label_weight: α, the weight of a labelled row relative to an unlabelled one.
        prior: None for maximum likelihood, or a `ConjugatePrior` for MAP updates, which find the posterior mode.
        algorithm: "em", or "gradient" for gradient EM.
        learning_rate: first step size of gradient EM, halved if the objective falls.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        freeze: parameters among "weights", "means", "covariances" that keep their given starting values.
        noise: whether there is one more component, uniform over the box of the rows, for rows that fit nowhere: they
            no longer bend the others, and `predict` returns -1 for them. Its weight is the last of weights_.

    Attributes:
        weights_, means_, covariances_, precisions_, precisions_cholesky_: as in scikit-learn; the divisor is N_k.
            Covariances are (K, d, d), for "**I" (K, d) and for "*II" (K,); what all components share, EEE, EEI and EII,
            comes without K.
        theta_: the same parameters as one frozen value of tensors.
        at_floor_: which components (K,) have a variance at the floor of `reg_covar`; do not trust their likelihood.
        total_weight_: total weight of the training rows.
        lower_bound_: the objective per unit of weight; equals score(X) without weights, labels and prior.
        lower_bounds_: its value after every step.
        n_iter_, converged_: number of M-steps after the start, and whether the last one gained less than tol.
        classes_: the classes of a fit with labels; component k < len(classes_) is class k.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture
        >>> X = np.array([[0.0], [0.2], [np.nan], [9.9], [10.1]])
        >>> model = GaussianMixture(n_components=2, random_state=0).fit(X)
        >>> np.sort(model.means_.ravel()).round(1).tolist()
        [0.1, 10.0]
    """

    theta_: GaussianTheta
    weights_ = parameter("weights")
    means_ = parameter("means")
    covariances_ = parameter("covariances")
    precisions_ = parameter("precisions")
    precisions_cholesky_ = parameter("precisions_cholesky")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MixtureModel._parameter_constraints | {
        "covariance_type": [StrOptions(set(STRUCTURES))],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", Real, None],
        "prior": [ConjugatePrior, None],
        "algorithm": [StrOptions({"em", "gradient"})],
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
        "acceleration": [StrOptions({"squarem"}), None],
        "freeze": [tuple, list],
        "noise": ["boolean"],
    }
    STRUCTURES: ClassVar[tuple[str, ...]] = MCLUST

    def __init__(
        self,
        n_components: int | None = None,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "portfolio",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        label_weight: float = 1.0,
        prior: ConjugatePrior | None = None,
        algorithm: str = "em",
        learning_rate: float = 1.0,
        acceleration: str | None = None,
        freeze: Sequence[str] = (),
        noise: bool = False,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.label_weight = label_weight
        self.prior = prior
        self.algorithm = algorithm
        self.learning_rate = learning_rate
        self.acceleration = acceleration
        self.freeze = freeze
        self.noise = noise

    def marginal(self, columns: Sequence[int | str]) -> GaussianMixture:
        """The mixture of some features, by number or name, in the order given."""
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            raise ValueError(f"columns={columns!r} must be a list of columns, such as [{columns!r}]")
        numbers = [self._column(c) for c in columns]
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"columns={list(columns)!r} must name at least one feature, and none twice")
        return self._derived(marginal(self.theta_, self._places(numbers)), numbers)

    def condition(self, given: Mapping[int | str, float]) -> GaussianMixture:
        """The mixture of the other features given values of some, by number or name."""
        check_is_fitted(self)
        x = torch.full((self.n_features_in_,), torch.nan, dtype=torch.float64)
        for column, value in dict(given).items():
            if not np.isfinite(value):
                raise ValueError(f"given sets {column!r} to {value}; give a finite value, or leave the feature out")
            x[self._column(column)] = float(value)
        rest = x.isnan().nonzero().squeeze(1).tolist()
        if len(rest) in (0, len(x)):
            raise ValueError(f"given names {len(given)} of {len(x)} features; give at least one and leave at least one")
        return self._derived(condition(self.theta_, self._kind.narrow(x, 0)), rest)

    def given_rest(self, X: Any, coverage: float = 0.9) -> GivenRest:
        """How likely every cell is given the rest of its row, and what it should have been; without noise."""
        x, kind = self._read(X)
        return beside_constants(
            gaussian_cells(self.theta_, lambda local: local.full(), x.double(), check_coverage(coverage)), kind
        )

    @classmethod
    def from_parameters(
        cls, weights: Any, means: Any, covariances: Any, covariance_type: str = "full"
    ) -> GaussianMixture:
        """A fitted mixture with these parameters, shaped as scikit-learn's attributes."""
        model = cls(len(weights), covariance_type=covariance_type)
        model._validate_params()
        if np.ndim(means) != 2 or len(means) != len(weights):
            raise ValueError(f"means has shape {np.shape(means)}; {len(weights)} weights need ({len(weights)}, d)")
        model.n_features_in_ = np.shape(means)[1]
        model.total_weight_ = 1.0
        model._kind = Kind("numpy", "float64")
        record = {"weights": weights, "means": means, "covariances": covariances}
        model.theta_ = theta_from(model.covariance_type, model.n_features_in_, record)
        return model

    def _problem(self, rows: Rows, start: GaussianTheta | None, frame: Frame | None) -> tuple[Problem, Frame]:
        structure, d = STRUCTURES[self.covariance_type], rows.x.shape[1]
        k, class_of = self._sizes(rows, start)
        # Covariances, their factors and the statistics of a step are as large as each other.
        need_memory(
            3 * 8 * math.prod(structure.covariance_shape(k, d)),
            f"covariance_type={self.covariance_type!r} with n_components={k} and {d} features",
            "choose covariance_type='diag', fewer features, or MixtureOfPPCA",
        )
        given = Given.of(self, structure, k, int(self.n_features_in_), rows.kind)
        kept = given.only(self.freeze)

        def begin(
            verbs: MixtureVerbs[AnyGaussians], rows: Rows, source: Source, frame: Frame, generator: torch.Generator
        ) -> GaussianTheta:
            here = given.within(frame)
            if here.is_everything:
                return here.into(verbs.equal())
            return here.into(start_by(self.init_params, here.means)(verbs, rows, source, frame, generator))

        return mixture_problem(
            self,
            GaussianFamily(
                structure, self.reg_covar, prior_of_columns(self.prior, rows.kind), kept.means, kept.covariances
            ),
            k,
            rows,
            begin,
            start=start,
            frame=frame,
            concentration=None if self.prior is None else self.prior.weight_concentration,
            weights=kept.weights,
            class_of=class_of,
            noise=self._noise(rows, start, frame),
            algorithm=self._algorithm(),
        )

    def _sizes(self, rows: Rows, start: GaussianTheta | None) -> tuple[int, Tensor | None]:
        """K, and the class of every component where a class may have several."""
        return n_components_of(self, rows, start), None

    def _algorithm(self) -> em.Algorithm[Any, Any]:
        if self.algorithm == "gradient":
            if self.acceleration is not None:
                raise ValueError(
                    f"acceleration={self.acceleration!r} extrapolates EM's steps; use it with algorithm='em'"
                )
            return em.gradient(self.learning_rate)
        return em.squarem if self.acceleration == "squarem" else em.plain

    @property
    def n_parameters_(self) -> int:
        """Free parameters: weights, means and covariances, but for those in `freeze`."""
        check_is_fitted(self)
        k, d = self.theta_.components.means.shape
        free = {
            "weights": len(self.theta_.weights) - 1,
            "means": k * d,
            "covariances": self.theta_.components.n_parameters - k * d,
        }
        return sum(count for name, count in free.items() if name not in self.freeze)

    def _unused(self, rows: Rows) -> dict[str, str]:
        unused = super()._unused(rows)
        if self.algorithm != "gradient":
            unused["learning_rate"] = "algorithm='em' has no steps of that size; give algorithm='gradient'"
        if all(given is not None for given in (self.weights_init, self.means_init, self.precisions_init)):
            reason = "weights_init, means_init and precisions_init are the whole start; leave one of them out"
            unused |= {"init_params": reason, "n_init": reason}
        if "covariances" in self.freeze:
            unused["reg_covar"] = "freeze keeps the covariances as they are given"
        return unused

    def _n_parameters(self) -> int:
        # scikit-learn's name: private there, but read by much code.
        return self.n_parameters_

    def _places(self, columns: list[int]) -> Tensor:
        """Where theta has those of these columns that vary."""
        place = torch.full((self.n_features_in_,), -1)
        varying = self._kind.narrow(torch.arange(self.n_features_in_), 0)
        place[varying] = torch.arange(len(varying))
        found = place[columns]
        return found[found >= 0]

    def _derived(self, theta: GaussianTheta, columns: list[int]) -> GaussianMixture:
        """A fitted mixture of some of the features."""
        model = type(self)(**self.get_params(deep=False))
        model.covariance_type = theta.components.form.name
        if "n_components" in self.get_params(deep=False):
            model.n_components = theta.n_components
        model.theta_, model.n_features_in_, model.total_weight_ = theta, len(columns), self.total_weight_
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            model.feature_names_in_ = names[columns]
        kept = None if self._kind.columns is None else [self._kind.columns[c] for c in columns]
        constants = None if self._kind.constants is None else self._kind.constants.of_columns(columns)
        model._kind = replace(self._kind, columns=kept, constants=constants)
        if hasattr(self, "classes_"):
            model.classes_ = self.classes_
        return model

    def _theta_record(self) -> dict[str, Any]:
        return theta_record(self.theta_)

    def _theta_from(self, record: dict[str, Any]) -> GaussianTheta:
        return theta_from(self.covariance_type, self._n_varying, record)
