"""Imputation of six tables of numbers: `jensen.impute` beside MissForest, miceforest, KNN and IterativeImputer.

    python benchmarks/table_imputation.py --data DIR [--only TABLE ...] [--imputers NAME ...] [--masks mcar mar]
                                          [--seeds 0 1 2] [--rows N] [--effort normal] [--draws 19] [--results DIR]
--data is a folder with concrete.data.txt.gz, winequality-red.csv, yeast.data and california_housing.tgz; iris and wine
are scikit-learn's. All columns are numbers, scaled to 0..1 (classes are left out; quality, strength and the house value
are columns). California has the eight features of scikit-learn's data set and the house value.

    mcar   a fifth of the entries is hidden, completely at random
    mar    every second column is complete; in each other column the probability to be hidden rises with the rank of one
           of the complete columns, from 0 to 0.8, so that about a fifth of all entries is hidden

Error: mean absolute error of the hidden entries, and RMSE. `jensen` fills expectations, `jensen, median` the medians of
the draws. Coverage: 19 draws by `Imputed.draws` (parameters drawn as well as values); the interval from the least to
the greatest of them has 18/20 = 90 % if they are right. MissForest is the algorithm as published (Stekhoven & Bühlmann
2012) with scikit-learn's forests of 100 trees: columns in order of their gaps, rounds until the change grows, at most
10. miceforest: the mean of five data sets of five rounds; miceforest 6.0.5 needs lightgbm below 4.6.
Seconds are those of the processor. --results keeps every result in a file, so that an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

from measuring import THREADS  # isort: skip (thread counts come first)

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

import jensen

torch.set_num_threads(THREADS)
warnings.simplefilter("ignore")
SHARE, ROUNDS = 0.2, 10


def tables(folder: Path, most: int) -> Iterator[tuple[str, np.ndarray]]:
    yield "iris", load_iris().data
    yield "wine", load_wine().data
    with gzip.open(folder / "concrete.data.txt.gz") as file:
        yield "concrete", np.loadtxt(file)
    yield "red wine", np.loadtxt(folder / "winequality-red.csv", delimiter=";", skiprows=1)
    yield "yeast", np.loadtxt(folder / "yeast.data", usecols=range(1, 9))
    x = california(folder)
    yield "California", x[np.random.default_rng(0).permutation(len(x))[:most]]


def california(folder: Path) -> np.ndarray:
    with tarfile.open(folder / "california_housing.tgz") as archive:
        name = next(name for name in archive.getnames() if name.endswith(".csv"))
        table = pd.read_csv(io.BytesIO(archive.extractfile(name).read())).dropna()
    homes = table["households"]
    parts = [table["median_income"], table["housing_median_age"], table["total_rooms"] / homes]
    parts += [table["total_bedrooms"] / homes, table["population"], table["population"] / homes]
    parts += [table["latitude"], table["longitude"], table["median_house_value"]]
    return np.stack(parts, 1)


def mcar(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(x.shape) < SHARE


def mar(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    hidden = np.zeros(x.shape, dtype=bool)
    order = rng.permutation(x.shape[1])
    complete, others = order[::2], order[1::2]
    for j in others:
        rank = x[:, rng.choice(complete)].argsort().argsort() / (len(x) - 1)
        hidden[:, j] = rng.random(len(x)) < 4 * SHARE * rank
    return hidden


MASKS = {"mcar": mcar, "mar": mar}


def missforest(x: np.ndarray, seed: int) -> np.ndarray:
    missing = np.isnan(x)
    filled, change = np.where(missing, np.nanmean(x, 0), x), np.inf
    for _ in range(ROUNDS):
        last = filled.copy()
        for j in np.argsort(missing.sum(0), kind="stable"):
            gaps = missing[:, j]
            if gaps.any():
                rest = np.delete(filled, j, 1)
                forest = RandomForestRegressor(100, n_jobs=THREADS, random_state=seed).fit(rest[~gaps], x[~gaps, j])
                filled[gaps, j] = forest.predict(rest[gaps])
        moved = ((filled - last) ** 2).sum() / (filled**2).sum()
        if moved > change:
            return last
        change = moved
    return filled


def miceforest(x: np.ndarray, seed: int) -> np.ndarray:
    """The mean of five data sets, each a draw."""
    import miceforest as mf

    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    kernel = mf.ImputationKernel(frame, num_datasets=5, random_state=seed)
    kernel.mice(5, num_threads=THREADS)
    return np.mean([kernel.complete_data(i).to_numpy() for i in range(5)], 0)


PEERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "mean": lambda x, seed: SimpleImputer().fit_transform(x),
    "KNN": lambda x, seed: KNNImputer().fit_transform(x),
    "iterative": lambda x, seed: IterativeImputer(random_state=seed).fit_transform(x),
    "MissForest": missforest,
    "miceforest": miceforest,
}


def run(name: str, x: np.ndarray, hidden: np.ndarray, seed: int, effort: str, n_draws: int) -> dict[str, Any]:
    """{label: {mae, rmse, seconds, cover}} of an imputer; `jensen` has two labels if it draws."""
    given = np.where(hidden, np.nan, x)
    began = time.process_time()
    if name != "jensen":
        return {name: errors(PEERS[name](given, seed), x, hidden) | {"seconds": time.process_time() - began}}
    result = jensen.impute(given, effort, random_state=seed)
    found = {name: errors(result.table, x, hidden) | {"seconds": time.process_time() - began}}
    if n_draws:
        drawn = np.stack(result.draws(n_draws))
        inside = (drawn.min(0) <= x + 1e-12) & (x - 1e-12 <= drawn.max(0))
        found[name]["cover"] = float(inside[hidden].mean())
        own = errors(np.median(drawn, 0), x, hidden)
        found[f"{name}, median"] = own | {"seconds": time.process_time() - began}
    return found


def errors(filled: np.ndarray, x: np.ndarray, hidden: np.ndarray) -> dict[str, float]:
    miss = (filled - x)[hidden]
    return {"mae": float(np.abs(miss).mean()), "rmse": float(np.sqrt((miss**2).mean()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the UCI tables")
    parser.add_argument("--only", nargs="*", default=[], help="tables, such as iris 'red wine'; else all")
    parser.add_argument("--imputers", nargs="*", default=["jensen", *PEERS])
    parser.add_argument("--masks", nargs="*", default=["mcar"], help="of: mcar, mar")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=10**6, help="of California, drawn at random")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--draws", type=int, default=19, help="for coverage and medians, first seed only; 0 for none")
    parser.add_argument("--results", type=Path, help="folder of results, one file each; those there are not run again")
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for mask in arguments.masks:
        for data, x in tables(arguments.data, arguments.rows):
            if arguments.only and data not in arguments.only:
                continue
            x = (x - x.min(0)) / (x.max(0) - x.min(0))
            for seed in arguments.seeds:
                hidden = MASKS[mask](x, np.random.default_rng(seed))
                for name in arguments.imputers:
                    n_draws = arguments.draws if seed == arguments.seeds[0] else 0
                    key = f"{mask}-{data}-{len(x)}-{seed}-{name}-{arguments.effort}.json"
                    where = arguments.results and arguments.results / key
                    if where and where.exists():
                        one = json.loads(where.read_text())
                    else:
                        try:
                            one = run(name, x, hidden, seed, arguments.effort, n_draws)
                        except ImportError as failure:
                            print(f"{name}: {failure}", flush=True)
                            continue
                        if where:
                            where.write_text(json.dumps(one))
                    for label, result in one.items():
                        print(f"{mask}, {data} {x.shape}, seed {seed}, {label}: {result}", flush=True)
                        found.setdefault(f"{data}, {mask}", {}).setdefault(label, []).append(result)
    report(found)


def report(found: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    labels = list(dict.fromkeys(label for row in found.values() for label in row))
    for what, digits in (("mae", 4), ("rmse", 4), ("seconds", 1), ("cover", 2)):
        print(f"\n| {what} | {' | '.join(labels)} |\n| {' | '.join(['---'] * (1 + len(labels)))} |")
        for row, own in found.items():
            cells = []
            for label in labels:
                values = [one[what] for one in own.get(label, []) if what in one]
                cells.append(f"{np.mean(values):.{digits}f}" if values else "")
            print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
