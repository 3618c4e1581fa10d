"""KMedoids compared with the `kmedoids` package (Rust): seconds, loss, swaps, memory; and the gain from more starts.

    python benchmarks/kmedoids.py [--quick] [--seeds N] [part ...]
Both get the same distance matrix, one random start per seed and one thread; seconds are medians, losses are means with
standard errors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

THREADS = 1
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402 (thread counts come first)
import torch  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402
from sklearn.datasets import load_digits, load_iris, load_wine  # noqa: E402

import jensen  # noqa: E402
from jensen.engines.em import seeding as start  # noqa: E402
from jensen.models.clusters import faster_pam as swaps  # noqa: E402

# This script has the name of the package, so its folder is removed from the path.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
import kmedoids as peer  # noqa: E402

torch.set_num_threads(THREADS)

SEEDS = 5
# The first has a target: at most 3 times the time of the package, with no larger loss.
SIZES = [(5000, 10, 50), (5000, 2, 50), (5000, 10, 5), (5000, 10, 200), (10_000, 10, 100), (1000, 10, 10)]


def blobs(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return 3 * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call()
    return time.perf_counter() - began, answer


def random_start(n: int, k: int, seed: int) -> np.ndarray:
    return start.draw_different(np.ones(n), k, torch.Generator().manual_seed(seed))


def fits(quick: bool) -> None:
    """The search alone, and all of `fit`, which also checks the matrix and labels the rows."""
    columns = ("peer s", "jensen s", "ratio", "fit s")
    print(f"{'(n, d, K)':>16}" + "".join(f"{name:>10}" for name in columns), end="")
    print(f"{'loss peer':>20}{'loss jensen':>20}{'rounds of both':>18}{'swaps of both':>18}")
    for n, d, k in SIZES:
        n = n // 5 if quick else n
        x = blobs(n, d, k)
        matrix, weight = cdist(x, x), np.ones(n)
        runs: dict[str, list[tuple[float, float, float, float]]] = {"theirs": [], "ours": [], "fit": []}
        for seed in range(SEEDS):
            theirs = partial(peer.fasterpam, matrix, k, max_iter=300, init="random", random_state=seed, n_cpu=THREADS)
            took, found = seconds(theirs)
            runs["theirs"].append((took, found.loss, found.n_iter, found.n_swap))
            ours = partial(swaps.faster_pam, matrix, weight, random_start(n, k, seed), max_iter=300)
            took, found = seconds(ours)
            runs["ours"].append((took, found.loss, found.n_iter, found.n_swaps))
            model = jensen.KMedoids(k, metric="precomputed", n_init=1, random_state=seed)
            took, _ = seconds(partial(model.fit, matrix))
            runs["fit"].append((took, model.inertia_, model.n_iter_, 0))
        time_of = {name: statistics.median(run[0] for run in them) for name, them in runs.items()}
        mean = {name: np.mean(them, axis=0) for name, them in runs.items()}
        figures = [time_of["theirs"], time_of["ours"], time_of["theirs"] / time_of["ours"], time_of["fit"]]
        row = "".join(f"{figure:10.3f}" for figure in figures)
        for name in ("theirs", "ours"):
            error = np.std([run[1] for run in runs[name]], ddof=1) / np.sqrt(len(runs[name]))
            row += f"{mean[name][1]:12.2f} ± {error:5.2f}"
        row += "".join(f"{mean[name][column]:9.1f}" for column in (2, 3) for name in ("theirs", "ours"))
        print(f"{(n, d, k)!s:>16}{row}", flush=True)


def build(quick: bool) -> None:
    """PAM's greedy start, alone and followed by swaps."""
    n, d, k = SIZES[0]
    n = n // 5 if quick else n
    x = blobs(n, d, k)
    matrix, weight = cdist(x, x), np.ones(n)
    theirs, greedy = seconds(partial(peer.pam_build, matrix, k))
    ours, start = seconds(partial(swaps.build, matrix, weight, k))
    later, found = seconds(partial(swaps.faster_pam, matrix, weight, start, max_iter=300))
    loss = swaps.neighbours(matrix, weight, start).loss
    print(f"kmedoids {theirs:.3f} s, loss {greedy.loss:.2f}")
    print(f"jensen   {ours:.3f} s, loss {loss:.2f}; then swaps {later:.3f} s, loss {found.loss:.2f}")


