"""Factor analysis of cell nuclei: loadings under three rotations, and the noise of each feature.

    python examples/factors.py [picture.png]
Factor analysis fits loadings W and one noise variance per feature, x ~ N(μ, WWᵀ + Ψ). W R is as likely as W for every
rotation R, so the data do not determine the rotation. Varimax (Kaiser 1958) gives every factor few large loadings;
quartimax gives every feature few, which tends to produce one general factor. A rotation does not change the likelihood
or the noise.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

from drawing import COLOURS, INK, figure, picture_path, save, title
from jensen import FactorAnalysis, ProbabilisticPCA

PICTURE = picture_path(__doc__)
N_FACTORS = 3

cells = load_breast_cancer()
names = [name.removeprefix("mean ") for name in cells.feature_names[:10]]
X = cells.data[:, :10]
X = (X - X.mean(0)) / X.std(0)

fits = {
    rotation or "unrotated": FactorAnalysis(N_FACTORS, rotation=rotation).fit(X)
    for rotation in (None, "varimax", "quartimax")
}
plain, pca = fits["unrotated"], ProbabilisticPCA(N_FACTORS).fit(X)
W = {name: model.components_.T for name, model in fits.items()}


def varimax(w: np.ndarray) -> float:
    """Variance of the squared loadings within each factor, summed over factors."""
    return float((w**2).var(0).sum())


def quartimax(w: np.ndarray) -> float:
    """The same within each feature, up to a constant: the sum of all fourth powers."""
    return float((w**4).sum())


print(f"{len(X)} rows, {X.shape[1]} features, {N_FACTORS} factors, {plain.n_iter_} EM steps")
print(f"ln p: {plain.score(X):.3f} nats per row; with one noise variance for all (PPCA) {pca.score(X):.3f}")
print("rotation     varimax   quartimax")
for name, w in W.items():
    print(f"{name:10s} {varimax(w):9.3f} {quartimax(w):11.3f}")
    assert np.allclose(fits[name].score_samples(X), plain.score_samples(X)), "a rotation does not change ln p"
    assert np.allclose(w @ w.T, W["unrotated"] @ W["unrotated"].T), "nor W Wᵀ"
assert max(W, key=lambda name: varimax(W[name])) == "varimax"
assert max(W, key=lambda name: quartimax(W[name])) == "quartimax"
assert plain.score(X) > pca.score(X), "PPCA is factor analysis with fewer parameters"
explained = W["unrotated"] ** 2 @ np.ones(N_FACTORS)
assert np.allclose(explained + plain.noise_variance_, 1, atol=1e-2), "factors and noise add up to variance 1"

fig = figure(13, 6.4)
*maps, bars = fig.subplots(1, 4, sharey=True, width_ratios=(1, 1, 1, 1.25))
for ax, (name, w) in zip(maps, W.items(), strict=True):
    shade = ax.imshow(w, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(w):
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if abs(value) > 0.6 else INK)
    ax.set(title=name, xticks=range(N_FACTORS), xticklabels=[f"factor {i + 1}" for i in range(N_FACTORS)])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
maps[0].set_yticks(range(len(names)), names)
fig.colorbar(shade, ax=maps, label="loading", orientation="horizontal", shrink=0.5, aspect=40, pad=0.02)

bars.barh(range(len(names)), plain.noise_variance_, color=COLOURS[0], height=0.6)
bars.axvline(pca.noise_variance_, color=COLOURS[1], lw=1.5, ls="--")
bars.annotate(
    "PPCA: one value for all", (pca.noise_variance_, 0), (52, -4), textcoords="offset points", color=COLOURS[1]
)
for row, value in enumerate(plain.noise_variance_):
    text = f"{value:.3f}" if value >= 1e-3 else "< 0.001"
    bars.text(max(value, pca.noise_variance_) + 0.01, row, text, va="center", fontsize=9)
bars.set(title="noise variance (of 1)", xlim=(0, 1))
bars.tick_params(axis="y", length=0)
title(fig, "Ten measures of cell nuclei: loadings under three rotations, and noise variances")
save(fig, PICTURE)
