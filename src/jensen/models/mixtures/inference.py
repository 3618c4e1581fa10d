"""What a fitted mixture returns about rows: pure functions of its theta and of rows (n, d) in the user's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch
from jensen.engines.em.sources import over_rows
from jensen.formulas.gaussian import Observed
from jensen.formulas.responsibilities import posterior_in_place
from jensen.models.mixtures.components import C, Conditional, draw_components
from jensen.models.mixtures.em import MixtureTheta
from jensen.models.mixtures.gaussians import AnyGaussians

AnyTheta = MixtureTheta[Any]


def log_evidence(theta: AnyTheta, x: Tensor) -> Tensor:
    """ln p(x), over the observed features (n,)."""
    return answers(theta, x, lambda local, batch: posterior_in_place(log_joint(local, batch))[0][..., None, :])[:, 0]


def responsibilities(theta: AnyTheta, x: Tensor) -> Tensor:
    """q(k | x), (n, K)."""
    return answers(theta, x, lambda local, batch: posterior_in_place(log_joint(local, batch))[1])


def bound_terms(theta: AnyTheta, x: Tensor, q: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """E_q[ln p(x | all that is hidden)] per row and what is paid for it, for any q (n, K) or the posterior.

    The component costs KL(q ‖ π), and a latent vector of the components' own the mean of its KL(q(z|k) ‖ N(0, I)).
    """
    # Padding of a batch points one past the last row.
    padded = None if q is None else torch.cat([q, q.new_ones(1, q.shape[1])])

    def terms(local: AnyTheta, batch: Batch) -> Tensor:
        view = local.components.view(batch)
        log_density = local.log_density(view, batch) + batch.log_jacobian[..., None, :]
        if padded is None:
            _, r = posterior_in_place(log_density + local.log_weights[:, None])
        else:
            r = padded[batch.rows].movedim(-1, -2)
        reconstruction = torch.where(r > 0, r * log_density, 0.0).sum(-2)
        kl = (torch.special.xlogy(r, r) - torch.special.xlogy(r, local.weights[:, None])).sum(-2)
        latent = local.components.latent_divergence(view)
        if latent is None:
            return torch.stack([reconstruction, kl], -2)
        paid = (r * latent).sum(-2)
        return torch.stack([reconstruction + paid, kl, paid], -2)

    values = answers(theta, x, terms)
    return values[:, 0], dict(zip(("component", "latent"), values[:, 1:].unbind(1), strict=False))


def fill(theta: AnyTheta, x: Tensor) -> Tensor:
    """E[x | x_o]: missing entries replaced by their posterior mean."""

    of_noise = None if theta.noise is None else theta.frame().standardise(theta.noise.mean[:, None].clone())

    def mean(local: AnyTheta, batch: Batch) -> Tensor:
        if batch.observed is None:
            return batch.x
        _, q = posterior_in_place(log_joint(local, batch))
        given: Conditional = local.components.given(batch)
        if of_noise is None or theta.noise is None:
            return given.expected(q)
        noise = q[..., -1:, :] * of_noise.masked_fill(~theta.noise.has_mean[:, None], 0.0)
        return given.expected(q[..., :-1, :]) + noise

    return completed(theta, x, mean)[0]


def fill_draws(theta: AnyTheta, x: Tensor, n_draws: int, generator: torch.Generator) -> list[Tensor]:
    """Draws of the missing entries given the observed ones: first the component, then the entries given it."""

    def draws(local: AnyTheta, batch: Batch) -> Tensor:
        if batch.observed is None:
            return batch.x.repeat(n_draws, 1)
        _, q = posterior_in_place(log_joint(local, batch))
        given = local.components.given(batch)
        return torch.cat([one_draw(local, given, draw_components(q, generator)) for _ in range(n_draws)], -2)

    def one_draw(local: AnyTheta, given: Conditional, component: Tensor) -> Tensor:
        if theta.noise is None:
            return given.draw(component, generator)
        is_noise = component == local.n_components
        drawn = given.draw(component.clamp(max=local.n_components - 1), generator)
        noise = theta.frame().standardise(theta.noise.draw(component.numel(), generator).T.contiguous())
        return torch.where(is_noise[..., None, :], noise.T.reshape(*component.shape, -1).movedim(-1, -2), drawn)

    return completed(theta, x, draws, n_draws)


def draw(theta: AnyTheta, n: int, generator: torch.Generator, component: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """n rows and the component that generated each, in order of the components unless these are given; -1 is noise."""
    if component is None:
        drawn = torch.multinomial(theta.weights.cpu(), n, replacement=True, generator=generator)
        component = drawn.sort().values
    if theta.noise is None:
        return theta.components.draw(component, generator), component
    is_noise = component == theta.n_components
    x = theta.components.draw(component.clamp(max=theta.n_components - 1), generator)
    x[is_noise] = theta.noise.draw(int(is_noise.sum()), generator).to(x.dtype)
    return x, numbered(component, theta)


def marginal(theta: MixtureTheta[AnyGaussians], columns: Tensor) -> MixtureTheta[AnyGaussians]:
    noise = None if theta.noise is None else theta.noise.select(columns.tolist())
    return MixtureTheta(theta.weights, theta.components.select(columns), noise)


def condition(theta: MixtureTheta[AnyGaussians], x: Tensor) -> MixtureTheta[AnyGaussians]:
    """The mixture of the missing features of one row x (d,), given the observed ones."""
    missing = x.isnan().nonzero().squeeze(1)
    weights = responsibilities(theta, x[None])[0]
    means, residual = given_observed(theta.components, x)
    kept = residual[:, missing][:, :, missing]
    noise = None if theta.noise is None else theta.noise.select(missing.tolist())
    return MixtureTheta(weights, theta.components.form.of_some_columns.from_full(means[:, missing], kept), noise)


def given_observed(components: AnyGaussians, x: Tensor) -> tuple[Tensor, Tensor]:
    """E[x | x_o, k] (K, d) and Cov[x | x_o, k] (K, d, d) of one row x (d,), 0 where an entry is observed."""
    seen = (~x.isnan()).to(x.dtype)
    observed = Observed(components.full(), seen)
    deviation = (x.nan_to_num(nan=0.0) - components.means) * seen
    return components.means + (observed.gain @ deviation[..., None]).squeeze(-1), observed.residual


def log_joint(theta: AnyTheta, batch: Batch) -> Tensor:
    """ln π_k p_k(x), (*blocks, K, n), in the user's units."""
    log_density = theta.log_density(theta.components.view(batch), batch)
    # A row so far out that its square overflows has density 0.
    log_density.nan_to_num_(nan=-torch.inf, neginf=-torch.inf)
    return log_density.add_(theta.log_weights[:, None]).add_(batch.log_jacobian[..., None, :])


