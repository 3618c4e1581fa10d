"""How one Gaussian around a subspace is fitted.

Complete rows enter through their mean and covariance alone: probabilistic PCA has a closed form, and factor analysis
runs EM on 2d rows with the same mean and covariance. Rows with missing values go through EM themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from jensen.contract import Problem, Rows, Stream
from jensen.data.container import Kind
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch, Summary
from jensen.engines.em.frame import Frame, one_unit
from jensen.engines.em.sources import Source
from jensen.formulas.gaussian import clip_eigenvalues
from jensen.models.factors.principal import (
    RowMoments,
    Spectrum,
    bic_rank,
    leading_spectrum,
    mean_log_density,
    principal_log_density,
    principal_subspace,
    spectrum_of,
)
from jensen.models.factors.subspace import SubspaceGaussians, SubspaceStructure
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.em import MixtureTheta, SmoothMixtureVerbs
from jensen.models.mixtures.gaussians import FULL, Moments
from jensen.models.mixtures.gaussians.family import GaussianFamily
from jensen.models.mixtures.gaussians.moments import outer
from jensen.models.mixtures.gaussians.spread import variances_of_rows
from jensen.runtime.memory import need_memory

SubspaceTheta = MixtureTheta[SubspaceGaussians]
# A noise variance below this share of the data's is rounding of the eigenvalues.
RESOLUTION = 1e-12
# Wider rows start from products with their covariance, which is not made.
WIDEST_START = 1000
# EM steps before the dimensions are counted.
RANK_STEPS = 40
# Where EM starts, no dimension is without variance: it would stay so.
LEAST_LOADING = 1e-2


@dataclass(frozen=True)
class ClosedForm:
    """Parameters in the user's units, the objective per unit of weight, and whether the noise came to its floor."""

    theta: SubspaceTheta
    objective: float
    is_floored: bool


def that_vary(kind: Kind) -> str:
    """For a message about the number of features."""
    return "" if kind.constants is None else " that vary"


def one(components: SubspaceGaussians) -> SubspaceTheta:
    """A mixture of a single component."""
    return MixtureTheta(torch.ones(1, dtype=torch.float64), components)


def closed_form(mean: Tensor, spectrum: Spectrum, n_latent: int) -> ClosedForm:
    """Maximum likelihood of probabilistic PCA."""
    d = len(mean)
    floor = RESOLUTION * (spectrum.total / d or 1.0)
    components = principal_subspace(mean, spectrum, n_latent, floor)
    sigma2 = float(components.noise)
    objective = principal_log_density(spectrum, n_latent, sigma2, d)
    return ClosedForm(one(components), objective, is_floored=sigma2 <= floor)


def closed_mode(moments: RowMoments, n_latent: int, prior: ConjugatePrior) -> ClosedForm:
    """The posterior mode of probabilistic PCA: the prior's scatter is added to the rows' before the axes are found."""
    d, n, structure = len(moments.mean), moments.mass, SubspaceStructure(n_latent, is_isotropic=True)
    frame = Frame.of_moments(moments.mean, moments.cov.diagonal(), structure.units)
    cov = moments.cov / frame.scale[0].square()
    resolved = prior.resolve(structure, 1, frame, cov.diagonal())
    kappa = resolved.mean_precision
    mean = kappa * resolved.mean / (n + kappa)
    away = mean - resolved.mean
    scatter = n * (cov + outer(mean, mean)) + kappa * outer(away, away) + resolved.scale * torch.eye(d).to(cov)
    mode = scatter / (n + resolved.degrees_of_freedom + d + 2)
    components = principal_subspace(mean, spectrum_of(mode), n_latent, RESOLUTION)
    likelihood = mean_log_density(components, torch.zeros_like(mean), cov) - float(frame.scale.log().sum())
    objective = likelihood + (float(components.log_prior(resolved)) + resolved.log_volume) / n
    return ClosedForm(one(components.affine(frame.origin, frame.scale)), objective, is_floored=False)


