"""Imputation of Adult, a mixed table: Mixture compared with KNN, IterativeImputer, MissForest and miceforest.

    python benchmarks/mixed_imputation.py --data DIR [--quick] [--rows N] [--share P] [--only IMPUTER ...]
--data is a folder with adult.data.gz. Rows are a random sample of all 15 columns, a share of the entries (20 %) is
hidden completely at random (three seeds); entries that are missing in the file are not scored. Numbers: mean absolute
error and RMSE over the hidden entries, in standard deviations of the complete column, averaged over the columns.
Levels: share of hidden entries that are filled with the true level, averaged over the columns. --results DIR keeps
every result in a file, so that an interrupted run resumes.

    mode, median    the most frequent level, the median
    KNN             KNNImputer; numbers standardised, levels one-hot, the largest coordinate is the level
    iterative       IterativeImputer with Bayesian ridge regression, the same coordinates; bounded to 5 rounds and 20
                    predictors per coordinate, because all predictors take hours
    MissForest      the algorithm as published (Stekhoven & Bühlmann 2012), with scikit-learn's random forests of 50
                    trees, 3 rounds. "package" is MissForest 4.2.3 with the same forests: it trains them on its own
                    imputed values as well, so levels stay at the initial guess, and its figures say nothing about the
                    algorithm
    boosting        the same rounds with scikit-learn's histogram gradient boosting, 50 trees
    miceforest      one data set of 3 rounds, a draw by "fast" mean matching, as the default strategy stops at infinite
                    log-odds of rare levels here. miceforest 6.0.5 needs
                    lightgbm below 4.6
    Mixture         K chosen among 5, 10, 20, 40: a fifth of the observed entries is hidden as well, K grows while the
                    loss on them (squared error of numbers, misses of levels) falls, then all observed entries are
                    fitted; the seconds have the choice in them
    Mixtures        for every column a mixture of it and the 4, and one of it and the 7, columns with the largest mutual
                    information; one of all columns. K is a hundredth of the rows, at most 30. A fifth of the observed
                    entries is hidden as well to compare the mixtures after 20 EM steps; for every column the best 5 are
                    fitted to all observed entries and averaged: expected numbers, probabilities of levels
    jensen.impute   the same idea in one call, with nearest rows, and models weighed for each column
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Threads that spin while they wait slow every torch program on a busy machine.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

from measuring import THREADS  # isort: skip (thread counts come first)

import numpy as np
import pandas as pd
import torch
from mixed_columns import ADULT, ADULT_NUMBERS
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.metrics import mutual_info_score

import jensen
from jensen import ConjugatePrior, Mixture

torch.set_num_threads(THREADS)
SECOND, SEEDS, SIZES, ROUNDS = 0.2, (0, 1, 2), (5, 10, 20, 40), 3
# Sizes of the groups, mixtures that are averaged, EM steps of the comparison, and how many components there are.
PARTNERS, BEST, SHORT, ROWS_PER_COMPONENT, MOST_COMPONENTS = (4, 7), 5, 20, 100, 30
LEVELS = [name for name in ADULT if name not in ADULT_NUMBERS]
Filled = dict[str, pd.DataFrame]


def adult(folder: Path, n: int) -> pd.DataFrame:
    with gzip.open(folder / "adult.data.gz", "rt") as file:
        table = pd.read_csv(file, names=ADULT, skipinitialspace=True, na_values="?")
    rows = np.random.default_rng(0).permutation(len(table))[:n]
    table = table.iloc[rows].reset_index(drop=True)
    return table.astype(dict.fromkeys(ADULT_NUMBERS, float))


def hide(table: pd.DataFrame, share: float, seed: int) -> np.ndarray:
    """Which entries are hidden (n, d), of those that are there."""
    return (np.random.default_rng(seed).random(table.shape) < share) & table.notna().to_numpy()


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
    x = IterativeImputer(max_iter=5, n_nearest_features=20, random_state=seed).fit_transform(coordinates.of(table))
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


def chained(table: pd.DataFrame, classifier: Any, regressor: Any) -> pd.DataFrame:
    """Every column is predicted from the others, by a model that its observed rows have trained, in rounds."""
    x, levels = coded(table)
    missing = x.isna()
    filled = x.fillna({name: x[name].mode()[0] if name in LEVELS else x[name].mean() for name in x})
    for _ in range(ROUNDS):
        for name in missing.sum().sort_values().index:
            gap, rest = missing[name], filled.drop(columns=name)
            model = clone(classifier if name in LEVELS else regressor).fit(rest[~gap], x[name][~gap])
            filled.loc[gap, name] = model.predict(rest[gap])
    return decoded(filled, levels)


def missforest(table: pd.DataFrame, seed: int) -> Filled:
    return {"MissForest": chained(table, *forests(seed))}


def boosting(table: pd.DataFrame, seed: int) -> Filled:
    options = {"max_iter": 50, "random_state": seed}
    models = HistGradientBoostingClassifier(**options), HistGradientBoostingRegressor(**options)
    return {"gradient boosting": chained(table, *models)}


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
    """One mixture, K chosen on entries that are hidden from the fits that compete."""
    second = hide(table, SECOND, 1000 + seed)
    left, best, chosen = table.mask(second), np.inf, SIZES[0]
    for k in SIZES:
        of_column = errors(model_of(k).fit(left).impute(left), table, second)
        loss = sum(second**2 if name in ADULT_NUMBERS else second for name, (_, second) in of_column.items())
        if loss > best:
            break
        best, chosen = loss, k
    model = model_of(chosen).fit(table)
    print(f"seed {seed}: K={chosen}, {model.n_iter_} steps", flush=True)
    return {"Mixture": model.impute(table)}


def model_of(k: int) -> Mixture:
    return Mixture(k, prior=ConjugatePrior(), alpha=0.1, random_state=0)


def mixtures(table: pd.DataFrame, seed: int) -> Filled:
    """Mixtures of a column and those that depend on it most; the best for every column are averaged."""
    second = hide(table, SECOND, 1000 + seed)
    left, k = table.mask(second), max(2, min(MOST_COMPONENTS, len(table) // ROWS_PER_COMPONENT))
    order = dependences(left)
    groups = [[name, *order[name][:partners]] for partners in PARTNERS for name in table] + [list(table)]
    trial = [guesses(small_model(k, i, SHORT).fit(left[names]), left) for i, names in enumerate(groups)]
    best = {}
    for j, name in enumerate(table):
        where, own = second[:, j], [i for i, names in enumerate(groups) if name in names]
        losses = [loss(trial[i][name][where], table[name][where]) for i in own]
        best[name] = [own[i] for i in np.argsort(losses)[:BEST]]
    chosen = {i: small_model(k, i).fit(table[groups[i]]) for i in sorted(set().union(*best.values()))}
    final = {i: guesses(model, table) for i, model in chosen.items()}
    filled = {}
    for name, numbers in best.items():
        found = sum(final[i][name] for i in numbers) / len(numbers)
        found = found[name] if name in ADULT_NUMBERS else found.idxmax(axis=1)
        filled[name] = table[name].where(table[name].notna(), found)
    print(f"seed {seed}: {len(groups)} groups, {len(chosen)} chosen, K={k}", flush=True)
    return {"Mixtures": pd.DataFrame(filled)}


def small_model(k: int, seed: int, steps: int = 200) -> Mixture:
    options = {"init_params": "random_from_data", "max_iter": steps, "random_state": seed}
    return Mixture(k, prior=ConjugatePrior(), alpha=0.1, **options)


def dependences(table: pd.DataFrame) -> dict[str, list[str]]:
    """For every column the others, that with the largest mutual information first; numbers in eight bins of ranks."""
    bins = {name: pd.cut(table[name].rank(), 8, labels=False) for name in ADULT_NUMBERS}
    codes = table.assign(**bins)

    def information(one: str, two: str) -> float:
        pairs = codes[[one, two]].dropna()
        sizes = pairs.nunique()
        # Independent columns have this much on average.
        bias = (sizes[one] - 1) * (sizes[two] - 1) / (2 * len(pairs))
        return float(mutual_info_score(pairs[one], pairs[two]) - bias)

    return {one: sorted((two for two in table if two != one), key=lambda two: -information(one, two)) for one in table}


def guesses(model: Mixture, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What a mixture expects where a column is missing: numbers (n, 1), or probabilities of the levels (n, L)."""
    columns, found = model.columns_, {}
    filled, q = model.impute(table[list(columns.names)]), model.predict_proba(table[list(columns.names)])
    for name, levels in zip(columns.names, columns.levels, strict=True):
        own = model.parameters_[name]
        if name in ADULT_NUMBERS:
            found[name] = filled[[name]]
        else:
            p = (
                own["probabilities"]
                if "probabilities" in own
                else np.stack([1 - own["probability"], own["probability"]], 1)
            )
            found[name] = pd.DataFrame(q @ p, columns=levels)
    return found


