"""Two moons from noise: the reverse chain of a diffusion as a cloud of points, level by level.

    python examples/diffusion_curve.py [picture.png]
Bottom row, from right to left: noise is added to rows near a curve until they follow N(0, I). Top row, from left to
right: the trained reverse chain turns draws from N(0, I) into rows near the curve. Colours follow single points: at the
bottom by their position on the curve at the start, at the top by their position at the end. In each column the two
clouds should look alike. The density of the moons is an integral over the curve, so the bound can be compared with it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from sklearn.datasets import make_moons

from drawing import INK, figure, picture_path, save, title
from jensen import Diffusion, ResidualMLP

PICTURE = picture_path(__doc__)
N_ROWS, N_TEST, N_LEVELS, STD = 3000, 1000, 60, 0.05
SHOWN = (60, 45, 30, 15, 6, 0)

X, _ = make_moons(N_ROWS, noise=STD, random_state=0)
test, _ = make_moons(N_TEST, noise=STD, random_state=1)
angle = np.linspace(0, np.pi, 301)
upper = np.stack([np.cos(angle), np.sin(angle)], 1)
curve = np.concatenate([upper, [1, 0.5] - upper])


def squares(rows: np.ndarray) -> np.ndarray:
    """Squared distances to every point of the curve (n, 602)."""
    return ((rows[:, None] - curve) ** 2).sum(-1)


def place(rows: np.ndarray) -> np.ndarray:
    """Position of the nearest point of the curve, from 0 to 1 along the two moons."""
    return squares(rows).argmin(1) / len(curve)


def off(rows: np.ndarray) -> float:
    """Root mean square distance from the curve."""
    return float(np.sqrt(squares(rows).min(1).mean()))


model = Diffusion(
    "cosine",
    N_LEVELS,
    network=ResidualMLP(width=64),
    max_epochs=180,
    batch_size=512,
    learning_rate=1e-2,
    random_state=0,
).fit(X)
bound = model.bound(test, levels="all")
exact = logsumexp(-squares(test) / (2 * STD**2), axis=1) - np.log(len(curve) * 2 * np.pi * STD**2)
path = model.sample_path(N_ROWS, random_state=1)
at = {level: path[N_LEVELS - level] for level in SHOWN}
noised = {level: model.q_sample(X, level, random_state=2) if level else X for level in SHOWN}
print(f"nats per held-out row: ln p {exact.mean():.3f}, bound {bound.total.mean():.3f}")
print(f"distance from the curve: rows {off(X):.4f}, samples {off(at[0]):.4f}")
shares = [float((place(rows) < 0.5).mean()) for rows in (X, at[0])]
print(f"on the upper moon: {100 * shares[0]:.0f} % of the rows, {100 * shares[1]:.0f} % of the samples")
assert len(path) == N_LEVELS + 1
assert exact.mean() - 0.5 < bound.total.mean() < exact.mean(), "a bound, and close to ln p"
assert off(at[0]) < 2 * off(X), "samples are near the curve"
assert abs(shares[0] - shares[1]) < 0.06, "and divided between the moons like the rows"
for level in SHOWN:
    np.testing.assert_allclose(
        at[level].std(0), noised[level].std(0), rtol=0.08, err_msg="equal standard deviations at every level"
    )

fig = figure(12.6, 3.9)
axes = fig.subplots(2, len(SHOWN), sharex=True, sharey=True)
rows = {"reverse chain →": (at, place(at[0])), "← noising": (noised, place(X))}
for line, (name, (clouds, colour)) in zip(axes, rows.items(), strict=True):
    for ax, level in zip(line, SHOWN, strict=True):
        ax.scatter(*clouds[level].T, c=colour, cmap="turbo", vmin=0, vmax=1, s=4, lw=0, alpha=0.7)
        ax.set(xlim=(-1.9, 2.9), ylim=(-1.35, 1.85), xticks=[], yticks=[], aspect="equal")
        ax.spines[:].set_visible(False)
    line[0].set_ylabel(name, fontsize=11.5, color=INK)
for ax, level in zip(axes[0], SHOWN, strict=True):
    ax.set_title({N_LEVELS: f"noise, t = {N_LEVELS}", 0: "new rows"}.get(level, f"t = {level}"), loc="center")
axes[1, -1].set_title("data", loc="center")
title(fig, "A diffusion turns noise into data, a small step at a time")
save(fig, PICTURE)
