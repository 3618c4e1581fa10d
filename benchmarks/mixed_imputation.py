"""Imputation of Adult, a mixed table: Mixture compared with KNN, IterativeImputer, MissForest and miceforest.

    python benchmarks/mixed_imputation.py --data DIR [--quick] [--rows N] [--only IMPUTER ...]
--data is a folder with adult.data.gz. Rows are a random sample of all 15 columns, 20 % of the entries are hidden
completely at random (three seeds); entries that are missing in the file are not scored. Numbers: mean absolute error
and RMSE over the hidden entries, in standard deviations of the complete column, averaged over the columns. Levels:
share of hidden entries that are filled with the true level, averaged over the columns.

    mode, median    the most frequent level, the median
    KNN             KNNImputer; numbers standardised, levels one-hot, the largest coordinate is the level
    iterative       IterativeImputer with Bayesian ridge regression, the same coordinates
    MissForest      the algorithm as published, with scikit-learn's random forests of 50 trees, 3 rounds.
                    "package" is MissForest 4.2.3 with the same forests: it trains them on its own imputed values as
                    well, so levels stay at the initial guess, and its figures say nothing about the algorithm
    miceforest      one data set of 3 rounds, a draw by "fast" mean matching, as the default strategy stops at infinite
                    log-odds of rare levels here. miceforest 6.0.5 needs
                    lightgbm below 4.6
    Mixture         K chosen among 5, 10, 20, 40: a fifth of the observed entries is hidden as well, K grows while the
                    loss on them (squared error of numbers, misses of levels) falls, then all observed entries are
                    fitted; the seconds have the choice in them. "median" fills numbers with the median of 21 draws
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Threads that spin while they wait slow every torch program on a busy machine.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

from measuring import THREADS  # isort: skip (thread counts come first)

import numpy as np
import pandas as pd
import torch
from mixed_columns import ADULT, ADULT_NUMBERS
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from jensen import ConjugatePrior, Mixture

torch.set_num_threads(THREADS)
SHARE, SEEDS, SIZES, ROUNDS = 0.2, (5, 6, 7), (5, 10, 20, 40), 3
LEVELS = [name for name in ADULT if name not in ADULT_NUMBERS]
Filled = dict[str, pd.DataFrame]


def adult(folder: Path, n: int) -> pd.DataFrame:
    with gzip.open(folder / "adult.data.gz", "rt") as file:
        table = pd.read_csv(file, names=ADULT, skipinitialspace=True, na_values="?")
    rows = np.random.default_rng(0).permutation(len(table))[:n]
    table = table.iloc[rows].reset_index(drop=True)
    return table.astype(dict.fromkeys(ADULT_NUMBERS, float))


def hide(table: pd.DataFrame, seed: int) -> np.ndarray:
    """Which entries are hidden (n, d), of those that are there."""
    return (np.random.default_rng(seed).random(table.shape) < SHARE) & table.notna().to_numpy()


def errors(filled: pd.DataFrame, truth: pd.DataFrame, hidden: np.ndarray) -> dict[str, tuple[float, float]]:
    """Of a number its MAE and RMSE, of a level its accuracy and misses."""
    found = {}
    for j, name in enumerate(truth):
        where = hidden[:, j]
        guess, true = filled[name][where], truth[name][where]
        if name in ADULT_NUMBERS:
            miss = (guess.astype(float) - true).to_numpy() / truth[name].std()
            found[name] = float(np.abs(miss).mean()), float(np.sqrt((miss**2).mean()))
        else:
            right = float((guess.astype(object) == true.astype(object)).mean())
            found[name] = right, 1 - right
    return found


class Coordinates:
    """Numbers standardised, levels one-hot, NaN where missing; and back."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.centre, self.scale = table[ADULT_NUMBERS].mean(), table[ADULT_NUMBERS].std()
        self.levels = {name: sorted(table[name].dropna().unique()) for name in LEVELS}

    def of(self, table: pd.DataFrame) -> np.ndarray:
        parts = [((table[ADULT_NUMBERS] - self.centre) / self.scale).to_numpy()]
        for name, levels in self.levels.items():
            one = np.stack([(table[name] == level).to_numpy(float) for level in levels], 1)
            parts.append(np.where(table[name].isna().to_numpy()[:, None], np.nan, one))
        return np.concatenate(parts, 1)

    def back(self, x: np.ndarray, table: pd.DataFrame) -> pd.DataFrame:
        numbers = pd.DataFrame(x[:, : len(ADULT_NUMBERS)], columns=ADULT_NUMBERS) * self.scale + self.centre
        found, start = {name: numbers[name] for name in ADULT_NUMBERS}, len(ADULT_NUMBERS)
        for name, levels in self.levels.items():
            found[name] = pd.Series(np.array(levels, object)[x[:, start : start + len(levels)].argmax(1)])
            start += len(levels)
        return pd.DataFrame({name: table[name].where(table[name].notna(), found[name]) for name in table})


def simple(table: pd.DataFrame, seed: int) -> Filled:
    guess = {name: table[name].median() if name in ADULT_NUMBERS else table[name].mode()[0] for name in table}
    return {"mode, median": table.fillna(guess)}


def knn(table: pd.DataFrame, seed: int) -> Filled:
    coordinates = Coordinates(table)
    return {"KNN": coordinates.back(KNNImputer().fit_transform(coordinates.of(table)), table)}


def iterative(table: pd.DataFrame, seed: int) -> Filled:
    coordinates = Coordinates(table)
    x = IterativeImputer(random_state=seed).fit_transform(coordinates.of(table))
    return {"iterative": coordinates.back(x, table)}


