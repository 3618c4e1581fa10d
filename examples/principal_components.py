"""Iris with a fifth of its values missing: a PCA map with an ellipse of uncertainty for every row.

    python examples/principal_components.py [picture.png]
Probabilistic PCA has a posterior N(M⁻¹Wᵀ(x-μ), σ²M⁻¹), M = WᵀW + σ²I, of the latent vector z of a row given its
observed values (Tipping & Bishop 1999). Nothing is imputed before the fit, and a row with more missing values has a
larger ellipse. The covariance of the rows, WWᵀ + σ²I, has the m largest eigenvalues of the data and, d-m times, σ²,
the mean of the others. To choose m, use ln p of held-out rows; ln p of the training rows never falls with m. m = d-1 is
already a full covariance.
"""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Ellipse
from sklearn.datasets import load_iris

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import ProbabilisticPCA, select

PICTURE = picture_path(__doc__)
SHARE, DIMENSIONS = 0.2, range(1, 4)

rng = np.random.default_rng(0)
iris = load_iris()
# The noise has one variance for all features, which share a unit here, the centimetre.
X = iris.data
missing = rng.random(X.shape) < SHARE
given = np.where(missing, np.nan, X)

complete, partial = ProbabilisticPCA(2).fit(X), ProbabilisticPCA(2, random_state=0).fit(given)
known = {1: (0.114139, -470.6695), 2: (0.050682, -404.9628), 3: (0.023676, -379.9146)}
for m, (variance, total) in known.items():
    model = ProbabilisticPCA(m).fit(X)
    assert abs(model.noise_variance_ - variance) < 1e-6, "σ² is the mean of the remaining eigenvalues"
    assert abs(model.score(X) * len(X) - total) < 1e-4
    assert np.allclose(model.mean_, X.mean(0)), "and μ is the mean of the rows"
    implied = np.linalg.eigvalsh(model.loadings_ @ model.loadings_.T + model.noise_variance_ * np.eye(4))
    own = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    assert np.allclose(implied, np.append(np.full(4 - m, own[: 4 - m].mean()), own[4 - m :])), "C = WWᵀ + σ²I"
posterior = partial.posterior(given)
covariances = posterior.covariance_matrix.numpy()
radii = np.linalg.det(covariances) ** 0.25
# The formula with the rows of W and the entries of x - μ that are observed; only rounding differs.
for i, seen in enumerate(~missing):
    W, away = partial.loadings_[seen], X[i, seen] - partial.mean_[seen]
    inverse = np.linalg.inv(W.T @ W + partial.noise_variance_ * np.eye(2))
    assert np.allclose(posterior.mean[i], inverse @ W.T @ away)
    assert np.allclose(covariances[i], partial.noise_variance_ * inverse)
n_missing = missing.sum(1)
print(f"{len(X)} flowers, {X.shape[1]} measurements, {100 * missing.mean():.1f} % of them missing")
for count in range(n_missing.max() + 1):
    rows = n_missing == count
    print(f"  {count} missing in {rows.sum():3d} rows: mean radius of the ellipse {radii[rows].mean():.3f}")
assert np.all(np.diff([radii[n_missing == count].mean() for count in range(4)]) > 0), (
    "more missing values, larger ellipses"
)

error, by_means = (np.sqrt(((rows - X)[missing] ** 2).mean()) for rows in (partial.impute(given), np.nanmean(given, 0)))
print(f"missing entries, root mean square error (cm): {error:.3f}; by column means {by_means:.3f}")
assert error < 0.5 * by_means, "observed values predict missing ones"

# For rows drawn from the model, z lies in its ellipse with probability exactly 1 - exp(-1/2).
rows, z = partial.sample(5000, random_state=0)
drawn = partial.posterior(np.where(rng.random(rows.shape) < SHARE, np.nan, rows))
away = np.linalg.solve(drawn.scale_tril.numpy(), (z - drawn.mean.numpy())[..., None])[..., 0]
inside, expected = ((away**2).sum(1) < 1).mean(), 1 - np.exp(-0.5)
print(f"simulated rows: {100 * inside:.1f} % within their ellipse, {100 * expected:.1f} % expected")
assert abs(inside - expected) < 4 * np.sqrt(expected * (1 - expected) / 5000)

by_cv = select(ProbabilisticPCA(random_state=0), given, {"n_components": DIMENSIONS}, "cv")
by_bic = select(ProbabilisticPCA(random_state=0), given, {"n_components": DIMENSIONS}, "bic")
fits = [ProbabilisticPCA(m, random_state=0).fit(given).score(given) for m in DIMENSIONS]
best = {name: chosen.best_params["n_components"] for name, chosen in {"held-out ln p": by_cv, "bic": by_bic}.items()}
print(by_cv)
print(f"dimensions: {best['held-out ln p']} by held-out ln p, {best['bic']} by bic")
# EM stops at tol, so the tolerance is 1e-4 nats.
assert np.diff(fits).min() > -1e-4, "ln p of the training rows does not fall with m"

fig = figure(14, 5.6)
left, middle, right = fig.subplots(1, 3, width_ratios=(1, 1, 0.8))


def draw_map(ax, mean: np.ndarray, covariances: np.ndarray) -> None:
    for place, cov, kind in zip(mean, covariances, iris.target, strict=True):
        values, vectors = np.linalg.eigh(cov)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        height, width = 2 * np.sqrt(values)
        ax.add_patch(Ellipse(place, width, height, angle=angle, color=COLOURS[kind], alpha=0.12, lw=0))
    for kind in range(3):
        ax.scatter(*mean[iris.target == kind].T, s=9, color=COLOURS[kind], lw=0, label=iris.target_names[kind])
    ax.set(xlabel="$z_1$", ylabel="$z_2$", xlim=(-2.6, 2.6), ylim=(-2.9, 2.9), aspect="equal")


whole = complete.posterior(X)
draw_map(left, whole.mean.numpy(), whole.covariance_matrix.numpy())
draw_map(middle, posterior.mean.numpy(), covariances)
left.set_title("complete rows: one ellipse size for all")
middle.set_title(f"{100 * SHARE:.0f} % missing: more missing values, larger ellipses")
left.legend(loc="lower right", labelcolor=INK)

right.plot(DIMENSIONS, fits, "o-", ms=4, color=GREY, label="training rows")
held, spread = by_cv.table["cv"], by_cv.table["standard_error"]
right.errorbar(DIMENSIONS, held, spread, fmt="o-", ms=4, capsize=2, color=COLOURS[0], label="held-out rows, 5 folds")
for m in set(best.values()):
    names = " and ".join(name for name, value in best.items() if value == m)
    right.axvline(m, color=GREY, lw=1, ls=":", zorder=0)
    right.annotate(f"by {names}", (m, 0.02), (-4, 0), ("data", "axes fraction"), "offset points", ha="right", color=INK)
right.set(xlabel="dimensions m", ylabel="ln p, nats per row", xticks=DIMENSIONS, title="how many dimensions?")
right.legend(loc="upper left")
title(fig, "Iris with a fifth of its values missing: nearly the same map, with the uncertainty of each row")
save(fig, PICTURE)
