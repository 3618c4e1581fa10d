"""Outliers: squared distances move a centre to them, plain distances do not.

    python examples/outliers.py [picture.png]
All methods choose K centres c and minimise a sum over rows of the cost to the nearest centre:
    k-means            Σ_i min_j ‖x_i - c_j‖²,           c anywhere: means
    k-medians          Σ_i min_j Σ_f |x_if - c_jf|,      c anywhere: medians of each feature
    k-medoids          Σ_i min_j ‖x_i - c_j‖,            c among the rows
    squared k-medoids  Σ_i min_j ‖x_i - c_j‖²,           c among the rows
A row at 10 times the usual distance counts 100 times in a sum of squares and 10 times in a sum of distances. So it is
the distance that is robust, and not the rule that a centre must be a row: with squared distances medoids follow
outliers like means. The data are three round clusters and a growing share of outliers, spread evenly over a much larger
square. The error is the largest distance of a true centre to the nearest centre found. Without outliers, the mean of a
Gaussian cluster is on average closer to the true centre than the median and the medoid.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.spatial.distance import cdist

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import KMeans, KMedoids

PICTURE = picture_path(__doc__)
CENTRES = np.array([[-4.0, -2.0], [4.0, -2.0], [0.0, 4.0]])
ROWS, HALF_WIDTH, DRAWS = 300, 30.0, 20
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
METHODS = {
    "k-means": KMeans(3, n_init=3, random_state=0),
    "squared k-medoids": KMedoids(3, metric="sqeuclidean", random_state=0),
    "k-medians": KMeans(3, metric="manhattan", n_init=3, random_state=0),
    "k-medoids": KMedoids(3, random_state=0),
}
SHOWN = 0.1
COLOUR = dict(zip(METHODS, (COLOURS[1], COLOURS[3], COLOURS[2], COLOURS[0]), strict=True))


def draw(share: float, seed: int) -> np.ndarray:
    """Rows of three clusters with unit variance; a share of the rows is replaced by outliers."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(CENTRES, ROWS // 3, axis=0) + rng.normal(size=(ROWS, 2))
    far = rng.permutation(ROWS)[: round(share * ROWS)]
    rows[far] = rng.uniform(-HALF_WIDTH, HALF_WIDTH, size=(len(far), 2))
    return rows


def worst(centres: np.ndarray) -> float:
    return float(cdist(CENTRES, centres).min(1).max())


errors = {
    name: np.array([[worst(model.fit(draw(s, seed)).cluster_centers_) for seed in range(DRAWS)] for s in SHARES])
    for name, model in METHODS.items()
}
mean = {name: values.mean(1) for name, values in errors.items()}
spread = {name: values.std(1, ddof=1) / np.sqrt(DRAWS) for name, values in errors.items()}
print(f"largest distance of a true centre to the nearest found, mean ± standard error of {DRAWS} draws")
print("  outliers  " + "".join(f"{name:>19s}" for name in METHODS))
for i, share in enumerate(SHARES):
    print(f"  {share:8.0%}  " + "".join(f"{mean[name][i]:12.2f} ± {spread[name][i]:.2f}" for name in METHODS))
tenth = SHARES.index(SHOWN)
for plain, squared in itertools.product(("k-medoids", "k-medians"), ("k-means", "squared k-medoids")):
    assert mean[plain][tenth] < 0.5 < 3 < mean[squared][tenth], "10 % outliers move centres of squared distances only"
ahead = errors["k-medoids"][0] - errors["k-means"][0]
assert ahead.mean() > 3 * ahead.std(ddof=1) / np.sqrt(DRAWS), "without outliers means are closer (paired over draws)"

# Show the draw with the median error of k-means.
rows = draw(SHOWN, int(np.argsort(errors["k-means"][tenth])[DRAWS // 2]))
fig = figure(12.5, 5)
left, right = fig.subplots(1, 2, width_ratios=(1, 1.1))
left.plot(*rows.T, "o", color=GREY, ms=3, alpha=0.6, mew=0)
for name, marker, fill in (("k-means", "X", COLOUR["k-means"]), ("k-medoids", "o", "none")):
    centres = METHODS[name].fit(rows).cluster_centers_
    left.plot(*centres.T, marker, color=COLOUR[name], mfc=fill, ms=11, mew=2 if fill == "none" else 0, label=name)
left.plot(*CENTRES.T, "+", color=INK, ms=11, mew=1.5, label="true centres")
left.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$", xlim=(-34, 34), ylim=(-32, 40))
left.set_title(f"{ROWS} rows, {SHOWN:.0%} of them outliers")
left.legend(loc="upper center", ncols=3)
for name in METHODS:
    right.errorbar(SHARES, mean[name], spread[name], fmt="o-", color=COLOUR[name], capsize=3, label=name)
right.set(xlabel="share of outliers", ylabel="largest error of a centre", yscale="log")
right.set_xticks(SHARES, [f"{share:.0%}" if share != 0.02 else "" for share in SHARES])
right.set_yticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
right.minorticks_off()
right.set_title(f"mean and standard error of {DRAWS} draws; clusters have standard deviation 1")
right.legend(loc="lower right")
title(fig, "Squared distances follow outliers, whatever the centres; plain distances do not, unless there are many")
save(fig, PICTURE)
