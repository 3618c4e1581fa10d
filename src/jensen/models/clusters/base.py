"""What fitted centres return about rows: assignments, scores, samples and imputations.

y = argmin_j d(x, μ_j),   ln p(x) ≥ ln p(x | μ_y) - ln K,   missing values at μ_y
For squared distances p(x | μ) = N(x; μ, σ²I); other distances have other densities, or none, see `metrics`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import EMEstimator, Stream, whole_number
from jensen.contract.fitted import Fitted, Values, not_negative, positive, read_values
from jensen.data.container import Kind, completed_frame
from jensen.data.labels import read_posterior
from jensen.data.reader import beside_model, read_array, read_weights
from jensen.files.scan import Scan
from jensen.formulas.information import entropies
from jensen.models.clusters.centres import Pull
from jensen.models.clusters.depot import Depot
from jensen.models.clusters.inference import Assignment, Centres
from jensen.models.clusters.kmeans_arguments import has_density
from jensen.models.clusters.kmeans_start import checked_centres
from jensen.models.clusters.metrics import METRICS, Metric

SCHEMA = {
    "centres": Values("K", "d"),
    "variance": Values(check=positive),
    "weights": Values("K", check=not_negative),
}


def moved(model: CentreModel, value: Any) -> Centres:
    """Theta with other centres; as their rows are unknown, all get the mean weight."""
    theta = model.theta_
    centres = checked_centres(value, theta.centres.shape[1], len(theta.centres))
    return Centres(torch.from_numpy(centres), theta.variance, theta.weights.mean().expand(len(centres)).clone())


class CentreModel(EMEstimator):
    """Equally likely components of one variance around K centres, each row assigned to one of them."""

    theta_: Centres
    metric: str
    depot: Depot | None
    _stream: Stream | None
    cluster_centers_ = Fitted[np.ndarray](lambda model: model.theta_.centres, moved, columns=(1,), constant=None)
    cluster_weights_ = Fitted[np.ndarray](lambda model: model.theta_.weights, dtype="float64")

    def predict(self, X: Any) -> Any:
        """The cluster of each row: the nearest centre, or with `Depot(assignment="assigned")` the cheapest."""
        found, kind = self._assign(X)
        return kind.values(found.label)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the loss, -Σ w ‖x - μ_y‖² as in scikit-learn; `score_samples` returns nats per row."""
        if isinstance(X, Scan):
            return sum(self.score(block.table, None, block.weight) for block in X)
        found, kind = self._assign(X)
        distance = found.distance + self._metric.loss_beside(kind)
        weight = read_weights(sample_weight, len(distance))
        return -float(distance.sum() if weight is None else distance @ weight)

    def score_samples(self, X: Any) -> Any:
        """ln p(x | μ_y) - ln K per row, a lower bound of ln p(x); -ln K for a row without observed values."""
        found, kind = self._assign(X)
        return kind.scores(self._log_density(found) - math.log(self._n_features_out))

    def bound(self, X: Any, q: Any = None) -> Bound:
        """E_q[ln p(x | μ_z)] and KL(q ‖ 1/K) per row: q is one-hot at the row's own cluster unless given (n, K)."""
        found, kind = self._assign(X)
        k = self._n_features_out
        if q is None:
            log_density = self._log_density(found)
            kl = torch.full_like(log_density, math.log(k))
        else:
            share = read_posterior(q, len(found.label), k)
            losses = self._metric.losses(self.theta_, self._read_array(X)[0])
            each = self._metric.log_density(losses, found.n_observed[:, None], self.theta_.variance)
            log_density, kl = (share * each).sum(1), math.log(k) - entropies(share)
        return Bound(kind.scores(log_density), {"cluster": kind.values(kl)}, is_exact=False)

    def posterior(self, X: Any) -> torch.distributions.Categorical:
        """q(z|x), one-hot: probability 1 for the row's own cluster."""
        label = self._assign(X)[0].label
        one_hot = torch.nn.functional.one_hot(label, self._n_features_out).to(torch.float64)
        return torch.distributions.Categorical(probs=one_hot)

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows around centres drawn with equal probability, and the cluster of each; y chooses one, or one per row."""
        check_is_fitted(self)
        n, k, generator = self._n_samples(n_samples), self._n_features_out, self._generator(random_state)
        if y is None:
            z = torch.randint(k, (n,), generator=generator).sort().values
        else:
            values = np.asarray(y)
            if values.shape not in ((), (n,)) or not np.isin(values, np.arange(k)).all():
                raise ValueError(f"y={y!r} must be the number of a cluster, 0..{k - 1}, or {n} such numbers")
            z = torch.from_numpy(np.broadcast_to(values, (n,)).astype(np.int64))
        noise = self._metric.noise((n, self._n_varying), generator)
        x = self.theta_.centres[z] + math.sqrt(self.theta_.variance) * noise
        return self._kind.table(x), self._kind.values(z)

    def impute(self, X: Any) -> Any:
        """X with missing values taken from the row's centre; observed values are returned bit for bit."""
        x, means, kind = self._centres_of(X)
        return completed_frame(X, kind.completed(torch.where(x.isnan(), means, x)))

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing values drawn around the row's centre, with variance σ²."""
        x, means, kind = self._centres_of(X)
        n, generator, std = whole_number("n_draws", n_draws), self._generator(random_state), self.theta_.variance**0.5
        draws = (means + std * self._metric.noise(tuple(x.shape), generator) for _ in range(n))
        return [completed_frame(X, kind.completed(torch.where(x.isnan(), drawn, x))) for drawn in draws]

    @property
    def n_parameters_(self) -> int:
        """Free parameters: the centres and σ²."""
        check_is_fitted(self)
        has_density(self)
        n = self.theta_.centres.numel()
        return n + 1 if n else 0

    @property
    def _n_features_out(self) -> int:
        return len(self.theta_.centres)

    def _assign(self, X: Any) -> tuple[Assignment, Kind]:
        x, kind = self._read_array(X)
        return self._metric.assign(self.theta_, x, self._pull()), kind

    def _read_array(self, X: Any) -> tuple[Any, Kind]:
        """Rows in their own floating type, which may be sparse."""
        check_is_fitted(self)
        return beside_model(self, *read_array(self, X, reset=False, sparse=True), self._kind)

    def _log_density(self, found: Assignment) -> Tensor:
        return self._metric.log_density(found.distance, found.n_observed, self.theta_.variance)

    def _centres_of(self, X: Any) -> tuple[Tensor, Tensor, Kind]:
        """Rows (n, d), and the centre of each (n, d)."""
        x, kind = self._read(X)
        return x, self.theta_.centres[self._metric.assign(self.theta_, x.numpy(), self._pull()).label], kind

    @property
    def _metric(self) -> Metric:
        # A fit reports names that are not known.
        return METRICS.get(self.metric, METRICS["euclidean"])

    def _pull(self) -> Pull | None:
        return None if self.depot is None else self.depot.pull(self.n_features_in_)

    def _theta_record(self) -> dict[str, Tensor]:
        theta = self.theta_
        return {
            "centres": theta.centres,
            "variance": torch.tensor(theta.variance, dtype=torch.float64),
            "weights": theta.weights,
        }

    def _theta_from(self, record: dict[str, Tensor]) -> Centres:
        found = read_values(record, SCHEMA, d=self._n_varying)
        return Centres(found["centres"], float(found["variance"]), found["weights"])