def compressed(moments: RowMoments) -> tuple[Tensor, Tensor]:
    """2d rows, feature-major (d, 2d) and about 0, with the covariance of all, and the weight of each."""
    d = len(moments.mean)
    unit = moments.cov.diagonal().sqrt()
    # Of correlations: a feature in small units keeps its digits, and a constant one stays at 0.
    safe = torch.where(unit > 0, unit, 1.0)
    spectrum = spectrum_of(moments.cov / outer(safe, safe))
    half = unit[:, None] * spectrum.vectors * (d * spectrum.values).sqrt()
    return torch.cat([half, -half], 1), torch.full((2 * d,), moments.mass / (2 * d), dtype=torch.float64)


def subspace_problem(
    rows: Rows,
    structure: SubspaceStructure,
    prior: ConjugatePrior | None,
    stop: Callable[[float], em.Stop],
    algorithm: em.Algorithm[Any, Any],
    start: SubspaceTheta | None,
    noise_init: Tensor | None = None,
    n_power: int | None = None,
    noise_floor: float = 0.0,
) -> tuple[Problem, Frame]:
    """EM for one component.

    Args:
        rows: training rows.
        structure: the latent dimensions and the noise.
        prior: a recipe, or None.
        stop: of the total weight, when to stop.
        algorithm: how to step.
        start: parameters to start from, in the units of the rows; None begins with the leading principal axes.
        noise_init: noise variances (d,) to start with, in the units of the rows.
        n_power: steps of the search for the axes; None finds them exactly, unless rows are very wide.
        noise_floor: the least noise variance, as a share of the mean variance of the features.
    """
    d, mass = rows.x.shape[1], rows.mass
    family: GaussianFamily[SubspaceGaussians] = GaussianFamily(structure, max(RESOLUTION, noise_floor), prior)
    # In one unit for all features a floor is one number.
    frame = Frame.of(rows.extent, one_unit) if noise_floor else family.frame(rows.extent)
    source = rows.source(frame, footprint=family.standard(1, d).footprint, by_pattern=False)
    verbs = SmoothMixtureVerbs(family.prepared(1, frame, source), 1, d)

    def begin(generator: torch.Generator) -> SubspaceTheta:
        if start is not None:
            return verbs.project(start.within(frame))
        if d <= WIDEST_START:
            cov = covariance_of_pairs(source, d)
            spread, times, total = cov.diagonal(), cov.matmul, 1.0
        else:
            spread, times, total = variances_of_rows(source, d), partial(covariance_times, source), mass
        if n_power is None and d <= WIDEST_START:
            spectrum = spectrum_of(cov)
        else:
            steps = 4 if n_power is None else n_power
            spectrum = leading_spectrum(times, total, float(spread.sum()), structure.n_latent, d, generator, steps)
        components = principal_subspace(torch.zeros_like(spread), spectrum, structure.n_latent, 1e-3, LEAST_LOADING)
        if not structure.is_isotropic:
            left = (spread - components.loadings[0].square().sum(1)).clamp(min=1e-3)
            noise = left if noise_init is None else noise_init / frame.scale.square()
            components = SubspaceGaussians(components.means, components.loadings, noise[None])
        return verbs.project(one(components))

    return Problem(verbs, source, begin, verbs.plausibility, stop(mass), algorithm), frame


def weighted(batch: Batch) -> Tensor:
    return batch.x if batch.weight is None else batch.x * batch.weight


def start_of_least_bic(problem: Problem, generator: torch.Generator, progress: str | None = None) -> SubspaceTheta:
    """A start of PPCA for rows with missing values, with the number of dimensions of the least BIC.

    By BIC of the spectrum after some steps: the eigenvalues over pairs of features alone would be too many, as what is
    missing of a strong axis looks like others.
    """
    fitted = em.fit(
        problem.verbs,
        problem.start(generator),
        problem.source,
        max_iter=RANK_STEPS,
        stop=em.small_gain(1e-2),
        algorithm=em.squarem,
        progress=progress,
    )
    components: SubspaceGaussians = fitted.theta.components
    noise, d, most = float(components.noise), components.n_features, components.n_latent
    vectors, size, _ = torch.linalg.svd(components.loadings[0], full_matrices=False)
    values = size.square() + noise
    spectrum = Spectrum(values, vectors, float(values.sum()) + (d - most) * noise)
    m = bic_rank(spectrum, fitted.weight, d, most)
    return one(principal_subspace(components.means[0], spectrum, m, RESOLUTION, LEAST_LOADING))


