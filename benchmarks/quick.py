"""A quick check of speed and memory against peers, for every release: ratios in JSON, and what fell since the last one.

    python benchmarks/quick.py [-o FILE] [--against FILE] [--repeats N] [case ...]
Every case is the same work twice, ours and that of a peer, in one process with one thread: the same rows, and the same
start and number of steps where both allow it. `ratio` is the peer's processor time divided by ours, so more is better,
and 2 means half of the peer's time. Runs alternate, and the ratio is the median over pairs. Processor time counts, not
the clock, so that a busy machine disturbs it less. Memory is the peak of one run in a process of its own, above what
was there before. With --against, cases whose ratio fell by more than 10 %, and those that need 10 % and 5 MB more
memory, are printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import sklearn.cluster
import sklearn.decomposition
import sklearn.mixture
import torch
from measuring import peak_memory
from scipy.sparse import csr_array
from torch import nn

import jensen

torch.set_num_threads(1)
FALL = 0.1
LEAST_MB = 5.0
# Short cases are repeated more often than asked for.
ENOUGH_SECONDS, MOST_PAIRS = 6.0, 60
PACKAGES = ("jensen", "numpy", "scipy", "scikit-learn", "torch")
Calls = tuple[Callable[[], Any], Callable[[], Any]]


def clusters(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return 2 * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def gaussian_mixture() -> Calls:
    """20 EM steps of 8 full Gaussians on 20 000 rows of 10 columns, from the same start."""
    k, d = 8, 10
    X = clusters(20_000, d, k)
    start = {"weights_init": np.full(k, 1 / k), "means_init": X[:k], "precisions_init": np.tile(np.eye(d), (k, 1, 1))}
    options = {**start, "max_iter": 20, "tol": 0.0, "init_params": "random", "random_state": 0}
    return lambda: jensen.GaussianMixture(k, **options).fit(X), lambda: sklearn.mixture.GaussianMixture(
        k, **options
    ).fit(X)


def mixture_scores() -> Calls:
    """ln p of 100 000 rows of 10 columns under 8 full Gaussians."""
    X = clusters(100_000, 10, 8)
    ours = jensen.GaussianMixture(8, max_iter=5, random_state=0).fit(X[:5000])
    theirs = sklearn.mixture.GaussianMixture(8, max_iter=5, random_state=0).fit(X[:5000])
    return lambda: ours.score_samples(X), lambda: theirs.score_samples(X)


def kmeans() -> Calls:
    """30 steps of Lloyd's algorithm, 32 centres, 50 000 rows of 16 columns, from the same start."""
    X = clusters(50_000, 16, 32)
    options = {"init": X[:32], "n_init": 1, "max_iter": 30, "tol": 0.0}
    return lambda: jensen.KMeans(32, **options).fit(X), lambda: sklearn.cluster.KMeans(32, **options).fit(X)


def factor_analysis() -> Calls:
    """A whole fit of 5 factors to 20 000 rows of 50 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5)) @ rng.normal(size=(5, 50)) + rng.normal(size=(20_000, 50))
    return lambda: jensen.FactorAnalysis(5).fit(X), lambda: sklearn.decomposition.FactorAnalysis(5).fit(X)


def topics() -> Calls:
    """5 sweeps of 10 topics through 2000 documents of 100 words, out of 2000 words."""
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(2000, 0.05), size=10)
    shares = rng.dirichlet(np.full(10, 0.2), size=2000)
    counts = csr_array(np.stack([rng.multinomial(100, share @ words) for share in shares]).astype(np.float64))
    options = {"learning_method": "batch", "max_iter": 5, "random_state": 0}
    return lambda: jensen.LatentDirichletAllocation(10, tol=0.0, **options).fit(
        counts
    ), lambda: sklearn.decomposition.LatentDirichletAllocation(10, **options).fit(counts)


def vae() -> Calls:
    """5 epochs on 8192 rows of 64 pixels, and a plain torch loop with the same networks and optimiser."""
    rng = np.random.default_rng(0)
    X = (rng.random((8192, 64)) < rng.random((8192, 1))).astype(np.float32)
    hidden, n_latent, n_epochs, size = 128, 8, 5, 128
    trainer = jensen.Trainer(validation_fraction=0, averaging=None, clip=None, decay=None)
    recipe = jensen.MLP((hidden,))
    options = {"encoder": recipe, "decoder": recipe, "likelihood": "bernoulli", "trainer": trainer, "random_state": 0}

    def bare() -> None:
        torch.manual_seed(0)
        x = torch.from_numpy(X)
        encoder = nn.Sequential(nn.Linear(64, hidden), nn.SiLU(), nn.Linear(hidden, 2 * n_latent))
        decoder = nn.Sequential(nn.Linear(n_latent, hidden), nn.SiLU(), nn.Linear(hidden, 64))
        optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3, fused=True)
        for _ in range(n_epochs):
            for index in torch.randperm(len(x)).split(size):
                batch = x[index]
                mean, log_var = encoder(batch).chunk(2, dim=1)
                z = mean + (log_var / 2).exp() * torch.randn_like(mean)
                loss = nn.functional.binary_cross_entropy_with_logits(decoder(z), batch, reduction="sum") / len(batch)
                loss = loss + (mean.square() + log_var.exp() - 1 - log_var).sum() / 2 / len(batch)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    return lambda: jensen.VAE(n_latent, max_epochs=n_epochs, batch_size=size, **options).fit(X), bare


CASES: dict[str, tuple[str, Callable[[], Calls]]] = {
    "gaussian_mixture": ("scikit-learn", gaussian_mixture),
    "mixture_scores": ("scikit-learn", mixture_scores),
    "kmeans": ("scikit-learn", kmeans),
    "factor_analysis": ("scikit-learn", factor_analysis),
    "topics": ("scikit-learn", topics),
    "vae": ("plain torch", vae),
}


def processor_seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def memory(name: str, side: int) -> float | None:
    """MB, on Linux."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    folder = str(Path(__file__).parent)
    setup = f"sys.path.insert(0, {folder!r}); import quick; call = quick.CASES[{name!r}][1]()[{side}]"
    return round(peak_memory(setup, "call()"), 1)


