"""The distances of k-means, each with the centre that is best for it and the density that belongs to it.

    euclidean  ‖x - c‖²          c = mean                     N(x; c, σ²I)
    manhattan  Σ_f |x_f - c_f|   c = median of each feature   Π_f exp(-|x_f - c_f| / b) / 2b,   σ² = 2b²
    cosine     1 - cos(x, c)     c ∝ Σ w x / ‖x‖              none, because the length of a row does not count
K-medians: Bradley, Mangasarian & Street (1996). Spherical k-means: Dhillon & Modha (2001); it is the limit of a mixture
of von Mises-Fisher distributions (Banerjee et al. 2005), which are densities of directions, not of rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags_array, issparse
from scipy.spatial.distance import cdist
from torch import Tensor

from jensen.data.container import Kind
from jensen.engines.em.seeding import squared_distances
from jensen.models.clusters.alternate import alternate, medians, nearest, row_blocks
from jensen.models.clusters.centres import Matrix, Pull, hard_log_density
from jensen.models.clusters.inference import Assignment, Centres, assign, distances
from jensen.models.clusters.kmeans_em import dense_rows
from jensen.models.clusters.lloyd import Partition, lloyd

# Below this share of the data's spread, the spread around the centres is only rounding.
RESOLUTION = 1e-10


class Metric(ABC):
    """A distance of k-means.

    Attributes:
        no_density: why there are no scores and no samples; "" if there are.
        no_sums: why sums over batches do not give the centres, and depots and size limits cannot either; "" if they do.
        takes_missing: whether rows may have missing values.
        of_differences: whether the loss is a sum over features of differences, so that rows and centres may move
            together, and a feature with one value adds nothing.
    """

    no_density: ClassVar[str] = ""
    no_sums: ClassVar[str] = ""
    takes_missing: ClassVar[bool] = True
    of_differences: ClassVar[bool] = True

    def seeding(self, x: Tensor, squared: Tensor, centres: Tensor) -> Tensor:
        """The distances (k, n) of k-means++ and its swaps, see `engines.em.seeding`."""
        return squared_distances(x, squared, centres)

    def rows(self, x: Matrix) -> Matrix:
        """Rows as the distance compares them; an error names a row that it cannot compare."""
        return x

    @abstractmethod
    def run(
        self,
        x: Matrix,
        weight: np.ndarray | None,
        centres: np.ndarray,
        *,
        max_iter: int,
        tol: float,
        algorithm: str = "lloyd",
        may_overwrite: bool = False,
    ) -> Partition:
        """K-means steps from centres (K, d) for rows (n, d) as `rows` returns them; other arguments as in `lloyd`."""

    @abstractmethod
    def variance(self, loss: float, n_entries: float, centres: np.ndarray, weights: np.ndarray) -> float:
        """σ² with the largest bound, from the loss and the weight of the observed entries."""

    @abstractmethod
    def assign(self, theta: Centres, x: Matrix, pull: Pull | None) -> Assignment:
        """The cluster of each row, and its part of the loss."""

    @abstractmethod
    def distances(self, theta: Centres, x: Matrix) -> Tensor:
        """(n, K), as `transform` returns them."""

    def losses(self, theta: Centres, x: Matrix) -> Tensor:
        """The part of the loss (n, K) that a row would have with each centre."""
        return self.distances(theta, x)

    def loss_beside(self, kind: Kind) -> Tensor | float:
        """The part of the loss (n,) in columns that were constant in the training rows; all centres share it."""
        if kind.constants is None or kind.beside is None:
            return 0.0
        return self.loss_of(kind.constants.differences(kind.beside))

    def loss_of(self, differences: Tensor) -> Tensor:
        """The loss of each row (n,) from x - c (n, d)."""
        return differences.abs().sum(1)

    def with_loss(self, distances: Tensor, loss: Tensor | float) -> Tensor:
        """Distances (n, K) with another part of the loss (n,) that all centres share."""
        return distances if isinstance(loss, float) else distances + loss[:, None]

    def log_density(self, distance: Tensor, n_observed: Tensor | float, variance: float) -> Tensor:
        """ln p(x | y), from a part of the loss and the number of its observed entries."""
        raise NotImplementedError(self.no_density)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draws around a centre, with variance 1."""
        raise NotImplementedError(self.no_density)


