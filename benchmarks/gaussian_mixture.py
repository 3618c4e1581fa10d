"""GaussianMixture compared with scikit-learn's: EM iterations, whole fits, memory, missing values, import times.

    python benchmarks/gaussian_mixture.py [--quick] [--data DIR] [part ...]
Both run in this process from the same start for the same number of iterations; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

THREADS = 2
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402 (thread counts come first)
import sklearn.mixture  # noqa: E402
import torch  # noqa: E402

import jensen  # noqa: E402

torch.set_num_threads(THREADS)
warnings.simplefilter("ignore")

# (n, d, K) and the target ratio.
ITERATION = {
    (1_000_000, 2, 10): 15,
    (200_000, 8, 16): 10,
    (200_000, 16, 32): 10,
    (100_000, 32, 32): 5,
    (50_000, 64, 16): 2.5,
    (20_000, 128, 8): 2,
}
DATA: Path | None = None
WHOLE = [(1_000_000, 2, 10), (200_000, 8, 16), (200_000, 16, 32)]


def blobs(n: int, d: int, k: int, seed: int = 0) -> np.ndarray:
    """Clusters with their own covariances; neighbouring centres are about 4 standard deviations apart."""
    rng = np.random.default_rng(seed)
    z = rng.integers(k, size=n)
    # Eigenvalues well above the floor, so that both libraries maximise the same likelihood.
    factors = np.eye(d) + 0.3 * rng.normal(size=(k, d, d)) / np.sqrt(d)
    centres = 2 * np.sqrt(2 / d) * rng.normal(size=(k, d))
    return centres[z] + np.einsum("nij,nj->ni", factors[z], rng.normal(size=(n, d)))


def start(X: np.ndarray, k: int, covariance_type: str) -> dict[str, object]:
    rng = np.random.default_rng(1)
    d = X.shape[1]
    scale = 1 / X.var()
    precisions = {
        "full": np.tile(np.eye(d) * scale, (k, 1, 1)),
        "tied": np.eye(d) * scale,
        "diag": np.full((k, d), scale),
        "spherical": np.full(k, scale),
    }[covariance_type]
    means = X[rng.choice(len(X), k, replace=False)]
    return {"weights_init": np.full(k, 1 / k), "means_init": means, "precisions_init": precisions}


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def per_iteration(n: int, d: int, k: int, covariance_type: str, repeats: int) -> tuple[float, float, float]:
    """Seconds per iteration of both, and the difference of their final mean ln p."""
    X = blobs(n, d, k)
    given = start(X, k, covariance_type)
    classes = (sklearn.mixture.GaussianMixture, jensen.GaussianMixture)
    figures, scores = [], []
    for cls in classes:

        def run(n_iter: int, cls: type = cls) -> object:
            # scikit-learn computes a start even if all parameters are given, so the cheapest method is used.
            init = {} if cls is jensen.GaussianMixture else {"init_params": "random_from_data"}
            model = cls(k, covariance_type=covariance_type, tol=0, max_iter=n_iter, random_state=0, **given, **init)
            return model.fit(X)

        times = [seconds(lambda: run(6)) - seconds(lambda: run(1)) for _ in range(repeats)]
        figures.append(statistics.median(times) / 5)
        scores.append(run(6).score(X[:20_000]))
    return figures[0], figures[1], scores[1] - scores[0]


def iteration(quick: bool) -> None:
    print(f"{'(n, d, K)':>22} {'sklearn s':>10} {'jensen s':>10} {'ratio':>7} {'target':>6} {'Δ ln p':>10}")
    for (n, d, k), target in ITERATION.items():
        theirs, ours, gap = per_iteration(n // 10 if quick else n, d, k, "full", 3)
        print(f"{(n, d, k)!s:>22} {theirs:10.4f} {ours:10.4f} {theirs / ours:7.1f} {target:6} {gap:10.1e}", flush=True)


def structures(quick: bool) -> None:
    print(f"{'structure':>10} {'(n, d, K)':>22} {'sklearn s':>10} {'jensen s':>10} {'ratio':>7} {'Δ ln p':>10}")
    for covariance_type in ("tied", "diag", "spherical"):
        for n, d, k in ITERATION:
            theirs, ours, gap = per_iteration(n // 10 if quick else n, d, k, covariance_type, 3)
            print(
                f"{covariance_type:>10} {(n, d, k)!s:>22} {theirs:10.4f} {ours:10.4f} {theirs / ours:7.1f} {gap:10.1e}",
                flush=True,
            )


def fit(quick: bool) -> None:
    print(f"{'(n, d, K)':>22} {'sklearn s':>10} {'jensen s':>10} {'ratio':>7} {'ln p sklearn':>12} {'ln p jensen':>12}")
    for n, d, k in WHOLE:
        X = blobs(n // 10 if quick else n, d, k)
        theirs, ours, gaps = [], [], []
        for seed in range(3):
            peer = sklearn.mixture.GaussianMixture(k, random_state=seed)
            model = jensen.GaussianMixture(k, random_state=seed)
            theirs.append(seconds(partial(peer.fit, X)))
            ours.append(seconds(partial(model.fit, X)))
            gaps.append((peer.score(X), model.score(X)))
        ratio = statistics.median(theirs) / statistics.median(ours)
        mine, other = np.mean([g[1] for g in gaps]), np.mean([g[0] for g in gaps])
        row = f"{(n, d, k)!s:>22} {statistics.median(theirs):10.3f} {statistics.median(ours):10.3f} {ratio:7.1f}"
        print(f"{row} {other:12.5f} {mine:12.5f}", flush=True)


def memory(quick: bool) -> None:
    """Peak resident memory above the data, in a separate process."""
    script = (
        "import numpy as np, torch\n"
        f"torch.set_num_threads({THREADS})\n"
        "from jensen import GaussianMixture\n"
        "rng = np.random.default_rng(0)\n"
        f"X = rng.normal(size=({100_000 if quick else 1_000_000}, 8))\n"
        "GaussianMixture(2, max_iter=1).fit(X[:1000])\n"
        "status = lambda key: int(open('/proc/self/status').read().split(key + ':')[1].split()[0])\n"
        "open('/proc/self/clear_refs', 'w').write('5')  # forget the peak so far\n"
        "before = status('VmRSS')\n"
        "GaussianMixture(32, max_iter=5, tol=0, random_state=0).fit(X)\n"
        "print((status('VmHWM') - before) / 1024)"
    )
    above = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    print(f"peak memory above the data at (1e6, 8, 32): {float(above.stdout):.0f} MB (target: 150)")


def missing(quick: bool) -> None:
    """30 % of the entries missing, compared with the same fit to complete rows."""
    X = blobs(10_000 if quick else 100_000, 8, 8)
    with_nan = np.where(np.random.default_rng(2).random(X.shape) < 0.3, np.nan, X)
    given = start(X, 8, "full")

    def run(rows: np.ndarray, n_iter: int) -> None:
        jensen.GaussianMixture(8, tol=0, max_iter=n_iter, **given).fit(rows)

    def median_step(rows: np.ndarray) -> float:
        return statistics.median(
            (seconds(lambda: run(rows, 11)) - seconds(lambda: run(rows, 1))) / 10 for _ in range(3)
        )

    whole, partial = median_step(X), median_step(with_nan)
    print(
        f"complete {whole:.4f} s, 30 % missing {partial:.4f} s per iteration: {partial / whole:.1f} times (target: 10)"
    )


def patterns(quick: bool) -> None:
    """Default fits and imputation where nearly every row has its own pattern of missing values."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    for n, d, k in [(500, 10, 2)] if quick else [(2000, 20, 2), (3000, 24, 3), (3000, 58, 1)]:
        rng = np.random.default_rng(0)
        X = blobs(n, d, max(k, 2))
        X[rng.random(X.shape) < 0.2] = np.nan
        fit = seconds(lambda X=X, k=k: jensen.GaussianMixture(k, random_state=0).fit(X).impute(X))
        peer = seconds(lambda X=X: IterativeImputer(random_state=0).fit_transform(X))
        print(f"patterns ({n}, {d}, {k}): {fit:.2f} s, IterativeImputer {peer:.2f} s", flush=True)


