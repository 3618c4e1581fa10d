"""Noise: rows that fit nowhere belong to a component of their own, and do not bend the others.

    python examples/noise.py [picture.png]
A mixture of Gaussians must give every row to one of its components. A few rows far away stretch a component, or take
one for themselves. With noise there is one more component, uniform over the box of the rows:
    p(x) = π_0 u(x) + Σ_k π_k N(x; μ_k, Σ_k),   u = 1 / volume of the box
Its weight π_0 is fitted like the others. The data are three clusters, and 15 % of the rows anywhere in a square. The
error of a fit is the largest distance of a true centre to the nearest mean, over 20 draws.
"""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Ellipse
from scipy.spatial.distance import cdist

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
CENTRES = np.array([[-6.0, -4.0], [6.0, -4.0], [0.0, 6.0]])
ROWS, SHARE, HALF_WIDTH, DRAWS = 400, 0.15, 20.0, 20


def draw(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = CENTRES[rng.integers(3, size=ROWS)] + rng.normal(size=(ROWS, 2))
    far = rng.random(ROWS) < SHARE
    rows[far] = rng.uniform(-HALF_WIDTH, HALF_WIDTH, size=(far.sum(), 2))
    return rows


def worst(model: GaussianMixture) -> float:
    return float(cdist(CENTRES, model.means_).min(1).max())


def fit(rows: np.ndarray, noise: bool) -> GaussianMixture:
    return GaussianMixture(3, noise=noise, random_state=0).fit(rows)


def ellipses(axes, model: GaussianMixture) -> None:
    """Two standard deviations of every component."""
    for k, (mean, covariance) in enumerate(zip(model.means_, model.covariances_, strict=True)):
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        width, height = 4 * np.sqrt(values[::-1])
        axes.add_patch(Ellipse(tuple(mean), width, height, angle=angle, fill=False, ec=COLOURS[k], lw=2))


errors = {noise: np.array([worst(fit(draw(seed), noise)) for seed in range(DRAWS)]) for noise in (False, True)}
print(f"largest distance of a true centre to the nearest mean, median (largest) of {DRAWS} draws")
for noise, values in errors.items():
    print(f"  {'with' if noise else 'without'} noise: {np.median(values):.2f} ({values.max():.2f})")
shares = [fit(draw(seed), True).weights_[-1] for seed in range(DRAWS)]
print(f"share of the noise: {np.mean(shares):.3f} on average; {SHARE} of the rows were scattered")
# A mean of 113 rows with unit variance has a standard error of 0.1 in each direction.
assert errors[True].max() < 0.5, "with noise all centres are found"
assert np.median(errors[True]) < np.median(errors[False]) / 2, "without noise they are bent"
assert abs(np.mean(shares) - SHARE) < 0.03, "the weight of the noise is the share of scattered rows"

# Show the draw with the median error of the fit without noise.
rows = draw(int(np.argsort(errors[False])[DRAWS // 2]))
fig = figure(12, 5.6)
for axes, noise in zip(fig.subplots(1, 2), (False, True), strict=True):
    model = fit(rows, noise)
    label = model.predict(rows)
    for k in range(3):
        axes.plot(*rows[label == k].T, "o", color=COLOURS[k], ms=3.5, alpha=0.6, mew=0)
    axes.plot(*rows[label == -1].T, "x", color=GREY, ms=5, label="noise: predict returns -1")
    ellipses(axes, model)
    axes.plot(*CENTRES.T, "+", color=INK, ms=12, mew=1.8, label="true centres")
    axes.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$", xlim=(-22, 22), ylim=(-22, 26))
    axes.set_title(f"noise={noise}: largest error {worst(model):.2f}")
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles if noise else handles[1:], names if noise else names[1:], loc="upper center", ncols=2)
title(fig, "One more component for the rows that fit nowhere")
save(fig, PICTURE)
