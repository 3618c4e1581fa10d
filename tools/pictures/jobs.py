"""Pictures of the quick start and of the jobs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, load_wine

from drawing import COLOURS, GREY, INK, ellipses, figure
from jensen import GaussianMixture, outlier_scores
from jensen import synthesize as new_rows

__all__ = ["imputation", "outliers", "quick_start", "synthesize"]


def quick_start() -> Figure:
    """The flowers of the quick start: three classes, and missing widths at their imputed values."""
    iris = load_iris(as_frame=True)
    rng = np.random.default_rng(0)
    true = iris.data.to_numpy()
    missing = rng.random(true.shape) < 0.2
    X = np.where(missing, np.nan, true)
    y = np.where(rng.random(len(X)) < 0.5, -1, iris.target)
    model = GaussianMixture(random_state=0).fit(X, y)
    filled, found = model.impute(X), model.predict(X)
    petals = GaussianMixture(random_state=0).fit(X[:, 2:], y)
    fig = figure(6, 3.0)
    ax = fig.subplots()
    both = ~missing[:, 2:].any(1)
    for k, name in enumerate(iris.target_names):
        own = both & (found == k)
        ax.scatter(*true[own, 2:].T, s=9, color=COLOURS[k], label=name)
    ellipses(ax, petals)
    unknown = np.flatnonzero(missing[:, 3] & ~missing[:, 2])
    for i in unknown:
        ax.plot([true[i, 2]] * 2, [true[i, 3], filled[i, 3]], color=GREY, lw=1)
    ax.plot(*filled[unknown, 2:].T, "x", color=INK, ms=6, label="imputed width")
    ax.plot(*true[unknown, 2:].T, "o", mfc="none", color=GREY, ms=5, label="true width")
    ax.set(xlabel="petal length, cm", ylabel="petal width, cm", ylim=(-0.2, 3.1))
    ax.legend(loc="upper left", ncols=1, fontsize=8)
    return fig


def imputation() -> Figure:
    """One missing width: its mean is one number, its draws are all that it could be."""
    X = load_iris().data[50:, 2:]
    model = GaussianMixture(2, random_state=0).fit(X)
    length = 4.9
    row = np.array([[length, np.nan]])
    draws = np.array([drawn[0, 1] for drawn in model.impute_draws(row, 400, random_state=0)])
    fig = figure(6, 2.7)
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    left.scatter(*X.T, s=9, color=GREY)
    ellipses(left, model)
    left.axvline(length, color=INK, ls=":", lw=1.4)
    left.plot(length, model.impute(row)[0, 1], "x", color=INK, ms=9, mew=2)
    left.set(xlabel="petal length, cm", ylabel="petal width, cm", title="only the length is known")
    right.hist(draws, 25, orientation="horizontal", color=COLOURS[0], alpha=0.6)
    right.axhline(model.impute(row)[0, 1], color=INK, lw=1.4)
    right.set(xticks=[], title="draws of the width")
    return fig


def outliers() -> Figure:
    """A row that is usual in each column and odd in both together."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1, 0.92], [0.92, 1]], 300)
    odd = np.array([[1.3, -1.3], [-1.5, 0.9]])
    model = GaussianMixture(1).fit(np.vstack([X, odd]))
    a, b = np.meshgrid(np.linspace(-3.4, 3.4, 200), np.linspace(-3.4, 3.4, 200))
    score = outlier_scores(model, np.column_stack([a.ravel(), b.ravel()])).reshape(a.shape)
    fig = figure(6, 3.2)
    grid = fig.add_gridspec(2, 2, width_ratios=(4, 1), height_ratios=(1, 3))
    ax, top, side = fig.add_subplot(grid[1, 0]), fig.add_subplot(grid[0, 0]), fig.add_subplot(grid[1, 1])
    usual = np.quantile(outlier_scores(model, X), [0.5, 0.9, 0.99])
    ax.contour(a, b, score, usual, colors=COLOURS[0], linewidths=1)
    ax.scatter(*X.T, s=7, color=GREY)
    ax.plot(*odd.T, "X", color=COLOURS[1], ms=9)
    ax.text(1.3, -1.75, "odd only in both together", color=COLOURS[1], va="top", ha="center", fontsize=9)
    ax.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), xticks=[], yticks=[], xlabel="first column", ylabel="second column")
    bins = np.linspace(-3.4, 3.4, 30)
    top.hist(X[:, 0], bins, color=GREY)
    side.hist(X[:, 1], bins, color=GREY, orientation="horizontal")
    for value in odd[:, 0]:
        top.axvline(value, color=COLOURS[1])
    for value in odd[:, 1]:
        side.axhline(value, color=COLOURS[1])
    for axis in (top, side):
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    top.set(xlim=(-3.4, 3.4))
    side.set(ylim=(-3.4, 3.4))
    return fig


def synthesize() -> Figure:
    """Two columns of the wines, and of new rows."""
    wine = load_wine(as_frame=True).frame
    new = new_rows(wine, 178, label="target", effort="quick", random_state=0).table
    fig = figure(6, 2.7)
    for ax, (name, table) in zip(
        fig.subplots(1, 2, sharex=True, sharey=True), {"178 wines": wine, "178 new rows": new}.items(), strict=True
    ):
        for k in range(3):
            own = table[table["target"].astype(int) == k]
            ax.scatter(own["flavanoids"], own["color_intensity"], s=9, color=COLOURS[k], label=f"grower {k + 1}")
        ax.set(title=name, xlabel="flavanoids")
    fig.axes[0].set(ylabel="colour intensity")
    fig.axes[1].legend(fontsize=8)
    return fig