def optima(quick: bool) -> None:
    """Known optima of Old Faithful's eruptions, from ten seeds; needs --data, a folder with pydataset_faithful.csv."""
    if DATA is None:
        print("no --data given")
        return
    X = np.loadtxt(DATA / "pydataset_faithful.csv", delimiter=",", skiprows=1, usecols=(1, 2), quotechar='"')
    for structure, k, known in (("tied", 3, -1126.3159), ("full", 2, -1130.2640)):
        fits = [
            jensen.GaussianMixture(k, covariance_type=structure, tol=1e-9, max_iter=5000, random_state=seed).fit(X)
            for seed in range(10)
        ]
        reached = {round(float(model.score_samples(X).sum()), 4) for model in fits}
        print(f"faithful, {structure} {k}: {reached} (known: {known})")


def imports(quick: bool) -> None:
    def best(code: str) -> float:
        script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        runs = [
            subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(5)
        ]
        return min(float(run.stdout) for run in runs)

    beyond = best("from jensen import GaussianMixture") - best("import torch, sklearn.base")
    help_time = min(
        seconds(lambda: subprocess.run(["jensen", "--help"], capture_output=True, check=True)) for _ in range(5)
    )
    print(f"import jensen {best('import jensen'):.3f} s (target: 0.1)")
    print(f"GaussianMixture beyond torch and sklearn.base {beyond:.3f} s (target: 0.3)")
    print(f"jensen --help {help_time:.3f} s (target: 0.6)")


PARTS = {f.__name__: f for f in (iteration, structures, fit, memory, missing, patterns, optima, imports)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--data", type=Path, help="folder with pydataset_faithful.csv, for `optima`")
    arguments = parser.parse_args()
    DATA = arguments.data
    versions = {"jensen": jensen.__version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__}
    print(json.dumps(versions | {"threads": THREADS}))
    for part in arguments.parts or PARTS:
        print(f"\n{part}")
        PARTS[part](arguments.quick)
