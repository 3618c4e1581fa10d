"""How many clusters? Four criteria, and two definitions of a cluster.

    python examples/number_of_clusters.py [picture.png]
The data are four Gaussians, one of them elongated. A mixture with full covariances fits it with one elongated
component, and BIC and held-out ln p choose four components. k-means assumes round clusters and needs two for it, so
silhouette and gap choose five. A criterion chooses the number for a given model; no number is right for all models.
"""

from __future__ import annotations

import numpy as np

from drawing import COLOURS, GREY, INK, ellipses, figure, picture_path, save, title
from jensen import GaussianMixture, KMeans, select

PICTURE = picture_path(__doc__)
NUMBERS = range(1, 8)

rng = np.random.default_rng(0)
shapes = [
    ([0.0, 0.0], [[6.0, 5.4], [5.4, 5.4]]),
    ([4.0, -3.5], [[0.6, 0.0], [0.0, 0.6]]),
    ([-6.0, 2.5], [[0.4, 0.0], [0.0, 0.4]]),
    ([-6.0, -2.5], [[0.5, 0.3], [0.3, 1.0]]),
]
X = np.concatenate([rng.multivariate_normal(mean, covariance, 80) for mean, covariance in shapes])

mixture, means = GaussianMixture(random_state=0), KMeans(n_init=2, random_state=0)
structures = {"covariance_type": ["full", "spherical"], "n_components": NUMBERS}
chosen = {
    "bic": select(mixture, X, structures),
    "cv": select(mixture, X, {"n_components": NUMBERS}, "cv"),
    "silhouette": select(means, X, {"n_clusters": NUMBERS}, "silhouette"),
    "gap": select(means, X, {"n_clusters": NUMBERS}, "gap"),
}
for selection in chosen.values():
    print(selection, end="\n\n")

assert chosen["bic"].best_params == {"covariance_type": "full", "n_components": 4}
assert chosen["cv"].best_params == {"n_components": 4}
assert chosen["silhouette"].best_params == chosen["gap"].best_params == {"n_clusters": 5}

fig = figure(13, 6.6)
left, right = fig.subfigures(1, 2, width_ratios=(1, 1.9))
top, bottom = left.subplots(2, 1, sharex=True)
by_mixture, by_means = chosen["bic"].winner, chosen["gap"].winner
for ax, model in ((top, by_mixture), (bottom, by_means)):
    ax.scatter(*X.T, s=9, c=np.array(COLOURS)[model.predict(X)], alpha=0.6, lw=0)
    ax.set(aspect="equal", ylabel="$x_2$")
ellipses(top, by_mixture)
bottom.plot(*by_means.cluster_centers_.T, "+", color=INK, ms=10, mew=2)
top.set_title("mixture with full covariances: 4 components")
bottom.set(title="k-means: 5 round clusters", xlabel="$x_1$")

titles = (
    "BIC of mixtures; dotted: true number",
    "held-out ln p of mixtures (nats per row)",
    "silhouette of k-means",
    "gap of k-means",
)
for ax, text, selection in zip(right.subplots(2, 2).flat, titles, chosen.values(), strict=True):
    ax.axvline(len(shapes), color=GREY, lw=1, ls=":", zorder=0)
    ax.set_prop_cycle(color=COLOURS)
    selection.plot(ax)
    ax.set(title=text, xticks=NUMBERS)
title(fig, "The number of clusters depends on the model: one elongated Gaussian is two round clusters")
save(fig, PICTURE)
