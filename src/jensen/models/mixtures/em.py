"""The verbs of a mixture, whatever its components.

    E:  q_ik ∝ π_k p_k(x_i), over the components that row i's label allows
    M:  π_k = (N_k + a_k - 1) / Σ_j (N_j + a_j - 1),  N_k = Σ_i w_i q_ik;  components from their weighted moments
Dempster, Laird & Rubin (1977). The objective is Σ_i w_i ln Σ_{k allowed} π_k p_k(x_i) + ln prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch, Summary
from jensen.engines.em.sources import Frame
from jensen.formulas.responsibilities import allowed_components, posterior_in_place
from jensen.formulas.wishart import NormalInverseWishart
from jensen.models.mixtures.components import Components
from jensen.models.mixtures.gaussians import Gaussians

__all__ = ["RESOLUTION", "GaussianTheta", "MixtureTheta", "MixtureVerbs"]

# Moments about the mean of standardised data are sums near 1 with an error near 1e-16 per row: a variance below this
# share of the data's is rounding.
RESOLUTION = 1e-10


C = TypeVar("C", bound=Components, covariant=True)


@dataclass(frozen=True)
class MixtureTheta(Generic[C]):
    """Weights π (K,) and components."""

    weights: Tensor
    components: C

    @cached_property
    def log_weights(self) -> Tensor:
        return self.weights.log()

    def frame(self) -> Frame:
        """The mixture's own mean and spread: coordinates in which its densities lose no digits."""
        means, weights = self.components.means, self.weights[:, None]
        origin = (weights * means).sum(0)
        spread = (weights * (self.components.feature_variances() + (means - origin).square())).sum(0)
        return Frame(origin, self.components.family().units(spread))

    def within(self, frame: Frame) -> MixtureTheta[C]:
        """From the user's units to the frame's."""
        return self.affine(-frame.origin / frame.scale, 1 / frame.scale)

    def outside(self, frame: Frame) -> MixtureTheta[C]:
        """From the frame's units to the user's."""
        return self.affine(frame.origin, frame.scale)

    def expected_moments(self) -> Any:
        """The statistics of one row drawn from the mixture."""
        return self.components.expected_moments(self.weights)

    def affine(self, origin: Tensor, scale: Tensor) -> MixtureTheta[C]:
        return MixtureTheta(self.weights, self.components.affine(origin, scale))


GaussianTheta = MixtureTheta[Gaussians]


@dataclass(frozen=True)
class MixtureVerbs:
    """
    Args:
        family: of the components, a `Family`.
        n_components: K.
        n_features: d.
        floor: eigenvalues (variances) are kept above it; 0 means no floor, and a collapse is an error.
        prior: on means and covariances.
        concentration: a of the Dirichlet prior on the weights.
        frozen: parameters that keep their value, by name: weights, means, covariances.
    """

    family: Any
    n_components: int
    n_features: int
    floor: float
    prior: NormalInverseWishart | None
    concentration: float
    frozen: dict[str, Tensor]

    def e_step(self, theta: MixtureTheta[Any], batch: Batch) -> Summary:
        view = theta.components.view(batch)
        log_joint = theta.components.log_density(view).add_(theta.log_weights[:, None])
        log_evidence, q = posterior_in_place(log_joint, allowed_components(batch.label, self.n_components))
        log_evidence += batch.log_jacobian
        if batch.weight is None:
            weight, bound = log_evidence.new_tensor(log_evidence.shape[-1]), log_evidence.sum()
        else:
            q *= batch.weight[..., None, :]
            weight, bound = batch.weight.sum(), (batch.weight * log_evidence).sum()
        return Summary(theta.components.moments(q, view), bound, weight)

    def m_step(self, theta: MixtureTheta[Any], stats: Any) -> MixtureTheta[Any]:
        weights = self.frozen.get("weights")
        if weights is None:
            count = (stats.mass + (self.concentration - 1)).clamp(min=0)
            weights = count / count.sum()
        components = theta.components.m_step(stats, self.prior, self.frozen.get("means"))
        return self.project(MixtureTheta(weights, components))

    def project(self, theta: MixtureTheta[Any]) -> MixtureTheta[Any]:
        covariances = self.frozen.get("covariances")
        if covariances is not None:
            components = replace(theta.components, covariances=covariances)
        else:
            if self.floor == 0 and (broken := theta.components.collapsed(RESOLUTION)).any():
                number = int(broken.nonzero()[0])
                raise em.CollapseError(
                    f"component {number} collapsed: its covariance is singular and reg_covar=0 sets no floor; "
                    "raise reg_covar, give a prior or lower n_components"
                )
            components = theta.components.clipped(max(self.floor, RESOLUTION))
        return MixtureTheta(self.frozen.get("weights", theta.weights), components)

    def log_prior(self, theta: MixtureTheta[Any]) -> Tensor:
        """The density of the parameters in the user's units."""
        if self.prior is None:
            return theta.weights.new_zeros(())
        k, a = self.n_components, self.concentration
        constant = self.prior.log_volume + math.lgamma(k * a) - k * math.lgamma(a)
        value: Tensor = theta.components.log_prior(self.prior) + constant
        # A flat prior leaves a weight of 0 alone.
        return value if a == 1 else value + (a - 1) * theta.log_weights.sum()

    def resolution(self, theta: MixtureTheta[Any]) -> float:
        return float(theta.components.resolution())

    def surrogate(self, theta: GaussianTheta, stats: Any) -> Tensor:
        log_prior_of_z: Tensor = torch.special.xlogy(stats.mass, theta.weights).sum()
        return log_prior_of_z + theta.components.expected_log_density(stats)

    def pack(self, theta: MixtureTheta[Any]) -> Tensor:
        # A weight of 0 has no logit; e⁻⁷⁰⁰ is the smallest that float64 still holds.
        logits = theta.weights.log().clamp(min=-700)
        return torch.cat([logits, theta.components.means.flatten(), theta.components.pack()])

    def unpack(self, vector: Tensor) -> MixtureTheta[Any]:
        k, d = self.n_components, self.n_features
        logits, means, rest = vector[:k], vector[k : k + k * d], vector[k + k * d :]
        return MixtureTheta(logits.softmax(0), self.family.unpack(means.reshape(k, d), rest))

    def plausibility(self, theta: MixtureTheta[Any], log_likelihood: float, weight: float) -> float:
        """The log-likelihood less Chen & Tan's (2009) penalty on singular components, by which starts are compared.

        A spurious maximum, a component shrunk on a few rows, has a large likelihood and no meaning.
        """
        return log_likelihood - float(theta.components.roughness()) / weight
