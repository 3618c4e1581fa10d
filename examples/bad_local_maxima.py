"""EM can stop far below the maximum: bad local maxima of three Gaussians (Jin et al. 2016).

    python examples/bad_local_maxima.py [picture.png]
The data come from three components at -R, R and γR with unit variances and equal weights. Weights and variances are
frozen; only the means are fitted. Mean ln p has two maxima:
    a local one near (0, γR, γR),    -(2R² + 3 - 2 ln 2)/6 - ln(3√(2π)) for γ → ∞
    the global one near (-R, R, γR), -½ - ln(3√(2π)) for large R
The difference, (R² - ln 2)/3, grows without limit. The local maximum lies in the region μ₁ ≤ γR/3, μ₂ ≥ 2γR/3,
μ₃ ≥ 2γR/3. On the borders of this region ln p is lower: on μ₂ or μ₃ = 2γR/3 by at least (ln 2)/3, and on μ₁ = γR/3
it goes to -∞ as γ grows. A continuous ascent therefore cannot leave the region. Single steps could jump across a
border, but the script shows that EM and gradient ascent do not. If the three starting means are rows drawn at random,
EM ends in the local maximum when two or three of them come from the far cluster, with probability
3·(2/3)(1/3)² + (1/3)³ = 7/27.
"""

from __future__ import annotations

import numpy as np
from matplotlib.patheffects import withStroke
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
GAMMA, ROWS, SEEDS = 10.0, 400, 270


def fit(X: np.ndarray, tol: float = 1e-4, **start: object) -> GaussianMixture:
    frozen = {"weights_init": [1 / 3] * 3, "precisions_init": [1.0] * 3, "freeze": ("weights", "covariances")}
    return GaussianMixture(3, covariance_type="spherical", tol=tol, max_iter=1000, **frozen, **start).fit(X)


def solutions(R: float) -> tuple[np.ndarray, list[GaussianMixture], tuple[float, float]]:
    """Rows, the local and the global maximum found by EM from nearby starts, and their theoretical limits."""
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
        assert abs(value - limit) < 4 * np.sqrt(variance), "the theoretical limit is within 4 standard errors"
    numbers = (R, nats[0], limits[0], nats[1], limits[1], nats[1] - nats[0], (R**2 - np.log(2)) / 3)
    print("{:4.0f}{:13.3f}{:10.3f}{:13.3f}{:10.3f}{:9.3f}{:16.3f}".format(*numbers))

