"""One reverse step: Gaussian given the row, and without it only if the step is small.

    python examples/reverse_step.py [picture.png]
Given x_0, all three factors of Bayes' rule are Gaussian, and so is the reverse step:
    q(x_{t-1}|x_t,x_0) = q(x_t|x_{t-1}) q(x_{t-1}|x_0) / q(x_t|x_0) = N(μ̃_t, β̃_t)
    μ̃_t = [√α_t (1-ᾱ_{t-1}) x_t + √ᾱ_{t-1} β_t x_0] / (1-ᾱ_t) = (x_t - β_t/√(1-ᾱ_t) ε) / √α_t
    β̃_t = β_t (1-ᾱ_{t-1}) / (1-ᾱ_t)
Without x_0 it is a mixture of these over q(x_0|x_t), which is unknown for real data. A diffusion uses one Gaussian
instead. For rows in two clusters everything can be computed: a large reverse step has two peaks, which no Gaussian
fits; a small one is nearly Gaussian (Feller 1949). So with many levels the assumption of the model holds.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import norm

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import Schedule, kl

PICTURE = picture_path(__doc__)
MEANS, STD, LEVELS, DRAWN = np.array([-1.0, 1.0]), 0.15, (4, 8, 16, 32, 64, 128, 256), (4, 64)
x, step = np.linspace(-6, 6, 24_001, retstep=True)


def marginal(bar: float) -> np.ndarray:
    """q(x_t) on the grid: each cluster is scaled by √ᾱ and widened by the noise."""
    std = np.sqrt(bar * STD**2 + 1 - bar)
    return norm.pdf(x[:, None], np.sqrt(bar) * MEANS, std).mean(1)


def normalised(values: np.ndarray) -> np.ndarray:
    return values / values.sum()


def back(schedule: Schedule, t: int, at: float) -> tuple[np.ndarray, np.ndarray]:
    """q(x_{t-1}|x_t = at) on the grid by Bayes' rule, and the Gaussian with its mean and variance."""
    forward = norm.pdf(at, np.sqrt(schedule.alpha[t - 1]) * x, np.sqrt(schedule.beta[t - 1]))
    exact = normalised(forward * marginal(schedule.alpha_bar_before[t - 1]))
    mean = exact @ x
    std = np.sqrt(exact @ (x - mean) ** 2)
    # Beyond 12 standard deviations the values are too small for floats.
    inside = np.abs(x - mean) < 12 * std
    return normalised(np.where(inside, exact, 0.0)), normalised(np.where(inside, norm.pdf(x, mean, std), 0.0))


# Given x_0: the closed form, with both formulas of the mean, against Bayes' rule on the grid.
schedule, t = Schedule.cosine(16), 8
beta, alpha, bar, before = (
    float(a[t - 1]) for a in (schedule.beta, schedule.alpha, schedule.alpha_bar, schedule.alpha_bar_before)
)
of_noised, of_data = (float(w[t - 1]) for w in schedule.posterior_weights)
for x_0, x_t in ((1.0, 0.3), (-0.4, 1.2), (2.0, -1.0)):
    bayes = normalised(
        norm.pdf(x_t, np.sqrt(alpha) * x, np.sqrt(beta)) * norm.pdf(x, np.sqrt(before) * x_0, np.sqrt(1 - before))
    )
    noise = (x_t - np.sqrt(bar) * x_0) / np.sqrt(1 - bar)
    mean = (np.sqrt(alpha) * (1 - before) * x_t + np.sqrt(before) * beta * x_0) / (1 - bar)
    assert abs(mean - (x_t - beta / np.sqrt(1 - bar) * noise) / np.sqrt(alpha)) < 1e-12
    assert abs(mean - of_noised * x_t - of_data * x_0) < 1e-12, "the coefficients of the schedule"
    closed = normalised(norm.pdf(x, mean, np.sqrt(schedule.posterior_variance[t - 1])))
    assert abs(schedule.posterior_variance[t - 1] - beta * (1 - before) / (1 - bar)) < 1e-12
    assert kl(bayes, closed) < 1e-12, "Bayes' rule and the formula give the same density"

