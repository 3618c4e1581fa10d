"""Synthetic tables: train a predictor on synthetic rows, test it on real ones.

    python benchmarks/diffusion_tables.py --data DIR [--rows 8000] [--epochs N] [--only NAME ...] [california ...]
DIR/uci holds california (house values; 20433 complete rows, a fifth of them for the test), adult (income above 50K; its
own split, without rows that have missing values) and abalone (rings; a fifth for the test). A model is trained on at
most --rows training rows, with the target as one more column, and samples as many. Gradient boosting with
scikit-learn's defaults is trained on these samples and predicts the target of real test rows: the figures are R² for
numbers, and for income the area under the ROC curve and the accuracy. Compared with:
    real              the training rows themselves, an upper limit
    SMOTE             imbalanced-learn's SMOTENC: as many new rows of every class, or of every tenth of a numeric target
                      by rank; a numeric target is interpolated like the other numbers
    GaussianMixture   of numbers, and of categories as their alphabetical number plus u, u uniform on [0, 1); K has the
                      highest score on a fifth of the training rows
    VAE, Diffusion    of mixed data frames; all defaults, except --epochs of the diffusion
    Diffusion, masks  the same with imputation="masks": what the second task costs; only if --only names it
nats   ln p of a test row, mean ± standard error, of at most 2000 rows; a bound, except for the mixture's numbers. All
       models give categories a probability (the mixture by E_u ln p(c + u)) and numbers a density, so they are
       comparable within a table. Whole and rounded numbers have no density: models with narrower peaks score higher.
copies rows that equal a training row, in %; `nearer`, how often a synthetic row is nearer to a training row than a real
       test row is, 50 % for new rows and near 100 for copies; and the ratio of the two median distances, with numbers
       in standard deviations, and 1 for a different category.
Two threads. Test rows with a category that no training row has are left out.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import gzip
import io
import math
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measuring import THREADS, seconds  # first: it sets the number of threads

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from jensen import VAE, ConjugatePrior, Diffusion, GaussianMixture

ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
ABALONE = [
    *("sex", "length", "diameter", "height", "whole-weight", "shucked-weight", "viscera-weight", "shell-weight"),
    "rings",
]
RICH = ">50K"
N_SCORED = 2000  # test rows
N_DRAWS = 10  # of u per test row

Score = Callable[[pd.DataFrame], np.ndarray]  # ln p of rows, or a bound of it


@dataclass(frozen=True)
class Table:
    """Training and test rows; the target is a column of both."""

    train: pd.DataFrame
    test: pd.DataFrame
    target: str

    @property
    def texts(self) -> list[str]:
        return [name for name in self.train if not pd.api.types.is_numeric_dtype(self.train[name])]

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.train if name not in self.texts]

    @property
    def is_classification(self) -> bool:
        return self.target in self.texts

    def levels(self, name: str) -> list[str]:
        return sorted(self.train[name].unique())


@dataclass(frozen=True)
class Fitted:
    """A fitted model: functions that sample and score rows, and the chosen size."""

    draw: Callable[[int], pd.DataFrame]
    score: Score | None = None
    note: str = ""


@dataclass(frozen=True)
class Options:
    epochs: int | None
    steps: int | None
    quick: bool


# the tables


def california(data: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    with tarfile.open(data / "uci" / "california_housing.tgz") as archive:
        file = archive.extractfile("housing/housing.csv")
        assert file is not None
        rows = pd.read_csv(io.BytesIO(file.read())).dropna()
    return *train_test_split(rows, test_size=0.2, random_state=0), "median_house_value"


def adult(data: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    def read(name: str, n_skipped: int) -> pd.DataFrame:
        with gzip.open(data / "uci" / name, "rt") as file:
            rows = pd.read_csv(file, names=ADULT, skiprows=n_skipped, na_values="?", skipinitialspace=True)
        rows = rows.dropna()
        return rows.assign(income=rows["income"].str.rstrip("."))

    train = read("adult.data.gz", 0)
    order = np.random.default_rng(0).permutation(len(train))
    return train.iloc[order], read("adult.test.gz", 1), "income"


def abalone(data: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    rows = pd.read_csv(data / "uci" / "abalone.csv", names=ABALONE)
    return *train_test_split(rows, test_size=0.2, random_state=0), "rings"


TABLES: dict[str, Callable[[Path], tuple[pd.DataFrame, pd.DataFrame, str]]] = {
    "california": california,
    "adult": adult,
    "abalone": abalone,
}


def read_table(name: str, data: Path, n_rows: int) -> Table:
    train, test, target = TABLES[name](data)
    table = Table(train[:n_rows].reset_index(drop=True), test.reset_index(drop=True), target)
    known = np.logical_and.reduce([table.test[text].isin(table.levels(text)) for text in table.texts])
    return Table(table.train, table.test[known].reset_index(drop=True), target)


# the models


def real(table: Table, options: Options) -> Fitted:
    return Fitted(lambda n: table.train)


def smote(table: Table, options: Options) -> Fitted:
    """Rows between neighbours of a class, as many of each class as in the data."""
    from imblearn.over_sampling import SMOTENC

    y = table.train[table.target]
    rows = table.train.drop(columns=table.target) if table.is_classification else table.train
    group = y if table.is_classification else pd.qcut(y, 10, labels=False, duplicates="drop")
    texts = [name for name in table.texts if name in rows]

    def draw(n: int) -> pd.DataFrame:
        counts = {value: 2 * count for value, count in group.value_counts().items()}
        sampler = SMOTENC(categorical_features=texts, sampling_strategy=counts, random_state=0)
        found, labels = sampler.fit_resample(rows.astype(dict.fromkeys(texts, object)), group)
        # The first rows are real.
        drawn = found.assign(**{table.target: labels}) if table.is_classification else found
        return drawn[len(rows) :][list(table.train)]

    return Fitted(draw)


class Codes:
    """Rows as numbers: categories by alphabetical number, plus noise on [0, 1)."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def encode(self, rows: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
        coded = rows.copy()
        for name in self.table.texts:
            code = np.searchsorted(self.table.levels(name), rows[name].to_numpy(dtype=str))
            coded[name] = code + rng.random(len(rows))
        return coded.to_numpy(dtype=np.float64)

    def decode(self, values: np.ndarray) -> pd.DataFrame:
        rows = pd.DataFrame(values, columns=list(self.table.train))
        for name in self.table.texts:
            levels = np.array(self.table.levels(name))
            rows[name] = levels[np.floor(rows[name]).clip(0, len(levels) - 1).astype(int)]
        return rows


