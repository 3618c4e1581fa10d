"""KMeans compared with scikit-learn's and faiss: seconds of whole fits, inertia, memory; and size limits.

    python benchmarks/kmeans.py [--quick] [--data DIR] [part ...]
All run in this process with two threads: KMeans(n_init=1) at its defaults, and faiss.Kmeans with all points until it
converges, which needs float32 and starts from random rows. Seconds include seeding. They are medians and inertias are
means over the seeds; the inertia of faiss is computed from its centres in float64.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

THREADS = 2
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import faiss  # noqa: E402 (thread counts come first)
import numpy as np  # noqa: E402
import sklearn.cluster  # noqa: E402
import torch  # noqa: E402
from sklearn.metrics import pairwise_distances_argmin_min  # noqa: E402

import jensen  # noqa: E402

torch.set_num_threads(THREADS)
faiss.omp_set_num_threads(THREADS)
warnings.simplefilter("ignore")

SIZES = [(1_000_000, 2, 20), (500_000, 16, 64), (100_000, 64, 100), (100_000, 128, 256)]
SEEDS = 5
DATA: Path | None = None


def blobs(n: int, d: int, k: int, kind: str) -> np.ndarray:
    """Spherical clusters: "overlapping" with centres about 4 standard deviations apart in any dimension, "apart" with
    centres spread by 2 standard deviations in every feature, so that they are better separated in more dimensions."""
    rng = np.random.default_rng(0)
    spread = 4 / np.sqrt(2 * d) if kind == "overlapping" else 2.0
    return spread * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def cases(quick: bool) -> Iterator[tuple[str, np.ndarray, int]]:
    for n, d, k in SIZES:
        # In two dimensions both are the same.
        for kind in ("overlapping", "apart")[: 1 if d == 2 else None]:
            yield f"{kind} ({n}, {d}, {k})", blobs(n // 10 if quick else n, d, k, kind), k
    if DATA is not None:
        with gzip.open(DATA / "mnist" / "train-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
        yield "mnist (60000, 784, 100)", pixels[: 6000 if quick else None] / 255.0, 100


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call()
    return time.perf_counter() - began, answer


def run_faiss(x: np.ndarray, k: int, seed: int) -> np.ndarray:
    model = faiss.Kmeans(
        x.shape[1], k, niter=300, seed=seed + 1, max_points_per_centroid=len(x), min_points_per_centroid=1
    )
    model.train(x)
    return np.asarray(model.centroids)


def inertia(x: np.ndarray, centres: np.ndarray) -> float:
    return float((pairwise_distances_argmin_min(x, centres.astype(x.dtype))[1].astype(np.float64) ** 2).sum())


def fit(quick: bool, dtype: type = np.float64) -> None:
    header = f"{'data':>30} {'sklearn s':>10} {'faiss s':>8} {'jensen s':>9} {'x sk':>6} {'x faiss':>8}"
    print(f"{header} {'inertia/sk':>11} {'inertia/faiss':>14}   steps")
    for name, x, k in cases(quick):
        rows, single = x.astype(dtype), x.astype(np.float32)
        times: dict[str, list[float]] = {"sklearn": [], "faiss": [], "jensen": []}
        losses: dict[str, list[float]] = {"sklearn": [], "faiss": [], "jensen": []}
        steps = []
        for seed in range(2 if quick else SEEDS):
            took, peer = seconds(partial(sklearn.cluster.KMeans(k, n_init=1, random_state=seed).fit, rows))
            times["sklearn"].append(took)
            losses["sklearn"].append(peer.inertia_)
            took, centres = seconds(partial(run_faiss, single, k, seed))
            times["faiss"].append(took)
            losses["faiss"].append(inertia(x, centres))
            took, model = seconds(partial(jensen.KMeans(k, random_state=seed).fit, rows))
            times["jensen"].append(took)
            losses["jensen"].append(model.inertia_)
            steps.append((peer.n_iter_, model.n_iter_))
        sk, fa, ours = (statistics.median(times[who]) for who in ("sklearn", "faiss", "jensen"))
        mean = {who: np.mean(values) for who, values in losses.items()}
        row = f"{name:>30} {sk:10.2f} {fa:8.2f} {ours:9.2f} {sk / ours:6.2f} {fa / ours:8.2f}"
        ratios = f"{mean['jensen'] / mean['sklearn']:11.5f} {mean['jensen'] / mean['faiss']:14.5f}"
        print(f"{row} {ratios}   {steps}", flush=True)


def single(quick: bool) -> None:
    """The same for float32 data, where scikit-learn's steps are as fast as jensen's."""
    fit(quick, np.float32)


def memory(quick: bool) -> None:
    """Peak resident memory above the data, each in a separate process."""
    for module in ("sklearn.cluster", "jensen"):
        script = (
            "import numpy as np, torch, warnings\n"
            f"torch.set_num_threads({THREADS})\n"
            "warnings.simplefilter('ignore')\n"
            f"from {module} import KMeans\n"
            f"X = np.random.default_rng(0).normal(size=({50_000 if quick else 500_000}, 16))\n"
            "KMeans(4, n_init=1, max_iter=2).fit(X[:1000])\n"
            "status = lambda key: int(open('/proc/self/status').read().split(key + ':')[1].split()[0])\n"
            "open('/proc/self/clear_refs', 'w').write('5')  # forget the peak so far\n"
            "before = status('VmRSS')\n"
            "KMeans(64, n_init=1, max_iter=20, random_state=0).fit(X)\n"
            "print((status('VmHWM') - before) / 1024, X.nbytes / 2**20)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        above, data = map(float, done.stdout.split())
        print(f"{module:>16}: peak memory {above:.0f} MB above the data's {data:.0f} MB, at (500000, 16, 64)")


def missing_values(quick: bool) -> None:
    """Steps over rows with missing values, compared with the compiled loop over complete rows."""
    x = blobs(20_000 if quick else 200_000, 16, 32, "overlapping")
    missing = np.where(np.random.default_rng(1).random(x.shape) < 0.3, np.nan, x)
    for name, rows in (("complete", x), ("30 % missing", missing)):
        took, model = seconds(partial(jensen.KMeans(32, random_state=0, max_iter=20, tol=0).fit, rows))
        print(f"{name:>14}: {took:.2f} s for {model.n_iter_} steps at {rows.shape}, K = 32")


def limits(quick: bool) -> None:
    """Equal sizes: whole fits with a linear programme in every step."""
    for n, k in ((1000, 5), (5000, 10), (20_000, 10))[: 1 if quick else None]:
        x = blobs(n, 2, k, "overlapping")
        took, model = seconds(partial(jensen.KMeans(k, random_state=0, size_limits=(0.9 * n / k, 1.1 * n / k)).fit, x))
        print(
            f"size limits at n = {n}, K = {k}: {took:.2f} s, {model.n_iter_} steps, {took / model.n_iter_:.2f} s each"
        )


PARTS = {"fit": fit, "single": single, "memory": memory, "missing": missing_values, "limits": limits}


def main() -> None:
    global DATA
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--data", type=Path, help="folder with real data sets; adds MNIST's pixels to the fits")
    arguments = parser.parse_args()
    DATA = arguments.data
    for part in arguments.parts or PARTS:
        print(f"\n## {part}", flush=True)
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
