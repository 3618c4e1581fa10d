"""Whole fits on real tables, beside scikit-learn's and faiss's: seconds, ln p per row, inertia.

    python benchmarks/real_tables.py --data DIR [--threads 1] [--seeds 3] [--half chosen|reported] [part ...]

Parts: mixtures, kmeans, factors, large. Every model is at its defaults apart from its size, covariance_type and
random_state; faiss has all points, float32 and 300 steps. All run in this process, one after the other for each seed,
with the same number of threads. A figure is the median over the seeds, data already in memory: processor seconds with
one thread, seconds by the clock with several.
`ratio` is the peer's time divided by jensen's. `gain` is the mean of jensen's ln p per training row less that of
scikit-learn (more is better), and for k-means the inertia relative to the peer's (less is better).

Columns that are constant are left out: scikit-learn counts a density of 1 / sqrt(2 pi reg_covar) for each of them, and
jensen none. Columns other than pixels are standardised, as scikit-learn's reg_covar is in units of the data. The tables
are in two halves: rules are chosen on the first, "chosen", and the figures to quote are of the second, "reported". DIR
has `mnist/` and `uci/` with the files as the UCI repository names them. The table
`letters` is generated: it has the size of the UCI letter data, whole numbers and 26 overlapping clusters.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv[:-1] else "1"
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = THREADS

import numpy as np  # noqa: E402 (thread counts come first)
import pandas as pd  # noqa: E402
import sklearn.cluster  # noqa: E402
import sklearn.decomposition  # noqa: E402
import sklearn.mixture  # noqa: E402
import torch  # noqa: E402
from mnist import grey  # noqa: E402

import jensen  # noqa: E402

try:
    import faiss
except ImportError:
    faiss = None


def pooled(images: np.ndarray, side: int) -> np.ndarray:
    """Images (n, 784) with (side, side) pixels, each the mean of four; a margin is added or cut off."""
    square = images.reshape(-1, 28, 28).astype(np.float64)
    margin = side - 14
    return np.pad(square, ((0, 0), (margin, margin), (margin, margin))).reshape(-1, side, 2, side, 2).mean((2, 4))


def pixels(data: Path, split: str, n: int, side: int) -> np.ndarray:
    images = grey(data, split)[:n]
    return (images.astype(np.float64) if side == 28 else pooled(images, side)).reshape(n, -1)


def california(data: Path) -> np.ndarray:
    with tarfile.open(data / "uci" / "california_housing.tgz") as files:
        name = next(name for name in files.getnames() if name.endswith(".csv"))
        return numbers(pd.read_csv(files.extractfile(name)).dropna())


def numbers(frame: pd.DataFrame) -> np.ndarray:
    return frame.select_dtypes("number").to_numpy(np.float64)


def letters(data: Path) -> np.ndarray:
    rng, n, d, k = np.random.default_rng(5), 20_000, 16, 26
    own, centre = rng.integers(k, size=n), 1.2 * rng.normal(size=(k, d))
    mixing = rng.normal(size=(k, d, d)) / 4 + 0.3 * np.eye(d)
    return np.round(3 * (centre[own] + (mixing[own] @ rng.normal(size=(n, d, 1)))[..., 0]))


@dataclass(frozen=True)
class Table:
    """
    Args:
        half: "chosen" or "reported".
        read: takes the folder to rows (n, d).
        mixtures: numbers of components and covariance types.
        clusters: numbers of clusters.
        factors: numbers of factors.
    """

    half: str
    read: Callable[[Path], np.ndarray]
    mixtures: tuple[tuple[int, str], ...]
    clusters: tuple[int, ...]
    factors: tuple[int, ...] = ()


TABLES = {
    "red wine": Table(
        "chosen",
        lambda data: numbers(pd.read_csv(data / "uci" / "winequality-red.csv", sep=";")),
        ((6, "full"), (10, "diag")),
        (6,),
        (3,),
    ),
    "abalone": Table(
        "chosen",
        lambda data: numbers(pd.read_csv(data / "uci" / "abalone.csv", header=None)),
        ((6, "full"), (10, "diag")),
        (10,),
        (2,),
    ),
    "California": Table("chosen", california, ((10, "full"), (20, "diag")), (20,), (3,)),
    "MNIST 14 x 14, 5000": Table(
        "chosen", lambda data: pixels(data, "test", 5000, 14), ((10, "diag"), (10, "tied")), (10, 50), (10,)
    ),
    "MNIST 28 x 28, 1000": Table("chosen", lambda data: pixels(data, "test", 1000, 28), ((10, "diag"),), (10,)),
    "bike": Table(
        "chosen",
        # The last column is the sum of two others.
        lambda data: numbers(pd.read_csv(data / "uci" / "bike.csv.gz", header=None))[:, :-1],
        ((10, "diag"),),
        (10, 50),
        (4,),
    ),
    "yeast": Table(
        "reported",
        lambda data: numbers(pd.read_csv(data / "uci" / "yeast.data", sep=r"\s+", header=None)),
        ((5, "full"), (10, "diag")),
        (10,),
        (3,),
    ),
    "white wine": Table(
        "reported",
        lambda data: numbers(pd.read_csv(data / "uci" / "winequality-white.csv", sep=";")),
        ((6, "full"), (10, "diag")),
        (6,),
        (3,),
    ),
    "letters": Table("reported", letters, ((26, "full"),), (26,), (5,)),
    "Adult": Table(
        "reported",
        lambda data: numbers(pd.read_csv(data / "uci" / "adult.data.gz", header=None)),
        ((10, "full"), (10, "diag")),
        (20, 100),
        (2,),
    ),
    "MNIST 16 x 16, 7291": Table(
        "reported", lambda data: pixels(data, "train", 7291, 16), ((10, "diag"),), (10, 50), (10,)
    ),
    "MNIST 28 x 28, 5000": Table("reported", lambda data: pixels(data, "train", 5000, 28), ((10, "diag"),), (10,)),
    "MNIST 28 x 28, 10000": Table("reported", lambda data: pixels(data, "test", 10_000, 28), (), (50,), (10,)),
}


def prepared(name: str, x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x[:, np.ptp(x, axis=0) > 0])
    return x if "MNIST" in name else (x - x.mean(0)) / x.std(0)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """By the processor with one thread, where the load of a shared machine does not count; else by the clock."""
    clock = time.process_time if THREADS == "1" else time.perf_counter
    began = clock()
    answer = call()
    return clock() - began, answer


def report(name: str, theirs: list[float], ours: list[float], figure: str) -> float:
    peer, own = statistics.median(theirs), statistics.median(ours)
    print(f"{name:>44} {peer:9.3f} {own:9.3f} {peer / own:7.2f}   {figure}", flush=True)
    return peer / own


def compared(name: str, peer: Any, own: Any, x: np.ndarray, n_seeds: int) -> float:
    """Fits of both, given functions that take a seed to a model."""
    theirs, ours, before, after, steps = [], [], [], [], []
    for seed in range(n_seeds):
        took, model = seconds(lambda seed=seed: peer(seed).fit(x))
        theirs.append(took)
        before.append(model.score(x))
        took, mine = seconds(lambda seed=seed: own(seed).fit(x))
        ours.append(took)
        after.append(mine.score(x))
        steps.append((model.n_iter_, mine.n_iter_))
    gains = [f"{new - old:+.4f}" for old, new in zip(before, after, strict=True)]
    means = f"{np.mean(before):.4f} {np.mean(after):.4f} gain {np.mean(after) - np.mean(before):+.4f}"
    return report(name, theirs, ours, f"{means}   each {' '.join(gains)}   steps {steps}")


def mixtures(tables: dict[str, np.ndarray], n_seeds: int) -> None:
    ratios = [
        compared(
            f"{name} {x.shape}, {k}, {kind}",
            lambda seed: sklearn.mixture.GaussianMixture(k, covariance_type=kind, random_state=seed),  # noqa: B023
            lambda seed: jensen.GaussianMixture(k, covariance_type=kind, random_state=seed),  # noqa: B023
            x,
            n_seeds,
        )
        for name, x in tables.items()
        for k, kind in TABLES[name].mixtures
    ]
    summary(ratios)


def kmeans(tables: dict[str, np.ndarray], n_seeds: int) -> None:
    ratios = []
    for name, x in tables.items():
        for k in TABLES[name].clusters:
            times: dict[str, list[float]] = {"sk": [], "faiss": [], "ours": []}
            loss: dict[str, list[float]] = {"sk": [], "faiss": [], "ours": []}
            single = x.astype(np.float32)
            for seed in range(n_seeds):
                took, model = seconds(lambda: sklearn.cluster.KMeans(k, random_state=seed).fit(x))  # noqa: B023
                times["sk"].append(took)
                loss["sk"].append(model.inertia_)
                if faiss is not None:
                    took, centres = seconds(lambda: by_faiss(single, k, seed))  # noqa: B023
                    times["faiss"].append(took)
                    labels = sklearn.metrics.pairwise_distances_argmin_min(x, centres.astype(np.float64))
                    loss["faiss"].append(float((labels[1] ** 2).sum()))
                took, model = seconds(lambda: jensen.KMeans(k, random_state=seed).fit(x))  # noqa: B023
                times["ours"].append(took)
                loss["ours"].append(model.inertia_)
            mean = {who: float(np.mean(values)) for who, values in loss.items() if values}
            figure = f"inertia / sk {mean['ours'] / mean['sk']:.4f}"
            if faiss is not None:
                ratio = statistics.median(times["faiss"]) / statistics.median(times["ours"])
                figure += f"   faiss: ratio {ratio:.2f}, inertia {mean['ours'] / mean['faiss']:.4f}"
            ratios.append(report(f"{name} {x.shape}, {k}", times["sk"], times["ours"], figure))
    summary(ratios)


def by_faiss(x: np.ndarray, k: int, seed: int) -> np.ndarray:
    model = faiss.Kmeans(
        x.shape[1], k, niter=300, seed=seed + 1, max_points_per_centroid=len(x), min_points_per_centroid=1
    )
    model.train(x)
    return np.asarray(model.centroids)


def factors(tables: dict[str, np.ndarray], n_seeds: int) -> None:
    ratios = [
        compared(
            f"{name} {x.shape}, {m} factors",
            lambda seed: sklearn.decomposition.FactorAnalysis(m, random_state=seed),  # noqa: B023
            lambda seed: jensen.FactorAnalysis(m, random_state=seed),  # noqa: B023
            x,
            n_seeds,
        )
        for name, x in tables.items()
        for m in TABLES[name].factors
    ]
    summary(ratios)


def large(tables: dict[str, np.ndarray], n_seeds: int) -> None:
    """Generated clusters about four standard deviations apart, 200 000 x 16, K = 32, full covariances."""
    rng, n, d, k = np.random.default_rng(0), 200_000, 16, 32
    x = 4 / np.sqrt(2 * d) * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    compared(
        f"overlapping {x.shape}, {k}, full",
        lambda seed: sklearn.mixture.GaussianMixture(k, random_state=seed),
        lambda seed: jensen.GaussianMixture(k, random_state=seed),
        x,
        n_seeds,
    )


def summary(ratios: list[float]) -> None:
    if ratios:
        print(f"{'median ratio':>44} {statistics.median(ratios):.2f}, least {min(ratios):.2f}")


PARTS = {"mixtures": mixtures, "kmeans": kmeans, "factors": factors, "large": large}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(PARTS)}; all without large by default")
    parser.add_argument("--data", type=Path, required=True, help="folder with real data sets")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--half", choices=("chosen", "reported"), help="only these tables")
    parser.add_argument("--only", default="", help="only tables whose name contains this")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if faiss is not None:
        faiss.omp_set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    tables = {
        name: prepared(name, table.read(arguments.data))
        for name, table in TABLES.items()
        if arguments.half in (None, table.half) and arguments.only in name
    }
    small = np.random.default_rng(0).normal(size=(200, 5))  # what is imported late is not to be timed
    for model in (jensen.GaussianMixture(2), jensen.KMeans(2), sklearn.cluster.KMeans(2), jensen.FactorAnalysis(1)):
        model.fit(small)
    for part in arguments.parts or ("mixtures", "kmeans", "factors"):
        print(f"\n## {part}, {arguments.threads} threads\n{'':>44} {'peer, s':>9} {'jensen, s':>9} {'ratio':>7}")
        PARTS[part](tables, arguments.seeds)


if __name__ == "__main__":
    main()