def coded(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Levels as whole numbers, and the levels."""
    levels = {name: sorted(table[name].dropna().unique()) for name in LEVELS}
    numbers = {name: table[name].map({level: float(i) for i, level in enumerate(own)}) for name, own in levels.items()}
    return table.assign(**numbers), levels


def decoded(filled: pd.DataFrame, levels: dict[str, list[str]]) -> pd.DataFrame:
    return filled.assign(**{n: np.array(own, object)[filled[n].astype(float).astype(int)] for n, own in levels.items()})


def forests(seed: int) -> tuple[RandomForestClassifier, RandomForestRegressor]:
    options = {"n_estimators": 50, "n_jobs": THREADS, "random_state": seed}
    return RandomForestClassifier(**options), RandomForestRegressor(**options)


def missforest(table: pd.DataFrame, seed: int) -> Filled:
    """Stekhoven & Bühlmann (2012): every column is predicted by forests that its observed rows have trained."""
    x, levels = coded(table)
    missing, (classifier, regressor) = x.isna(), forests(seed)
    filled = x.fillna({name: x[name].mode()[0] if name in LEVELS else x[name].mean() for name in x})
    for _ in range(ROUNDS):
        for name in missing.sum().sort_values().index:
            gap, rest = missing[name], filled.drop(columns=name)
            forest = clone(classifier if name in LEVELS else regressor).fit(rest[~gap], x[name][~gap])
            filled.loc[gap, name] = forest.predict(rest[gap])
    return {"MissForest": decoded(filled, levels)}


def missforest_package(table: pd.DataFrame, seed: int) -> Filled:
    from missforest import MissForest

    x, levels = coded(table)
    filled = MissForest(*forests(seed), categorical=LEVELS, max_iter=ROUNDS, verbose=0).fit_transform(x)
    return {"MissForest, package": decoded(filled, levels)}


def miceforest(table: pd.DataFrame, seed: int) -> Filled:
    import miceforest as mf

    categories = table.assign(**{name: table[name].astype("category") for name in LEVELS})
    kernel = mf.ImputationKernel(categories, num_datasets=1, mean_match_strategy="fast", random_state=seed)
    kernel.mice(ROUNDS, num_threads=THREADS)
    return {"miceforest": kernel.complete_data(0)}


def mixture(table: pd.DataFrame, seed: int) -> Filled:
    """K chosen on entries that are hidden from the fits that compete."""
    second = hide(table, 1000 + seed)
    left, best, chosen = table.mask(second), np.inf, SIZES[0]
    for k in SIZES:
        of_column = errors(model_of(k).fit(left).impute(left), table, second)
        loss = sum(second**2 if name in ADULT_NUMBERS else second for name, (_, second) in of_column.items())
        if loss > best:
            break
        best, chosen = loss, k
    model = model_of(chosen).fit(table)
    draws = model.impute_draws(table, 21, random_state=seed)
    filled = model.impute(table)
    medians = {name: np.median([one[name] for one in draws], 0) for name in ADULT_NUMBERS}
    print(f"seed {seed}: K={chosen}, {model.n_iter_} steps", flush=True)
    return {"Mixture": filled, "Mixture, median": filled.assign(**medians)}


def model_of(k: int) -> Mixture:
    return Mixture(k, prior=ConjugatePrior(), alpha=0.1, random_state=0)


IMPUTERS: dict[str, Callable[[pd.DataFrame, int], Filled]] = {
    "simple": simple,
    "knn": knn,
    "iterative": iterative,
    "missforest": missforest,
    "missforest-package": missforest_package,
    "miceforest": miceforest,
    "mixture": mixture,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with adult.data.gz")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="one seed and 1000 rows")
    parser.add_argument("--only", nargs="*", default=list(IMPUTERS), help=f"of: {', '.join(IMPUTERS)}")
    arguments = parser.parse_args()
    table = adult(arguments.data, 1000 if arguments.quick else arguments.rows)
    took: dict[str, list[float]] = {}
    found: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for seed in SEEDS[: 1 if arguments.quick else None]:
        hidden = hide(table, seed)
        for name in arguments.only:
            began = time.perf_counter()
            try:
                filled = IMPUTERS[name](table.mask(hidden), seed)
            except Exception as failure:
                print(f"{name} failed: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
                continue
            for label, one in filled.items():
                took.setdefault(label, []).append(time.perf_counter() - began)
                found.setdefault(label, []).append(errors(one, table, hidden))
                print(f"seed {seed}, {label}: {took[label][-1]:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        report(found, took)


def report(found: dict[str, list[dict[str, tuple[float, float]]]], took: dict[str, list[float]]) -> None:
    def mean(label: str, name: str, which: int) -> float:
        return float(np.mean([one[name][which] for one in found[label]]))

    print(
        "\n| imputer | MAE of numbers | RMSE of numbers | accuracy of levels | seconds |"
        "\n| --- | --- | --- | --- | --- |"
    )
    for label, times in took.items():
        mae, rmse = (np.mean([mean(label, name, which) for name in ADULT_NUMBERS]) for which in (0, 1))
        accuracy = np.mean([mean(label, name, 0) for name in LEVELS])
        print(f"| {label} | {mae:.3f} | {rmse:.3f} | {accuracy:.3f} | {statistics.median(times):.1f} |")
    labels = list(took)
    for title, names, which in (("MAE", ADULT_NUMBERS, 0), ("RMSE", ADULT_NUMBERS, 1), ("accuracy", LEVELS, 0)):
        print(f"\n| {title} | {' | '.join(labels)} |\n| {' | '.join(['---'] * (1 + len(labels)))} |")
        for name in names:
            print(f"| {name} | {' | '.join(f'{mean(label, name, which):.3f}' for label in labels)} |")


if __name__ == "__main__":
    main()