def covariance_of_pairs(source: Source, d: int) -> Tensor:
    """The mean product of two features over the rows that have both (d, d); 0 where none has."""
    sums, counts = torch.zeros(2, d, d, dtype=torch.float64)
    for batch in source:
        sums.addmm_(weighted(batch), batch.x.mT)
        if batch.observed is None:
            counts += batch.x.shape[1] if batch.weight is None else batch.weight.sum()
        else:
            seen = batch.observed.to(sums.dtype)
            counts.addmm_(seen if batch.weight is None else seen * batch.weight, seen.mT)
    return torch.where(counts > 0, sums / counts, 0.0)


def covariance_times(source: Source, q: Tensor) -> Tensor:
    """Σ_i w_i x_i x_iᵀ q, missing entries at the mean."""
    return sum((weighted(batch) @ (batch.x.mT @ q) for batch in source), torch.zeros_like(q))


@dataclass(frozen=True)
class MomentVerbs:
    """Stepwise EM on mean and covariance: a batch adds its own, completed given the model, and `solve` fits to them.

    With complete rows these moments do not depend on the model, and all that was ever seen counts alike.

    Args:
        solve: fits mean and covariance, all in the user's units.
        frame: the units of the batches.
        is_scored: whether an E-step returns Σ w ln p(x), too; a step with a batch does not need it.
    """

    solve: Callable[[RowMoments, SubspaceTheta], SubspaceTheta]
    frame: Frame
    is_scored: bool = False

    def e_step(self, theta: SubspaceTheta, batch: Batch) -> Summary[Moments]:
        # Beside long loadings, noise at its floor is less than the rounding of their square.
        cov = clip_eigenvalues(covariance_of(theta), RESOLUTION)
        full = FULL(theta.components.means, cov[None])
        ones = torch.ones_like(batch.x[..., 0, :])
        weight = ones if batch.weight is None else batch.weight
        view, bound = full.view(batch), ones.new_zeros(())
        if self.is_scored:
            bound = (weight * (full.log_density(view)[..., 0, :] + batch.log_jacobian)).sum()
        return Summary(full.moments(weight[..., None, :], view), bound, weight.sum())

    def m_step(self, theta: SubspaceTheta, stats: Moments) -> SubspaceTheta:
        found = FULL.from_moments(stats, None).affine(self.frame.origin, self.frame.scale)
        moments = RowMoments(float(stats.mass), found.means[0], found.covariances[0])
        return self.solve(moments, theta.outside(self.frame)).within(self.frame)

    def log_prior(self, theta: SubspaceTheta) -> Tensor:
        return theta.weights.new_zeros(())

    def resolution(self, theta: SubspaceTheta) -> float:
        return 0.0


def stream_of(moments: RowMoments, theta: SubspaceTheta, solve: Callable[..., SubspaceTheta]) -> Stream:
    """What stepwise EM needs to continue from rows with these moments."""
    frame = Frame(moments.mean, theta.components.structure.units(theta.components.feature_variances()[0]))
    cov = moments.cov / outer(frame.scale, frame.scale)
    one_row = Moments(torch.ones(1, dtype=cov.dtype), torch.zeros_like(moments.mean)[None], cov[None])
    return Stream(frame, MomentVerbs(solve, frame), em.Running(one_row, moments.mass), theta.within(frame))


def covariance_of(theta: SubspaceTheta) -> Tensor:
    """C = W Wᵀ + Ψ (d, d)."""
    w = theta.components.loadings[0]
    need_square(len(w))
    return w @ w.mT + torch.diag(theta.components.noise[0].expand(len(w)))


def covariances_of(components: SubspaceGaussians) -> Tensor:
    """C_k = W_k W_kᵀ + Ψ_k (K, d, d)."""
    need_square(components.n_features)
    noise = components.noise.expand_as(components.means)
    return components.loadings @ components.loadings.mT + torch.diag_embed(noise)


def need_square(d: int) -> None:
    """A matrix (d, d) takes memory, twice while it is made."""
    need_memory(2 * 8 * d**2, f"a covariance of {d} features", "take W and the noise, or fewer features")