def loss(guess: pd.DataFrame, truth: pd.Series) -> float:
    """Squared error of numbers, -ln p of levels."""
    if truth.name in ADULT_NUMBERS:
        return float(((guess[truth.name] - truth) ** 2).mean())
    places = guess.columns.get_indexer(truth)
    # A level that was hidden in all rows has no probability.
    p = np.where(places < 0, 0.0, guess.to_numpy()[np.arange(len(guess)), places])
    return float(-np.log(p + 1e-3).mean())


def one_call(table: pd.DataFrame, seed: int) -> Filled:
    return {"jensen.impute": jensen.impute(table, random_state=seed).table}


IMPUTERS: dict[str, Callable[[pd.DataFrame, int], Filled]] = {
    "simple": simple,
    "knn": knn,
    "iterative": iterative,
    "missforest": missforest,
    "boosting": boosting,
    "missforest-package": missforest_package,
    "miceforest": miceforest,
    "mixture": mixture,
    "mixtures": mixtures,
    "impute": one_call,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with adult.data.gz")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="one seed and 1000 rows")
    parser.add_argument("--only", nargs="*", default=list(IMPUTERS), help=f"of: {', '.join(IMPUTERS)}")
    parser.add_argument("--share", type=float, default=0.2, help="of the entries that are hidden")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS, help="of the entries that are hidden")
    parser.add_argument("--results", type=Path, help="folder of results, one file each; those there are not run again")
    arguments = parser.parse_args()
    n = 1000 if arguments.quick else arguments.rows
    table = adult(arguments.data, n)
    took: dict[str, list[list[float]]] = {}
    found: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for seed in arguments.seeds[: 1 if arguments.quick else None]:
        hidden = hide(table, arguments.share, seed)
        for name in arguments.only:
            where = arguments.results and arguments.results / f"{n}-{arguments.share}-{seed}-{name}.json"
            if where and where.exists():
                result = json.loads(where.read_text())
            else:
                result = run(name, table, hidden, seed)
                if where and result:
                    where.write_text(json.dumps(result))
            for label, (*seconds, of_column) in result.items():
                took.setdefault(label, []).append(seconds)
                found.setdefault(label, []).append(of_column)
    report(found, took)


