"""`jensen.cluster(table, y)` with few labels beside scikit-learn: accuracy on the rows without a label.

    python benchmarks/semi_supervised.py [--quick] [part ...]
`digits` are the 1797 images of scikit-learn, 10 classes. `sheets` are generated: 6000 rows, 26 classes, 16 numbers;
every class is a curved sheet of four dimensions with noise around it. Its sizes were fixed before any result was seen.
`cubes` was added, with its arguments fixed in the same way, as the first result on `sheets` was near 1 for jensen: 6000
rows of scikit-learn's make_classification, 26 classes of two Gaussian clusters each at corners of a cube, 16 numbers.
`letters` are generated, too: 26 classes of three Gaussian modes each, 16 whole numbers from 0 to 15. The rule for
components per class was chosen on these letters, so they prove nothing.
5 and 20 labels per class, drawn at random with three seeds, 2 to 4 (`--quick`: one); while the rules were made, seeds 0
and 1 were in use.
Peers: logistic regression and a random forest of 300 trees on the labelled rows, SelfTraining of one of 100, and
LabelSpreading over 7 neighbours. All get the same rows; columns are standardised for logistic regression and
LabelSpreading.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import time
from pathlib import Path

from measuring import run_parts  # first: it sets the number of threads

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
import torch

import jensen

# On a few thousand rows threads cost more time than they save.
torch.set_num_threads(1)
Labelled = tuple[np.ndarray, np.ndarray]


def generated_letters(n_rows: int, n_classes: int = 26, d: int = 16, n_modes: int = 3) -> Labelled:
    """Classes of several modes, whose covariances all differ; whole numbers from 0 to 15."""
    rng = np.random.default_rng(0)
    means = 0.5 * rng.normal(size=(n_classes, 1, d)) + 0.8 * rng.normal(size=(n_classes, n_modes, d))
    shares = rng.dirichlet(3 * np.ones(n_modes), n_classes)
    spread = 0.85 * rng.normal(size=(n_classes, n_modes, d, d)) / np.sqrt(d)
    y = rng.integers(0, n_classes, n_rows)
    mode = np.array([rng.choice(n_modes, p=shares[c]) for c in y])
    X = means[y, mode] + np.einsum("nij,nj->ni", spread[y, mode], rng.normal(size=(n_rows, d)))
    return np.clip(np.round(7.5 + 2.2 * X), 0, 15), y


def generated_sheets(n_rows: int, n_classes: int = 26, d: int = 16, n_latent: int = 4, n_hidden: int = 8) -> Labelled:
    """x = m_c + W_c tanh(V_c z + b_c) + 0.3 e with z, e standard normal, and for every class c its own m, W, V, b."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, d))
    inner = 1.5 * rng.normal(size=(n_classes, n_hidden, n_latent)) / np.sqrt(n_latent)
    offsets = 0.5 * rng.normal(size=(n_classes, n_hidden))
    outer = 0.5 * rng.normal(size=(n_classes, d, n_hidden))
    y = rng.integers(0, n_classes, n_rows)
    hidden = np.tanh(np.einsum("nhk,nk->nh", inner[y], rng.normal(size=(n_rows, n_latent))) + offsets[y])
    return centres[y] + np.einsum("ndh,nh->nd", outer[y], hidden) + 0.3 * rng.normal(size=(n_rows, d)), y


def generated_cubes(n_rows: int) -> Labelled:
    X, y = make_classification(
        n_rows, 16, n_informative=12, n_redundant=4, n_classes=26, n_clusters_per_class=2, class_sep=2.0, random_state=0
    )
    return X, y


def some_labels(y: np.ndarray, n_each: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    given = np.full(len(y), -1)
    for number in np.unique(y):
        given[rng.choice(np.flatnonzero(y == number), n_each, replace=False)] = number
    return given


def predictions(X: np.ndarray, given: np.ndarray) -> dict[str, np.ndarray]:
    """The labels of all rows by every peer."""
    scaled, known = StandardScaler().fit_transform(X), given >= 0
    forest = RandomForestClassifier(300, random_state=0)
    return {
        "logistic regression": LogisticRegression(max_iter=1000).fit(scaled[known], given[known]).predict(scaled),
        "random forest": forest.fit(X[known], given[known]).predict(X),
        "SelfTraining": SelfTrainingClassifier(RandomForestClassifier(100, random_state=0)).fit(X, given).predict(X),
        "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=7).fit(scaled, given).predict(scaled),
        "one Gaussian per class": jensen.DiscriminantAnalysis(
            "full", unlabelled=-1, prior=jensen.ConjugatePrior(), tol=1e-3, random_state=0
        )
        .fit(X, given)
        .predict(X),
    }


def accuracies(X: np.ndarray, y: np.ndarray, n_each: int, seed: int) -> dict[str, float]:
    """Of every method, on the rows without a label."""
    given = some_labels(y, n_each, seed)
    began = time.process_time()
    found = jensen.cluster(X, given)
    seconds = time.process_time() - began
    labels = predictions(X, given) | {"jensen.cluster": found.labels}
    scores = {name: float((own == y)[given < 0].mean()) for name, own in labels.items()}
    best = found.tried.iloc[0]
    print(
        f"    seed {seed}: {' | '.join(f'{name} {score:.3f}' for name, score in scores.items())}\n"
        f"    {best['structure']}, {best['components_per_class']} per class, start {best['start']}, "
        f"label weight {best['label_weight']:g}, held out {found.accuracy:.3f}, {seconds:.0f} s",
        flush=True,
    )
    return scores


def table_of(X: np.ndarray, y: np.ndarray, quick: bool) -> None:
    for n_each in (5, 20):
        scores = [accuracies(X, y, n_each, seed) for seed in ((2,) if quick else (2, 3, 4))]
        means = {name: np.mean([one[name] for one in scores]) for name in scores[0]}
        print(f"{n_each} labels | " + " | ".join(f"{name} {mean:.3f}" for name, mean in means.items()), flush=True)


def digits(quick: bool, data: Path | None) -> None:
    X, y = load_digits(return_X_y=True)
    table_of(X, y, quick)


def sheets(quick: bool, data: Path | None) -> None:
    table_of(*generated_sheets(2000 if quick else 6000), quick)


def cubes(quick: bool, data: Path | None) -> None:
    table_of(*generated_cubes(2000 if quick else 6000), quick)


def letters(quick: bool, data: Path | None) -> None:
    table_of(*generated_letters(2000 if quick else 6000), quick)


if __name__ == "__main__":
    run_parts(__doc__, {"digits": digits, "sheets": sheets, "cubes": cubes, "letters": letters})
