"""Synthetic rows of Adult, by the protocol of the TabPC study (Scassola et al. 2026, arXiv 2603.23016).

    python benchmarks/synthesis.py FOLDER [--effort normal] [--rows new.csv]   make rows, judge and keep them
    python benchmarks/synthesis.py FOLDER --judge new.csv                      judge the rows of a file
FOLDER holds adult.data.gz and adult.test.gz of the UCI repository; "?" is a value like others. `synthesize` is fitted
to adult.data (32561 rows) and makes as many rows. Scores are those of docs/synthesize.md:
    Shape, Trend, C2ST   beside adult.data, as in the study, and beside adult.test, which nothing was fitted to
    AUC                  of income in adult.test, by gradient boosting trained on the synthetic rows
    Nearest              share of rows nearer to adult.data than to as many rows of adult.test
C2ST is by scikit-learn's HistGradientBoosting, and with --judge by XGBoost as well, where that is installed, each with
its defaults, in 3 folds. The same scores are given for independent columns (adult.data, every column permuted) and for
adult.data itself. benchmarks/synthesis_peers.py makes rows by CTGAN and TVAE, in an environment of their own.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

NAMES = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"]
NAMES += ["race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"]
NEAREST_ROWS = 2000


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """adult.data and adult.test."""
    options = {"header": None, "names": NAMES, "skipinitialspace": True, "keep_default_na": False}
    train = pd.read_csv(folder / "adult.data.gz", **options)
    test = pd.read_csv(folder / "adult.test.gz", skiprows=1, **options)
    return train, test.assign(income=test["income"].str.rstrip("."))


def make(folder: Path, effort: str, kept: Path | None) -> None:
    from jensen import synthesize

    train, test = read(folder)
    began = time.perf_counter()
    made = synthesize(train, len(train), label="income", effort=effort, verbose=1)
    seconds = time.perf_counter() - began
    if kept is not None:
        made.table.to_csv(kept, index=False)
    print(made.tried.to_string(index=False), f"\n{made}\n{seconds:.0f} s for the search, the fit and the rows\n")
    rng = np.random.default_rng(0)
    independent = np.stack([rng.permutation(column) for column in made.real.T], 1)
    scores(made.maker, made.real, test, {"synthetic": made.made, "independent": independent, "real": made.real}, rng)


def scores(
    maker: Any, real: np.ndarray, test: pd.DataFrame, tables: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    """A line of scores for every table of codes."""
    from jensen.tasks.synthesis.metrics import c2st, nearer_share, shapes, trends, utility

    held_out, is_number = maker.codes(test), maker.is_number
    label = maker.columns.names.index("income")
    n = len(held_out)
    print("rows         Shape  Trend  C2ST   | beside adult.test  Shape  Trend  C2ST   | AUC    Nearest")
    for name, rows in tables.items():
        some = rows[rng.permutation(len(rows))[:n]]
        known = real[rng.permutation(len(real))[:n]]
        figures = []
        for beside, own in ((real, rows), (held_out, some)):
            figures += [shapes(beside, own, is_number).mean(), np.nanmean(trends(beside, own, is_number))]
            figures.append(c2st(beside, own, is_number))
        figures += [utility(rows, held_out, is_number, label)]
        figures += [nearer_share(some[:NEAREST_ROWS], known, held_out, is_number)]
        first, second, rest = (" ".join(f"{value:6.4f}" for value in part) for part in np.split(figures, [3, 6]))
        print(f"{name:12s} {first} | {'':17s} {second} | {rest}", flush=True)


def judge(folder: Path, made: Path) -> None:
    """All scores of the rows in a file; C2ST by XGBoost as well."""
    from jensen.tasks.synthesis.maker import Maker

    train, test = read(folder)
    rows = pd.read_csv(made, keep_default_na=False)[NAMES]
    maker, real = Maker.of(train)
    scores(maker, real, test, {made.stem: maker.codes(rows)}, np.random.default_rng(0))
    try:
        print(f"C2ST by XGBoost beside adult.data: {by_xgboost(train, rows):.4f}")
    except ImportError:
        print("C2ST by XGBoost needs xgboost, which is not installed")


def by_xgboost(real: pd.DataFrame, rows: pd.DataFrame) -> float:
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold
    from xgboost import XGBClassifier

    both = pd.concat([real, rows], ignore_index=True)
    texts = [name for name in both if not pd.api.types.is_numeric_dtype(both[name])]
    both[texts] = both[texts].astype("category")
    y, found = np.repeat([0, 1], [len(real), len(rows)]), []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(both, y):
        model = XGBClassifier(enable_categorical=True, n_jobs=2).fit(both.iloc[train], y[train])
        area = roc_auc_score(y[test], model.predict_proba(both.iloc[test])[:, 1])
        found.append(2 * max(0.5, area) - 1)
    return 1 - float(np.mean(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--effort", default="normal", choices=("quick", "normal", "thorough"))
    parser.add_argument("--rows", type=Path, help="file for the synthetic rows")
    parser.add_argument("--judge", type=Path, help="judge the rows of this file instead")
    asked = parser.parse_args()
    if asked.judge is not None:
        judge(asked.folder, asked.judge)
    else:
        make(asked.folder, asked.effort, asked.rows)