def measured(name: str, n_repeats: int) -> dict[str, Any]:
    peer, make = CASES[name]
    calls = make()
    for call in calls:  # first calls load and compile
        call()
    once = sum(processor_seconds(call) for call in calls)
    n_pairs = max(n_repeats, min(MOST_PAIRS, int(ENOUGH_SECONDS / once)))
    pairs = [tuple(processor_seconds(call) for call in calls) for _ in range(n_pairs)]
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    return {
        "work": make.__doc__,
        "peer": peer,
        "ratio": round(statistics.median(ratios), 3),
        "quartiles": [round(value, 3) for value in np.quantile(ratios, [0.25, 0.75])],
        "pairs": n_pairs,
        "seconds": round(statistics.median(ours for ours, _ in pairs), 3),
        "peer_seconds": round(statistics.median(theirs for _, theirs in pairs), 3),
        "memory_mb": memory(name, 0),
        "peer_memory_mb": memory(name, 1),
    }


def facts() -> dict[str, Any]:
    return {
        "measure": "processor time of one thread, medians over pairs of runs; the machine may have had other work",
        "cores": os.cpu_count(),
        "threads": 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: jensen.__version__ if name == "jensen" else version(name) for name in PACKAGES},
    }


def falls(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is worse now, one line each; cases that only one of both has are named as well."""
    lines = []
    for name, old in before["cases"].items():
        new = now["cases"].get(name)
        if new is None:
            lines.append(f"{name}: was not measured; it had {old['ratio']:.2f} x the speed of {old['peer']}")
            continue
        if new["ratio"] < (1 - FALL) * old["ratio"]:
            share, peer = 1 - new["ratio"] / old["ratio"], old["peer"]
            lines.append(f"{name}: speed fell by {share:.0%}, from {old['ratio']:.2f} to {new['ratio']:.2f} x {peer}'s")
        was, needs = old["memory_mb"], new["memory_mb"]
        if was is not None and needs is not None and needs > max((1 + FALL) * was, was + LEAST_MB):
            lines.append(f"{name}: memory rose from {was:.0f} to {needs:.0f} MB")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of: {', '.join(CASES)}")
    parser.add_argument("-o", "--output", type=Path, help="JSON file to write")
    parser.add_argument("--against", type=Path, help="JSON file of an earlier version")
    parser.add_argument("--now", type=Path, help="JSON file to compare instead of a new measurement")
    parser.add_argument("--repeats", type=int, default=7, help="least number of pairs of runs of each case")
    options = parser.parse_args()
    if unknown := sorted(set(options.cases) - set(CASES)):
        parser.error(f"there is no case {', '.join(unknown)}; choose from {', '.join(CASES)}")
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats} must be 1 or more")
    before = None if options.against is None else json.loads(options.against.read_text(encoding="utf-8"))
    if options.now is not None:
        now = json.loads(options.now.read_text(encoding="utf-8"))
    else:
        now = {"facts": facts(), "cases": {}}
        for name in options.cases or CASES:
            now["cases"][name] = found = measured(name, options.repeats)
            needed = "" if found["memory_mb"] is None else f", {found['memory_mb']:.0f} MB"
            peer = "" if found["peer_memory_mb"] is None else f" ({found['peer_memory_mb']:.0f} MB)"
            print(f"{name}: {found['ratio']:.2f} x the speed of {found['peer']}{needed}{peer}", flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    if before is not None:
        if options.cases:
            before["cases"] = {name: case for name, case in before["cases"].items() if name in options.cases}
        lines = falls(before, now)
        print("\n".join(lines) or f"nothing fell by more than {FALL:.0%} since {before['facts']['jensen']}")
        sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
