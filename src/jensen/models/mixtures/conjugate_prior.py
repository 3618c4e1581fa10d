"""A prior for mixtures of Gaussians and the like, as a recipe: what is left None follows from the data.

    π ~ Dirichlet(a),  Σ_k ~ inverse-Wishart(ν, Λ),  μ_k | Σ_k ~ N(μ_p, Σ_k/κ)
With the defaults of Fraley & Raftery (2007), but for a flat prior on the weights: μ_p = x̄, κ = 0.01, ν = d + 2 and
Λ = Cov(x) / K^(2/d).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from jensen.data.constants import Constants
from jensen.data.container import Kind
from jensen.engines.em.frame import Frame
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.gaussians.base import Structure
from jensen.models.mixtures.gaussians.moments import outer


class ConjugatePrior(BaseEstimator):
    """Dirichlet and normal-inverse-Wishart prior of a Gaussian mixture, or of Gaussians around subspaces.

    Args:
        weight_concentration: a ≥ 1 of the Dirichlet on the weights; 1 is flat.
        mean: μ_p (d,); None is the mean of the data.
        mean_precision: κ > 0, the number of rows the prior mean counts for.
        degrees_of_freedom: ν > d - 1; None is d + 2 (3 for diagonal structures' single variances).
        scale: Λ in the units of X: (d, d) for "full" and "tied", (d,) for "diag" and factor analysis, a number for
            "spherical" and probabilistic PCA; None is the spread of the data divided by K^(2/d). Other structures have
            the prior of "full", or of "diag" if their name ends in I, restricted to what they allow; EII and EEI have
            one variance and one for every feature. "pooled" is the mean variance over features, the same for all,
            without correlations: for the pixels of images, whose unit is the same, so that a pixel that hardly varies
            in the training rows may vary in others.

    Example:
        >>> from jensen import ConjugatePrior, GaussianMixture
        >>> model = GaussianMixture(n_components=2, prior=ConjugatePrior(weight_concentration=2.0), random_state=0)
        >>> model.fit([[0.0], [0.1], [0.2], [9.0]]).weights_.max().round(2).item()
        0.67
    """

    def __init__(
        self,
        weight_concentration: float = 1.0,
        mean: Any = None,
        mean_precision: float = 0.01,
        degrees_of_freedom: float | None = None,
        scale: Any = None,
    ) -> None:
        self.weight_concentration = weight_concentration
        self.mean = mean
        self.mean_precision = mean_precision
        self.degrees_of_freedom = degrees_of_freedom
        self.scale = scale

    def about(self, origin: Tensor) -> ConjugatePrior:
        """The same prior of rows less `origin`."""
        if self.mean is None:
            return self
        mean = np.asarray(self.mean, dtype=np.float64) - origin.numpy()
        return ConjugatePrior(**(self.get_params() | {"mean": mean}))

    def of_columns(self, constants: Constants) -> ConjugatePrior:
        """The same prior of the columns that vary."""
        params, d = self.get_params(), len(constants.values)
        for name in ("mean", "scale"):
            value = params[name]
            # What does not fit the columns is refused by `check`.
            if value is not None and np.shape(value) in ((d,), (d, d)):
                params[name] = constants.narrowed(np.asarray(value), *range(np.ndim(value)))
        return ConjugatePrior(**params)

    def check(self, d: int, structure: Structure) -> None:
        """Raise a ValueError if the prior is not valid for d columns and this covariance structure."""
        if not self.weight_concentration >= 1:
            raise ValueError(f"weight_concentration={self.weight_concentration} has no mode; give 1 or more")
        if not self.mean_precision > 0:
            raise ValueError(f"mean_precision={self.mean_precision} is not a precision; give a number above 0")
        least = structure.least_freedom(d)
        if self.degrees_of_freedom is not None and not self.degrees_of_freedom > least:
            raise ValueError(f"degrees_of_freedom={self.degrees_of_freedom} is too few; give more than {least}")
        if self.mean is not None and np.shape(self.mean) != (d,):
            raise ValueError(f"the prior's mean has shape {np.shape(self.mean)}; X has {d} features")
        shape = structure.scale_shape(d)
        if isinstance(self.scale, str) and self.scale != "pooled":
            raise ValueError(f"the prior's scale={self.scale!r} is not known; give 'pooled', numbers or None")
        if self.scale is not None and not isinstance(self.scale, str) and np.shape(self.scale) != shape:
            raise ValueError(f"the prior's scale has shape {np.shape(self.scale)}; this model needs {shape}")

    def resolve(
        self, structure: Structure, n_components: int, frame: Frame, spread: Tensor, centre: Tensor | None = None
    ) -> NormalInverseWishart:
        """The prior in the frame's units; `spread` is the data's covariance (d, d) or their variances (d,) there, and
        `centre` their mean (d,), None if that is the frame's origin.
        """
        d = len(spread)
        self.check(d, structure)
        n_axes = len(structure.scale_shape(d))
        mean = torch.zeros(d, dtype=torch.float64) if centre is None else centre
        if self.mean is not None:
            mean = (torch.from_numpy(np.array(self.mean, dtype=np.float64)) - frame.origin) / frame.scale
        unit = outer(frame.scale, frame.scale) if n_axes == 2 else frame.scale.square()
        variances = spread.diagonal() if spread.ndim == 2 else spread
        if isinstance(self.scale, str):
            pooled = (variances * frame.scale.square()).mean() / frame.scale.square()
            # A matrix of wide rows is made where it is needed only.
            scale = (pooled.diag() if n_axes == 2 else pooled[: d if n_axes else 1]) / n_components ** (2 / d)
        elif self.scale is not None:
            given = torch.from_numpy(np.array(self.scale, dtype=np.float64))
            scale = given / (unit if n_axes else unit[:1])
        else:
            # A constant feature has no spread of its own: it gets the average one.
            extends = variances > 0
            usual = variances[extends].mean() if extends.any() else torch.ones_like(variances[0])
            variances = torch.where(extends, variances, usual)
            scale = (variances.mean()[None], variances, spread)[n_axes] / n_components ** (2 / d)
        freedom = structure.least_freedom(d) + 3 if self.degrees_of_freedom is None else self.degrees_of_freedom
        volume = structure.log_volume(n_components, frame.scale)
        return NormalInverseWishart(mean, self.mean_precision, freedom, scale, volume)


def prior_of_columns(prior: ConjugatePrior | None, kind: Kind) -> ConjugatePrior | None:
    """A prior, or None, of the columns of a table that vary."""
    return prior if prior is None or kind.constants is None else prior.of_columns(kind.constants)