MEMORY = """
import numpy as np
from scipy.spatial.distance import cdist
{imports}
x = np.random.default_rng(0).normal(size=({n}, 10))
matrix = cdist(x, x)
small = np.ascontiguousarray(matrix[:200, :200])
def run(matrix, k): {run}
run(small, 5)
status = lambda key: int(open('/proc/self/status').read().split(key + ':')[1].split()[0])
open('/proc/self/clear_refs', 'w').write('5')  # forget the peak so far
before = status('VmRSS')
run(matrix, 50)
print((status('VmHWM') - before) / 1024)
"""


def memory(quick: bool) -> None:
    """Peak resident memory above the given matrix, each in a separate process."""
    n = 1000 if quick else 5000
    ours = "KMedoids(k, metric='precomputed', n_init=1, random_state=0).fit(matrix)"
    theirs = "kmedoids.fasterpam(matrix, k, init='random', random_state=0, n_cpu=1)"
    for name, imports, run in (
        ("jensen", "from jensen import KMedoids", ours),
        ("kmedoids", "import kmedoids", theirs),
    ):
        script = MEMORY.format(imports=imports, n=n, run=run)
        above = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        print(f"{name}: {float(above.stdout):.1f} MB above a matrix of {n * n * 8 / 2**20:.0f} MB")


def starts(quick: bool) -> None:
    """Loss above the best of all runs: one random start, the best of several, the greedy start."""
    n_runs = 12 if quick else 60
    rng = np.random.default_rng(0)
    data = {
        "iris, 3": (load_iris().data, 3),
        "iris, 8": (load_iris().data, 8),
        "wine, 3": (load_wine().data, 3),
        "digits, 10": (load_digits().data, 10),
        "digits, 40": (load_digits().data, 40),
        "uniform, 8": (rng.random((1000, 2)), 8),
        "uniform, 30": (rng.random((1000, 2)), 30),
        "blobs, 20": (blobs(1500, 2, 20), 20),
        "blobs, 50": (blobs(2000, 10, 50), 50),
    }
    print(
        f"{'data, K':>12}" + "".join(f"{name:>10}" for name in ("1 mean", "1 worst", "of 3", "of 5", "of 10", "build"))
    )
    rows = []
    for name, (x, k) in data.items():
        matrix, weight = cdist(x, x), np.ones(len(x))
        losses = np.array(
            [
                swaps.faster_pam(matrix, weight, random_start(len(x), k, seed), max_iter=300).loss
                for seed in range(n_runs)
            ]
        )
        greedy = swaps.faster_pam(matrix, weight, swaps.build(matrix, weight, k), max_iter=300).loss
        best = min(losses.min(), greedy)
        of = {m: losses[: n_runs // m * m].reshape(-1, m).min(1).mean() for m in (3, 5, 10)}
        rows.append(
            [losses.mean() / best, losses.max() / best, *(value / best for value in of.values()), greedy / best]
        )
        print(f"{name:>12}" + "".join(f"{100 * (value - 1):9.2f}%" for value in rows[-1]), flush=True)
    print(f"{'mean':>12}" + "".join(f"{100 * (value - 1):9.2f}%" for value in np.mean(rows, axis=0)))


PARTS = {f.__name__: f for f in (fits, build, memory, starts)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="random starts of `fits`")
    arguments = parser.parse_args()
    SEEDS = arguments.seeds
    versions = {"jensen": jensen.__version__, "kmedoids": version("kmedoids"), "numpy": np.__version__}
    print(json.dumps(versions | {"threads": THREADS}))
    for part in arguments.parts or PARTS:
        print(f"\n{part}")
        PARTS[part](arguments.quick)