def mixture(table: Table, options: Options) -> Fitted:
    codes, rng = Codes(table), np.random.default_rng(0)
    rows = codes.encode(table.train, rng)
    make = partial(GaussianMixture, prior=ConjugatePrior(), random_state=0)
    rest, held_out = train_test_split(rows, test_size=0.2, random_state=0)
    sizes = (2, 5) if options.quick else (2, 5, 10, 20, 50)
    scores = {k: make(n_components=k).fit(rest).score(held_out) for k in sizes}
    k = max(scores, key=scores.__getitem__)
    model = make(n_components=k).fit(rows)

    def score(test: pd.DataFrame) -> np.ndarray:
        return np.mean([model.score_samples(codes.encode(test, rng)) for _ in range(N_DRAWS)], 0)

    return Fitted(lambda n: codes.decode(model.sample(n)[0]), score, f"K={k}")


def autoencoder(table: Table, options: Options) -> Fitted:
    model = VAE(max_epochs=2 if options.quick else None, random_state=0).fit(table.train)
    return Fitted(lambda n: model.sample(n, random_state=0)[0], model.score_samples, f"{model.n_iter_} epochs")


def diffusion(table: Table, options: Options, by: str = "repaint") -> Fitted:
    model = Diffusion(imputation=by, max_epochs=options.epochs, random_state=0).fit(table.train)

    def draw(n: int) -> pd.DataFrame:
        rows: pd.DataFrame = model.sample(n, random_state=0, steps=options.steps)[0]
        return rows

    return Fitted(draw, model.score_samples, f"{model.n_iter_} epochs")


MODELS: dict[str, Callable[[Table, Options], Fitted]] = {
    "real": real,
    "SMOTE": smote,
    "GaussianMixture": mixture,
    "VAE": autoencoder,
    "Diffusion": diffusion,
    "Diffusion, masks": partial(diffusion, by="masks"),
}
DEFAULT = [name for name in MODELS if name != "Diffusion, masks"]


# the figures


def features(table: Table, rows: pd.DataFrame) -> pd.DataFrame:
    """All columns except the target; categories have the same codes in every frame."""
    texts = {name: pd.CategoricalDtype(table.levels(name)) for name in table.texts if name != table.target}
    numbers = dict.fromkeys((name for name in table.numbers if name != table.target), np.float64)
    return rows.drop(columns=table.target).astype({**texts, **numbers})


