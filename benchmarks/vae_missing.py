"""Half of all entries missing: a variational autoencoder compared with exact models and iterative imputation.

    python benchmarks/vae_missing.py [--data DIR] [--masks 5 6] [table ...]
50 % of the entries are hidden completely at random; every imputer gets the same table, standardised by the observed
entries. The error is the mean squared error over the hidden entries in standard deviations of the complete column, mean
± standard error over masks; seconds are medians of fit and imputation, on one thread. Settings are the same for all
tables: BIC chooses the number of components of the mixture and the dimensions of PPCA, and the VAE stops on the bound
of held-out rows.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path

import imputation  # first: it sets the number of threads
import numpy as np
import torch
from measuring import seconds
from sklearn.impute import IterativeImputer, SimpleImputer

from jensen import MLP, VAE, ConjugatePrior, GaussianMixture, ProbabilisticPCA, Trainer, select

torch.set_num_threads(1)
warnings.simplefilter("ignore")

SHARE = 0.5


def one_gaussian(x: np.ndarray, seed: int) -> np.ndarray:
    return GaussianMixture(1, random_state=seed, tol=1e-4).fit(x).impute(x)


def mixture(x: np.ndarray, seed: int) -> np.ndarray:
    model = GaussianMixture(random_state=seed, prior=ConjugatePrior(), tol=1e-3)
    n_components = (1, 2, 3) if x.shape[1] > 20 else (1, 2, 4, 8)
    return select(model, x, {"n_components": n_components}, "bic", random_state=seed, verbose=0).winner.impute(x)


def ppca(x: np.ndarray, seed: int) -> np.ndarray:
    grid = {"n_components": range(1, min(x.shape[1], 12))}
    return select(ProbabilisticPCA(), x, grid, "bic", random_state=seed, verbose=0).winner.impute(x)


def vae(x: np.ndarray, seed: int) -> np.ndarray:
    model = VAE(
        n_components=min(10, x.shape[1] - 1),
        encoder=MLP((128,), "tanh"),
        decoder=MLP((128,), "tanh"),
        importance_samples=5,
        learning_rate=2e-3,
        max_epochs=max(1, 1500 * 128 // len(x)),
        trainer=Trainer(weight_decay=1e-3, patience=15),
        random_state=seed,
    )
    return model.fit(x).impute(x, importance_samples=1000)


IMPUTERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "mean": lambda x, seed: SimpleImputer().fit_transform(x),
    "iterative": lambda x, seed: IterativeImputer(random_state=seed).fit_transform(x),
    "one Gaussian": one_gaussian,
    "PPCA": ppca,
    "mixture": mixture,
    "VAE": vae,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--data", type=Path, help="folder with real data sets")
    parser.add_argument("--masks", type=int, nargs="+", default=[5, 6])
    arguments = parser.parse_args()
    imputation.DATA = arguments.data
    print(f"{'table':16s} {'rows':>5s} {'d':>3s} " + " ".join(f"{name:>22s}" for name in IMPUTERS))
    for table, complete in imputation.all_tables():
        if arguments.tables and table not in arguments.tables:
            continue
        cells = []
        for impute in IMPUTERS.values():
            found = [one_mask(complete, impute, seed) for seed in arguments.masks]
            errors = [error for error, _ in found]
            spread = statistics.stdev(errors) / len(errors) ** 0.5 if len(errors) > 1 else 0.0
            took = statistics.median(time for _, time in found)
            cells.append(f"{statistics.mean(errors):.3f} ± {spread:.3f} {took:6.1f} s")
        print(
            f"{table:16s} {complete.shape[0]:5d} {complete.shape[1]:3d} " + " ".join(f"{c:>22s}" for c in cells),
            flush=True,
        )


def one_mask(complete: np.ndarray, impute: Callable[[np.ndarray, int], np.ndarray], seed: int) -> tuple[float, float]:
    """Squared error of the hidden entries, and seconds."""
    hidden = np.random.default_rng(seed).random(complete.shape) < SHARE
    x = np.where(hidden, np.nan, complete)
    centre, spread = np.nanmean(x, 0), np.nanstd(x, 0)
    took, filled = seconds(lambda: impute((x - centre) / spread, seed))
    error = (filled * spread + centre - complete)[hidden] / np.broadcast_to(complete.std(0), complete.shape)[hidden]
    return float(np.mean(error**2)), took


if __name__ == "__main__":
    main()
