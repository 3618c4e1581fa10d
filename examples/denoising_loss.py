"""The denoising loss: one bound in terms of the noise, the row, the mean or the velocity.

    python examples/denoising_loss.py [picture.png]
    L_{t-1} = KL(N(μ̃_t, β̃_t I) ‖ N(μ_θ, β̃_t I)) = ‖μ̃_t - μ_θ‖² / (2β̃_t)
            = β_t² / (2β̃_t α_t (1-ᾱ_t)) ‖ε - ε_θ‖² = ᾱ_{t-1} β_t² / (2β̃_t (1-ᾱ_t)²) ‖x_0 - x̂_0‖²
The factors in the second line are the ε-weight and the x_0-weight of level t. The simple loss replaces the ε-weight by
1, so levels with hardly any noise, whose errors are not visible in an image, count less. If the loss uses one random
level per row, the sum of the bound needs the factor T - 1. The last term, L_0 = -ln p(x_0|x_1), is the discretised
decoder for pixels: the probability of a Gaussian on the cell of a grey level, where the outer cells extend to ±∞. The
probabilities sum to 1 for every mean and σ. For rows from N(0, I) and the best denoiser, E(ε - ε_θ)² = ᾱ_t, so the mean
simple loss is 0.275513 for 1000 linear levels and 0.495578 for 1000 cosine levels. Ho, Jain & Abbeel (2020).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import Schedule, gaussian_kl

PICTURE = picture_path(__doc__)
D, N_DRAWS, N_LEVELS, N_GREYS = 3, 20_000, 1000, 17
SCHEDULES = {"linear": Schedule.linear(N_LEVELS), "cosine": Schedule.cosine(N_LEVELS)}
rng = np.random.default_rng(0)


def weights(schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """The ε-weights and the x_0-weights in L_{t-1}, t = 2..T."""
    beta, alpha, noise = schedule.beta[1:], schedule.alpha[1:], schedule.noise_variance[1:]
    twice = 2 * schedule.posterior_variance[1:]
    return beta**2 / (twice * alpha * noise), schedule.alpha_bar_before[1:] * beta**2 / (twice * noise**2)


for schedule in SCHEDULES.values():
    for t in (2, 10, 300, 700, 990):
        signal, noise = np.sqrt(schedule.alpha_bar[t - 1]), np.sqrt(schedule.noise_variance[t - 1])
        alpha, beta, var = schedule.alpha[t - 1], schedule.beta[t - 1], schedule.posterior_variance[t - 1]
        of_noised, of_data = (w[t - 1] for w in schedule.posterior_weights)
        x_0, eps, guess = rng.normal(size=(3, D))
        x_t = signal * x_0 + noise * eps
        data = (x_t - noise * guess) / signal
        means = [of_noised * x_t + of_data * x for x in (x_0, data)]
        exact = float(gaussian_kl(means[0], var * np.eye(D), means[1], var * np.eye(D)))
        velocity = [signal * e - noise * x for e, x in ((eps, x_0), (guess, data))]
        assert np.allclose(means[1], (x_t - beta / noise * guess) / np.sqrt(alpha)), "the mean from the noise"
        assert np.allclose(data, signal * x_t - noise * velocity[1]), "the row from the velocity"
        by_noise, by_data = (w[t - 2] for w in weights(schedule))
        # Rounding: the mean is a difference of numbers up to a thousand times larger.
        assert np.isclose(np.square(means[0] - means[1]).sum() / (2 * var), exact, rtol=1e-6)
        assert np.isclose(by_noise * np.square(eps - guess).sum(), exact, rtol=1e-6)
        assert np.isclose(by_data * np.square(x_0 - data).sum(), exact, rtol=1e-6)
        assert np.isclose(by_data * np.square(velocity[0] - velocity[1]).sum() * noise**2, exact, rtol=1e-6)

# N(0, 1) with its best denoiser, x̂_0 = √ᾱ_t x_t: exact values, and estimates from one random level per row.
expected = {"linear": (0.275513, 5.07004), "cosine": (0.495578, 5.45416)}
for name, schedule in SCHEDULES.items():
    simple = schedule.alpha_bar.mean()
    by_noise, _ = weights(schedule)
    whole = by_noise @ schedule.alpha_bar[1:]
    t = rng.integers(2, N_LEVELS + 1, N_DRAWS)
    x_0, eps = rng.normal(size=(2, N_DRAWS))
    signal, noise = np.sqrt(schedule.alpha_bar[t - 1]), np.sqrt(schedule.noise_variance[t - 1])
    x_t = signal * x_0 + noise * eps
    drawn = (N_LEVELS - 1) * by_noise[t - 2] * (eps - noise * x_t) ** 2
    error = drawn.std(ddof=1) / np.sqrt(N_DRAWS)
    print(f"{name}: simple {simple:.6f}; Σ L_t-1 {whole:.4f} nats, from random levels {drawn.mean():.4f} ± {error:.4f}")
    assert np.allclose((simple, whole), expected[name], rtol=0, atol=(5e-7, 5e-6)), "to the known digits"
    assert abs(drawn.mean() - whole) < 4 * error, "T - 1 times a random level has the sum as its expectation"

# L_0, the discretised decoder: the probability of the cell of every grey level.
greys = np.linspace(-1, 1, N_GREYS)
half = 1 / (N_GREYS - 1)
edges = np.concatenate([[-np.inf], (greys[1:] + greys[:-1]) / 2, [np.inf]])
cases = {"σ = 0.05": (0.31, 0.05), "σ = 0.2": (-0.35, 0.2), "σ = 0.5, near the edge": (0.9, 0.5)}
masses = {}
for name, (mean, std) in cases.items():
    masses[name] = np.diff(norm.cdf(edges, mean, std))
    assert abs(masses[name].sum() - 1) < 1e-12, "rounding"

fig = figure(13.5, 4.9)
of_noise, of_data, of_cells = fig.subplots(1, 3)
levels = np.arange(2, N_LEVELS + 1)
for (name, schedule), colour in zip(SCHEDULES.items(), COLOURS, strict=False):
    by_noise, by_data = weights(schedule)
    of_noise.loglog(levels, by_noise, color=colour, label=f"the bound, {name}")
    of_data.loglog(levels, by_data, color=colour, label=f"the bound, {name}")
    simple = schedule.alpha_bar[1:] / schedule.noise_variance[1:]
    of_data.loglog(levels, simple, color=colour, lw=1.2, ls="--", label=f"simple, {name}")
of_noise.axhline(1, color=INK, lw=1.2, ls="--", label="simple")
of_noise.set(
    xlabel="level t",
    ylabel="weight of ‖ε − $ε_θ$‖²",
    ylim=(1e-3, 1e4),
    title="ε-weights: the network predicts the noise",
)
of_data.set(xlabel="level t", ylabel="weight of ‖$x_0$ − $\\hat x_0$‖²", ylim=(1e-5, 1e6))
of_data.set_title("$x_0$-weights: the network predicts the row")
of_noise.legend(loc="upper left")
of_data.legend(loc="upper right")
for k, ((name, mass), colour) in enumerate(zip(masses.items(), COLOURS, strict=False)):
    of_cells.bar(greys + (k - 1) * half / 2, mass, half / 2, color=colour, alpha=0.85, label=name)
    mean, std = cases[name]
    fine = np.linspace(-1.35, 1.35, 500)
    of_cells.plot(fine, 2 * half * norm.pdf(fine, mean, std), color=colour, lw=1)
for edge in edges[1:-1]:
    of_cells.axvline(edge, color=GREY, lw=0.4, zorder=0)
of_cells.set(xlabel="grey level, −1 to 1", ylabel="probability of the cell", xlim=(-1.35, 1.35), ylim=(0, 0.72))
of_cells.set_title(f"$L_0$: a Gaussian on {N_GREYS} cells, tails in the outer ones")
of_cells.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="none")
title(fig, "The bound of a diffusion weights the levels; the simple loss does not")
save(fig, PICTURE)
