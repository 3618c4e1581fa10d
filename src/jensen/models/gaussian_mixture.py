"""Gaussian mixture.

    z ~ Categorical(π),  x | z=k ~ N(μ_k, Σ_k)
    E:  q_ik ∝ π_k N(x_i; μ_k, Σ_k)
    M:  π_k = N_k / N,  μ_k = Σ_i q_ik x_i / N_k,  Σ_k = Σ_i q_ik (x_i-μ_k)(x_i-μ_k)ᵀ / N_k
Bishop (2006) 9.23-9.27; missing features Ghahramani & Jordan (1994); priors Fraley & Raftery (2007).
The bound is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import EMEstimator, Rows, Stream, whole_number
from jensen.engines import em
from jensen.engines.threads import threads_for
from jensen.interop.labels import decode_labels
from jensen.interop.tables import Kind
from jensen.models.conjugate_prior import ConjugatePrior
from jensen.models.mixture import GaussianTheta
from jensen.models.mixture_answers import (
    bound_terms,
    condition,
    draw,
    fill,
    fill_draws,
    log_evidence,
    marginal,
    responsibilities,
)
from jensen.models.mixture_attributes import ThetaAttribute, checked_theta, theta_record
from jensen.models.mixture_problem import CONSTRAINTS, mixture_problem, read_posterior

__all__ = ["GaussianMixture"]


class GaussianMixture(EMEstimator):
    """A mixture of K Gaussians by EM: a drop-in for scikit-learn's, with weights, labels, missing values and priors.

    Args:
        n_components: K; None is the number of classes in y, or 1.
        covariance_type: "full", "tied", "diag" or "spherical".
        tol: EM stops when a step gains less than this many nats per unit of weight.
        reg_covar: no variance (eigenvalue, for "full" and "tied", of the covariance in standardised features) falls
            below this share of the data's (at least 1e-10, where rounding begins); 0 sets no floor, and a collapsing
            component is an error.
        max_iter: M-steps at most; 0 returns the start.
        n_init: fits from different starts; the most plausible is kept.
        init_params: "portfolio" (several scalings, short runs, the best goes on), or scikit-learn's "kmeans",
            "k-means++", "random", "random_from_data".
        weights_init, means_init, precisions_init: given starting values.
        random_state: seed or RandomState.
        warm_start: start from the last fit.
        verbose: 1 shows a progress bar on a terminal.
        verbose_interval: steps after which the bar tells the objective anew.
        label_weight: α, how much a labelled row counts beside an unlabelled one.
        prior: None for maximum likelihood, or a `ConjugatePrior` for the posterior mode.
        algorithm: "em", or "gradient" for gradient EM.
        learning_rate: first step size of gradient EM, halved where it overshoots.
        acceleration: None, or "squarem" to extrapolate EM's steps.
        freeze: names among "weights", "means", "covariances" whose given starting values stay.

    Attributes:
        weights_, means_, covariances_, precisions_, precisions_cholesky_: as in scikit-learn; the divisor is N_k.
        theta_: the same parameters as one frozen value of tensors.
        total_weight_: of all rows learnt from.
        lower_bound_: the objective per unit of weight; equals score(X) without weights, labels and prior.
        lower_bounds_: its history, one value after every step.
        n_iter_, converged_: M-steps after the start's short runs, and whether the last one gained less than tol.
        classes_: after a fit with labels; component k < len(classes_) is class k.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture
        >>> X = np.array([[0.0], [0.2], [np.nan], [9.9], [10.1]])
        >>> model = GaussianMixture(n_components=2, random_state=0).fit(X)
        >>> np.sort(model.means_.ravel()).round(1).tolist()
        [0.1, 10.0]
    """

    theta_: GaussianTheta
    classes_: np.ndarray
    weights_ = ThetaAttribute("weights")
    means_ = ThetaAttribute("means")
    covariances_ = ThetaAttribute("covariances")
    precisions_ = ThetaAttribute("precisions")
    precisions_cholesky_ = ThetaAttribute("precisions_cholesky")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit by EM from the most promising start.

        Args:
            X: rows (n, d), NaN where missing.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        rows = self._read_rows(X, y, sample_weight, reset=True)
        start = self.theta_ if self.warm_start and hasattr(self, "theta_") else None
        problem, frame = mixture_problem(self, rows, start)
        fitted = self._run(problem, self._generator(), self.n_init, self.verbose_interval)
        self.theta_ = fitted.theta.outside(frame)
        self.converged_, self.n_iter_ = fitted.converged, fitted.n_iter
        self.lower_bound_, self.lower_bounds_ = fitted.objective, fitted.history[1:]
        self.total_weight_ = fitted.weight
        self._remember(rows)
        mean_stats = fitted.stats * (1 / fitted.weight)
        self._stream: Stream | None = Stream(frame, problem.verbs, em.Running(mean_stats, fitted.weight))
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, then `predict` the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """One step of stepwise EM with a batch of rows; the first batch is a `fit`, for the units and the classes.

        After `fit` or `jensen.load` it goes on from there; what a batch changes falls with the weight seen before it.
        """
        if not hasattr(self, "theta_"):
            return self.fit(X, y, sample_weight)
        self._validate_params()
        rows = self._read_rows(X, y, sample_weight, reset=False)
        stream = getattr(self, "_stream", None)
        frame = stream.frame if stream else self.theta_.frame()
        problem, _ = mixture_problem(self, rows, self.theta_, frame)
        theta = self.theta_.within(frame)
        if stream is None:
            # A loaded model has no statistics, but they are those of its own rows.
            running = em.Running(theta.components.expected_moments(theta.weights), self.total_weight_)
            stream = Stream(frame, problem.verbs, running)
        with threads_for(problem.source.n_numbers):
            theta, running = em.stepwise(stream.verbs, theta, problem.source, stream.running)
        self.theta_, self.total_weight_ = theta.outside(frame), running.weight
        self._stream = Stream(frame, stream.verbs, running)
        return self

    def score_samples(self, X: Any) -> Any:
        """ln p(x) per row, over the features that are observed; a row with none has ln p = 0."""
        x, kind = self._read(X)
        return kind.values(log_evidence(self.theta_, x))

    def bound(self, X: Any, q: Any = None) -> Bound:
        """E_q[ln p(x|z)] and KL(q ‖ π) per row: exact with the posterior as q, a lower bound with any other (n, K).

        With one-hot q the total is the joint ln p(x, z).
        """
        x, kind = self._read(X)
        given = None if q is None else read_posterior(q, len(x), len(self.theta_.weights))
        reconstruction, kl = bound_terms(self.theta_, x, given)
        return Bound(kind.values(reconstruction), {"component": kind.values(kl)}, is_exact=q is None)

    def posterior(self, X: Any) -> torch.distributions.Categorical:
        """q(z|x), a distribution over components per row."""
        return torch.distributions.Categorical(probs=responsibilities(self.theta_, self._read(X)[0]))

    def predict_proba(self, X: Any) -> Any:
        """q(k|x), (n, K)."""
        x, kind = self._read(X)
        return kind.values(responsibilities(self.theta_, x))

    def predict(self, X: Any) -> Any:
        """The most probable component, or after a fit with labels its class."""
        x, kind = self._read(X)
        component = responsibilities(self.theta_, x).argmax(1)
        if not hasattr(self, "classes_"):
            return kind.values(component)
        labels = decode_labels(component.cpu().numpy(), self.classes_)
        return torch.as_tensor(labels) if kind.container == "torch" and labels.dtype.kind in "iufb" else labels

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the component each came from; y asks for a class (or component), one for all rows or one each."""
        check_is_fitted(self)
        n = whole_number("n_samples", n_samples)
        component = None if y is None else self._components_of(y, n)
        x, component = draw(self.theta_, n, self._generator(random_state), component)
        return self._kind.table(x), self._kind.values(component)

    def impute(self, X: Any) -> Any:
        """X with missing entries at their posterior mean; observed ones bit for bit."""
        x, kind = self._read(X)
        return kind.table(fill(self.theta_, x))

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        x, kind = self._read(X)
        draws = fill_draws(self.theta_, x, whole_number("n_draws", n_draws), self._generator(random_state))
        return [kind.table(values) for values in draws]

    def marginal(self, columns: Sequence[int | str]) -> GaussianMixture:
        """The mixture of some features, by number or name, in the order given."""
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            raise ValueError(f"columns={columns!r} must be a list of columns, such as [{columns!r}]")
        numbers = [self._column(c) for c in columns]
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"columns={list(columns)!r} must name at least one feature, and none twice")
        return self._derived(marginal(self.theta_, torch.tensor(numbers)), numbers)

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
        return self._derived(condition(self.theta_, x), rest)

    def icl(self, X: Any) -> float:
        """bic + 2 Σ H(q): also asks that components be apart (Biernacki, Celeux & Govaert 2000)."""
        return self.bic(X) + 2 * float(self.posterior(X).entropy().sum())

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
        model.theta_ = checked_theta(model.covariance_type, model.n_features_in_, record)
        return model

    @property
    def n_parameters_(self) -> int:
        """Free parameters: weights, means and covariances."""
        check_is_fitted(self)
        return self._n_parameters()

    def _n_parameters(self) -> int:
        # scikit-learn's name: private there, but read by much code.
        k, d = self.theta_.components.means.shape
        return k - 1 + int(self.theta_.components.n_parameters(k, d))

    def _remember(self, rows: Rows) -> None:
        self._kind = rows.kind.of_other_rows()
        if hasattr(self, "classes_"):
            del self.classes_
        if rows.label is not None:
            self.classes_ = rows.classes

    def _components_of(self, y: Any, n: int) -> Tensor:
        values = np.asarray(y)
        if values.shape not in ((), (n,)):
            raise ValueError(f"y has shape {values.shape}; give one class, or one for each of n_samples={n} rows")
        values = np.broadcast_to(values, (n,))
        known = getattr(self, "classes_", np.arange(len(self.theta_.weights)))
        if not np.isin(values, known).all():
            raise ValueError(f"y={y!r} is not among {known.tolist()}; sample from one of these")
        return torch.from_numpy(np.searchsorted(known, values))

    def _derived(self, theta: GaussianTheta, columns: list[int]) -> GaussianMixture:
        """A fitted mixture of some of the features."""
        model = GaussianMixture(**{**self.get_params(deep=False), "n_components": len(theta.weights)})
        model.theta_, model.n_features_in_, model.total_weight_ = theta, len(columns), self.total_weight_
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            model.feature_names_in_ = names[columns]
        kept = None if self._kind.columns is None else [self._kind.columns[c] for c in columns]
        model._kind = Kind(self._kind.container, self._kind.dtype, None, kept, self._kind.device)
        if hasattr(self, "classes_"):
            model.classes_ = self.classes_
        return model

    def _theta_record(self) -> dict[str, Tensor]:
        return theta_record(self.theta_)

    def _theta_from(self, record: dict[str, Tensor]) -> GaussianTheta:
        return checked_theta(self.covariance_type, self.n_features_in_, record)
