"""A depot that supplies stores."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from jensen.models.clusters.centres import Pull


class Depot(BaseEstimator):
    """A depot at x_D that supplies the stores: each customer adds λ‖μ - x_D‖² for the way from the depot to the store.

    Args:
        location: x_D, one number per feature.
        weight: λ, the cost of the way from the depot relative to the way of the customer.
        assignment: "nearest" assigns a customer to the nearest store, "assigned" to that with the least total cost.

    Example:
        >>> import numpy as np
        >>> from jensen import Depot, KMeans
        >>> X, customers = np.array([[-1.0], [1.0]]), [10, 4]
        >>> model = KMeans(1, depot=Depot([10.0], weight=1.0)).fit(X, sample_weight=customers)
        >>> bool(np.isclose(model.cluster_centers_[0, 0], 67 / 14))
        True
    """

    def __init__(self, location: Any, weight: float = 1.0, assignment: str = "nearest") -> None:
        self.location = location
        self.weight = weight
        self.assignment = assignment

    def pull(self, n_features: int) -> Pull:
        """The checked values for the formulas, in the user's units."""
        try:
            location = np.atleast_1d(np.array(self.location, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"depot.location={self.location!r} must be numbers, one per feature") from None
        if location.shape != (n_features,):
            raise ValueError(
                f"depot.location has shape {location.shape}, but X has {n_features} features; give ({n_features},)"
            )
        if not np.isfinite(location).all():
            raise ValueError(f"depot.location={location.tolist()} must be finite")
        if not (isinstance(self.weight, Real) and 0 <= self.weight < np.inf):
            raise ValueError(f"depot.weight={self.weight!r} must be a number, 0 or more")
        if self.assignment not in ("nearest", "assigned"):
            raise ValueError(f"depot.assignment={self.assignment!r} must be 'nearest' or 'assigned'")
        return Pull(torch.from_numpy(location), float(self.weight), self.assignment == "assigned")