class Euclidean(Metric):
    """Squared distances, means and Gaussians."""

    def run(
        self,
        x: Matrix,
        weight: np.ndarray | None,
        centres: np.ndarray,
        *,
        max_iter: int,
        tol: float,
        algorithm: str = "lloyd",
        may_overwrite: bool = False,
    ) -> Partition:
        return lloyd(x, weight, centres, max_iter=max_iter, tol=tol, algorithm=algorithm, may_overwrite=may_overwrite)

    def variance(self, loss: float, n_entries: float, centres: np.ndarray, weights: np.ndarray) -> float:
        between = float(weights @ np.square(centres - weights @ centres / weights.sum()).sum(1))
        return max(loss, RESOLUTION * (loss + between)) / n_entries or 1.0

    def assign(self, theta: Centres, x: Matrix, pull: Pull | None) -> Assignment:
        return assign(theta, x, pull)

    def distances(self, theta: Centres, x: Matrix) -> Tensor:
        return distances(theta, x)

    def losses(self, theta: Centres, x: Matrix) -> Tensor:
        return distances(theta, x).square_()

    def loss_of(self, differences: Tensor) -> Tensor:
        return differences.square().sum(1)

    def with_loss(self, distances: Tensor, loss: Tensor | float) -> Tensor:
        return distances if isinstance(loss, float) else (distances.square() + loss[:, None]).sqrt()

    def log_density(self, distance: Tensor, n_observed: Tensor | float, variance: float) -> Tensor:
        return hard_log_density(distance, n_observed, variance)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)


