"""EM can end arbitrarily far below the maximum: three Gaussians on a line (Jin et al. 2016).

    python examples/bad_local_maxima.py [picture.png]
Components at -R, R and γR with unit variances and equal weights, both frozen; only the means are learned. Mean ln p:
    near (0, γR, γR) a local maximum,  -(2R² + 3 - 2 ln 2)/6 - ln(3√(2π)) for γ → ∞
    near (-R, R, γR) the global one,   -½ - ln(3√(2π)) for R large
so the loss (R² - ln 2)/3 has no limit, though the barrier between them is only (ln 2)/3 high. K = 3 rows drawn as
means end in the local one when two or three come from the far cluster: 3·(2/3)(1/3)² + (1/3)³ = 7/27 of the time.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
GAMMA, ROWS, SEEDS = 10.0, 400, 270


def fit(X: np.ndarray, **start: object) -> GaussianMixture:
    frozen = {"weights_init": [1 / 3] * 3, "precisions_init": [1.0] * 3, "freeze": ("weights", "covariances")}
    return GaussianMixture(3, covariance_type="spherical", tol=1e-4, max_iter=1000, **frozen, **start).fit(X)


def solutions(R: float) -> tuple[np.ndarray, list[GaussianMixture], tuple[float, float]]:
    """Rows, the local and the global maximum as EM finds them from nearby, and their limits in theory."""
    X = (np.array([[-R], [R], [GAMMA * R]]) + np.random.default_rng(0).normal(size=(3, ROWS))).reshape(-1, 1)
    models = [fit(X, means_init=np.reshape(m, (3, 1))) for m in ((0, GAMMA * R, GAMMA * R), (-R, R, GAMMA * R))]
    constant = np.log(3 * np.sqrt(2 * np.pi))
    return X, models, (-(2 * R**2 + 3 - 2 * np.log(2)) / 6 - constant, -0.5 - constant)


print("   R   local: EM     limit   global: EM     limit      gap   (R² - ln 2)/3   nats per row")
for R in (4.0, 5.0, 8.0, 12.0):
    X, models, limits = solutions(R)
    nats = [model.score(X) for model in models]
    for model, value, limit in zip(models, nats, limits, strict=True):
        variance = (model.score_samples(X).reshape(3, ROWS).var(1, ddof=1) / ROWS).sum() / 9
        assert abs(value - limit) < 4 * np.sqrt(variance), "the theory is within 4 standard errors"
    numbers = (R, nats[0], limits[0], nats[1], limits[1], nats[1] - nats[0], (R**2 - np.log(2)) / 3)
    print("{:4.0f}{:13.3f}{:10.3f}{:13.3f}{:10.3f}{:9.3f}{:16.3f}".format(*numbers))

R = 5.0
X, (local, best), limits = solutions(R)
lost = best.score(X) - local.score(X)
halfway = (local.score(X) + best.score(X)) / 2
failures = {}
for start, n_seeds in (("random_from_data", SEEDS), ("portfolio", SEEDS // 3)):
    failed = [fit(X, init_params=start, random_state=seed).score(X) < halfway for seed in range(n_seeds)]
    failures[start] = np.mean(failed)
    print(f"{start:>16s}: {sum(failed):3d} of {n_seeds} starts end in the local maximum ({np.mean(failed):.1%})")
error = np.sqrt(7 / 27 * 20 / 27 / SEEDS)
print(f"{'theory':>16s}: 7/27 = {7 / 27:.1%} ± {error:.1%} for rows drawn at random")
assert abs(failures["random_from_data"] - 7 / 27) < 4 * error
# A failure would need k-means++ to miss a cluster in all of a dozen tries.
assert failures["portfolio"] == 0

# From one solution to the other: the second mean travels to R, then the first one to -R.
(m1, m2, m3), (end1, end2, _) = local.means_.ravel(), best.means_.ravel()
travel = [(m1, m, m3) for m in np.linspace(m2, end2, 300)] + [(m, end2, m3) for m in np.linspace(m1, end1, 50)]
distance = np.append(0, np.abs(np.diff(travel, axis=0)).sum(1).cumsum())
along = [
    GaussianMixture.from_parameters([1 / 3] * 3, np.reshape(m, (3, 1)), [1.0] * 3, "spherical").score(X) for m in travel
]
barrier = along[0] - min(along)
print(f"barrier on the way out: {barrier:.6f} nats, (ln 2)/3 = {np.log(2) / 3:.6f}")
assert abs(barrier - np.log(2) / 3) < 1e-6

fig = figure(12.5, 5)
left, right = fig.subfigures(1, 2, width_ratios=(1.25, 1))
path = left.subplots()
path.plot(distance[-1], along[-1], "o", color=COLOURS[2], zorder=3)
for limit, name in zip(limits, ("local limit", "global limit"), strict=True):
    path.axhline(limit, color=GREY, lw=1, ls=":", zorder=0)
    path.text(10, limit + 0.1, f"{name} {limit:.3f}", color=INK, fontsize=9)
path.set_xticks([0, 10, 20, 30, 40, 45, 50], ["μ₂ = 50", "40", "30", "20", "10", "5", "μ₁ = −5"])
path.set(xlabel="μ₂ travels from γR to R, then μ₁ from 0 to −R", ylabel="mean ln p (nats per row)")
zoom = path.inset_axes((0.12, 0.42, 0.42, 0.32))
for ax in (path, zoom):
    ax.plot(distance, along, color=INK)
    ax.plot(0, along[0], "o", color=COLOURS[1])
zoom.set(xlim=(-0.5, 12), ylim=(along[0] - 0.32, along[0] + 0.06), xticks=[0, 10], title="the barrier, enlarged")
zoom.set_xticklabels(["μ₂ = 50", "40"])
zoom.annotate("", (8, along[0]), (8, along[0] - barrier), arrowprops={"arrowstyle": "<->", "color": COLOURS[1]})
zoom.text(8.3, along[0] - barrier / 2, "(ln 2)/3", va="center", color=COLOURS[1])

grid = np.linspace(-R - 5, GAMMA * R + 5, 2000)
names = (
    f"local: {failures['random_from_data']:.0%} of random starts (theory 7/27), no default start",
    "global: all other starts",
)
panels = right.subplots(2, 1, sharex=True)
for ax, model, name, colour in zip(panels, (local, best), names, COLOURS[1:3], strict=True):
    ax.hist(X.ravel(), bins=np.arange(-R - 5, GAMMA * R + 5, 0.5), density=True, color=GREY, alpha=0.45)
    for mean in model.means_.ravel():
        ax.plot(grid, norm.pdf(grid, mean) / 3, color=colour)
        together = np.flatnonzero(np.abs(model.means_.ravel() - mean) < 1) + 1
        ax.text(mean, 0.145, " and ".join(f"μ{'₁₂₃'[k - 1]}" for k in together), ha="center", color=colour)
    ax.set(title=name, ylabel="density", yticks=(0, 0.1), ylim=(0, 0.165))
panels[1].set_xlabel("x")
title(fig, f"A bad local maximum: {lost:.1f} nats per row are lost behind a barrier of (ln 2)/3")
save(fig, PICTURE)
