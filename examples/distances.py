"""Three distances of k-means: the square for round clusters, absolute differences for outliers, angles for directions.

    python examples/distances.py [picture.png]
K-means chooses K centres c and minimises a sum over rows of the distance to the nearest centre. The centre that is best
for its rows depends on the distance:
    euclidean  ‖x - c‖²          the mean
    manhattan  Σ_f |x_f - c_f|   the median of each feature
    cosine     1 - cos(x, c)     the mean direction
Each of three made-up tables suits one of them: round clusters; the same with outliers, in which a mean follows the
outliers; and rows that differ by direction, whose lengths say nothing, as in texts of different length. Agreement is
the adjusted Rand index with the true groups, without the outliers: 1 is equal, 0 is chance.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from drawing import COLOURS, INK, figure, picture_path, save, title
from jensen import KMeans

PICTURE = picture_path(__doc__)
METRICS = ("euclidean", "manhattan", "cosine")
CENTRES = np.array([[3.0, 1.0], [7.0, 2.0], [5.0, 6.0]])
N = 300


def round_clusters(rng: np.random.Generator, n_outliers: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and groups; outliers have the group -1."""
    group = rng.integers(3, size=N)
    rows = CENTRES[group] + 0.8 * rng.normal(size=(N, 2))
    if n_outliers:
        rows[:n_outliers], group[:n_outliers] = rng.uniform(-20, 30, size=(n_outliers, 2)), -1
    return rows, group


def directions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    group = rng.integers(3, size=N)
    angle = np.array([0.2, 0.75, 1.3])[group] + 0.07 * rng.normal(size=N)
    return rng.gamma(2, 2, size=(N, 1)) * np.column_stack([np.cos(angle), np.sin(angle)]), group


rng = np.random.default_rng(0)
tables = {
    "round clusters": round_clusters(rng),
    "with 5 % outliers": round_clusters(rng, 15),
    "directions": directions(rng),
}
agreement = {}
fig = figure(11, 9)
axes = fig.subplots(3, 3)
for row, (name, (rows, group)) in zip(axes, tables.items(), strict=True):
    for axis, metric in zip(row, METRICS, strict=True):
        model = KMeans(3, metric=metric, n_init=5, random_state=0).fit(rows)
        inside = group >= 0
        agreement[name, metric] = adjusted_rand_score(group[inside], model.labels_[inside])
        for k in range(3):
            axis.plot(*rows[model.labels_ == k].T, "o", color=COLOURS[k], ms=3, alpha=0.6, mew=0)
        if metric == "cosine":
            # A direction is a ray from the origin.
            far = np.abs(rows).max()
            for centre in model.cluster_centers_:
                axis.plot(*np.stack([0 * centre, far * centre], 1), color=INK, lw=1)
        else:
            axis.plot(*model.cluster_centers_.T, "X", color=INK, ms=8, mew=0)
        low, high = rows[inside].min(0), rows[inside].max(0)
        axis.set(xlim=(min(0, low[0]) - 0.5, high[0] + 1.5), ylim=(min(0, low[1]) - 0.5, high[1] + 1.5))
        axis.set_title(f"{name}, {metric}: {agreement[name, metric]:.2f}")
print("adjusted Rand index with the true groups")
print("  " + " " * 20 + "".join(f"{metric:>12s}" for metric in METRICS))
for name in tables:
    print(f"  {name:20s}" + "".join(f"{agreement[name, metric]:12.2f}" for metric in METRICS))
for name, best in zip(tables, METRICS, strict=True):
    others = [agreement[name, metric] for metric in METRICS if metric != best]
    assert agreement[name, best] > 0.9, f"{best} finds {name}"
    assert agreement[name, best] >= max(others) - 0.02, f"no other distance is better for {name}"
title(fig, "Which distance? Squares follow outliers, and lengths hide directions")
save(fig, PICTURE)