class Alternating(Metric):
    """A distance whose loss is its sum, fitted by steps of its own."""

    @abstractmethod
    def between(self, x: Matrix, centres: np.ndarray) -> np.ndarray:
        """Distances (n, K) from rows, as `rows` returns them, to centres."""

    @abstractmethod
    def best_centres(self, x: Matrix, weight: np.ndarray | None, labels: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The centres (K, d) with the least loss for these labels; an empty cluster keeps its centre."""

    def run(
        self,
        x: Matrix,
        weight: np.ndarray | None,
        centres: np.ndarray,
        *,
        max_iter: int,
        tol: float,
        algorithm: str = "lloyd",
        may_overwrite: bool = False,
    ) -> Partition:
        least_move = tol * mean_variance(x)
        return alternate(x, weight, centres, self.between, self.best_centres, max_iter=max_iter, least_move=least_move)

    def assign(self, theta: Centres, x: Matrix, pull: Pull | None) -> Assignment:
        rows = self.rows(x)
        label, distance = nearest(rows, theta.centres.numpy(), self.between)
        return Assignment(*map(torch.from_numpy, (label, distance, count_observed(rows))))

    def distances(self, theta: Centres, x: Matrix) -> Tensor:
        rows, centres = self.rows(x), theta.centres.numpy()
        return torch.from_numpy(np.concatenate([self.between(block, centres) for block in row_blocks(rows, centres)]))


class Manhattan(Alternating):
    """Sums of absolute differences, medians and Laplace distributions."""

    no_sums = "metric='manhattan' has medians as centres, which do not follow from sums over rows: use fit"

    def seeding(self, x: Tensor, squared: Tensor, centres: Tensor) -> Tensor:
        return torch.cdist(centres.T.contiguous(), x.T.contiguous(), p=1.0)

    def rows(self, x: Matrix) -> Matrix:
        return dense_rows(x)

    def between(self, x: Matrix, centres: np.ndarray) -> np.ndarray:
        rows = dense_rows(x)
        missing = np.isnan(rows)
        if not missing.any():
            return np.asarray(cdist(rows, centres, "cityblock"))
        # Missing values are set to 0, and what they add is taken off again; near 0 this loses no digits.
        middle = centres.mean(0)
        rows, centres = np.where(missing, 0.0, rows - middle), centres - middle
        return np.asarray((cdist(rows, centres, "cityblock") - missing @ np.abs(centres).T).clip(min=0))

    def best_centres(self, x: Matrix, weight: np.ndarray | None, labels: np.ndarray, before: np.ndarray) -> np.ndarray:
        return medians(dense_rows(x), weight, labels, before)

    def variance(self, loss: float, n_entries: float, centres: np.ndarray, weights: np.ndarray) -> float:
        between = float(weights @ np.abs(centres - weights @ centres / weights.sum()).sum(1))
        scale = max(loss, math.sqrt(RESOLUTION) * (loss + between)) / n_entries
        return 2 * scale**2 or 1.0

    def log_density(self, distance: Tensor, n_observed: Tensor | float, variance: float) -> Tensor:
        scale = math.sqrt(variance / 2)
        return -(n_observed * math.log(2 * scale) + distance / scale)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        # The difference of two exponential draws is a Laplace draw with variance 2.
        draws = torch.empty(2, *shape, dtype=torch.float64).exponential_(generator=generator)
        return (draws[0] - draws[1]) / math.sqrt(2)


class Cosine(Alternating):
    """Angles: rows and centres of length 1, and no density of rows."""

    no_density = (
        "metric='cosine' compares directions, and the length of a row does not count, so it has no density of rows; "
        "metric='euclidean' and metric='manhattan' have one"
    )
    no_sums = "metric='cosine' has directions as centres, not means: use fit"
    takes_missing = False
    of_differences = False

    def rows(self, x: Matrix) -> Matrix:
        if not is_complete(x):
            row = int((count_observed(x) < x.shape[1]).argmax())
            raise ValueError(
                f"X contains NaN, first in row {row}, and metric='cosine' needs the length of a row, that is "
                "all of its values; impute them first, or use metric='euclidean' or 'manhattan'"
            )
        # Squares of very large and very small values leave the range of numbers.
        largest = np.asarray(abs(x).max(1).toarray().ravel() if issparse(x) else np.abs(x).max(1), dtype=np.float64)
        if not largest.all():
            raise ValueError(
                f"X is 0 in all features of row {int((largest == 0).argmax())}, which has no direction, so "
                "metric='cosine' has no distance for it; drop such rows"
            )
        if isinstance(x, np.ndarray):
            rows = x / largest[:, None]
            return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        scaled = csr_matrix(diags_array(1 / largest) @ x)
        length = np.sqrt(np.asarray(scaled.multiply(scaled).sum(1)).ravel())
        return csr_matrix(diags_array(1 / length) @ scaled)

    def between(self, x: Matrix, centres: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(centres, axis=1, keepdims=True)
        return np.asarray((1 - x @ (centres / np.where(length > 0, length, 1)).T).clip(min=0))

    def best_centres(self, x: Matrix, weight: np.ndarray | None, labels: np.ndarray, before: np.ndarray) -> np.ndarray:
        n, mass = x.shape[0], np.ones(x.shape[0]) if weight is None else weight
        sums = csr_matrix((mass, (labels, np.arange(n))), shape=(len(before), n)) @ x
        sums = np.asarray(sums.toarray() if issparse(sums) else sums)
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        # Opposite rows cancel: every direction is as good for them as any other.
        total = np.bincount(labels, mass, len(before))[:, None]
        return np.where(length > 1e-14 * total, sums / np.where(length > 0, length, 1), before)

    def variance(self, loss: float, n_entries: float, centres: np.ndarray, weights: np.ndarray) -> float:
        # ‖x - c‖² = 2 (1 - cos) for lengths of 1.
        return max(2 * loss, RESOLUTION * float(weights.sum())) / n_entries


METRICS: dict[str, Metric] = {"euclidean": Euclidean(), "manhattan": Manhattan(), "cosine": Cosine()}


def mean_variance(x: Matrix) -> float:
    """The mean over features of their variance over rows (n, d)."""
    if isinstance(x, np.ndarray):
        with np.errstate(invalid="ignore"):
            return float(np.nanvar(x, axis=0).mean())
    return float(x.multiply(x).mean() - np.square(x.mean(0)).mean())


def count_observed(x: Matrix) -> np.ndarray:
    """The number of observed features of each row (n,)."""
    if isinstance(x, np.ndarray):
        return np.asarray(x.shape[1] - np.isnan(x).sum(1), dtype=np.float64)
    row_of = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return np.asarray(x.shape[1] - np.bincount(row_of[np.isnan(x.data)], minlength=x.shape[0]), dtype=np.float64)


def is_complete(x: Matrix) -> bool:
    return not np.isnan(x if isinstance(x, np.ndarray) else np.asarray(x.data)).any()
