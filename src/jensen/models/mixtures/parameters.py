"""The parameters of a Gaussian mixture in scikit-learn's shapes: read from theta, set by the user, given as a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from jensen.contract.fitted import Fitted, Values, probabilities, read_values
from jensen.data.container import Kind
from jensen.engines.em.frame import Frame
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.gaussians import STRUCTURES, AnyGaussians, CovarianceStructure
from jensen.models.mixtures.noise import Noise

GaussianTheta = MixtureTheta[AnyGaussians]
PARAMETERS = ("weights", "means", "covariances")


def theta_record(theta: GaussianTheta) -> dict[str, Any]:
    """What determines theta."""
    components = theta.components
    covariances = components.form.user_shape(components.covariances)
    own = {"weights": theta.weights, "means": components.means, "covariances": covariances}
    return own if theta.noise is None else own | {"noise": theta.noise.record()}


def theta_from(covariance_type: str, n_features: int, record: Mapping[str, Any]) -> GaussianTheta:
    """A theta from values that a fit could have left; others are refused."""
    noise = Noise.from_record(record["noise"], n_features) if "noise" in record else None
    structure, k = STRUCTURES[covariance_type], len(record["weights"]) - (noise is not None)
    n_weights = k + (noise is not None)
    schema = {"weights": Values(n_weights, check=probabilities), "means": Values(k, "d")}
    found = read_values(record, schema, d=n_features)
    covariances = checked_matrices(structure, record["covariances"], k, n_features, "covariances")
    return MixtureTheta(found["weights"], structure(found["means"], covariances), noise)


def checked_matrices(structure: CovarianceStructure, value: Any, k: int, d: int, name: str) -> Tensor:
    """Covariances or precisions of scikit-learn's shape, in the structure's own."""
    internal = structure.covariance_shape(k, d)
    shape = tuple(structure.user_shape(torch.empty(internal, device="meta")).shape)
    matrices = Values(*shape).read(name, value).reshape(internal)
    symmetric = not structure.is_dense or torch.allclose(matrices, matrices.mT)
    components = structure(torch.zeros(k, d, dtype=torch.float64), matrices)
    if not symmetric or components.collapsed().any():
        kind = "symmetric and positive definite" if structure.is_dense else "positive"
        raise ValueError(f"{name} must be {kind} for covariance_type={structure.name!r}")
    # A precision has the same structure as its covariance.
    if structure.departs(components.full()):
        raise ValueError(
            f"{name} does not have the structure {structure.letters} of covariance_type={structure.name!r}: equal (E) "
            "or varying (V) volume, shape and orientation; give matrices that do, or covariance_type='full'"
        )
    return matrices


def parameter(name: str) -> Fitted[np.ndarray]:
    """An attribute of theta that can be set."""

    def read(model: Any) -> Tensor:
        components: AnyGaussians = model.theta_.components
        form = components.form
        if name == "precisions":
            return form.user_shape(form.inverse(components.covariances))
        if name == "precisions_cholesky":
            return form.user_shape(components.precision_factors())
        found: Tensor = theta_record(model.theta_)[name]
        return found

    def write(model: Any, value: Any) -> GaussianTheta:
        structure = model.theta_.components.form
        changed, given = name, np.asarray(value, dtype=np.float64)
        if name == "precisions_cholesky":
            changed, given = "precisions", given @ np.swapaxes(given, -1, -2) if structure.is_dense else given**2
        if changed == "precisions":
            k, d = model.theta_.components.means.shape
            precisions = checked_matrices(structure, given, k, d, name)
            changed, given = "covariances", structure.user_shape(structure.inverse(precisions))
        d = model.theta_.components.n_features
        return theta_from(structure.name, d, theta_record(model.theta_) | {changed: given})

    def columns(model: Any) -> tuple[int, ...]:
        """The last axes: none, one or two of covariances, as the scale of their prior has."""
        return tuple(range(-len(model.theta_.components.structure.scale_shape(1)), 0))

    if name == "weights":
        return Fitted[np.ndarray](read, write)
    if name == "means":
        return Fitted[np.ndarray](read, write, columns=(1,), constant=None)
    return Fitted[np.ndarray](read, write, columns=columns)


class Arguments(Protocol):
    """The constructor arguments that give a start."""

    weights_init: Any
    means_init: Any
    precisions_init: Any
    freeze: Sequence[str]
    noise: bool


@dataclass(frozen=True)
class Given:
    """Starting values, each None if it is not given; covariances come as components with means of 0."""

    weights: Tensor | None
    means: Tensor | None
    covariances: AnyGaussians | None

    @classmethod
    def of(cls, model: Arguments, structure: CovarianceStructure, k: int, d: int, kind: Kind) -> Given:
        """From the constructor's arguments for d columns, those that vary, in the user's units."""
        weights = means = covariances = None
        if model.weights_init is not None:
            weights = Values(k + model.noise, check=probabilities).read("weights_init", model.weights_init)
        if model.means_init is not None:
            means = kind.narrow(Values(k, d).read("means_init", model.means_init), 1)
        if model.precisions_init is not None:
            precisions = checked_matrices(structure, model.precisions_init, k, d, "precisions_init")
            whole = structure(torch.zeros(k, d, dtype=torch.float64), structure.inverse(precisions))
            covariances = whole.select(kind.narrow(torch.arange(d), 0))
        return cls(weights, means, covariances)

    @property
    def is_everything(self) -> bool:
        return all(value is not None for value in (self.weights, self.means, self.covariances))

    def only(self, names: Sequence[str]) -> Given:
        """The values to keep; an error names one that is not given."""
        for name in names:
            if name not in PARAMETERS:
                raise ValueError(f"freeze names {name!r}; it can name {', '.join(PARAMETERS)}")
            if getattr(self, name) is None:
                argument = "precisions_init" if name == "covariances" else f"{name}_init"
                raise ValueError(f"freeze names {name!r}, but {argument} is None; give the values to keep")
        return Given(**{name: getattr(self, name) if name in names else None for name in PARAMETERS})

    def within(self, frame: Frame) -> Given:
        means = None if self.means is None else (self.means - frame.origin) / frame.scale
        covariances = self.covariances
        if covariances is not None:
            covariances = covariances.affine(torch.zeros_like(frame.origin), 1 / frame.scale)
        return Given(self.weights, means, covariances)

    def into(self, theta: GaussianTheta) -> GaussianTheta:
        """Theta with the values that are given."""
        components = theta.components
        means = components.means if self.means is None else self.means
        covariances = (self.covariances or components).covariances
        weights = theta.weights if self.weights is None else self.weights
        return replace(theta, weights=weights, components=components.form(means, covariances))
