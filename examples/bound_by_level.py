"""The bound of a diffusion, level by level, for data with a known answer.

    python examples/bound_by_level.py [picture.png]
    -ln p(x) ≤ L_T + Σ_{t=2}^T L_{t-1} + L_0
For Gaussians and mixtures the best denoiser E[x_0|x_t] has a closed form, which replaces the network here. For rows
from N(0, I) the reverse steps are exactly N(·, β_t I): with σ_t² = β_t the terms sum to -ln p(x), 1.418939 nats per
number. With σ_t² = β̃_t, the smallest variance a reverse step can have, every level costs more, and the sum is
1.997533. For two clusters the reverse steps are not Gaussian, but nearly so if there are many levels: with σ_t² = β_t
the negative bound falls to -ln p. Both variances are from Ho, Jain & Abbeel (2020). Lines show formulas, dots the
values that `bound` returns.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor, nn

from drawing import COLOURS, INK, figure, picture_path, save, title
from jensen import Denoiser, Diffusion, Schedule

PICTURE = picture_path(__doc__)
N_ROWS, FEWER = 1500, (25, 50, 100, 200, 400, 1000)
VARIANCES = {"beta": "σ² = β", "posterior": "σ² = β̃"}
MEANS, STD = np.array([[1.0, 0.5], [-1.0, -0.5]]), 0.3
rng = np.random.default_rng(0)


class Known(Denoiser):
    """Denoiser of a mixture with these means (K, d) and common variances (d,), in standardised units."""

    def __init__(self, schedule: Schedule, means: np.ndarray, variances: np.ndarray) -> None:
        self.schedule, self.means, self.variances = schedule, means, variances

    def build(self, in_shape: tuple[int, ...], out_shape: tuple[int, ...], n_classes: int = 0) -> nn.Module:
        return KnownModule(self.schedule, *(torch.tensor(a).float() for a in (self.means, self.variances)))


class KnownModule(nn.Module):
    def __init__(self, schedule: Schedule, means: Tensor, variances: Tensor) -> None:
        super().__init__()
        self.means, self.variances = means, variances
        self.time = torch.tensor(schedule.time).float()
        self.bar, self.noise = torch.tensor(np.stack([schedule.alpha_bar, schedule.noise_variance])).float()
        # Nothing is trained, but an optimiser needs at least one parameter.
        self.nothing = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        """v = (√ᾱ x_t - E[x_0|x_t]) / √(1-ᾱ)."""
        level = torch.bucketize(t, self.time, right=True) - 1
        signal, noise = self.bar[level][:, None].sqrt(), self.noise[level][:, None]
        var = signal**2 * self.variances + noise
        squares = ((x[:, None] - signal[..., None] * self.means) ** 2 / var[:, None]).sum(-1)
        mean = (-squares / 2).softmax(-1) @ self.means
        data = mean + signal * self.variances / var * (x - signal * mean)
        return (signal * x - data) / noise.sqrt() + 0 * self.nothing


def known(X: np.ndarray, means: np.ndarray, std: float, n_steps: int, variance: str) -> Diffusion:
    """A diffusion of rows X that needs no training; internally columns have mean 0 and variance 1."""
    scale = X.std(0)
    network = Known(Schedule.linear(n_steps), (means - X.mean(0)) / scale, (std / scale) ** 2)
    return Diffusion(
        "linear", n_steps, network=network, prediction="velocity", variance=variance, max_epochs=1, random_state=0
    ).fit(X)


def terms(schedule: Schedule, variance: str) -> tuple[float, np.ndarray]:
    """Terms for N(0, I), per number: L_T, and L_0, L_1, ..., L_{T-1}; E(x_0 - x̂_0)² = 1 - ᾱ_t."""
    var, posterior = schedule.variances(variance), schedule.variances("posterior")
    error, (_, of_data) = schedule.noise_variance, schedule.posterior_weights
    levels = 0.5 * (of_data**2 * error / var + posterior / var - 1 + np.log(var / posterior))
    levels[0] = 0.5 * (error[0] / var[0] + np.log(2 * math.pi * var[0]))
    return -0.5 * math.log(schedule.noise_variance[-1]), levels


def per_number(model: Diffusion, X: np.ndarray) -> tuple[float, float]:
    """The negative bound over all levels, and its standard error."""
    bound = model.bound(X, levels="all")
    return -float(bound.total.mean()) / 2, float(np.sqrt((bound.standard_error**2).sum())) / len(X) / 2


# Rows with exactly the moments of N(0, I), so that the noise is the only source of error.
X = rng.normal(size=(N_ROWS, 2))
X = np.linalg.solve(np.linalg.cholesky(np.cov(X.T, bias=True)), (X - X.mean(0)).T).T
exact = 0.5 * math.log(2 * math.pi * math.e)
linear = Schedule.linear(1000)
print(f"N(0, I), nats per number; -ln p is {exact:.6f}")
profiles = {}
for variance, expected in {"beta": 1.418939, "posterior": 1.997533}.items():
    prior, levels = terms(linear, variance)
    total = prior + levels.sum()
    model = known(X, np.zeros((1, 2)), 1.0, 1000, variance)
    found, error = per_number(model, X)
    profiles[variance] = (prior, levels, model.bound_by_level(X).mean(0) / 2)
    print(f"{variance}: L_T {prior:.6f} + ΣL {levels[1:].sum():.5f} + L_0 {levels[0]:.5f} = {total:.6f}", end="; ")
    print(f"`bound` returns {found:.4f} ± {error:.4f}")
    assert abs(total - expected) < 1e-6
    if variance == "posterior":
        assert abs(prior - 2.018e-5) < 5e-9, "to the known digits"
        assert abs(levels[0] + 3.07253) < 5e-6
    assert abs(found - total) < 4 * error < 0.15

clusters = MEANS[rng.integers(2, size=N_ROWS)] + STD * rng.normal(size=(N_ROWS, 2))
squares = ((clusters[:, None] - MEANS) ** 2).sum(-1) / (2 * STD**2)
entropy = -float((logsumexp(-squares, axis=1) - math.log(4 * math.pi * STD**2)).mean()) / 2
print(f"two clusters, nats per number; -ln p is {entropy:.4f}")
# Few levels are cheap: their rows are repeated up to four times, each time with new noise.
again = {n: np.tile(clusters, (min(4, 1000 // n), 1)) for n in FEWER}
found = {v: [per_number(known(clusters, MEANS, STD, n, v), again[n]) for n in FEWER] for v in VARIANCES}
bounds = {variance: [value for value, _ in pairs] for variance, pairs in found.items()}
for variance, values in bounds.items():
    print(f"{variance}:", ", ".join(f"T = {n} {value:.4f}" for n, value in zip(FEWER, values, strict=True)))
# 4 standard errors of the noise.
assert all(value > entropy - 4 * error for pairs in found.values() for value, error in pairs), "a bound"
for pairs in found.values():
    values, errors = np.transpose(pairs)
    assert (np.diff(values) < 4 * np.hypot(errors[1:], errors[:-1])).all(), "more levels are not worse"
    assert values[0] - values[-1] > 4 * np.hypot(errors[0], errors[-1]), "and many levels are better than few"
(near, error), (far, _) = found["beta"][-1], found["posterior"][-1]
assert near - entropy < 4 * error < 0.1 < 0.4 < far - entropy, "the bound is tight with β and loose with β̃"

fig = figure(12.6, 5.2)
by_level, spent, fewer = fig.subplots(1, 3)
t, shown = np.arange(2, 1001), np.unique(np.geomspace(2, 1000, 30).astype(int))
# x_0 is drawn after x_1, because a logarithmic axis has no 0.
DATA = 0.4
for colour, (variance, name) in zip(COLOURS, VARIANCES.items(), strict=False):
    prior, levels, found = profiles[variance]
    by_level.plot(t, levels[1:], color=colour, label=name)
    by_level.plot(shown, found[shown - 1], "o", ms=4.5, color=colour)
    way = prior + np.append(0, levels[:0:-1].cumsum())
    end = way[-1] + levels[0]
    spent.plot(np.arange(1000, 0, -1), way, color=colour, label=name)
    spent.plot([1, DATA], [way[-1], end], "o:", color=colour)
    spent.annotate(f"{end:.3f}", (DATA, end), (7, -4), textcoords="offset points", color=colour)
    fewer.plot(FEWER, bounds[variance], "o-", color=colour, label=name)
by_level.set(xscale="log", yscale="log", xlim=(1.8, 1100), xlabel="level t", ylabel="$L_{t-1}$, nats per number")
by_level.set_title("N(0, I): cost of each level")
spent.set(xscale="log", xlim=(1100, 0.1), ylim=(0, 5.6), xlabel="level t, from T down")
spent.set_xticks([1000, 100, 10, 1, DATA], ["1000", "100", "10", "1", "data"])
spent.minorticks_off()
spent.set(ylabel="$L_T + … + L_t$, last with $L_0$")
spent.set_title("N(0, I): sum of the costs; $L_0 < 0$ comes last")
fewer.axhline(entropy, color=INK, lw=1, ls="--")
fewer.text(25, entropy - 0.06, "-ln p", va="top")
fewer.set(xscale="log", ylim=(0, None), xlabel="number of levels T", ylabel="negative bound, nats per number")
fewer.set_xticks(FEWER, FEWER)
fewer.minorticks_off()
fewer.set_title("two clusters: more levels give a tighter bound")
for ax in (by_level, spent, fewer):
    ax.legend()
title(fig, "The bound of a diffusion is a sum over levels; with the right variance it equals ln p")
save(fig, PICTURE)
