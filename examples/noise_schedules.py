"""How noise takes a digit away: the linear schedule beside the cosine.

    python examples/noise_schedules.py [picture.png]
Noising keeps √ᾱ_t of the data and adds noise of variance 1 - ᾱ_t, so at equal levels two schedules can be compared by
ᾱ_t alone, the share of the variance that is the data's when these have variance 1. The linear one (Ho, Jain & Abbeel
2020) has hidden a digit of 8 × 8 pixels well before its last level, and spends many levels where there is hardly
anything left to see; the cosine (Nichol & Dhariwal 2021) spends them evenly. The same noise is added in all pictures.
Fewer levels need larger steps: β is multiplied by 1000 / T, which leaves the curve where it is, and so does respacing,
which keeps ᾱ of the levels that stay.
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
    print(f"{name}: more noise than digit from level {half[name]} on; ᾱ at the end {schedule.alpha_bar[-1]:.1e}")
assert half["linear"] < 300 < 490 < half["cosine"] < 500, "the linear schedule is half way long before the middle"
np.testing.assert_allclose(schedules["linear"].alpha_bar[-1], 4.036e-5, rtol=1e-3)
np.testing.assert_allclose(np.prod(1 - schedules["cosine"].beta), schedules["cosine"].alpha_bar[-1])
few, kept = Schedule.linear(100), schedules["linear"].respace(np.arange(10, N_LEVELS + 1, 10))
np.testing.assert_allclose(kept.alpha_bar, schedules["linear"].alpha_bar[9::10])
np.testing.assert_allclose(few.alpha_bar, kept.alpha_bar, atol=0.01, err_msg="a tenth of the levels, the same curve")

fig = figure(13.5, 7.4)
above, below = fig.subfigures(2, 1, height_ratios=(1.2, 1))
bars, shares, ratios = above.subplots(1, 3)
schedules["linear"].plot(schedules["cosine"], ax=shares)
for line, colour in zip(shares.lines, COLOURS, strict=False):
    line.set(color=colour, linestyle="-")
shares.legend(handles=shares.lines)
shares.set_title("what is left of the digit")
for (name, schedule), colour in zip(schedules.items(), COLOURS, strict=False):
    ratios.plot(np.arange(1, N_LEVELS + 1) / N_LEVELS, np.log(schedule.snr), color=colour, label=name)
    bars.plot(np.arange(N_LEVELS + 1) / N_LEVELS, np.append(1.0, schedule.alpha_bar), color=colour, label=name)
    middle = (half[name] / N_LEVELS, 0)
    bars.plot(middle[0], 0.5, "o", color=colour, ms=6)
    ratios.plot(*middle, "o", color=colour, ms=6)
    place, side = ((-5, -13), "right") if name == "linear" else ((5, 6), "left")
    ratios.annotate(f"level {half[name]}", middle, place, textcoords="offset points", color=colour, ha=side)
bars.axhline(0.5, color=GREY, lw=0.8, zorder=0)
bars.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="level, share of all", ylabel="ᾱ", title="ᾱ = α₁ ⋯ $α_t$, half way at ½")
bars.legend()
ratios.axhline(0, color=GREY, lw=0.8, zorder=0)
ratios.set(xlim=(0, 1), ylim=(-12, 10), xlabel="level, share of all", ylabel="ln SNR = ln ᾱ / (1 - ᾱ)")
ratios.set_title("as much digit as noise where ln SNR = 0")
ratios.legend()

pictures = below.subplots()
# From -1 for paper to 1 for ink, as the model sees pixels, to 0 and 1.
rows = {name: np.stack([noised(s, t) / 2 + 0.5 for t in SHOWN]) for name, s in schedules.items()}
image_rows(pictures, rows, 1)
pictures.set_xticks(np.arange(len(SHOWN)) + 0.5, SHOWN)
pictures.set(xlabel="level t of 1000", title="$x_t$ = √ᾱ · digit + √(1 - ᾱ) · the same noise")
title(fig, "The linear schedule drowns the digit early; the cosine spreads the noise over all levels")
save(fig, PICTURE)