R = 5.0
X, (local, best), limits = solutions(R)
lost = best.score(X) - local.score(X)
halfway = (local.score(X) + best.score(X)) / 2
failures = {}
for start, n_seeds in (("random_from_data", SEEDS), ("portfolio", SEEDS // 6)):
    failed = [fit(X, init_params=start, random_state=seed).score(X) < halfway for seed in range(n_seeds)]
    failures[start] = np.mean(failed)
    print(f"{start:>16s}: {sum(failed):3d} of {n_seeds} starts end in the local maximum ({np.mean(failed):.1%})")
error = np.sqrt(7 / 27 * 20 / 27 / SEEDS)
print(f"{'theory':>16s}: 7/27 = {7 / 27:.1%} ± {error:.1%} for rows drawn at random")
assert abs(failures["random_from_data"] - 7 / 27) < 4 * error
# The default start would fail only if k-means++ missed a cluster in each of a dozen tries.
assert failures["portfolio"] == 0


def mean_log_p(X: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Mean ln p per row for means (..., 3)."""
    return (logsumexp(norm.logpdf(X[..., 0], np.asarray(means)[..., None]), axis=-2) - np.log(3)).mean(-1)


def highest(X: np.ndarray, R: float, gamma: float, held: int, at: float) -> float:
    """The supremum on a border: one mean is fixed, the others vary within the region; several starts."""
    low, high = [-np.inf] + [2 * gamma * R / 3] * 2, [gamma * R / 3, np.inf, np.inf]
    free = [k for k in range(3) if k != held]

    def loss(values: np.ndarray) -> float:
        means = np.insert(values, held, at)
        return -float(mean_log_p(X, means))

    starts = ([0.0, gamma * R, gamma * R], [gamma * R / 6, 2 * gamma * R / 3, gamma * R])
    bounds = [(low[k], high[k]) for k in free]
    return -min(minimize(loss, np.array(start)[free], bounds=bounds).fun for start in starts)


assert np.isclose(mean_log_p(X, local.means_.ravel()), local.score(X))
borders = {k: highest(X, R, GAMMA, k, GAMMA * R * (1 if k == 0 else 2) / 3) for k in range(3)}
falls = {k: local.score(X) - value for k, value in borders.items()}
print(
    "highest point of each border, nats below the local maximum:",
    ", ".join(f"μ{k + 1} {v:.6f}" for k, v in falls.items()),
)
print(f"(ln 2)/3 = {np.log(2) / 3:.6f}")
# The optimiser stops within 1e-6 nats; the fixed mean contributes only e⁻¹⁰⁰ to the density of the far cluster.
assert all(abs(falls[k] - np.log(2) / 3) < 1e-5 for k in (1, 2))
assert falls[0] > np.log(2) / 3
deeper = []
for gamma in (10.0, 20.0, 40.0):
    rows = (np.array([[-R], [R], [gamma * R]]) + np.random.default_rng(0).normal(size=(3, ROWS))).reshape(-1, 1)
    deeper.append(highest(rows, R, gamma, 0, gamma * R / 3))
print("highest ln p on the border μ1 = γR/3 for γ = 10, 20, 40:", ", ".join(f"{value:.1f}" for value in deeper))
assert deeper[1] < 3 * deeper[0] < 0, "it goes to -∞: nearly four times as low for twice the γ"
assert deeper[2] < 3 * deeper[1]

# EM and gradient ascent from another point of the region. With tol=1e-8 they stop within 1e-6 nats of the maximum.
for algorithm in ("em", "gradient"):
    end = fit(X, 1e-8, means_init=[[2.0 * R], [GAMMA * R - 2], [GAMMA * R + 1]], algorithm=algorithm)
    means = ", ".join(f"{mean:.2f}" for mean in end.means_.ravel())
    print(f"{algorithm} from (10, 48, 51): {end.n_iter_} steps to ({means})")
    assert abs(end.score(X) - local.score(X)) < 1e-6, "both algorithms reach the same local maximum"
    # Two means in one cluster can differ by a hundredth of its width at almost no cost.
    assert np.abs(end.means_ - local.means_).max() < 0.01

# A path from one solution to the other: the second mean moves to R, then the first one to -R.
(m1, m2, m3), (end1, end2, _) = local.means_.ravel(), best.means_.ravel()
travel = [(m1, m, m3) for m in np.linspace(m2, end2, 300)] + [(m, end2, m3) for m in np.linspace(m1, end1, 50)]
distance = np.append(0, np.abs(np.diff(travel, axis=0)).sum(1).cumsum())
along = mean_log_p(X, np.array(travel))
barrier = along[0] - min(along)
print(f"height of the barrier: {barrier:.6f} nats")
assert abs(barrier - np.log(2) / 3) < 1e-6

fig = figure(15.5, 5)
left, middle, right = fig.subfigures(1, 3, width_ratios=(1.05, 1, 1))
path = left.subplots()
path.plot(distance[-1], along[-1], "o", color=COLOURS[2], zorder=3)
for limit, name in zip(limits, ("local limit", "global limit"), strict=True):
    path.axhline(limit, color=GREY, lw=1, ls=":", zorder=0)
    path.text(1, limit + 0.12, f"{name} {limit:.3f}", color=INK, fontsize=9)
path.set_xticks([0, 10, 20, 30, 40, 50], ["μ₂ = 50", "40", "30", "20", "10", "μ₁ = −5"])
path.set(xlabel="μ₂ moves from γR to R, then μ₁ from 0 to −R", ylabel="mean ln p (nats per row)")
path.set_title("path from the local to the global maximum")
zoom = path.inset_axes((0.14, 0.42, 0.52, 0.34))
for ax in (path, zoom):
    ax.plot(distance, along, color=INK)
    ax.plot(0, along[0], "o", color=COLOURS[1])
zoom.axvline(GAMMA * R / 3, color=COLOURS[0], lw=1.2, ls="--")
zoom.set(xlim=(-0.5, 23), ylim=(along[0] - 0.32, along[0] + 0.06), xticks=[0, 10], title="the barrier")
zoom.set_xticklabels(["μ₂ = 50", "40"])
zoom.text(17, along[0] - 0.1, "border\n2γR/3", color=COLOURS[0], ha="left", fontsize=8.5)
zoom.annotate("", (8, along[0]), (8, along[0] - barrier), arrowprops={"arrowstyle": "<->", "color": COLOURS[1]})
zoom.text(8.3, along[0] - barrier / 2, "(ln 2)/3", va="center", color=COLOURS[1])

plan = middle.subplots()
first, second = np.linspace(-12, 24, 73), np.linspace(-4, 60, 97)
grid = np.stack([*np.meshgrid(first, second), np.full((97, 73), m3)], -1)
depth = mean_log_p(X[::8], grid)
top = best.score(X)
plan.contourf(first, second, np.maximum(depth, -60), -np.geomspace(60, -top, 24), cmap="Greys_r", alpha=0.6)
edge = {"color": COLOURS[0], "lw": 2, "ls": "--"}
plan.plot([-12, GAMMA * R / 3], [2 * GAMMA * R / 3] * 2, **edge)
plan.plot([GAMMA * R / 3] * 2, [2 * GAMMA * R / 3, 60], **edge)
plan.plot(m1, m2, "o", color=COLOURS[1], ms=9)
plan.plot(end1, end2, "o", color=COLOURS[2], ms=9)
white = [withStroke(linewidth=3, foreground="white")]
for place, text, colour in (
    ((m1 + 1, m2 + 2.5), "local maximum", COLOURS[1]),
    ((end1 + 1, end2 + 2.5), "global maximum", COLOURS[2]),
    ((-11.3, 2 * GAMMA * R / 3 - 4.2), "−(ln 2)/3 on μ₂ = 2γR/3", COLOURS[0]),
    ((GAMMA * R / 3 + 0.6, 47), "→ −∞\non μ₁\n= γR/3", COLOURS[0]),
):
    plan.text(*place, text, color=colour, path_effects=white)
plan.set(xlabel="μ₁", ylabel="μ₂", title="ln p over μ₁ and μ₂ with μ₃ = γR; dashed: borders")

grid = np.linspace(-R - 5, GAMMA * R + 5, 2000)
names = (
    f"local: {failures['random_from_data']:.0%} of random starts (theory 7/27)",
    "global: the other random starts, all default starts",
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
title(fig, f"A bad local maximum: {lost:.1f} nats per row below the best, behind a barrier of (ln 2)/3 nats")
save(fig, PICTURE)
