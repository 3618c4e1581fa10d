"""Mixtures of every structure, and subspaces, on iris and handwritten digits: scores, samples, imputation.

    python examples/demo.py [picture.png]
Digits are whole numbers 0..16. Uniform noise u on [0, 1) makes them continuous, and since a cell is 1 wide
ln P(x) ≥ E_u ln p(x + u): a digits score is a lower bound of the log-probability of the pixels themselves.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from drawing import GREY, ellipses, figure, image_rows, picture_path, save, title
from jensen import (
    ConjugatePrior,
    FactorAnalysis,
    GaussianMixture,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    ProbabilisticPCA,
)

PICTURE = picture_path(__doc__)
STRUCTURES = ("spherical", "diag", "tied", "full")
COLUMNS = ("model", "K", "structure", "parameters", "train", "held-out", "± s.e.", "bits/dim", "BIC", "seconds")


NAMES = {
    ProbabilisticPCA: "PPCA",
    FactorAnalysis: "FA",
    MixtureOfPPCA: "mixture of PPCA",
    MixtureOfFactorAnalysers: "mixture of FA",
}


def described(model: Any) -> tuple[str, str, str]:
    """Name, K and structure."""
    if isinstance(model, GaussianMixture):
        name = "Gaussian" if model.n_components == 1 else "mixture" if model.prior is None else "with prior"
        return name, str(model.n_components), model.covariance_type
    if isinstance(model, (ProbabilisticPCA, FactorAnalysis)):
        return NAMES[type(model)], "1", f"m = {model.n_components}"
    return NAMES[type(model)], str(model.n_components), f"m = {model.n_latent}"


def compare(candidates: list[Any], train: np.ndarray, test: np.ndarray, caption: str) -> list[Any]:
    """Fit them and print their scores, in nats per row; the best on held-out rows is marked and comes back first."""
    d = train.shape[1]
    lines, held_out = [], []
    for model in candidates:
        begin = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - begin
        scores, bic = model.score_samples(test), model.bic(train)
        nats = (f"{model.score(train):.2f}", f"{scores.mean():.2f}", f"{scores.std(ddof=1) / len(test) ** 0.5:.2f}")
        bits = f"{-scores.mean() / (d * np.log(2)):.3f}"
        lines.append((*described(model), f"{model.n_parameters_}", *nats, bits, f"{bic:.0f}", f"{seconds:.2f}"))
        held_out.append(scores.mean())
    best = int(np.argmax(held_out))
    table = Table(title=caption, title_justify="left", title_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("model", "structure") else "right")
    for number, line in enumerate(lines):
        table.add_row(*line, "◀ best" if number == best else "", style="bold green" if number == best else None)
    Console(width=118).print(table)
    mixtures = [model for model in candidates if isinstance(model, GaussianMixture)]
    check_single_gaussians(mixtures, train)
    return [candidates[i] for i in np.argsort(held_out)[::-1]]


def check_single_gaussians(candidates: list[GaussianMixture], train: np.ndarray) -> None:
    """K = 1 is closed form, mean ln p = -½ (d ln 2πe + ln|S|), and each structure contains the one before."""
    nats = {model.covariance_type: model.score(train) for model in candidates if model.n_components == 1}
    closed = -0.5 * (train.shape[1] * np.log(2 * np.pi * np.e) + np.linalg.slogdet(np.cov(train.T, bias=True))[1])
    assert abs(nats["full"] - closed) < 1e-6
    assert abs(nats["tied"] - closed) < 1e-6
    assert nats["spherical"] <= nats["diag"] <= nats["tied"]


def mixture(k: int, structure: str, prior: ConjugatePrior | None = None) -> GaussianMixture:
    return GaussianMixture(k, covariance_type=structure, prior=prior, random_state=0)


iris = load_iris()
train, test = train_test_split(iris.data, test_size=0.3, random_state=0, stratify=iris.target)
candidates = [mixture(k, structure) for structure in STRUCTURES for k in (1, 2, 3, 4)]
candidates += [ProbabilisticPCA(2), FactorAnalysis(2), MixtureOfFactorAnalysers(2, 2, random_state=0)]
ranked = compare(candidates, train, test, "iris, 105 + 45 rows of 4 features in cm: ln p(x) per row, exact, in nats")
best_iris = next(model for model in ranked if isinstance(model, GaussianMixture))

pixels = load_digits().data
continuous = pixels + np.random.default_rng(0).random(pixels.shape)
train, test = train_test_split(continuous, test_size=0.25, random_state=0)
# 40 full covariances would be as many parameters as there are numbers in the data.
candidates = [mixture(k, structure) for structure in STRUCTURES for k in (1, 10, 40) if (k, structure) != (40, "full")]
# Between tied and full: a prior whose mode is a shared covariance, worth about as many rows as a component has.
d, shared = train.shape[1], mixture(10, "tied").fit(train).covariances_
candidates.append(mixture(10, "full", ConjugatePrior(degrees_of_freedom=d, scale=(2 * d + 2) * shared)))
candidates += [ProbabilisticPCA(20), FactorAnalysis(20)]
candidates += [kind(10, m, random_state=0) for kind, m in ((MixtureOfPPCA, 20), (MixtureOfFactorAnalysers, 8))]
caption = "digits, 1347 + 450 rows of 64 dequantised pixels: a lower bound of ln P(x) per row, in nats"
best_digits, *_ = compare(candidates, train, test, caption)

samples, _ = best_digits.sample(8, random_state=1)
given, half = test[:8].copy(), d // 2
given[:, half:] = np.nan
mean, (draw,) = best_digits.impute(given), best_digits.impute_draws(given, 1, random_state=1)
for filled in (mean, draw):
    assert np.array_equal(filled[:, :half], test[:8, :half])

fig = figure(13, 4.8)
left, right = fig.subplots(1, 2, width_ratios=(1, 1.2))
features = [2, 3]
for kind, marker in enumerate("os^"):
    rows = iris.data[iris.target == kind][:, features]
    left.plot(*rows.T, marker, color=GREY, alpha=0.6, mew=0, ms=5, label=iris.target_names[kind])
ellipses(left, best_iris.marginal(features))
left.set(xlabel="petal length (cm)", ylabel="petal width (cm)")
left.set_title(f"iris: mixture of {best_iris.n_components} ({best_iris.covariance_type}), 1 and 2 standard deviations")
left.legend(title="species (not used)", alignment="left", loc="upper left")
images = {"sampled": samples, "held out": test[:8], "half missing": given, "imputed mean": mean, "imputed draw": draw}
image_rows(right, {name: np.floor(rows).reshape(-1, 8, 8) for name, rows in images.items()}, largest=16)
name, k, structure = described(best_digits)
right.set_title(f"digits: {name}, K = {k} ({structure}), samples and imputation")
title(fig, "The mixtures with the best held-out scores")
save(fig, PICTURE)
