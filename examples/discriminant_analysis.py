"""Linear and quadratic boundaries, and classes of several components.

    python examples/discriminant_analysis.py [picture.png]
Two classes of points: one in two groups, the other between them. One Gaussian per class with a shared covariance (LDA)
draws a line, with covariances of their own (QDA) a conic section; with two components in the first class the boundary
follows the groups. A third of the labels and a tenth of the coordinates are missing in all fits.
"""

from __future__ import annotations

import numpy as np

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import DiscriminantAnalysis

PICTURE = picture_path(__doc__)
rng = np.random.default_rng(2)
group = rng.choice(3, size=600, p=[0.35, 0.2, 0.45])
centre, spread = np.array([[-2.5, 1.5], [2.5, -1.0], [0.3, 0.4]]), np.array([[0.7, 0.5], [0.5, 0.9], [0.6, 0.8]])
X = centre[group] + spread[group] * rng.normal(size=(600, 2))
y = np.where(group < 2, "two groups", "one group")
seen, known = X.copy(), y.astype(object)
seen[rng.random(X.shape) < 0.1] = np.nan
known[rng.random(len(y)) < 1 / 3] = None

models = {
    "LDA: tied": DiscriminantAnalysis("tied"),
    "QDA: full": DiscriminantAnalysis("full"),
    "full, two components in one class": DiscriminantAnalysis(
        "full", components_per_class={"two groups": 2, "one group": 1}, random_state=0
    ),
}
fig = figure(12, 4.4)
axes = fig.subplots(1, 3, sharex=True, sharey=True)
a, b = np.meshgrid(np.linspace(-5, 5, 200), np.linspace(-4, 4.5, 200))
accuracy = []
for axis, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(seen, known)
    accuracy.append(model.score(X, y))
    share = model.predict_proba(np.column_stack([a.ravel(), b.ravel()]))[:, 1].reshape(a.shape)
    axis.contourf(a, b, share, levels=[0, 0.5, 1], colors=COLOURS[:2], alpha=0.15)
    axis.contour(a, b, share, levels=[0.5], colors=[GREY])
    for colour, label in zip(COLOURS, model.classes_, strict=False):
        own = y == label
        axis.scatter(*X[own].T, s=6, color=colour, label=label)
    axis.plot(*model.means_.T, "k+", markersize=11, label="means")
    axis.set(title=f"{name}\naccuracy {accuracy[-1]:.3f}", xlabel="x₁")
    print(f"{name}: accuracy {accuracy[-1]:.3f}, {model.n_parameters_} parameters")
axes[0].set(ylabel="x₂")
axes[0].legend(loc="upper right")
assert accuracy[0] < accuracy[1] < accuracy[2]
title(fig, "A class is a Gaussian, or several")
save(fig, PICTURE)
