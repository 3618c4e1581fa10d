"""Linear and cosine noise schedules: how fast a digit disappears in noise.

    python examples/noise_schedules.py [picture.png]
Noising keeps √ᾱ_t of the data and adds noise of variance 1 - ᾱ_t. For data of variance 1, ᾱ_t is the share of the data
in the variance, so schedules can be compared by ᾱ_t. The linear schedule (Ho, Jain & Abbeel 2020) hides a digit of
8 × 8 pixels long before its last level, and spends many levels where almost no signal is left. The cosine schedule
(Nichol & Dhariwal 2021) spreads its levels more evenly. All images use the same noise. With fewer levels the steps must
be larger: β is multiplied by 1000 / T, which leaves the curve of ᾱ nearly unchanged. Respacing keeps ᾱ at the remaining
levels.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from drawing import COLOURS, GREY, figure, image_rows, picture_path, save, title
from jensen import Schedule

PICTURE = picture_path(__doc__)
N_LEVELS = 1000
SHOWN = np.array([1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000])

schedules = {"linear": Schedule.linear(N_LEVELS), "cosine": Schedule.cosine(N_LEVELS)}
digit = load_digits().images[13] / 8 - 1
noise = np.random.default_rng(3).normal(size=digit.shape)


def noised(schedule: Schedule, level: int) -> np.ndarray:
    """x_t = √ᾱ_t x_0 + √(1-ᾱ_t) ε."""
    return np.sqrt(schedule.alpha_bar[level - 1]) * digit + np.sqrt(schedule.noise_variance[level - 1]) * noise


half = {name: int(np.argmax(schedule.snr < 1)) + 1 for name, schedule in schedules.items()}
print("level  √ᾱ linear  √ᾱ cosine")
for level in SHOWN:
    print(f"{level:5d}", *(f"{np.sqrt(schedule.alpha_bar[level - 1]):10.4f}" for schedule in schedules.values()))
for name, schedule in schedules.items():
    print(f"{name}: more noise than signal from level {half[name]}; last ᾱ {schedule.alpha_bar[-1]:.1e}")
assert half["linear"] < 300 < 490 < half["cosine"] < 500, "the linear schedule reaches ½ long before the middle"
np.testing.assert_allclose(schedules["linear"].alpha_bar[-1], 4.036e-5, rtol=1e-3)
np.testing.assert_allclose(np.prod(1 - schedules["cosine"].beta), schedules["cosine"].alpha_bar[-1])
few, kept = Schedule.linear(100), schedules["linear"].respace(np.arange(10, N_LEVELS + 1, 10))
np.testing.assert_allclose(kept.alpha_bar, schedules["linear"].alpha_bar[9::10])
np.testing.assert_allclose(
    few.alpha_bar, kept.alpha_bar, atol=0.01, err_msg="the same curve with a tenth of the levels"
)

fig = figure(13.5, 7.4)
above, below = fig.subfigures(2, 1, height_ratios=(1.2, 1))
bars, shares, ratios = above.subplots(1, 3)
schedules["linear"].plot(schedules["cosine"], ax=shares)
for line, colour in zip(shares.lines, COLOURS, strict=False):
    line.set(color=colour, linestyle="-")
shares.legend(handles=shares.lines)
shares.set_title("signal that remains")
for (name, schedule), colour in zip(schedules.items(), COLOURS, strict=False):
    ratios.plot(np.arange(1, N_LEVELS + 1) / N_LEVELS, np.log(schedule.snr), color=colour, label=name)
    bars.plot(np.arange(N_LEVELS + 1) / N_LEVELS, np.append(1.0, schedule.alpha_bar), color=colour, label=name)
    middle = (half[name] / N_LEVELS, 0)
    bars.plot(middle[0], 0.5, "o", color=colour, ms=6)
    ratios.plot(*middle, "o", color=colour, ms=6)
    place, side = ((-5, -13), "right") if name == "linear" else ((5, 6), "left")
    ratios.annotate(f"level {half[name]}", middle, place, textcoords="offset points", color=colour, ha=side)
bars.axhline(0.5, color=GREY, lw=0.8, zorder=0)
bars.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="level t / T", ylabel="ᾱ", title="ᾱ = α₁ ⋯ $α_t$; grey line: ½")
bars.legend()
ratios.axhline(0, color=GREY, lw=0.8, zorder=0)
ratios.set(xlim=(0, 1), ylim=(-12, 10), xlabel="level t / T", ylabel="ln SNR = ln ᾱ / (1 - ᾱ)")
ratios.set_title("log signal-to-noise ratio")
ratios.legend()

pictures = below.subplots()
# From the model's -1 (white) to 1 (black), to 0 and 1.
rows = {name: np.stack([noised(s, t) / 2 + 0.5 for t in SHOWN]) for name, s in schedules.items()}
image_rows(pictures, rows, 1)
pictures.set_xticks(np.arange(len(SHOWN)) + 0.5, SHOWN)
pictures.set(xlabel="level t of 1000", title="$x_t$ = √ᾱ · digit + √(1 - ᾱ) · the same noise")
title(fig, "The linear schedule hides the digit early; the cosine schedule spreads the noise over all levels")
save(fig, PICTURE)
