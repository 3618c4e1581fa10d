"""The verbs of a mixture, whatever its components.

    E:  q_ik ∝ π_k p_k(x_i), over the components that row i's label allows
    M:  π_k = (N_k + a_k - 1) / Σ_j (N_j + a_j - 1),  N_k = Σ_i w_i q_ik;  components from their weighted moments
Dempster, Laird & Rubin (1977). The objective is Σ_i w_i ln Σ_{k allowed} π_k p_k(x_i) + ln prior; with labels for some
rows it is the semi-supervised objective. With noise, its component is the last one, and no label allows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic

import torch
from torch import Tensor

from jensen.engines.em.batch import Additive, Batch, Summary
from jensen.engines.em.frame import Frame
from jensen.engines.em.sources import Source
from jensen.formulas.responsibilities import allowed_components, posterior_in_place
from jensen.models.mixtures.components import C, Family, Moments, SmoothFamily, view_of
from jensen.models.mixtures.noise import Noise

# The share of the noise where a start does not say which rows it has.
NOISE_SHARE = 0.05
# The class of the noise, which is no label's.
NO_CLASS = -2


@dataclass(frozen=True)
class MixtureTheta(Generic[C]):
    """Weights π (K,), components, and noise or None; with noise its weight comes last, and weights are (K + 1,)."""

    weights: Tensor
    components: C
    noise: Noise | None = None

    @cached_property
    def log_weights(self) -> Tensor:
        return self.weights.log()

    @property
    def n_components(self) -> int:
        """K, without the noise."""
        return self.components.n_components

    @property
    def shares(self) -> Tensor:
        """The weights of the components among themselves (K,)."""
        if self.noise is None:
            return self.weights
        own = self.weights[:-1]
        return own / own.sum() if own.sum() > 0 else torch.full_like(own, 1 / len(own))

    def with_noise(self, noise: Noise | None) -> MixtureTheta[C]:
        """The same components with this noise; its weight stays, or is NOISE_SHARE if there was none."""
        if noise is None:
            return MixtureTheta(self.shares, self.components)
        if self.noise is not None:
            return replace(self, noise=noise)
        return MixtureTheta(with_share(self.weights, NOISE_SHARE), self.components, noise)

    def frame(self) -> Frame:
        """Coordinates in which the mixture's densities lose no digits."""
        return self.components.frame(self.shares)

    def within(self, frame: Frame) -> MixtureTheta[C]:
        """From the user's units to the frame's. Noise is about rows in the user's units, and stays."""
        return replace(self, components=self.components.affine(-frame.origin / frame.scale, 1 / frame.scale))

    def outside(self, frame: Frame) -> MixtureTheta[C]:
        """From the frame's units to the user's."""
        return replace(self, components=self.components.affine(frame.origin, frame.scale))

    def log_density(self, view: Any, batch: Batch) -> Tensor:
        """ln p_k(x) over the observed features in the engine's units (*blocks, K, n); with noise, ln u in row K."""
        own: Tensor = self.components.log_density(view)
        if self.noise is None:
            return own
        assert batch.log_noise is not None
        log_u = (batch.log_noise - batch.log_jacobian).expand_as(own[..., 0, :])
        return torch.cat([own, log_u[..., None, :]], -2)

    def moments(self, responsibilities: Tensor, view: Any) -> Any:
        """Statistics, given responsibilities times row weights (*blocks, K or K + 1, n)."""
        if self.noise is None:
            return self.components.moments(responsibilities, view)
        own = self.components.moments(responsibilities[..., :-1, :], view)
        return NoisyMoments(torch.cat([own.mass, responsibilities[..., -1, :].sum()[None]]), own)

    def expected_moments(self) -> Moments:
        """The statistics of one row drawn from the mixture."""
        own: Moments = self.components.expected_moments(self.weights if self.noise is None else self.weights[:-1])
        return own if self.noise is None else NoisyMoments(self.weights, own)


@dataclass(frozen=True)
class NoisyMoments(Additive):
    """The statistics of components beside noise; the mass (K + 1,) is that of the components and of the noise."""

    mass: Tensor
    own: Any