def answers(theta: MixtureTheta[C], x: Tensor, answer: Callable[[MixtureTheta[C], Batch], Tensor]) -> Tensor:
    """Answers (*blocks, m, n) about every batch, in the order of the rows (n, m)."""
    components, noise = theta.components, theta.noise
    if noise is None:
        return over_rows(theta, x, answer, components.footprint, components.by_pattern)
    # Padding of a batch points one past the last row.
    log_noise = torch.cat([noise.log_density(x), torch.zeros(1, dtype=torch.float64)]).to(x.device)

    def with_noise(local: MixtureTheta[C], batch: Batch) -> Tensor:
        return answer(local, replace(batch, log_noise=log_noise[batch.rows]))

    return over_rows(theta, x, with_noise, components.footprint, components.by_pattern)


def numbered(component: Tensor, theta: AnyTheta) -> Tensor:
    """Numbers of components, of which the noise is the last, with -1 for the noise."""
    return component if theta.noise is None else component.masked_fill(component == theta.n_components, -1)


def completed(
    theta: AnyTheta, x: Tensor, answer: Callable[[AnyTheta, Batch], Tensor], n_versions: int = 1
) -> list[Tensor]:
    """Versions of x, one for every d of the answer's features; observed entries stay bit for bit."""
    frame = theta.frame()
    versions = answers(theta, x, answer).reshape(len(x), n_versions, x.shape[1]).unbind(1)
    return [torch.where(x.isnan(), values * frame.scale + frame.origin, x) for values in versions]
