"""Pictures of pages on subspaces, curves and regression."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from drawing import COLOURS, GREY, INK, figure
from jensen import (
    Blend,
    FactorAnalysis,
    GaussianMixture,
    LatentCurve,
    MixtureOfPPCA,
    ProbabilisticPCA,
    RidgeRegression,
)

__all__ = [
    "blend",
    "factor_analysis",
    "latent_curve",
    "mixture_of_ppca",
    "probabilistic_pca",
    "ridge_regression",
]


def spiral(n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    t = rng.uniform(0.25, 1, n)
    angle = 3 * np.pi * t
    return np.stack([t * np.cos(angle), t * np.sin(angle)], 1) + noise * rng.normal(size=(n, 2)), t


def bare(ax, **options) -> None:
    ax.set(xticks=[], yticks=[], **options)
    ax.spines[:].set_visible(False)


def probabilistic_pca() -> Figure:
    """Rows, the line, and how sure z is: complete rows, and a row with a missing value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 1)) @ [[2.0, 1.2]] + 0.5 * rng.normal(size=(150, 2))
    model = ProbabilisticPCA(1).fit(X)
    ends = model.inverse_transform(np.array([[-2.6], [2.6]]))
    fig = figure(6, 2.7)
    ax = fig.subplots()
    ax.plot(*ends.T, color=INK, lw=1.4)
    ax.scatter(*X.T, s=9, color=GREY)
    for row, colour, name in (
        ([-1.4, 1.0], COLOURS[0], "a complete row"),
        ([2.6, np.nan], COLOURS[1], "a row whose second value is missing"),
    ):
        given = np.array([row])
        z = model.posterior(given)
        mean, std = float(z.mean[0, 0]), float(z.covariance_matrix[0, 0, 0]) ** 0.5
        ax.plot(
            *model.inverse_transform(np.array([[mean - 1.96 * std], [mean + 1.96 * std]])).T,
            color=colour,
            lw=6,
            alpha=0.5,
        )
        place = model.inverse_transform(np.array([[mean]]))[0]
        ax.plot(*place, "o", color=colour, label=f"{name}: 95 % of p(z|x)")
        if np.isnan(row[1]):
            ax.axvline(row[0], color=colour, ls=":", lw=1.4)
        else:
            ax.plot(*zip(row, place, strict=True), color=colour, ls=":", lw=1.4)
            ax.plot(*row, "x", color=colour, ms=8, mew=2)
    bare(ax, ylim=(-4.2, 5.4))
    ax.legend(loc="upper left")
    return fig


def factor_analysis() -> Figure:
    """The noise variance of each feature, beside the one variance of probabilistic PCA."""
    data = load_breast_cancer()
    X = (data.data - data.data.mean(0))[:, :10] / data.data.std(0)[:10]
    own, common = FactorAnalysis(3).fit(X), ProbabilisticPCA(3).fit(X)
    fig = figure(6, 2.8)
    ax = fig.subplots()
    ax.barh([name.removeprefix("mean ") for name in data.feature_names[:10]], own.noise_variance_, color=COLOURS[0])
    ax.axvline(common.noise_variance_, color=COLOURS[1], ls="--", label="probabilistic PCA: one for all")
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="share of the variance that three factors leave to noise")
    ax.legend(loc="lower right")
    return fig


def mixture_of_ppca() -> Figure:
    """Several short lines along a curve, where one line cannot follow."""
    X, _ = spiral(500, 0.02)
    fig = figure(6, 2.7)
    for ax, k in zip(fig.subplots(1, 2, sharey=True), (1, 8), strict=True):
        model = MixtureOfPPCA(k, n_latent=1, random_state=0, n_init=3).fit(X)
        component = model.predict(X)
        ax.scatter(*X.T, s=5, c=[COLOURS[i % 6] for i in component], alpha=0.5)
        for i in range(k):
            own = X[component == i]
            _, _, axis = np.linalg.svd(own - own.mean(0), full_matrices=False)
            reach = 1.9 * ((own - own.mean(0)) @ axis[0]).std()
            line = own.mean(0) + np.outer([-reach, reach], axis[0])
            ax.plot(*line.T, color=INK, lw=2)
        bare(ax, aspect="equal", title=f"{k} line{'s' if k > 1 else ''}: {model.score(X):.2f} nats per row")
    return fig


