"""How probabilistic PCA generates a row: a latent number z, the point Wz + μ on a line, and noise.

    python examples/ppca_generates.py [picture.png]
    z ~ N(0, I_m),   x = W z + μ + ε,   ε ~ N(0, σ²I),    so    x ~ N(μ, WWᵀ + σ²I)
The data are simulated football players with speed, scoring rate, height and weight. These features are correlated: tall
players are heavy. The axes of PCA, the eigenvectors of the covariance, are orthogonal, and the players' coordinates
along them are uncorrelated. The first m axes, scaled, are the columns of W = U_m (Λ_m - σ²I)^½; σ² is the mean of the
remaining eigenvalues (Tipping & Bishop 1999). One noise variance for all features requires a common unit: here features
are standardised.
"""

from __future__ import annotations

import matplotlib
import numpy as np

from drawing import COLOURS, GREY, INK, ellipses, figure, picture_path, save, title
from jensen import GaussianMixture, ProbabilisticPCA

PICTURE = picture_path(__doc__)
NAMES, HEIGHT, WEIGHT = ("speed", "scoring", "height", "weight"), 2, 3
CORRELATION = np.array([[1, 0.5, -0.2, -0.4], [0.5, 1, 0.1, 0.0], [-0.2, 0.1, 1, 0.8], [-0.4, 0.0, 0.8, 1]])
N_PLAYERS, N_DRAWS, N_SHOWN = 400, 20_000, 9
rng = np.random.default_rng(0)
players = rng.multivariate_normal(np.zeros(4), CORRELATION, N_PLAYERS)
players = (players - players.mean(0)) / players.std(0)

# All four axes of PCA, and the coordinates of the players along them.
own = players.T @ players / N_PLAYERS
values, axes = (a[..., ::-1] for a in np.linalg.eigh(own))
places = players @ axes
before, after = (np.corrcoef(rows.T) for rows in (players, places))
model = ProbabilisticPCA(2).fit(players)
W, noise = model.loadings_, model.noise_variance_
print("variance along the axes:", ", ".join(f"{value:.3f}" for value in values), "of 4 in total")
print(f"largest correlation between two features {np.abs(before - np.eye(4)).max():.2f}", end=", ")
print(f"between two coordinates {np.abs(after - np.eye(4)).max():.0e}; σ² with m = 2 {noise:.3f}")
# Tolerances are for rounding where no other reason is given.
assert np.allclose(axes.T @ axes, np.eye(4), atol=1e-12), "orthogonal axes"
assert np.abs(after - np.eye(4)).max() < 1e-10, "and uncorrelated coordinates"
assert np.isclose(noise, values[2:].mean())
for j in (0, 1):
    assert np.isclose(abs(model.components_[j] @ axes[:, j]), 1), "the model's axes are the same, up to the sign"
    assert np.isclose(W[:, j] @ W[:, j], values[j] - noise), "scaled to λ - σ²"
assert abs(W[:, 0] @ W[:, 1]) < 1e-10


