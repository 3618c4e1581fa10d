"""Eight models of the wine data in one table, and which differences between them are significant.

    python examples/leaderboard.py [picture.png]
    score of a model = mean over held-out rows of ln p(x), or of a lower bound of it, nats
Eight models are fitted to 13 measurements of 178 wines, a tenth of which is missing. Every wine is scored by models
that were not trained on it. Wines vary more than models do, so the scores have large standard errors. But all models
are scored on the same wines, and the paired differences to the best model are much more precise. The scores of k-means
and of the VAE are lower bounds: their likelihoods may be higher.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import VAE, FactorAnalysis, GaussianMixture, KMeans, LatentCurve, MixtureOfPPCA, ProbabilisticPCA, compare

PICTURE = picture_path(__doc__)
X = StandardScaler().fit_transform(load_wine().data)
X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan

models = {
    "one Gaussian": GaussianMixture(1),
    "three Gaussians, diagonal": GaussianMixture(3, covariance_type="diag"),
    "k-means, 3 clusters": KMeans(3),
    "PPCA, 4 dimensions": ProbabilisticPCA(4),
    "factor analysis, 4": FactorAnalysis(4),
    "mixture of PPCA, 3 of 2": MixtureOfPPCA(3, n_latent=2),
    "latent curve": LatentCurve(),
    "VAE, 2 dimensions": VAE(2, max_epochs=60, learning_rate=5e-3),
}
board = compare(X, models, cv=5)
print(board)
table = board.table.set_index("model")
assert not board.failures
assert np.isfinite(board.scores).all(axis=None)
assert len(board.scores) == len(X), "every wine is scored once"
# The same numbers computed directly.
behind = board.scores.sub(board.scores[board.best], axis=0)
paired = behind.std(ddof=1) / np.sqrt(len(X))
np.testing.assert_allclose(table["behind"], behind.mean()[table.index], atol=1e-12)
np.testing.assert_allclose(table["behind_high"] - table["behind"], 1.96 * paired[table.index], atol=1e-12)
others = table.index[1:]
plain = np.hypot(table["standard_error"][others], table["standard_error"][board.best])
print(f"standard errors of paired differences: {(paired[others] / plain).mean():.0%} of those for separate rows")
assert (paired[others] < plain).all(), "paired differences are more precise"
bounds = set(table.index[table["value"].str.startswith("bound")])
assert bounds == {"k-means, 3 clusters", "VAE, 2 dimensions"}

alike = int((table["behind_high"][others] > 0).sum())
assert 0 < alike < len(others)

fig = figure(13, 4.8)
of_scores, of_rows = fig.subplots(1, 2, width_ratios=(1, 1.1))
place = np.arange(len(table))[::-1]
of_scores.errorbar(
    table["nats"],
    place + 0.16,
    xerr=1.96 * table["standard_error"],
    fmt="o",
    color=GREY,
    ms=4,
    capsize=3,
    label="score",
)
of_scores.errorbar(
    table["nats"].iloc[0] + table["behind"],
    place - 0.16,
    xerr=(table["behind_high"] - table["behind"]),
    fmt="o",
    color=COLOURS[0],
    ms=5,
    capsize=3,
    label="paired difference to the best",
)
of_scores.axvline(table["nats"].iloc[0], color=INK, lw=1, ls=":")
of_scores.set_yticks(place, [f"{name}{' (bound)' if name in bounds else ''}" for name in table.index])
of_scores.set(xlabel="nats per held-out wine, 95 % intervals", title="paired differences are more precise than scores")
of_scores.legend(loc="lower right")
of_scores.set_ylim(-1.9, len(table) - 0.5)
second = others[0]
of_rows.scatter(board.scores[board.best], board.scores[second], s=14, color=COLOURS[0], lw=0)
limits = np.array([board.scores[[board.best, second]].min(axis=None), board.scores.max(axis=None)])
of_rows.plot(limits, limits, color=INK, lw=1, ls=":")
of_rows.set(
    xlabel=f"nats, {board.best}",
    ylabel=f"nats, {second}",
    title="one dot per wine; below the line the best model scores higher",
)
title(fig, f"{len(table)} models of wines: {alike} do not differ significantly from the best, {len(others) - alike} do")
save(fig, PICTURE)