def latent_curve() -> Figure:
    """A curve through a spiral, and the posterior of a row with a missing value."""
    X, _ = spiral(500, 0.03)
    model = LatentCurve(random_state=0).fit(X)
    row = np.array([[np.nan, 0.2]])
    posterior = np.asarray(model.posterior(row).probs[0])
    fig = figure(6, 2.8)
    left, right = fig.subplots(1, 2, width_ratios=(1, 1.1))
    left.scatter(*X.T, s=6, c=model.transform(X)[:, 0], cmap="viridis")
    left.plot(*model.curve(400).T, color=INK, lw=1.4)
    left.axhline(0.2, color=COLOURS[1], ls=":", lw=1.6)
    bare(left, aspect="equal", title="rows, coloured by z")
    right.plot(model.grid_, posterior / posterior.max(), color=COLOURS[1])
    right.fill_between(np.ravel(model.grid_), posterior / posterior.max(), color=COLOURS[1], alpha=0.3)
    right.set(title="p(z | height): where the dotted line\nmeets the curve", xlabel="z", yticks=[])
    return fig


def ridge_regression() -> Figure:
    """Least squares follows every row; the posterior has a mean, and a width."""
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(-1, 1, 14))
    y = np.sin(3 * x) + 0.25 * rng.normal(size=14)
    grid = np.linspace(-1.05, 1.05, 300)
    fig = figure(6, 2.7)
    panels = {"least squares": 0.0, "λ by evidence": "evidence"}
    for ax, (name, alpha) in zip(fig.subplots(1, 2, sharey=True), panels.items(), strict=True):
        model = RidgeRegression(alpha=alpha).fit(np.vander(x, 11)[:, :-1], y)
        mean, std = model.predict(np.vander(grid, 11)[:, :-1], return_std=True)
        ax.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, color=COLOURS[0], alpha=0.2, lw=0)
        ax.plot(grid, mean, color=COLOURS[0])
        ax.plot(grid, np.sin(3 * grid), color=GREY, ls="--", lw=1.2)
        ax.plot(x, y, "o", color=INK, ms=4)
        ax.set(title=name, ylim=(-2.2, 2.2), xticks=[], yticks=[])
    return fig


def blend() -> Figure:
    """Rows on a curve and in clouds, and which model explains each."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, 400)
    line = np.stack([3 * t, 2 * np.sin(2.5 * t)], 1) + 0.05 * rng.normal(size=(400, 2))
    clouds = np.array([[-2.0, 3.5], [2.5, -3.5]])[rng.integers(2, size=300)] + 0.6 * rng.normal(size=(300, 2))
    rows = rng.permutation(np.concatenate([line, clouds]))
    models = {"latent curve": LatentCurve(random_state=0), "Gaussian mixture": GaussianMixture(3, random_state=0)}
    model = Blend(models, random_state=0).fit(rows[:500])
    fig = figure(6, 2.7)
    left, right = fig.subplots(1, 2, width_ratios=(1.4, 1))
    shown = left.scatter(*rows[500:].T, c=model.predict_proba(rows[500:])[:, 0], cmap="cividis", vmin=0, vmax=1, s=12)
    bare(left)
    bar = fig.colorbar(shown, ax=left, ticks=[0, 1])
    bar.ax.set_yticklabels(["mixture", "curve"])
    scores = {name: fitted.score(rows[500:]) for name, fitted in model.models_.items()}
    scores = {name.replace(" ", "\n"): score for name, score in scores.items()} | {"blend": model.score(rows[500:])}
    right.bar(
        [*scores], [score - min(scores.values()) + 0.01 for score in scores.values()], color=COLOURS[0], width=0.6
    )
    right.set_title("nats per new row,\nabove the worst")
    return fig
