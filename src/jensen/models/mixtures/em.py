"""The verbs of a mixture, whatever its components.

    E:  q_ik ∝ π_k p_k(x_i), over the components that row i's label allows
    M:  π_k = (N_k + a_k - 1) / Σ_j (N_j + a_j - 1),  N_k = Σ_i w_i q_ik;  components from their weighted moments
Dempster, Laird & Rubin (1977). The objective is Σ_i w_i ln Σ_{k allowed} π_k p_k(x_i) + ln prior; with labels for some
rows it is the semi-supervised objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch, Summary
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Source
from jensen.formulas.responsibilities import allowed_components, posterior_in_place
from jensen.models.mixtures.components import C, Family, Moments, SmoothFamily, view_of


@dataclass(frozen=True)
class MixtureTheta(Generic[C]):
    """Weights π (K,) and components."""

    weights: Tensor
    components: C

    @cached_property
    def log_weights(self) -> Tensor:
        return self.weights.log()

    def frame(self) -> Frame:
        """Coordinates in which the mixture's densities lose no digits."""
        return self.components.frame(self.weights)

    def within(self, frame: Frame) -> MixtureTheta[C]:
        """From the user's units to the frame's."""
        return MixtureTheta(self.weights, self.components.affine(-frame.origin / frame.scale, 1 / frame.scale))

    def outside(self, frame: Frame) -> MixtureTheta[C]:
        """From the frame's units to the user's."""
        return MixtureTheta(self.weights, self.components.affine(frame.origin, frame.scale))

    def expected_moments(self) -> Moments:
        """The statistics of one row drawn from the mixture."""
        expected: Moments = self.components.expected_moments(self.weights)
        return expected


@dataclass(frozen=True)
class MixtureVerbs(Generic[C]):
    """
    Args:
        family: of the components.
        n_components: K.
        n_features: d.
        concentration: a of the Dirichlet prior on the weights; None is no prior.
        weights: π, where it is known and kept.
        class_of: the class of every component (K,) where a class may have several; None: component k is class k.
    """

    family: Family[C]
    n_components: int
    n_features: int
    concentration: float | None = None
    weights: Tensor | None = None
    class_of: Tensor | None = None

    @cached_property
    def standard(self) -> C:
        """Components to take sizes and first statistics from."""
        return self.family.standard(self.n_components, self.n_features)

    @cached_property
    def classes(self) -> Tensor:
        """The class of every component (K,)."""
        return torch.arange(self.n_components) if self.class_of is None else self.class_of

    def e_step(self, theta: MixtureTheta[C], batch: Batch) -> Summary[Any]:
        view = view_of(theta.components, batch)
        log_joint = theta.components.log_density(view).add_(theta.log_weights[:, None])
        log_evidence, q = posterior_in_place(log_joint, allowed_components(batch.label, self.classes))
        log_evidence += batch.log_jacobian
        if batch.weight is None:
            weight, bound = log_evidence.new_tensor(log_evidence.shape[-1]), log_evidence.sum()
        else:
            q *= batch.weight[..., None, :]
            # A row of weight 0, such as padding, may be impossible, and 0 · -∞ is no number.
            weight, bound = batch.weight.sum(), torch.where(batch.weight > 0, batch.weight * log_evidence, 0.0).sum()
        return Summary(theta.components.moments(q, view), bound, weight)

    def m_step(self, theta: MixtureTheta[C], stats: Any) -> MixtureTheta[C]:
        return MixtureTheta(self.weights_of(stats), self.family.m_step(theta.components, stats))

    def first(self, stats: Any, pseudo: float) -> MixtureTheta[C]:
        """The M-step of a start, from statistics taken at `standard`."""
        return MixtureTheta(self.weights_of(stats), self.family.first(self.standard, stats, pseudo))

    def weights_of(self, stats: Moments) -> Tensor:
        if self.weights is not None:
            return self.weights
        count = stats.mass if self.concentration is None else stats.mass + (self.concentration - 1)
        count = count.clamp(min=0)
        return count / count.sum()

    def project(self, theta: MixtureTheta[C]) -> MixtureTheta[C]:
        weights = theta.weights if self.weights is None else self.weights
        return MixtureTheta(weights, self.family.project(theta.components))

    def equal(self) -> MixtureTheta[C]:
        """Components alike, of equal weight."""
        k = self.n_components
        return self.project(MixtureTheta(torch.full((k,), 1 / k, dtype=torch.float64), self.standard))

    def of_classes(self, source: Source) -> MixtureTheta[C]:
        """Where EM starts if the labels of all rows name their component, or there is one."""
        theta = self.equal()
        return self.project(MixtureTheta(theta.weights, theta.components.of_classes(source)))

    def log_prior(self, theta: MixtureTheta[C]) -> Tensor:
        value = self.family.log_prior(theta.components)
        if self.concentration is None:
            return value
        k, a = self.n_components, self.concentration
        value = value + (math.lgamma(k * a) - k * math.lgamma(a))
        # A flat prior leaves a weight of 0 alone.
        return value if a == 1 else value + (a - 1) * theta.log_weights.sum()

    def resolution(self, theta: MixtureTheta[C]) -> float:
        return theta.components.resolution()

    def plausibility(self, theta: MixtureTheta[C], log_likelihood: float, weight: float) -> float:
        """The log-likelihood less a penalty on degenerate components, by which starts are compared.

        A spurious maximum, a component shrunk on a few rows, has a large likelihood and no meaning.
        """
        return log_likelihood - float(theta.components.roughness()) / weight


@dataclass(frozen=True)
class SmoothMixtureVerbs(MixtureVerbs[C]):
    """The verbs of components with unconstrained coordinates, for SQUAREM and gradient EM."""

    family: SmoothFamily[C]

    def surrogate(self, theta: MixtureTheta[C], stats: Any) -> Tensor:
        log_prior_of_z: Tensor = torch.special.xlogy(stats.mass, theta.weights).sum()
        return log_prior_of_z + self.family.expected_log_density(theta.components, stats)

    def pack(self, theta: MixtureTheta[C]) -> Tensor:
        # A weight of 0 has no logit; e⁻⁷⁰⁰ is the smallest that float64 still holds.
        return torch.cat([theta.weights.log().clamp(min=-700), self.family.pack(theta.components)])

    def unpack(self, vector: Tensor) -> MixtureTheta[C]:
        k = self.n_components
        components = self.family.unpack(vector[k:], k, self.n_features)
        return MixtureTheta(vector[:k].softmax(0), components)
