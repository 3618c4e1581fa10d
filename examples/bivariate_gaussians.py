"""Gaussians in the plane: elliptic contours, and linear or quadratic class boundaries.

    python examples/bivariate_gaussians.py [picture.png]
    N(x; μ, Σ) = (2π)^(-d/2) |Σ|^(-½) exp(-½ (x-μ)ᵀ Σ⁻¹ (x-μ))
Contours of the density are ellipses along the eigenvectors of Σ, with half-axes r √λ. In the plane, the ellipse of
radius r contains the probability 1 - exp(-r²/2). Two classes π_k N(μ_k, Σ_k) have the log-odds
    ln P(1|x)/P(2|x) = ln π₁/π₂ - ½ ln |Σ₁|/|Σ₂| - ½ (x-μ₁)ᵀΣ₁⁻¹(x-μ₁) + ½ (x-μ₂)ᵀΣ₂⁻¹(x-μ₂).
If both classes share Σ, the quadratic terms cancel and the boundary is a line (linear discriminant analysis). With two
covariances it is a conic (quadratic discriminant analysis). Without labels the same model is a mixture, and EM finds
nearly the same boundary.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from drawing import COLOURS, GREY, INK, covariance_matrices, ellipses, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
MEAN, COVARIANCES = [3.0, 2.0], ([[25.0, 0.0], [0.0, 9.0]], [[10.0, 5.0], [5.0, 5.0]])
N_DRAWS, RADII = 4000, (1, 2)


def mesh(low: float, high: float, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = np.meshgrid(np.linspace(low, high, n), np.linspace(low, high, n))
    return a, b, np.stack([a.ravel(), b.ravel()], 1)


a, b, points = mesh(-22, 28)
singles = [GaussianMixture.from_parameters([1.0], [MEAN], [covariance]) for covariance in COVARIANCES]
draws = [model.sample(N_DRAWS, random_state=seed)[0] for seed, model in enumerate(singles)]
for model, covariance, x in zip(singles, COVARIANCES, draws, strict=True):
    exact = multivariate_normal(MEAN, covariance)
    # Only rounding differs; exponents have size 10².
    assert np.allclose(model.score_samples(points), exact.logpdf(points), rtol=1e-10)
    # The square contains all but 5e-7 of the wider density, and sums over fine grids are as accurate.
    assert abs(np.exp(model.score_samples(points)).sum() * (a[0, 1] - a[0, 0]) ** 2 - 1) < 1e-6
    squares = np.einsum("ni,ij,nj->n", x - MEAN, np.linalg.inv(covariance), x - MEAN)
    for r in RADII:
        share, expected = (squares < r**2).mean(), 1 - np.exp(-(r**2) / 2)
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / N_DRAWS), "the probability of an ellipse"
        print(f"Σ = {covariance}: {share:.1%} of draws within {r} σ, {expected:.1%} expected")


def log_odds(model: GaussianMixture, x: np.ndarray) -> np.ndarray:
    """Log-odds of the classes by the formula above."""
    total = np.full(len(x), np.log(model.weights_[0] / model.weights_[1]))
    for sign, mean, cov in zip((1, -1), model.means_, covariance_matrices(model), strict=True):
        squares = np.einsum("ni,ij,nj->n", x - mean, np.linalg.inv(cov), x - mean)
        total -= sign * 0.5 * (np.log(np.linalg.det(cov)) + squares)
    return total


truth = GaussianMixture.from_parameters(
    [0.6, 0.4], [[-1.5, -0.5], [1.8, 1.0]], [[[2, 1.1], [1.1, 1.2]], [[0.8, -0.5], [-0.5, 1.6]]]
)
X, y = truth.sample(500, random_state=1)
labelled = {kind: GaussianMixture(covariance_type=kind).fit(X, y) for kind in ("tied", "full")}
mixture = GaussianMixture(2, random_state=0).fit(X)
a2, b2, plane = mesh(-6, 6)
for kind, discriminant in (
    ("tied", LinearDiscriminantAnalysis(solver="lsqr")),
    ("full", QuadraticDiscriminantAnalysis()),
):
    model = labelled[kind]
    first, second = np.log(np.maximum(model.predict_proba(plane), 1e-300)).T
    inside = np.abs(first - second) < 30
    # Probabilities closer to 1 than e⁻³⁰ are rounded.
    assert np.allclose((first - second)[inside], log_odds(model, plane)[inside], atol=1e-3)
    agreement = (model.predict(plane) == discriminant.fit(X, y).predict(plane)).mean()
    print(f"{kind}: predicts like scikit-learn's {type(discriminant).__name__} at {agreement:.2%} of the plane")
    # scikit-learn divides covariances by n_k - 1 (quadratic only), which moves the boundary slightly.
    assert agreement == 1 if kind == "tied" else agreement > 0.99
slopes = np.gradient(log_odds(labelled["tied"], plane).reshape(a2.shape))
assert all(np.ptp(slope) < 1e-9 for slope in slopes), "one Σ: the log-odds are linear, and the boundary is a line"
swap = mixture.means_[0, 0] > mixture.means_[1, 0]
found = mixture.predict(plane) ^ swap
alike = (found == labelled["full"].predict(plane))[np.exp(truth.score_samples(plane)) > 1e-4].mean()
print(f"without labels: the same class as with labels at {alike:.1%} of the points near rows")
assert alike > 0.95

fig = figure(13, 8.2)
surface, *others = (fig.add_subplot(2, 3, k + 1, projection="3d" if k == 0 else None) for k in range(6))
height = np.exp(singles[1].score_samples(points)).reshape(a.shape)
near = (slice(58, 144), slice(50, 150))
surface.plot_surface(a[near], b[near], height[near], cmap="Blues", lw=0, rstride=1, cstride=1, vmin=-0.004)
surface.set(xlabel="$x_1$", ylabel="$x_2$", zticks=(0, 0.01, 0.02, 0.03), xticks=(-5, 0, 5, 10), yticks=(-5, 0, 5, 10))
surface.set_title("density for μ = (3, 2), Σ = (10  5;  5  5)", pad=0)
surface.view_init(32, -62)
for ax, model, x, text in zip(others[:2], singles, draws, ("25  0;  0  9", "10  5;  5  5"), strict=True):
    ax.scatter(*x[:600].T, s=5, color=GREY, alpha=0.5, lw=0)
    ellipses(ax, model, radii=(1, 2, 3))
    values, vectors = np.linalg.eigh(covariance_matrices(model)[0])
    for value, vector in zip(values, vectors.T, strict=True):
        ax.annotate("", MEAN + 2 * np.sqrt(value) * vector, MEAN, arrowprops={"arrowstyle": "->", "color": COLOURS[1]})
    ax.set(xlim=(-14, 20), ylim=(-10, 14), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    ax.set_title(f"μ = (3, 2), Σ = ({text}); radii 1, 2, 3")


def draw(ax: Axes, model: GaussianMixture, colours: np.ndarray | str) -> None:
    ax.scatter(*X.T, s=8, c=colours, alpha=0.6, lw=0)
    density = np.exp(model.score_samples(plane)).reshape(a2.shape)
    ax.contour(a2, b2, density, np.geomspace(0.002, 0.08, 6), colors=GREY, linewidths=0.9)
    ax.contour(a2, b2, log_odds(model, plane).reshape(a2.shape), [0], colors=INK, linewidths=2)
    ax.plot(*model.means_.T, "+", color=INK, ms=10, mew=2)
    ax.set(xlim=(-5.6, 5), ylim=(-4, 4.6), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")


by_label = np.array(COLOURS)[y]
draw(others[2], labelled["tied"], by_label)
draw(others[3], labelled["full"], by_label)
draw(others[4], mixture, GREY)
others[2].set_title("labels, common Σ: linear boundary (LDA)")
others[3].set_title("labels, two Σ: quadratic boundary (QDA)")
others[4].set_title("no labels: mixture fitted by EM")
title(fig, "Gaussians have elliptic contours; the boundary between two is a line or a conic")
save(fig, PICTURE)
