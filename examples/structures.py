"""Which structure? Fourteen mixtures of the same rows.

    python examples/structures.py [picture.png]
Three groups differ in volume, shape and orientation. Every panel is a mixture of three Gaussians under one of the
structures of Celeux & Govaert (1995), by mclust's names: letters for volume, shape and orientation, E equal, V varying,
I the identity. What a structure cannot follow costs likelihood, and what it can follow costs parameters: BIC weighs
both.
"""

from __future__ import annotations

import numpy as np

from drawing import COLOURS, GREY, ellipses, figure, picture_path, save, title
from jensen import GaussianMixture, select

PICTURE = picture_path(__doc__)


def turned(degrees: float, variances: tuple[float, float]) -> np.ndarray:
    """A covariance with these variances along axes turned by an angle."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    axes = np.array([[c, -s], [s, c]])
    return axes @ np.diag(variances) @ axes.T


rng = np.random.default_rng(3)
# Volumes and orientations differ, and the ratio of the axes is the same: VEV.
groups = [([0.0, 0.0], 20, (2.4, 0.3)), ([5.5, 1.0], 100, (0.8, 0.1)), ([2.0, 5.0], -35, (4.8, 0.6))]
X = np.concatenate([rng.multivariate_normal(mean, turned(angle, v), 120) for mean, angle, v in groups])

chosen = select(GaussianMixture(3), X, {"covariance_type": GaussianMixture.STRUCTURES})
print(chosen)
assert chosen.best_params == {"covariance_type": "VEV"}

fig = figure(15, 5.2)
bic = dict(zip(chosen.table["covariance_type"], chosen.table["bic"], strict=True))
for ax, (name, value) in zip(fig.subplots(2, 7, sharex=True, sharey=True).flat, bic.items(), strict=True):
    model = GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    colours = [COLOURS[i] for i in np.argsort(np.argsort(model.means_[:, 0]))]
    ax.scatter(*X.T, s=3, color=GREY, alpha=0.5, lw=0)
    ellipses(ax, model, colours)
    is_best = name == chosen.best_params["covariance_type"]
    ax.set_title(f"{name}   {value:.0f}" + (" *" if is_best else ""), fontweight="bold" if is_best else "normal")
    ax.set(aspect="equal", xticks=[], yticks=[])
title(fig, "Volume, shape, orientation: Equal, Varying or the Identity, with BIC (smaller is better)")
save(fig, PICTURE)
