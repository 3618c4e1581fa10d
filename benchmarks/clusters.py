"""`jensen.cluster` beside scikit-learn: the adjusted Rand index with known groups.

    python benchmarks/clusters.py [--quick] [--data DIR] [part ...]
`tables` clusters iris, crabs (species × sex), thyroid and wine, of which no label is seen: `jensen.cluster` at its
defaults; scikit-learn's GaussianMixture with the best BIC over its four structures and 1 to 9 components (n_init=5);
HDBSCAN at its defaults; KMeans with the number of clusters of the best silhouette, 2 to 9. The peers get standardised
columns. Crabs and thyroid are read from DIR. Old Faithful has no labels: the agreement of every method with
`jensen.cluster` is printed. `merging` is the study that the limit of overlaps was chosen on: generated data and tables
of scikit-learn that are not among those above, with components as they are, merged at several limits, and ICL.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from measuring import run_parts  # first: it sets the number of threads

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture as SklearnMixture
from sklearn.preprocessing import StandardScaler
import torch

import jensen
from jensen.tasks.clustering.merging import mergers
from jensen.tasks.clustering.stability import assigned

# On a few thousand rows threads cost more time than they save.
torch.set_num_threads(1)
Labelled = tuple[np.ndarray, np.ndarray]
STRUCTURES = ("EII", "VVI", "EEE", "EEV", "VEV", "VVV")
LIMITS = (0.02, 0.05, 0.1, 0.2)


def tables_in(data: Path | None) -> Iterator[tuple[str, pd.DataFrame, np.ndarray | None]]:
    """Tables, their columns to cluster, and the groups, if they have any."""
    iris, wine = load_iris(as_frame=True), load_wine(as_frame=True)
    yield "iris", iris.data, iris.target.to_numpy()
    yield "wine", wine.data, wine.target.to_numpy()
    if data is None:
        return
    crabs = pd.read_csv(data / "mixtures" / "pydataset_crabs.csv")
    yield "crabs", crabs[["FL", "RW", "CL", "CW", "BD"]], (crabs["sp"] + crabs["sex"]).to_numpy()
    thyroid = pd.read_csv(data / "mixtures" / "thyroid_mclust.csv")
    yield "thyroid", thyroid.drop(columns="Diagnosis"), thyroid["Diagnosis"].to_numpy()
    yield "faithful", pd.read_csv(data / "mixtures" / "pydataset_faithful.csv", index_col=0), None


def by_bic(X: np.ndarray) -> np.ndarray:
    fits = [
        SklearnMixture(k, covariance_type=name, n_init=5, random_state=0).fit(X)
        for name in ("full", "tied", "diag", "spherical")
        for k in range(1, 10)
    ]
    return min(fits, key=lambda fit: fit.bic(X)).predict(X)


def by_silhouette(X: np.ndarray) -> np.ndarray:
    found = [KMeans(k, n_init=10, random_state=0).fit_predict(X) for k in range(2, 10)]
    return max(found, key=lambda labels: silhouette_score(X, labels))


def tables(quick: bool, data: Path | None) -> None:
    """The adjusted Rand index of every method, and the number of clusters in brackets."""
    print(
        "table | jensen.cluster | without merging | GaussianMixture, BIC | HDBSCAN | KMeans, silhouette | agreement | s"
    )
    for name, X, y in tables_in(data):
        began = time.process_time()
        found = jensen.cluster(X, effort="quick" if quick else "normal")
        seconds = time.process_time() - began
        scaled = StandardScaler().fit_transform(X)
        q = np.asarray(found.model.predict_proba(found.rows.X))
        labels = [
            found.labels,
            assigned(q, np.arange(len(found.cluster_of))),
            by_bic(scaled),
            HDBSCAN(copy=True).fit_predict(scaled),
            by_silhouette(scaled),
        ]
        truth = found.labels if y is None else y
        cells = [f"{adjusted_rand_score(truth, one):.3f} ({len(set(one[one >= 0]))})" for one in labels]
        print(f"{name} | {' | '.join(cells)} | {found.stability.agreement:.2f} | {seconds:.1f}", flush=True)
        print(f"    {found.headline}; noise {int((found.numbers < 0).sum())} rows", flush=True)


def groups(rng: np.random.Generator, kind: str, n: int, n_groups: int, d: int, apart: float) -> Labelled:
    """Groups of one shape around random centres; "noise" adds a tenth of uniform rows, a group of their own."""
    parts, y = [], []
    for number, share in enumerate(rng.dirichlet(5 * np.ones(n_groups))):
        size = max(15, int(n * share))
        turn = rng.normal(size=(d, d)) / np.sqrt(d) + 0.5 * np.eye(d)
        z = rng.normal(size=(size, d))
        if kind == "t, 4 degrees":
            z /= np.sqrt(rng.chisquare(4, (size, 1)) / 4)
        elif kind == "skewed":
            z = rng.exponential(size=(size, d)) - 1
        elif kind == "uniform":
            z = rng.uniform(-1.7, 1.7, (size, d))
        parts.append(z @ turn.T + rng.normal(size=d) * apart)
        y += [number] * size
    X = np.concatenate(parts)
    if kind == "with noise":
        n_noise = len(X) // 10
        X, y = np.concatenate([X, rng.uniform(X.min(0), X.max(0), (n_noise, d))]), y + [-1] * n_noise
    return X, np.array(y)


def generated(n_seeds: int) -> Iterator[tuple[str, Labelled]]:
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        n_groups, d, n = int(rng.integers(2, 6)), int(rng.integers(2, 7)), int(rng.choice([150, 300, 600]))
        yield "Gaussian", groups(rng, "Gaussian", n, n_groups, d, 2.0 if seed % 2 else 3.0)
        for kind in ("skewed", "uniform", "t, 4 degrees"):
            yield kind, groups(rng, kind, n, n_groups, d, 3.0)
        yield "with noise", groups(rng, "with noise", n, n_groups, d, 4.0)
    for seed in range(2):
        yield "scikit-learn", make_moons(400, noise=0.06, random_state=seed)
        yield "scikit-learn", make_circles(400, noise=0.05, factor=0.5, random_state=seed)
        blobs = make_blobs(300, centers=4, cluster_std=[1, 2.5, 0.5, 1.5], random_state=seed + 170)
        yield "scikit-learn", (blobs[0], blobs[1])
    cancer, digits = load_breast_cancer(), load_digits()
    yield "scikit-learn", (cancer.data[:, :10], cancer.target)
    yield "scikit-learn", (PCA(5).fit_transform(StandardScaler().fit_transform(cancer.data)), cancer.target)
    some = np.isin(digits.target, [0, 1, 4, 6])
    yield "scikit-learn", (PCA(8).fit_transform(digits.data[some]), digits.target[some])


def merging(quick: bool, data: Path | None) -> None:
    """The mean adjusted Rand index by kind of data and rule, with and without noise."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for kind, (X, y) in generated(1 if quick else 6):
        X = StandardScaler().fit_transform(X)
        fits = []
        for name in STRUCTURES:
            for k in range(1, 8):
                fit = jensen.GaussianMixture(k, covariance_type=name, random_state=0).fit(X)
                if not fit.at_floor_.any():
                    fits.append(fit)
        best = min(fits, key=lambda fit: fit.bic(X))
        params = best.get_params()
        noisy = jensen.GaussianMixture(**params | {"noise": True}).fit(X)
        near = jensen.GaussianMixture(**params | {"noise": True, "warm_start": True})
        near.theta_ = best.theta_
        noisy = min(noisy, near.fit(X), key=lambda fit: fit.bic(X))
        for words, fit in (("", best), (" and noise", min(best, noisy, key=lambda fit: fit.bic(X)))):
            q, k = np.asarray(fit.predict_proba(X)), fit.theta_.n_components
            found[f"BIC{words}"][kind].append(adjusted_rand_score(y, assigned(q, np.arange(k))))
            for limit in LIMITS:
                merger = next(one for one in mergers(q[:, :k]) if one.overlap <= limit)
                score = adjusted_rand_score(y, assigned(q, merger.cluster_of))
                found[f"BIC{words}, merged above {limit}"][kind].append(score)
        icl = min(fits, key=lambda fit: fit.bic(X) - 2 * xlogy(p := np.asarray(fit.predict_proba(X)), p).sum())
        found["ICL"][kind].append(adjusted_rand_score(y, icl.predict(X)))
    kinds = list(found["ICL"])
    print(" | ".join(["rule", *kinds, "mean"]))
    for rule, scores in found.items():
        means = [float(np.mean(scores[kind])) for kind in kinds]
        print(" | ".join([rule, *(f"{value:.3f}" for value in [*means, np.mean(means)])]), flush=True)


if __name__ == "__main__":
    run_parts(__doc__, {"tables": tables, "merging": merging})
