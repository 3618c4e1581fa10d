"""K-means, and its use for placing stores.

    loss  Σ_i w_i min_j ‖x_i - μ_j‖²;   E:  y_i = argmin_j ‖x_i - μ_j‖²,   M:  μ_j = Σ_{y_i=j} w_i x_i / Σ_{y_i=j} w_i
This is EM for the mixture Σ_j N(μ_j, σ²I) / K with q restricted to one-hot (hard assignments). Its ELBO is not tight:
    ln p(x) ≥ ln N(x; μ_y, σ²I) - ln K,   σ² = loss / (d Σ w)
Lloyd (1982); Bishop (2006) 9.1. With missing values, distances and means use the observed entries (k-POD; Chi, Chi &
Baraniuk 2016). Other distances have other centres and densities, see `metrics`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from jensen.contract import Rows, Stream, warn_unused
from jensen.contract.capabilities import ByArguments
from jensen.data.constants import Constants
from jensen.data.container import Kind
from jensen.data.reader import check_columns, check_spread, column_names, read_array, read_weights
from jensen.engines.em.sources import Source
from jensen.files.scan import Scan
from jensen.models.clusters.base import CentreModel
from jensen.models.clusters.centres import Matrix, Pull
from jensen.models.clusters.depot import Depot
from jensen.models.clusters.inference import Centres, assign
from jensen.models.clusters.kmeans_arguments import (
    CAN,
    abilities,
    check_sums,
    has_density,
    takes_batches,
)
from jensen.models.clusters.kmeans_em import (
    centre_source,
    checked_limits,
    dense_rows,
    served_by,
    tensor_of,
    without_effect,
)
from jensen.models.clusters.kmeans_scan import fit_rows, fit_scan
from jensen.models.clusters.kmeans_start import Start, centre_starts, drawn_to, init_of_varying
from jensen.models.clusters.lloyd import Partition, best_partition
from jensen.models.clusters.metrics import METRICS, count_observed, is_complete
from jensen.models.clusters.outcome import Outcome, merged, outcome, outcome_of_stream, resumed
from jensen.runtime.messages import levels_inside


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, CentreModel):
    """K-means: a drop-in replacement for scikit-learn's, with missing values, an ELBO in nats, depots and size limits.

    Args:
        n_clusters: K.
        init: "k-means++" (greedy; independent of the order of the rows), "random" rows, centres (K, d), or a function
            of (X, n_clusters, random_state).
        n_init: number of starts; the best fit is kept. "auto" is 1 for "k-means++" and for given centres, otherwise 10.
        max_iter: largest number of steps; 0 returns the start.
        tol: stop when the squared movement of the centres is below this, relative to the mean variance of the features.
        verbose: 1 shows a progress bar on a terminal.
        random_state: seed or RandomState.
        copy_x: False centres X in place and restores it, which saves a copy and can change X by rounding.
        algorithm: "lloyd", or "elkan", which skips distances by the triangle inequality and gives the same result;
            "elkan" needs complete rows, no depot and no size limits.
        depot: None, or a `Depot` that supplies the centres.
        size_limits: None, or the least and the most weight of a cluster (number of rows, if there are no weights); the
            most may be None.
        metric: "euclidean", the squared distance with means as centres; "manhattan", Σ_f |x_f - μ_f| with medians
            (k-medians), which outliers move less; or "cosine", 1 - cos(x, μ) with mean directions (spherical k-means),
            for complete rows and without a density. Depots, size limits and batches need "euclidean".

    Attributes:
        cluster_centers_: μ (K, d). Can be set, for example to sort the centres; labels_ and other results of the fit
            stay as they are.
        labels_: the cluster of each training row; with size limits, the one that holds most of its weight.
        inertia_: the loss, Σ w ‖x - μ_y‖² or that of another metric: the cost of the customers. The depot's cost is
            supply_cost_, and their sum is cost_.
        cluster_weights_: the weight of each cluster (K,).
        theta_: centres, σ² and weights as one frozen record of tensors.
        lower_bound_: the ELBO per unit of weight in nats: the weighted mean of score_samples(X).
        n_iter_, converged_: number of steps, and whether the centres stopped moving before max_iter.

    Example:
        >>> import numpy as np
        >>> from jensen import KMeans
        >>> X = np.array([[0.0, 1.0], [0.2, np.nan], [9.9, 5.0], [10.1, 5.0]])
        >>> model = KMeans(n_clusters=2, random_state=0).fit(X)
        >>> sorted(model.cluster_centers_[:, 0].round(1).tolist())
        [0.1, 10.0]
    """

    theta_: Centres
    capabilities = ByArguments(CAN, abilities)
    _stream: Stream | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means++", "random"}), callable, "array-like"],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "copy_x": ["boolean"],
        "algorithm": [StrOptions({"lloyd", "elkan"})],
        "depot": [Depot, None],
        "size_limits": ["array-like", None],
        "metric": [StrOptions(set(METRICS))],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "lloyd",
        depot: Depot | None = None,
        size_limits: Sequence[float | None] | None = None,
        metric: str = "euclidean",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.algorithm = algorithm
        self.depot = depot
        self.size_limits = size_limits
        self.metric = metric

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, is_batch: bool = False) -> Self:
        """Find the centres; X may be a sparse matrix, and y is ignored."""
        self._validate_params()
        if isinstance(X, Scan):
            fit_scan(self, X)
            return self
        x, weight, kind = self._read_training(X, sample_weight, reset=True)
        counted = slice(None) if weight is None else np.flatnonzero(weight > 0)
        rows, mass = x[counted], None if weight is None else weight[counted]
        if not issparse(rows):
            names = column_names(self)
            check_columns(rows, names)
            check_spread(rows, names)
        kind = replace(kind, constants=None if is_batch else self._constants_of(rows))
        pull, metric = self._pull(), self._metric
        check_sums(self)
        init = init_of_varying(self.init, rows, kind, self.n_clusters, metric)
        x = kind.narrow(x, 1)
        rows = metric.rows(x)[counted]
        total = float(rows.shape[0] if mass is None else mass.sum())
        limits = checked_limits(self.size_limits, self.n_clusters, total)
        is_plain = self.max_iter > 0 and pull is None and limits is None and is_complete(rows)
        is_direct = is_plain or bool(metric.no_sums)
        warn_unused(self, without_effect(self.depot, is_plain and not metric.no_sums, limits, total))
        rows = rows if is_direct else dense_rows(rows)
        start, generator = centre_starts(rows, mass, self.n_clusters, init, metric), self._generator()
        if pull is not None and pull.chooses and isinstance(self.init, str):
            start = drawn_to(pull, start)
        if not rows.shape[1]:
            # Constants alone: one cluster, and every row in it.
            self.n_iter_, self.converged_, labels = 0, True, np.zeros(rows.shape[0], dtype=np.int64)
            self._keep(outcome(np.zeros((1, 0)), np.array([total]), 0.0, 0.0, 0.0, metric), None)
        elif is_direct:
            labels = self._fit_directly(rows, mass, start, generator)
        else:
            labels = self._fit_engine(dense_rows(rows), mass, start, generator, pull, limits)
        self._kind = kind.of_other_rows()
        self.labels_ = labels
        if len(labels) < x.shape[0]:
            # Rows of weight 0 get a label too.
            self.labels_ = metric.assign(self.theta_, x, pull).label.numpy()
            self.labels_[counted] = labels
        return self

    partial_fit = available_if(takes_batches)(CentreModel.partial_fit)
    statistics = available_if(takes_batches)(CentreModel.statistics)
    merge = available_if(takes_batches)(CentreModel.merge)
    score_samples = available_if(has_density)(CentreModel.score_samples)
    bound = available_if(has_density)(CentreModel.bound)
    sample = available_if(has_density)(CentreModel.sample)
    impute = available_if(has_density)(CentreModel.impute)
    impute_draws = available_if(has_density)(CentreModel.impute_draws)
    bic = available_if(has_density)(CentreModel.bic)
    aic = available_if(has_density)(CentreModel.aic)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the labels of the same rows."""
        return self.fit(X, y, sample_weight)._kind.values(torch.from_numpy(self.labels_))

    def transform(self, X: Any) -> Any:
        """Distances to the centres (n, K), over the observed features."""
        x, kind = self._read_array(X)
        metric = self._metric
        return kind.values(metric.with_loss(metric.distances(self.theta_, x), metric.loss_beside(kind)))

    @property
    def _n_init(self) -> int:
        """The number of starts; scikit-learn has the same name."""
        if not (isinstance(self.init, str) or callable(self.init)):
            if self.n_init not in ("auto", 1):
                warnings.warn(
                    "Explicit initial center position passed: performing only one init in KMeans instead of "
                    f"n_init={self.n_init}.",
                    RuntimeWarning,
                    stacklevel=levels_inside(),
                )
            return 1
        if self.n_init == "auto":
            return 1 if isinstance(self.init, str) and self.init == "k-means++" else 10
        return int(self.n_init)

    def _find_constants(self, x: Any) -> Constants | None:
        # A depot draws the stores away from a value that all customers share.
        return super()._find_constants(x) if self.depot is None and self._metric.of_differences else None

    def _share_of(self, x: Any) -> float:
        """The share of columns that vary: as in scikit-learn, `tol` is relative to the mean variance of all of them."""
        return float(x.shape[1] / self.n_features_in_)

    def _fit_directly(
        self, x: Matrix, weight: np.ndarray | None, start: Start, generator: torch.Generator
    ) -> np.ndarray:
        """Fit by the metric's own steps, for squared distances the compiled loop; returns labels (n,)."""
        metric, algorithm = self._metric, self.algorithm
        if algorithm == "elkan" and self.n_clusters == 1:
            warnings.warn(
                "algorithm='elkan' doesn't make sense for a single cluster. Using 'lloyd' instead.",
                RuntimeWarning,
                stacklevel=levels_inside(),
            )
            algorithm = "lloyd"

        def run(centres: np.ndarray, n_steps: int) -> Partition:
            return metric.run(
                x,
                weight,
                centres,
                max_iter=n_steps,
                tol=self._share_of(x) * self.tol,
                algorithm=algorithm,
                may_overwrite=not self.copy_x,
            )

        found = best_partition(
            run,
            [start(generator) for _ in range(self._n_init)],
            max_iter=self.max_iter,
            progress="KMeans" if self.verbose else None,
        )
        self.n_iter_, self.converged_ = found.n_iter, found.n_iter < self.max_iter
        if not self.converged_ and self.max_iter > 0:
            self._warn_of_no_convergence()
        weights = np.bincount(found.labels, weight, minlength=self.n_clusters).astype(np.float64)
        n_entries = float(weights.sum() * x.shape[1])
        if not is_complete(x):
            n_entries = float(count_observed(x).sum() if weight is None else count_observed(x) @ weight)
        centres = found.centres.astype(np.float64)
        self._keep(outcome(centres, weights, found.inertia, 0.0, n_entries, metric), None)
        return found.labels.astype(np.int64)

    def _fit_engine(
        self,
        x: np.ndarray,
        weight: np.ndarray | None,
        start: Start,
        generator: torch.Generator,
        pull: Pull | None,
        limits: tuple[float, float] | None,
    ) -> np.ndarray:
        """Fit by the EM engine, which handles missing values, depots and limits; returns labels (n,)."""
        if self.algorithm == "elkan":
            raise ValueError(
                "algorithm='elkan' is for complete rows without depot and size_limits; use algorithm='lloyd'"
            )
        mass = None if weight is None else torch.from_numpy(weight)
        rows = Rows(tensor_of(x), mass, None, np.array([]), Kind("numpy", "float64"))
        problem, fitted = fit_rows(self, rows, start, generator, pull, limits)
        found = assign(self.theta_, x, pull)
        if limits is None:
            return found.label.numpy()
        # The ELBO holds for any assignment and is largest at the nearest centre, which limits may not allow.
        log_density = np.average(self._log_density(found).numpy(), weights=weight)
        self.lower_bound_ = float(log_density) - math.log(self._n_features_out)
        return served_by(problem, fitted.theta).numpy()

    def _resume(self, rows: Rows) -> tuple[Stream, Source]:
        stream = getattr(self, "_stream", None) or resumed(self.theta_, self._pull())
        return stream, centre_source(rows, stream.frame)

    def _take_step(self, stream: Stream, rows: Rows) -> None:
        self._keep_stream(stream)
        self.labels_ = assign(self.theta_, rows.x.numpy(), self._pull()).label.numpy()

    def _take_merge(self, new: Stream, old: Stream, objective: float, has_settled: bool) -> tuple[float, bool]:
        kept, before, moved = merged(new, old, self._pull())
        self._keep_stream(kept)
        self.__dict__.pop("labels_", None)
        return before, moved <= self._share_of(old.theta) * self.tol

    def _keep_stream(self, stream: Stream) -> None:
        self._keep(outcome_of_stream(stream, self._pull()), stream)

    def _keep(self, outcome: Outcome, stream: Stream | None) -> None:
        self.theta_, self._stream = outcome.theta, stream
        self.inertia_, self.supply_cost_ = outcome.inertia, outcome.supply_cost
        self.cost_ = outcome.inertia + outcome.supply_cost
        if outcome.lower_bound is not None:
            self.lower_bound_ = outcome.lower_bound
        elif hasattr(self, "lower_bound_"):
            del self.lower_bound_  # of a fit with another metric

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """Rows without labels, sparse ones written out; those of weight 0 are kept, because they get a cluster too."""
        x, weight, kind = self._read_training(X, sample_weight, reset=reset)
        mass = None if weight is None else torch.from_numpy(weight)
        return Rows(tensor_of(dense_rows(x)), mass, None, np.array([]), kind)

    def _read_training(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, np.ndarray | None, Kind]:
        x, kind = read_array(self, X, reset=reset, sparse=True)
        weight = read_weights(sample_weight, x.shape[0])
        return x, None if weight is None else weight.numpy(), kind

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
