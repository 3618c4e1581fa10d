"""A mixture's parameters as scikit-learn's attributes: views of theta_ that can be set, and checks of given values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.models.mixtures.em import GaussianTheta
from jensen.models.mixtures.gaussians import STRUCTURES, Gaussians

__all__ = ["ThetaAttribute", "checked_matrices", "checked_theta", "checked_weights", "shaped", "theta_record"]


class ThetaAttribute:
    """One parameter of `theta_`, as a read-only array of the input's dtype; setting it checks and replaces theta_."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        check_is_fitted(model)
        array = values(model.theta_)[self.name].cpu().numpy().astype(model._kind.dtype)
        # A change of a copy would be lost without a word.
        array.flags.writeable = False
        return array

    def __set__(self, model: Any, value: Any) -> None:
        if not hasattr(model, "theta_"):
            raise AttributeError(
                f"{self.name}_ is set on a fitted mixture; build one with GaussianMixture.from_parameters"
            )
        family = type(model.theta_.components)
        name, given = self.name, np.asarray(value, dtype=np.float64)
        if name == "precisions_cholesky":
            name, given = "precisions", given @ np.swapaxes(given, -1, -2) if family.is_dense else given**2
        if name == "precisions":
            k, d = model.theta_.components.means.shape
            precisions = checked_matrices(family, given, k, d, self.name)
            name, given = "covariances", family.user_shape(family.inverse(precisions))
        model.theta_ = checked_theta(family.name, model.n_features_in_, theta_record(model.theta_) | {name: given})
        model._stream = None


def theta_record(theta: GaussianTheta) -> dict[str, Tensor]:
    """What determines theta, in scikit-learn's shapes."""
    components = theta.components
    covariances = components.user_shape(components.covariances)
    return {"weights": theta.weights, "means": components.means, "covariances": covariances}


def values(theta: GaussianTheta) -> dict[str, Tensor]:
    components = theta.components
    return theta_record(theta) | {
        "precisions": components.user_shape(components.inverse(components.covariances)),
        "precisions_cholesky": components.user_shape(components.precision_factors()),
    }


def checked_theta(covariance_type: str, n_features: int, record: Mapping[str, Any]) -> GaussianTheta:
    """A theta from values of scikit-learn's shapes, refused when no fit could have left them."""
    family, k = STRUCTURES[covariance_type], len(record["weights"])
    weights = checked_weights(shaped("weights", record["weights"], (k,)), "weights")
    means = shaped("means", record["means"], (k, n_features))
    covariances = checked_matrices(family, record["covariances"], k, n_features, "covariances")
    return GaussianTheta(weights, family(means, covariances))


def checked_matrices(family: type[Gaussians], value: Any, k: int, d: int, name: str) -> Tensor:
    """Covariances or precisions of scikit-learn's shape, in the structure's own."""
    internal = family.covariance_shape(k, d)
    shape = tuple(family.user_shape(torch.empty(internal, device="meta")).shape)
    matrices = shaped(name, value, shape).reshape(internal)
    symmetric = not family.is_dense or torch.allclose(matrices, matrices.mT)
    if not symmetric or family(torch.zeros(k, d, dtype=torch.float64), matrices).collapsed().any():
        kind = "symmetric and positive definite" if family.is_dense else "positive"
        raise ValueError(f"{name} must be {kind} for covariance_type={family.name!r}")
    return matrices


def shaped(name: str, value: Any, shape: tuple[int, ...]) -> Tensor:
    given = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    tensor = torch.from_numpy(np.array(given, dtype=np.float64))
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but {shape} is needed for this model and data")
    if not tensor.isfinite().all():
        raise ValueError(f"{name} holds NaN or infinity; give finite values")
    return tensor


def checked_weights(weights: Tensor, name: str) -> Tensor:
    total = float(weights.sum())
    # One part in 10⁶ leaves room for weights that came through float32.
    if bool((weights < 0).any()) or abs(total - 1) > 1e-6:
        raise ValueError(f"{name} must be 0 or more and sum to 1, got {weights.tolist()} with sum {total}")
    # Weights of a fit come back bit for bit.
    return weights if abs(total - 1) < 1e-12 else weights / total