def generate(model: ProbabilisticPCA, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw z, the points Wz + μ and the rows by the formula above."""
    z = rng.normal(size=(n, model.n_components))
    points = z @ model.loadings_.T + model.mean_
    return z, points, points + model.noise_variance_**0.5 * rng.normal(size=points.shape)


def assert_is_the_model(rows: np.ndarray, model: ProbabilisticPCA) -> None:
    """Mean and covariance are μ and WWᵀ + σ²I within 4.5 standard errors."""
    cov = model.loadings_ @ model.loadings_.T + model.noise_variance_ * np.eye(rows.shape[1])
    variances = np.diag(cov)
    assert (np.abs(rows.mean(0) - model.mean_) < 4.5 * np.sqrt(variances / len(rows))).all()
    # A covariance of Gaussians has the variance (c_ii c_jj + c_ij²) / n.
    error = np.sqrt((np.outer(variances, variances) + cov**2) / len(rows))
    assert (np.abs(np.cov(rows.T, bias=True) - cov) < 4.5 * error).all()


assert_is_the_model(generate(model, N_DRAWS)[2], model)
assert_is_the_model(model.sample(N_DRAWS, random_state=1)[0], model)

# Height and weight alone, with m = 1.
pair = players[:, [HEIGHT, WEIGHT]]
line = ProbabilisticPCA(1).fit(pair)
z, points, rows = generate(line, N_DRAWS)
assert_is_the_model(rows, line)
direction = line.loadings_[:, 0] / np.linalg.norm(line.loadings_)
aside = (rows - line.mean_) @ np.array([-direction[1], direction[0]])
# The standard error of a variance is σ²√(2/n).
assert abs(aside.var() / line.noise_variance_ - 1) < 4.5 * np.sqrt(2 / N_DRAWS), "across the line there is only noise"
cov = line.loadings_ @ line.loadings_.T + line.noise_variance_ * np.eye(2)
assert np.allclose(cov, pair.T @ pair / N_PLAYERS), "with m = d - 1 the covariance is that of the players"
print(
    f"height and weight: correlation {before[HEIGHT, WEIGHT]:.2f}; ‖W‖ {np.linalg.norm(line.loadings_):.3f}", end=", "
)
print(f"σ {line.noise_variance_**0.5:.3f}")

fig = figure(13, 8)
above, below = fig.subfigures(2, 1)
cloud, of_features, of_axes = above.subplots(1, 3)
cloud.scatter(*pair.T, s=8, color=GREY, lw=0, alpha=0.7)
for value, axis, colour in zip(*np.linalg.eigh(cov), (COLOURS[1], COLOURS[0]), strict=True):
    cloud.annotate("", 2 * np.sqrt(value) * axis, (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "lw": 2.2})
cloud.set_title("players: height and weight are correlated")
for ax, matrix, names, text in (
    (of_features, before, NAMES, "correlations of the features"),
    (of_axes, after, [f"axis {j + 1}" for j in range(4)], "correlations along the axes of PCA"),
):
    ax.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    for i, j in np.ndindex(4, 4):
        dark = abs(matrix[i, j]) > 0.6
        ax.text(
            j,
            i,
            f"{matrix[i, j] + 0.0:.2f}".replace("-0.00", "0.00"),
            ha="center",
            va="center",
            color="white" if dark else INK,
        )
    ax.set(xticks=range(4), yticks=range(4), xticklabels=names, yticklabels=names, title=text)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)

start, middle, end = below.subplots(1, 3)
order = np.argsort(z[:N_SHOWN, 0])
shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.95, N_SHOWN))
grid = np.linspace(-3.2, 3.2, 200)
start.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color=INK)
start.scatter(z[order, 0], np.zeros(N_SHOWN), s=50, color=shades, zorder=3, clip_on=False)
start.set(xlabel="z", ylabel="density", xlim=(-3.2, 3.2), ylim=(0, 0.45), title="1. draw z from N(0, 1)")
for ax, dots in ((middle, points), (end, rows)):
    ax.plot(*(line.mean_ + grid[:, None] * line.loadings_[:, 0]).T, color=INK, lw=1.2)
    ax.scatter(*dots[order].T, s=50, color=shades, zorder=3)
middle.set_title("2. map it to the line: Wz + μ")
end.scatter(*rows[N_SHOWN:600].T, s=6, color=GREY, lw=0, alpha=0.6, zorder=0)
for a, b, colour in zip(points[order], rows[order], shades, strict=True):
    end.plot(*np.stack([a, b]).T, color=colour, lw=1.3)
ellipses(end, GaussianMixture.from_parameters([1.0], [line.mean_], [cov]), [COLOURS[1]])
end.set_title("3. add noise: x ~ N(μ, WWᵀ + σ²I)")
for ax in (cloud, middle, end):
    ax.set(
        xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), aspect="equal", xlabel="height, standardised", ylabel="weight, standardised"
    )
title(fig, "Probabilistic PCA generates a row from a number, a point on a line, and noise")
save(fig, PICTURE)