# Without x_0, at a level where ᾱ is the same for every T.
betas, misfit = [], []
for n_levels in LEVELS:
    schedule, t = Schedule.cosine(n_levels), n_levels // 2
    seen = normalised(marginal(schedule.alpha_bar[t - 1]))
    points = np.linspace(-2, 2, 41)
    weights = np.interp(points, x, seen)
    costs = [kl(*back(schedule, t, at)) for at in points]
    betas.append(schedule.beta[t - 1])
    misfit.append(float(np.average(costs, weights=weights)))
    total = n_levels * misfit[-1]
    print(f"T = {n_levels:3d}: β = {betas[-1]:.4f}, KL to the best Gaussian {misfit[-1]:.1e}, T times that {total:.1e}")
# A small step has skewness of order √β³, and KL is of order its square: twice the levels, an eighth of the KL.
slope = np.diff(np.log(misfit))[-3:] / np.diff(np.log(betas))[-3:]
print("KL falls as β to the power", ", ".join(f"{s:.2f}" for s in slope))
assert (np.diff(misfit) < 0).all(), "smaller steps are closer to a Gaussian"
assert (slope > 2).all(), "T times the KL falls as T grows"
# The exponent exceeds 3 by a term of order β: below 0.1 for the last pair, where β is 0.02.
assert (np.diff(slope) < 0).all(), "the exponent decreases"
assert 3 < slope[-1] < 3.1, "to 3"

fig = figure(13.5, 4.9)
*panels, falls = fig.subplots(1, 3)


def draw(ax: Axes, n_levels: int, at: float = 0.1) -> None:
    schedule, t = Schedule.cosine(n_levels), n_levels // 2
    exact, gaussian = back(schedule, t, at)
    ax.fill_between(x, marginal(schedule.alpha_bar_before[t - 1]), color=GREY, alpha=0.22, lw=0, label="$q(x_{t-1})$")
    ax.plot(x, exact / step, color=INK, label="$q(x_{t-1} | x_t)$")
    ax.plot(x, gaussian / step, color=COLOURS[1], ls="--", label="the best Gaussian")
    of_noised, of_data = (w[t - 1] for w in schedule.posterior_weights)
    for x_0, colour in zip(MEANS, (COLOURS[0], COLOURS[2]), strict=True):
        mean, std = of_noised * at + of_data * x_0, np.sqrt(schedule.posterior_variance[t - 1])
        ax.plot(x, 0.5 * norm.pdf(x, mean, std), color=colour, lw=1.2, label=f"½ $q(x_{{t-1}} | x_t, x_0$ = {x_0:.0f})")
    ax.axvline(at, color=GREY, lw=1, ls=":")
    ax.text(at + 0.05, 0.97 * ax.get_ylim()[1], "$x_t$", color=GREY, va="top")
    ax.set(xlim=(-2.4, 2.4), ylim=(0, 1.08 * ax.get_ylim()[1]), xlabel="$x_{t-1}$")
    ax.set_title(f"T = {n_levels}: a step of β = {schedule.beta[t - 1]:.2f}, KL = {kl(exact, gaussian):.1e}")


for ax, n_levels in zip(panels, DRAWN, strict=True):
    draw(ax, n_levels)
panels[0].set(ylabel="density", ylim=(0, 1.25))
panels[0].legend(loc="upper left", ncols=2, columnspacing=1)
falls.loglog(betas, misfit, "o-", color=COLOURS[1])
falls.loglog(betas, misfit[-1] * (np.array(betas) / betas[-1]) ** 3, color=GREY, lw=1, ls="--", label="β³")
for beta, cost, n_levels in list(zip(betas, misfit, LEVELS, strict=True))[::2]:
    falls.annotate(f"T = {n_levels}", (beta, cost), (8, -10), textcoords="offset points")
falls.set(xlabel="β of the step", ylabel="KL(q ‖ best Gaussian), nats, mean over $x_t$")
falls.set_xticks([0.01, 0.03, 0.1, 0.3], ["0.01", "0.03", "0.1", "0.3"])
falls.minorticks_off()
falls.set_xlim(0.009, 0.8)
falls.set_title("error of one Gaussian")
falls.legend(loc="upper left")
title(fig, "A reverse step is nearly Gaussian if it is small, and not Gaussian if it is large")
save(fig, PICTURE)