def run(name: str, table: pd.DataFrame, hidden: np.ndarray, seed: int) -> dict[str, Any]:
    """Of every label its seconds by the clock and of the processor, and the errors of every column."""
    began, used = time.perf_counter(), time.process_time()
    try:
        filled = IMPUTERS[name](table.mask(hidden), seed)
    except Exception as failure:
        print(f"{name} failed: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
        return {}
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    print(f"seed {seed}, {name}: {seconds:.1f} s, CPU {cpu:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    return {label: (seconds, cpu, errors(one, table, hidden)) for label, one in filled.items()}


def report(found: dict[str, list[dict[str, tuple[float, float]]]], took: dict[str, list[list[float]]]) -> None:
    def mean(label: str, name: str, which: int) -> float:
        return float(np.mean([one[name][which] for one in found[label]]))

    print(
        "\n| imputer | MAE of numbers | RMSE of numbers | accuracy of levels | seconds | CPU |"
        "\n| --- | --- | --- | --- | --- | --- |"
    )
    for label, times in took.items():
        mae, rmse = (np.mean([mean(label, name, which) for name in ADULT_NUMBERS]) for which in (0, 1))
        accuracy = np.mean([mean(label, name, 0) for name in LEVELS])
        clock, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"| {label} | {mae:.3f} | {rmse:.3f} | {accuracy:.3f} | {clock:.1f} | {cpu:.1f} |")
    labels = list(took)
    for title, names, which in (("MAE", ADULT_NUMBERS, 0), ("RMSE", ADULT_NUMBERS, 1), ("accuracy", LEVELS, 0)):
        print(f"\n| {title} | {' | '.join(labels)} |\n| {' | '.join(['---'] * (1 + len(labels)))} |")
        for name in names:
            print(f"| {name} | {' | '.join(f'{mean(label, name, which):.3f}' for label in labels)} |")


if __name__ == "__main__":
    main()
