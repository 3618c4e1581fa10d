"""Noising in a thousand steps or in one: the closed form of q(x_t|x_0).

    python examples/noising.py [picture.png]
Every step keeps √α_t of the row and adds noise of variance β_t = 1 - α_t:
    x_t = √(1-β_t) x_{t-1} + √β_t ε_t,    so    q(x_t|x_0) = N(√ᾱ_t x_0, (1-ᾱ_t) I),   ᾱ_t = α_1 ⋯ α_t.
By induction: α_t times the variance 1-ᾱ_{t-1}, plus β_t, is 1-ᾱ_t. So x_t at any level takes a single draw. After the
last level almost nothing of the row is left: q(x_T) ≈ N(0, I) for any data. The schedule is linear, with β from 0.0001
to 0.02 in 1000 steps (Ho, Jain & Abbeel 2020).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import kstest, norm
from sklearn.datasets import load_digits

from drawing import COLOURS, GREY, INK, figure, image_rows, picture_path, save, title
from jensen import Schedule, gaussian_kl

PICTURE = picture_path(__doc__)
N_ROWS, SHOWN = 20_000, (0, 50, 100, 200, 300, 400, 500, 700, 1000)
schedule = Schedule.linear(1000)
bar = np.append(1.0, schedule.alpha_bar)

# The induction in numbers: the signal that remains, and the accumulated variance.
kept, variance = 1.0, 0.0
for t, beta in enumerate(schedule.beta, start=1):
    kept, variance = kept * np.sqrt(1 - beta), (1 - beta) * variance + beta
    assert abs(kept - np.sqrt(bar[t])) < 1e-12
    assert abs(variance - (1 - bar[t])) < 1e-12, "rounding of a thousand steps"

# A thousand steps for numbers that start at 1.5, and for a digit.
rng = np.random.default_rng(0)
digit = load_digits().images[13] / 8 - 1
x, picture = np.full(N_ROWS, 1.5), digit.copy()
walks, strip, drawn = [x[:40]], [digit], {}
print("level   mean, expected        variance, expected")
for t, beta in enumerate(schedule.beta, start=1):
    x = np.sqrt(1 - beta) * x + np.sqrt(beta) * rng.normal(size=N_ROWS)
    picture = np.sqrt(1 - beta) * picture + np.sqrt(beta) * rng.normal(size=digit.shape)
    walks.append(x[:40])
    if t in SHOWN:
        strip.append(picture)
        mean, var = 1.5 * np.sqrt(bar[t]), 1 - bar[t]
        drawn[t] = x.copy()
        print(f"{t:5d} {x.mean():8.4f} {mean:8.4f} {x.var():14.4f} {var:8.4f}")
        # Within 4 standard errors, σ/√n for a mean and σ²√(2/n) for a variance, and a test of the distribution.
        assert abs(x.mean() - mean) < 4 * np.sqrt(var / N_ROWS)
        assert abs(x.var() - var) < 4 * var * np.sqrt(2 / N_ROWS)
        assert kstest(x, norm(mean, np.sqrt(var)).cdf).pvalue > 1e-4, "a Gaussian"
left = float(gaussian_kl([[1.5 * np.sqrt(bar[-1])]], [[[1 - bar[-1]]]], [[0.0]], [[[1.0]]])[0])
print(f"KL(q(x_T|x_0) ‖ N(0, 1)) = {left:.2e} nats: almost pure noise")
expected = 0.5 * (1.5**2 * bar[-1] - bar[-1] - np.log1p(-bar[-1]))
assert abs(left - expected) < 1e-10
jump = [np.sqrt(bar[t]) * digit + np.sqrt(1 - bar[t]) * rng.normal(size=digit.shape) for t in SHOWN]

fig = figure(13, 7)
above, below = fig.subfigures(2, 1, height_ratios=(1.25, 1))
paths, shapes = above.subplots(1, 2, width_ratios=(1.5, 1))
levels = np.arange(1001)
paths.plot(levels, np.array(walks), color=GREY, lw=0.5, alpha=0.6)
paths.plot(levels, 1.5 * np.sqrt(bar), color=COLOURS[1], label="√ᾱ · 1.5, the mean")
for sign in (-2, 2):
    edge = 1.5 * np.sqrt(bar) + sign * np.sqrt(1 - bar)
    paths.plot(levels, edge, color=COLOURS[0], ls="--", label="± 2 √(1 − ᾱ)" if sign == 2 else None)
paths.set(
    xlabel="level t",
    ylabel="$x_t$",
    xlim=(0, 1000),
    ylim=(-3.2, 4.2),
    title="40 numbers that start at 1.5, step by step",
)
paths.legend(loc="upper right", ncols=2)
grid = np.linspace(-3.6, 3.6, 400)
for t, colour in zip((50, 200, 400, 1000), COLOURS, strict=False):
    shapes.hist(drawn[t], 90, density=True, color=colour, alpha=0.35)
    shapes.plot(grid, norm.pdf(grid, 1.5 * np.sqrt(bar[t]), np.sqrt(1 - bar[t])), color=colour, label=f"t = {t}")
shapes.plot(grid, norm.pdf(grid), color=INK, lw=1, ls=":", label="N(0, 1)")
shapes.set(xlabel="$x_t$", ylabel="density", xlim=(-3.6, 3.6), title="histograms after t steps, and the closed form")
shapes.legend(loc="upper left")
pictures = below.subplots()
image_rows(pictures, {"step by step": np.stack(strip) / 2 + 0.5, "in one step": np.stack(jump) / 2 + 0.5}, 1)
pictures.set_xticks(np.arange(len(SHOWN)) + 0.5, [f"t = {t}" for t in SHOWN])
pictures.set_title("a digit with independent noise in each row: the same distribution at every level")
title(fig, "A thousand small steps of noise equal one large step")
save(fig, PICTURE)
