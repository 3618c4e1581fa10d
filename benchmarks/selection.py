"""`jensen.select`: warm starts from neighbours in the grid, compared with twice as many starts; and processes.

    python benchmarks/selection.py [--quick] [part ...]
`starts` reports CPU seconds, which do not depend on other load; `processes` reports wall-clock seconds.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from measuring import run_parts, seconds  # first: it sets the number of threads

import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris, load_wine

from jensen import VAE, GaussianMixture, MixtureOfPPCA, Selection, select

torch.set_num_threads(1)
STRUCTURES = ["full", "tied", "diag", "spherical"]


def clusters(n_each: int, d: int = 8, n_clusters: int = 8) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(n_each, d)) + mean for mean in 2 * rng.normal(size=(n_clusters, d))])


def starts(quick: bool, data: Path | None) -> None:
    """BIC of every entry: cold, with two starts each, and warm."""
    by_structure = {"n_components": range(1, 10), "covariance_type": STRUCTURES}
    wine = load_wine().data[:, [0, 6, 9]]
    cases = {
        "iris, 4 structures": (GaussianMixture(), load_iris().data, by_structure),
        "wine (3 features), 4 structures": (GaussianMixture(), wine, by_structure),
        "8 clusters in 8 dimensions, full": (
            GaussianMixture(),
            clusters(400 if quick else 4000),
            {"n_components": range(1, 13)},
        ),
        "iris, PPCA of 1 dimension": (MixtureOfPPCA(n_latent=1), load_iris().data, {"n_components": range(1, 10)}),
    }
    print("data | cold, s | two starts, s | warm, s | entries better than cold: two starts, warm | mean gain of BIC")
    for name, (model, X, grid) in cases.items():
        spent, bic = [], []
        for n_init, is_warm in ((1, False), (2, False), (1, True)):
            began = time.process_time()
            found: Selection = select(model.set_params(n_init=n_init), X, grid, warm_start=is_warm)
            spent.append(time.process_time() - began)
            bic.append(found.table["bic"].to_numpy())
        gains = [bic[0] - other for other in bic[1:]]
        better = ", ".join(f"{(gain > 0.1).sum()} of {len(gain)}" for gain in gains)
        times = " | ".join(f"{value:.1f}" for value in spent)
        print(f"{name} | {times} | {better} | {', '.join(f'{gain.mean():.1f}' for gain in gains)}", flush=True)


def processes(quick: bool, data: Path | None) -> None:
    """One and two processes, after a first call that starts them."""
    cases = {
        "8 clusters in 8 dimensions": (GaussianMixture(), clusters(4000), {"n_components": range(1, 13)}),
        "VAE of digits": (VAE(max_epochs=3 if quick else 15), load_digits().images, {"n_components": [2, 4, 8, 16]}),
    }
    select(GaussianMixture(), np.eye(4), {"n_components": [1, 2]}, n_jobs=2)
    for name, (model, X, grid) in cases.items():
        one, two = (seconds(partial(select, model, X, grid, n_jobs=n)) for n in (1, 2))
        is_same = one[1].table.drop(columns="seconds").equals(two[1].table.drop(columns="seconds"))
        print(f"{name}: {one[0]:.1f} s, two processes {two[0]:.1f} s, {one[0] / two[0]:.2f} times, the same: {is_same}")


if __name__ == "__main__":
    run_parts(__doc__, {"starts": starts, "processes": processes})
