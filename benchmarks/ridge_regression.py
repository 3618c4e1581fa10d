"""RidgeRegression compared with scikit-learn: a path of 100 λ, λ and σ² by evidence; seconds, agreement, memory.

    python benchmarks/ridge_regression.py [--quick] [--repeats N] [part ...]
One thread each; seconds are medians, a ratio is scikit-learn's time divided by jensen's.
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
from typing import Any

THREADS = 1
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402 (thread counts come first)
import sklearn  # noqa: E402
import torch  # noqa: E402
from sklearn.linear_model import BayesianRidge, Ridge, RidgeCV  # noqa: E402

import jensen  # noqa: E402

torch.set_num_threads(THREADS)

REPEATS = 5
SIZES = [(1000, 20), (10_000, 50), (100_000, 100), (2000, 500), (200, 2000)]
LAMBDAS = np.logspace(-3, 4, 100)


def table(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Features with a common part, and coefficients drawn from the prior of the model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, p)) + rng.normal(size=(n, 1)) + 3
    return x, x @ rng.normal(size=p) / np.sqrt(p) + rng.normal(size=n)


def sizes(quick: bool) -> list[tuple[int, int]]:
    return [(n // 5, p // 5) for n, p in SIZES] if quick else SIZES


def median_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        answer = call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken), answer


def our_path(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return jensen.RidgeRegression().fit(x, y).path(LAMBDAS)[0]


def their_path(x: np.ndarray, y: np.ndarray, solver: str) -> np.ndarray:
    return np.array([Ridge(alpha, solver=solver).fit(x, y).coef_ for alpha in LAMBDAS])


def path(quick: bool) -> None:
    """100 λ: one fit and `path`; one Ridge per λ; and RidgeCV, which keeps the coefficients of one λ."""
    names = ("jensen s", "Ridge s", "ratio", "RidgeCV s", "ratio", "one fit s", "one Ridge s", "ratio", "difference")
    print(f"{'(n, p)':>16}" + "".join(f"{name:>12}" for name in names))
    for n, p in sizes(quick):
        x, y = table(n, p)
        ours, coefs = median_seconds(partial(our_path, x, y))
        theirs, expected = median_seconds(partial(their_path, x, y, "auto"))
        searched, _ = median_seconds(partial(RidgeCV(LAMBDAS).fit, x, y))
        one, _ = median_seconds(partial(jensen.RidgeRegression().fit, x, y))
        peer, _ = median_seconds(partial(Ridge().fit, x, y))
        apart = np.abs(coefs - expected).max() / np.abs(expected).max()
        figures = [ours, theirs, theirs / ours, searched, searched / ours, one, peer, peer / one]
        print(f"{(n, p)!s:>16}" + "".join(f"{figure:12.4f}" for figure in figures) + f"{apart:12.1e}", flush=True)


def evidence(quick: bool) -> None:
    """λ and σ² by evidence; BayesianRidge without hyperpriors has the same objective when there is no intercept."""
    flat = dict.fromkeys(("alpha_1", "alpha_2", "lambda_1", "lambda_2"), 0.0)
    names = ("jensen s", "sklearn s", "ratio", "steps", "their steps", "nats above")
    print(f"{'(n, p)':>16}" + "".join(f"{name:>12}" for name in names))
    for n, p in sizes(quick):
        x, y = table(n, p)
        model = jensen.RidgeRegression("evidence", fit_intercept=False)
        ours, _ = median_seconds(partial(model.fit, x, y))
        peer = BayesianRidge(fit_intercept=False, **flat)
        theirs, _ = median_seconds(partial(peer.fit, x, y))
        at = jensen.RidgeRegression(peer.lambda_ / peer.alpha_, noise_variance=1 / peer.alpha_, fit_intercept=False)
        above = model.log_evidence_ - at.fit(x, y).log_evidence_
        figures = [ours, theirs, theirs / ours, model.n_iter_, peer.n_iter_]
        print(f"{(n, p)!s:>16}" + "".join(f"{figure:12.4f}" for figure in figures) + f"{above:12.1e}", flush=True)


MEMORY = """
import sys
sys.path.insert(0, {folder!r})
from ridge_regression import *
run = {run}
run(*table(500, 5))
x, y = table({n}, {p})
status = lambda key: int(open('/proc/self/status').read().split(key + ':')[1].split()[0])
open('/proc/self/clear_refs', 'w').write('5')  # forget the peak so far
before = status('VmRSS')
run(x, y)
print((status('VmHWM') - before) / 1024)
"""


def memory(quick: bool) -> None:
    """Peak resident memory of one path above the given table, each in a separate process."""
    n, p = (20_000, 100) if quick else (500_000, 100)
    runs = {
        "jensen": "our_path",
        "Ridge per λ": "partial(their_path, solver='auto')",
        "RidgeCV": "RidgeCV(LAMBDAS).fit",
        "BayesianRidge": "BayesianRidge().fit",
    }
    for name, run in runs.items():
        script = MEMORY.format(folder=os.path.dirname(os.path.abspath(__file__)), run=run, n=n, p=p)
        above = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        print(f"{name}: {float(above.stdout):.1f} MB above a table of {n * p * 8 / 2**20:.0f} MB")


PARTS = {f.__name__: f for f in (path, evidence, memory)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows and features")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args()
    REPEATS = arguments.repeats
    versions = {"jensen": jensen.__version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__}
    print(json.dumps(versions | {"threads": THREADS}))
    for part in arguments.parts or PARTS:
        print(f"\n{part}")
        PARTS[part](arguments.quick)