def usefulness(table: Table, rows: pd.DataFrame) -> str:
    """Score on real test rows of gradient boosting trained on these rows."""
    x, x_test, y_test = features(table, rows), features(table, table.test), table.test[table.target]
    if not table.is_classification:
        regressor = HistGradientBoostingRegressor(random_state=0).fit(x, rows[table.target].astype(np.float64))
        return f"R² {r2_score(y_test, regressor.predict(x_test)):.3f}"
    y, y_test = (values.to_numpy(dtype=str) == RICH for values in (rows[table.target], y_test))
    if y.all() or not y.any():
        return "one class only"
    classifier = HistGradientBoostingClassifier(random_state=0).fit(x, y)
    area = roc_auc_score(y_test, classifier.predict_proba(x_test)[:, 1])
    return f"AUC {area:.3f}, accuracy {accuracy_score(y_test, classifier.predict(x_test)):.3f}"


def points(table: Table, rows: pd.DataFrame) -> np.ndarray:
    """Rows as points for distances: numbers in standard deviations, different categories at distance 1."""
    own = table.train[table.numbers]
    parts = [((rows[table.numbers].astype(np.float64) - own.mean()) / own.std()).to_numpy()]
    for name in table.texts:
        parts.append((rows[name].to_numpy(dtype=str)[:, None] == np.array(table.levels(name))) / math.sqrt(2))
    return np.concatenate(parts, 1)


def copies(table: Table, rows: pd.DataFrame) -> str:
    """Exact copies in %, how many pairs have the synthetic row nearer to a training row, and the ratio of medians."""
    search = NearestNeighbors(n_neighbors=1).fit(points(table, table.train))
    synthetic, fresh = (search.kneighbors(points(table, part))[0][:, 0] for part in (rows, table.test))
    order = np.sort(fresh)
    below, not_above = np.searchsorted(order, synthetic, "left"), np.searchsorted(order, synthetic, "right")
    nearer = 1 - (below + not_above).mean() / (2 * len(order))
    ratio = np.median(synthetic) / np.median(fresh)
    return f"{100 * np.mean(synthetic < 1e-6):.1f} | {100 * nearer:.0f} | {ratio:.2f}"


def nats(table: Table, score: Score | None) -> str:
    if score is None:
        return ""
    scores = np.asarray(score(table.test[:N_SCORED]))
    return f"{scores.mean():.2f} ± {scores.std(ddof=1) / math.sqrt(len(scores)):.2f}"


def study(table: Table, name: str, options: Options) -> str:
    """A row of the table."""
    fit_seconds, model = seconds(partial(MODELS[name], table, options))
    draw_seconds, rows = seconds(partial(model.draw, len(table.train)))
    near = "" if name == "real" else copies(table, rows)
    cells = [name, usefulness(table, rows), nats(table, model.score), near or " |  | "]
    return f"| {' | '.join(cells)} | {fit_seconds:.0f} | {draw_seconds:.0f} | {model.note} |"


def compare(name: str, data: Path, n_rows: int, models: list[str], options: Options) -> None:
    table = read_table(name, data, n_rows)
    print(
        f"\n## {name}: {len(table.train)} training rows, {len(table.test)} test rows, {len(table.numbers)} numbers and "
        f"{len(table.texts)} categories\n\n| rows of | {table.target} of test rows | nats | copies, % | nearer, % | "
        "ratio | fit, s | draw, s | choice |\n" + "| --- " * 9 + "|",
        flush=True,
    )
    for model in models:
        print(study(table, model, options), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of: {', '.join(TABLES)}; default all")
    parser.add_argument("--data", type=Path, required=True, help="folder with uci/")
    parser.add_argument("--rows", type=int, help="maximum number of training rows; default 8000")
    parser.add_argument("--epochs", type=int, help="epochs of the diffusion; default: those of the model")
    parser.add_argument("--steps", type=int, help="steps of the ancestral sampler; default: all levels")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=DEFAULT, help="models")
    parser.add_argument("--quick", action="store_true", help="400 rows, 2 epochs, 20 steps, to test the script")
    parser.add_argument("--threads", type=int, default=THREADS)
    given = parser.parse_args()
    threadpool_limits(given.threads)
    torch.set_num_threads(given.threads)
    print(f"{given.threads} threads")
    few_epochs, few_steps, n_rows = (2, 20, 400) if given.quick else (None, None, 8000)
    options = Options(given.epochs or few_epochs, given.steps or few_steps, given.quick)
    for name in given.tables or TABLES:
        compare(name, given.data, given.rows or n_rows, given.only, options)


if __name__ == "__main__":
    main()