def with_share(weights: Tensor, share: float) -> Tensor:
    """Weights of components (K,) with the share of noise behind them (K + 1,)."""
    return torch.cat([(1 - share) * weights, weights.new_tensor([share])])


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
        noise: for rows that fit nowhere, or None.
    """

    family: Family[C]
    n_components: int
    n_features: int
    concentration: float | None = None
    weights: Tensor | None = None
    class_of: Tensor | None = None
    noise: Noise | None = None

    @cached_property
    def standard(self) -> C:
        """Components to take sizes and first statistics from."""
        return self.family.standard(self.n_components, self.n_features)

    @cached_property
    def classes(self) -> Tensor:
        """The class of every component (K,), and that of the noise."""
        own = torch.arange(self.n_components) if self.class_of is None else self.class_of
        return own if self.noise is None else torch.cat([own, own.new_tensor([NO_CLASS])])

    def e_step(self, theta: MixtureTheta[C], batch: Batch) -> Summary[Any]:
        view = view_of(theta.components, batch)
        log_joint = theta.log_density(view, batch).add_(theta.log_weights[:, None])
        log_evidence, q = posterior_in_place(log_joint, allowed_components(batch.label, self.classes))
        log_evidence += batch.log_jacobian
        if batch.weight is None:
            weight, bound = log_evidence.new_tensor(log_evidence.shape[-1]), log_evidence.sum()
        else:
            q *= batch.weight[..., None, :]
            # A row of weight 0, such as padding, may be impossible, and 0 · -∞ is no number.
            weight, bound = batch.weight.sum(), torch.where(batch.weight > 0, batch.weight * log_evidence, 0.0).sum()
        return Summary(theta.moments(q, view), bound, weight)

    def m_step(self, theta: MixtureTheta[C], stats: Any) -> MixtureTheta[C]:
        components = self.family.m_step(theta.components, self.own(stats))
        return MixtureTheta(self.weights_of(stats), components, self.noise)

    def first(self, stats: Any, pseudo: float, noise_share: float = 0.0) -> MixtureTheta[C]:
        """The M-step of a start, from statistics of the components taken at `standard`."""
        components = self.family.first(self.standard, stats, pseudo)
        if self.noise is None or self.weights is not None:
            return MixtureTheta(self.weights_of(stats), components, self.noise)
        weights = with_share(stats.mass / stats.mass.sum(), max(noise_share, NOISE_SHARE))
        return MixtureTheta(weights, components, self.noise)

    def own(self, stats: Any) -> Any:
        """The statistics of the components alone."""
        return stats if self.noise is None else stats.own

    def weights_of(self, stats: Moments) -> Tensor:
        if self.weights is not None:
            return self.weights
        count = stats.mass if self.concentration is None else stats.mass + (self.concentration - 1)
        count = count.clamp(min=0)
        return count / count.sum()

    def project(self, theta: MixtureTheta[C]) -> MixtureTheta[C]:
        weights = theta.weights if self.weights is None else self.weights
        return MixtureTheta(weights, self.family.project(theta.components), self.noise)

    def equal(self) -> MixtureTheta[C]:
        """Components alike, of equal weight."""
        k = self.n_components
        equal = MixtureTheta(torch.full((k,), 1 / k, dtype=torch.float64), self.standard)
        return self.project(equal.with_noise(self.noise))

    def of_classes(self, source: Source) -> MixtureTheta[C]:
        """Where EM starts if the labels of all rows name their component, or there is one."""
        theta = self.equal()
        return self.project(replace(theta, components=theta.components.of_classes(source)))

    def log_prior(self, theta: MixtureTheta[C]) -> Tensor:
        value = self.family.log_prior(theta.components)
        if self.concentration is None:
            return value
        k, a = len(theta.weights), self.concentration
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
        return log_prior_of_z + self.family.expected_log_density(theta.components, self.own(stats))

    def pack(self, theta: MixtureTheta[C]) -> Tensor:
        # A weight of 0 has no logit; e⁻⁷⁰⁰ is the smallest that float64 still holds.
        return torch.cat([theta.weights.log().clamp(min=-700), self.family.pack(theta.components)])

    def unpack(self, vector: Tensor) -> MixtureTheta[C]:
        k = self.n_components
        n_weights = k + (self.noise is not None)
        components = self.family.unpack(vector[n_weights:], k, self.n_features)
        return MixtureTheta(vector[:n_weights].softmax(0), components, self.noise)
