"""K-medoids: clusters around rows, for any dissimilarity.

    loss = Σ_i w_i min_j d(x_i, x_{m_j}),  where the medoids m_1..m_K are rows of X
    z_i = argmin_j d(x_i, x_{m_j});  the medoid of a cluster is the row with the least total dissimilarity to it
Kaufman & Rousseeuw (1990), chapter 2 (PAM); the search is FasterPAM, Schubert & Rousseeuw (2021), in `faster_pam`.
A dissimilarity is not a density, so there is no likelihood and no bound. KMeans and GaussianMixture have both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from jensen.contract import LatentVariableModel, not_offered, warn_unused
from jensen.contract.capabilities import ByArguments, Capabilities
from jensen.contract.fitted import Fitted
from jensen.data.cells import check_finite
from jensen.data.columns import Columns
from jensen.data.container import Kind
from jensen.data.infer import learn_columns
from jensen.data.reader import check_spread, column_names, known_names, read_rows, read_table, read_weights
from jensen.engines.em.seeding import check_distinct, distinct_rows, draw_different
from jensen.models.clusters import distances as dissimilarity
from jensen.models.clusters.faster_pam import Swapped, build, faster_pam
from jensen.models.clusters.gower import check_params, gower_params, gower_rows
from jensen.models.clusters.medoids import Medoids, medoids_from
from jensen.runtime.messages import levels_inside

NO_DENSITY = "a dissimilarity has no density, so K medoids have no likelihood; KMeans and GaussianMixture have one"


def rows_of(model: KMedoids) -> Any:
    """The medoids: a tensor, or for "gower" rows of the kind of table that the user gave."""
    if model.theta_.rows is None:
        raise AttributeError("metric='precomputed' has no rows, so no cluster_centers_; see medoid_indices_")
    return model.theta_.rows if model._columns is None else model._columns.table(model.theta_.rows, model._kind)


CAN = Capabilities(predict=True, weights=True)


def abilities(model: KMedoids) -> Capabilities:
    """What the metric allows."""
    return replace(CAN, missing_in_fit=model.metric in dissimilarity.TAKES_MISSING, text=model.metric == "gower")


class KMedoids(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, LatentVariableModel):
    """K-medoids by FasterPAM: K clusters, each around one of its rows; robust to outliers, for any dissimilarity.

    A fit stores the distances between all distinct rows: n² numbers in the dtype of X.

    Args:
        n_clusters: K.
        metric: a metric of `sklearn.metrics.pairwise_distances`, for missing values "nan_euclidean"; "gower" for tables
            with text, levels, dates and missing values; a function of two rows; or "precomputed" if X is the square
            matrix of distances.
        metric_params: further arguments of the metric. For "seuclidean" and "mahalanobis" they default to the variances
            or the covariance of X. For "gower" {"weights": {column: weight}}, or one weight per column.
        init: "random" draws rows by their weight, "build" is PAM's greedy start; or K row numbers of X.
        n_init: number of random starts; the best result is kept. One start ends on average 0.3 % above the best known
            loss and at worst 4 %, the best of three on average 0.1 % (`benchmarks/kmedoids.py starts`).
        max_iter: largest number of rounds over the candidates; 0 returns the start.
        random_state: seed or RandomState.
        verbose: 1 shows a progress bar on a terminal.
        columns: for "gower", {column: kind} for columns that are not what they look like: "number", "count", "level",
            "yes/no" or "date".

    Attributes:
        medoid_indices_: row numbers of the medoids in X.
        cluster_centers_: the rows of the medoids, for "gower" as a table like X; not for "precomputed".
        columns_: for "gower", what every column is.
        theta_: both as one frozen record of tensors.
        labels_: the cluster of each training row, including rows of weight 0.
        inertia_: the loss.
        n_iter_: number of rounds over the candidates, the last of which found no improvement.
        metric_params_: the further arguments of the metric that are used.

    Example:
        >>> from jensen import KMedoids
        >>> X = [[1.0], [2.0], [3.0], [40.0], [41.0], [60.0]]
        >>> model = KMedoids(n_clusters=2, metric="manhattan", random_state=0).fit(X)
        >>> sorted(model.cluster_centers_.ravel().tolist()), model.inertia_
        ([2.0, 41.0], 22.0)
    """

    theta_: Medoids
    medoid_indices_ = Fitted[np.ndarray](lambda model: model.theta_.indices)
    cluster_centers_ = Fitted[Any](rows_of)
    capabilities = ByArguments(CAN, abilities)
    _columns: Columns | None = None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "metric": [str, callable],
        "metric_params": [dict, None],
        "init": [StrOptions({"random", "build"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "columns": [Mapping, None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: dissimilarity.Metric = "euclidean",
        metric_params: dict[str, Any] | None = None,
        init: Any = "random",
        n_init: int = 3,
        max_iter: int = 300,
        random_state: Any = None,
        verbose: int = 0,
        columns: Mapping[str | int, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.metric_params = metric_params
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.columns = columns

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the medoids.

        Args:
            X: rows (n, d), or for "precomputed" distances (n, n), which are not copied. For "gower" a data frame may
                have columns of any kind.
            y: ignored.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._validate_params()
        if isinstance(self.metric, str):
            dissimilarity.check_metric(self.metric)
        warn_unused(self, self._unused_now())
        x, weight, kind = self._read_training(X, sample_weight)
        numbers, params = np.arange(len(x)), dict(self.metric_params or {})
        if self.metric == "precomputed":
            # The rows of a symmetric matrix are its columns: use those that are contiguous in memory.
            distances = x if x.flags.c_contiguous else x.T
            dissimilarity.check_distances(distances, "X")
            check_distinct("n_clusters", self.n_clusters, int((weight > 0).sum()))
        else:
            # Equal rows are merged into one with a larger weight and sorted, so the order of X does not matter.
            kept = np.flatnonzero(weight > 0)
            distinct, weight, _ = distinct_rows(x[kept], weight[kept], len(x), len(x))
            numbers = kept[distinct]
            check_distinct("n_clusters", self.n_clusters, len(numbers))
            if self._columns is not None:
                params = gower_params(self._columns, x[numbers], weight, params)
            params = dissimilarity.spread_params(self.metric, x[numbers], weight) | params
            distances = dissimilarity.all_distances(x[numbers], self.metric, params, kind.dtype, numbers)
        best = self._best_of_starts(distances, weight, self._given_start(x, numbers, weight))
        indices = numbers[best.medoids]
        centres = None if self.metric == "precomputed" else torch.from_numpy(x[indices])
        self.theta_, self.metric_params_ = Medoids(centres, torch.from_numpy(indices)), params
        self.inertia_, self.n_iter_ = best.loss, best.n_iter
        self._kind = kind.of_other_rows()
        self.labels_ = self._nearest(x)[0]
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the cluster of each row."""
        return self.fit(X, y, sample_weight)._kind.values(torch.from_numpy(self.labels_))

    def predict(self, X: Any) -> Any:
        """The number of the nearest medoid; ties go to the first."""
        x, kind = self._read_array(X, reset=False)
        return kind.values(torch.from_numpy(self._nearest(x)[0]))

    def transform(self, X: Any) -> Any:
        """Distances to the medoids, (n, K)."""
        x, kind = self._read_array(X, reset=False)
        return kind.values(torch.from_numpy(np.concatenate(list(self._to_medoids(x)))))

    def pairwise(self, X: Any) -> Any:
        """Distances between the rows of X, (n, n), in the metric of the fit."""
        x, kind = self._read_array(X, reset=False)
        if self.metric == "precomputed":
            return kind.values(torch.from_numpy(x))
        numbers = np.arange(len(x))
        found = dissimilarity.all_distances(x, self.metric, self.metric_params_, "float64", numbers)
        return kind.values(torch.from_numpy(found))

    @property
    def columns_(self) -> Columns:
        """What every column is; only for metric="gower"."""
        check_is_fitted(self)
        if self._columns is None:
            raise AttributeError(f"metric={self.metric!r} reads all columns as numbers; metric='gower' has columns_")
        return self._columns

    def posterior(self, X: Any) -> torch.distributions.Categorical:
        """q(z|x), one-hot: probability 1 for the nearest medoid."""
        nearest = torch.from_numpy(self._nearest(self._read_array(X, reset=False)[0])[0])
        one_hot = torch.nn.functional.one_hot(nearest, self._n_features_out)
        return torch.distributions.Categorical(probs=one_hot.to(torch.float64))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the loss for these rows; y is ignored."""
        near = self._nearest(self._read_array(X, reset=False)[0])[1]
        weight = read_weights(sample_weight, len(near))
        return -float(near.sum() if weight is None else near @ weight.numpy())

    score_samples = not_offered("score_samples", NO_DENSITY)
    bound = not_offered("bound", NO_DENSITY)
    sample = not_offered("sample", NO_DENSITY)
    impute = not_offered("impute", NO_DENSITY)
    impute_draws = not_offered("impute_draws", NO_DENSITY)

    @property
    def _n_features_out(self) -> int:
        return len(self.theta_.indices)

    def _unused_now(self) -> dict[str, str]:
        """Arguments that have no effect, and why."""
        unused = {}
        if not isinstance(self.init, str):
            unused["n_init"] = "init gives the rows to start from, so there is one start"
        elif self.init == "build":
            unused["n_init"] = "init='build' is deterministic, so there is one start"
        if self.metric != "gower":
            unused["columns"] = "only metric='gower' tells kinds of columns apart"
        if self.metric == "precomputed":
            unused["metric_params"] = "metric='precomputed' uses the given distances"
        return unused

    def _best_of_starts(self, distances: np.ndarray, weight: np.ndarray, start: np.ndarray | None) -> Swapped:
        """The medoids with the least loss, from the given start, the greedy one or `n_init` random ones."""
        if start is None and self.init == "build":
            start = build(distances, weight, self.n_clusters)
        generator = self._generator()
        found: list[Swapped] = []
        n_starts = self.n_init if start is None else 1
        while len(found) < n_starts and not (found and found[-1].interrupted):
            first = draw_different(weight, self.n_clusters, generator) if start is None else start
            progress = f"KMedoids {len(found) + 1}/{n_starts}" if self.verbose else None
            found.append(faster_pam(distances, weight, first, max_iter=self.max_iter, progress=progress))
        best = min(found, key=lambda swapped: swapped.loss)
        if not best.converged and not best.interrupted and self.max_iter > 0:
            warnings.warn(
                f"swaps still lowered the loss in round max_iter={self.max_iter}; raise max_iter",
                ConvergenceWarning,
                stacklevel=levels_inside(),
            )
        return best

    def _given_start(self, x: np.ndarray, numbers: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
        """The user's row numbers, if any, as positions among the distinct rows."""
        if isinstance(self.init, str):
            return None
        given, k = np.asarray(self.init), self.n_clusters
        if given.shape != (k,) or given.dtype.kind not in "iu" or not ((given >= 0) & (given < len(x))).all():
            raise ValueError(f"init={self.init!r} must be n_clusters={k} row numbers of X, from 0 to {len(x) - 1}")
        place = given
        if self.metric != "precomputed":
            rows = x[numbers]
            equal = [((rows == row) | (np.isnan(rows) & np.isnan(row))).all(1) for row in x[given]]
            place = np.array([np.flatnonzero(match)[0] if match.any() else -1 for match in equal])
        if len(np.unique(place)) < k or (place < 0).any() or (weight[place] == 0).any():
            raise ValueError(f"init={self.init!r} must name different rows, each with a sample_weight above 0")
        return place

    def _read_training(self, X: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, Kind]:
        """Rows as `_read_array` returns them, and the weight of each."""
        self._columns = None
        cells = read_rows(self, X, reset=True) if self.metric == "gower" else None
        x, kind = self._read_array(X, reset=True) if cells is None else (cells.numbers, cells.kind)
        given = read_weights(sample_weight, len(x))
        weight = np.ones(len(x)) if given is None else given.numpy()
        if cells is not None:
            check_finite(cells, names=known_names(self))
            kept = cells.take(np.flatnonzero(weight > 0))
            self._columns = learn_columns(kept, self.columns, kinds="all")
            x = gower_rows(self._columns, cells, in_fit=True)
        return x, weight, kind

    def _read_array(self, X: Any, *, reset: bool) -> tuple[np.ndarray, Kind]:
        """Rows as float64, for "gower" as codes, or given distances in their own type."""
        if not reset:
            check_is_fitted(self)
        if self._columns is not None:
            cells = read_rows(self, X, reset=False)
            check_finite(cells, names=known_names(self))
            return gower_rows(self._columns, cells), cells.kind
        if self.metric == "precomputed":
            return dissimilarity.read_distances(self, X, reset=reset)
        # Not every metric squares the values; the distances themselves are checked later.
        x, kind = read_table(self, X, reset=reset, largest=np.inf)
        missing = x.isnan().nonzero()
        if len(missing) and self.metric != "nan_euclidean":
            raise ValueError(
                f"X contains NaN, first in row {int(missing[0, 0])}, and metric={self.metric!r} has no distance for "
                "it; metric='nan_euclidean' uses the features that are observed in both rows, and so does 'gower'"
            )
        if reset and self.metric in ("euclidean", "nan_euclidean", "sqeuclidean", "l2"):
            check_spread(x.numpy(), column_names(self))
        return x.numpy(), kind

    def _to_medoids(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Distances (b, K) to the medoids for blocks of rows."""
        if self.theta_.rows is None:
            return dissimilarity.given_blocks(x, self.theta_.indices.numpy(), "X")
        return dissimilarity.blocks_to(x, self.theta_.rows.numpy(), self.metric, self.metric_params_)

    def _nearest(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of the nearest medoid and its distance, (n,) each."""
        found = [(block.argmin(1), block.min(1)) for block in self._to_medoids(x)]
        return np.concatenate([number for number, _ in found]), np.concatenate([near for _, near in found])

    def _theta_record(self) -> dict[str, Any]:
        rows = {} if self.theta_.rows is None else {"rows": self.theta_.rows}
        columns = {} if self._columns is None else {"columns": self._columns.record()}
        return {"indices": self.theta_.indices} | rows | columns

    def _theta_from(self, record: dict[str, Any]) -> Medoids:
        if not isinstance(self.metric_params_, dict):
            raise ValueError(f"metric_params_={self.metric_params_!r} must be a dict; the file is damaged")
        d = self.n_features_in_
        if self.metric == "gower":
            self._columns = Columns.from_record(record["columns"])
            d = len(self._columns.names)
            check_params(self.metric_params_, d)
        is_given = self.metric == "precomputed"
        return medoids_from(record, self.n_clusters, d, is_given, self.metric in dissimilarity.TAKES_MISSING)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self.metric == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
