"""Probabilistic PCA, factor analysis and mixtures of them, compared with scikit-learn, ppca and bayespy.

    python benchmarks/subspaces.py [--quick] [--data DIR] [part ...]
Two threads, one process, medians. The likelihoods of other libraries are computed from their parameters with jensen's
density: `ppca` has no noise variance, so the best one for its axes is used; for bayespy, W and σ² are posterior means.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import gzip
import statistics
import time
from functools import partial
from pathlib import Path

from measuring import THREADS, peak_memory, run_parts, seconds  # first: it sets the number of threads

import numpy as np
import sklearn.decomposition
import torch

import jensen
from jensen.models.factors.subspace import SubspaceGaussians
from jensen.models.factors.fit import one
from jensen.models.mixtures.inference import log_evidence

torch.set_num_threads(THREADS)


def factors(n: int, d: int, m: int, seed: int = 0) -> np.ndarray:
    """Rows from m factors of decreasing strength, with a different noise variance in every feature."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(m, d)) * np.linspace(2, 0.5, m)[:, None]
    return rng.normal(size=(n, m)) @ loadings + rng.normal(size=(n, d)) * rng.uniform(0.5, 1.5, size=d) + 3.0


def complete(quick: bool, data: Path | None) -> None:
    """Closed forms, compared with the fastest solver of scikit-learn's PCA."""
    n, d, m = 100_000 if quick else 1_000_000, 50, 10
    x = factors(n, d, m)
    solvers = {name: [] for name in ("covariance_eigh", "full", "randomized", "arpack")}
    ours = []
    for _ in range(3 if quick else 5):
        for name, times in solvers.items():
            if name == "covariance_eigh" or len(times) < 2:
                times.append(seconds(partial(sklearn.decomposition.PCA(m, svd_solver=name, random_state=0).fit, x))[0])
        took, model = seconds(partial(jensen.ProbabilisticPCA(m).fit, x))
        ours.append(took)
    medians = {name: statistics.median(times) for name, times in solvers.items()}
    print(f"({n}, {d}, m={m}): " + ", ".join(f"{name} {value:.3f} s" for name, value in medians.items()))
    mine = statistics.median(ours)
    print(
        f"jensen {mine:.3f} s: {min(medians.values()) / mine:.2f} x the fastest; ln p {model.lower_bound_:.5f} per row"
    )
    setup = f"from {{}} import {{}} as M; x = np.random.default_rng(0).normal(size=({n}, {d})); M(2).fit(x[:1000])"
    for module, name in (("sklearn.decomposition", "PCA"), ("jensen", "ProbabilisticPCA")):
        above = peak_memory(setup.format(module, name), f"M({m}).fit(x)")
        print(f"{name:>18}: peak memory {above:.0f} MB above the data's {x.nbytes / 2**20:.0f} MB")


def missing_values(quick: bool, data: Path | None) -> None:
    """30 % missing: whole fits at the defaults of each library, and the likelihood of the observed entries."""
    import bayespy
    import ppca

    n, d, m = 2_000 if quick else 20_000, 100, 10
    x = factors(n, d, m)
    x[np.random.default_rng(1).random(x.shape) < 0.3] = np.nan
    times = []
    for _ in range(3):
        took, model = seconds(partial(jensen.ProbabilisticPCA(m, random_state=0).fit, x))
        times.append(took)
    ours = statistics.median(times)
    print(f"({n}, {d}, m={m}), 30 % missing")
    print(f"jensen   {ours:8.2f} s  ln p {model.lower_bound_:.5f}  {model.n_iter_} steps, {model.converged_=}")

    peer = ppca.PPCA()
    took, _ = seconds(partial(peer.fit, x.copy(), d=m))
    axes, unit = peer.C, peer.stds
    # Its axes are those of standardised features, so the noise is proportional to their standard deviations.
    standard = (x - peer.means) / unit
    log_units = float((~np.isnan(x) * np.log(unit)).sum(1).mean())
    score = max(score_of(standard, np.zeros(d), axes * np.sqrt(peer.eig_vals), s) for s in np.linspace(0.05, 1.0, 39))
    print(f"ppca     {took:8.2f} s  ln p {score - log_units:.5f}  {took / ours:.1f} x the time of jensen")
    standardised = jensen.ProbabilisticPCA(m, random_state=0)
    took, _ = seconds(partial(standardised.fit, standard))
    score = standardised.lower_bound_ - log_units
    print(f"  jensen on the same standardised features: {took:.2f} s, ln p {score:.5f}")

    centred, seen = np.nan_to_num(x - np.nanmean(x, 0)).T, ~np.isnan(x).T
    began = time.perf_counter()
    latent = bayespy.nodes.GaussianARD(0, 1, plates=(1, n), shape=(m,))
    alpha = bayespy.nodes.Gamma(1e-5, 1e-5, plates=(m,))
    loadings = bayespy.nodes.GaussianARD(0, alpha, plates=(d, 1), shape=(m,))
    tau = bayespy.nodes.Gamma(1e-5, 1e-5)
    y = bayespy.nodes.GaussianARD(bayespy.nodes.SumMultiply("i,i", loadings, latent), tau)
    y.observe(centred, mask=seen)
    rng = np.random.default_rng(0)
    latent.initialize_from_parameters(rng.normal(size=(1, n, m)), 10)
    loadings.initialize_from_parameters(rng.normal(size=(d, 1, m)), 10)
    inference = bayespy.inference.VB(y, latent, loadings, alpha, tau)
    inference.update(repeat=200, verbose=False)
    took = time.perf_counter() - began
    w, noise = (
        np.asarray(loadings.get_moments()[0]).reshape(d, m),
        1 / float(np.asarray(tau.get_moments()[0]).squeeze()),
    )
    score = score_of(x, np.nanmean(x, 0), w, noise)
    print(f"bayespy  {took:8.2f} s  ln p {score:.5f}  {took / ours:.1f} x the time of jensen, {inference.iter} steps")


def score_of(x: np.ndarray, mean: np.ndarray, loadings: np.ndarray, noise: float) -> float:
    parts = (torch.from_numpy(np.ascontiguousarray(part)[None]) for part in (mean, loadings, [noise]))
    return float(log_evidence(one(SubspaceGaussians(*parts)), torch.from_numpy(x)).mean())


def analysis(quick: bool, data: Path | None) -> None:
    """Factor analysis at both libraries' defaults."""
    for n, d, m in ((1_000, 20, 3), (20_000, 50, 10), (100_000, 50, 5), (5_000, 200, 10)):
        x = factors(n // 10 if quick else n, d, m)
        theirs, ours = [], []
        for seed in range(3):
            took, peer = seconds(partial(sklearn.decomposition.FactorAnalysis(m, random_state=seed).fit, x))
            theirs.append(took)
            took, model = seconds(partial(jensen.FactorAnalysis(m, random_state=seed).fit, x))
            ours.append(took)
        a, b = statistics.median(theirs), statistics.median(ours)
        print(
            f"{x.shape}, m={m}: scikit-learn {a:.3f} s, jensen {b:.3f} s: {a / b:.1f} x; ln p {peer.score(x):.6f} and "
            f"{model.score(x):.6f}; {peer.n_iter_} and {model.n_iter_} steps",
            flush=True,
        )


LOAD = """
import gzip
from pathlib import Path
with gzip.open(Path(sys.argv[1]) / "mnist" / "train-images-idx3-ubyte.gz") as file:
    pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
x = pixels + np.random.default_rng(0).random(pixels.shape)
import jensen
jensen.MixtureOfPPCA(2, 2, max_iter=1).fit(x[:500])
"""


def mnist(quick: bool, data: Path | None) -> None:
    """A mixture of PPCA on dequantised MNIST, K = 20, m = 10: seconds per step, bits per pixel, memory."""
    if data is None:
        return print("needs --data")
    sets = {}
    for name in ("train", "t10k"):
        with gzip.open(data / "mnist" / f"{name}-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
        sets[name] = (pixels + np.random.default_rng(0).random(pixels.shape))[: 6_000 if quick else None]
    x = sets["train"]
    model = jensen.MixtureOfPPCA(20, 10, random_state=0, tol=0)
    start, _ = seconds(partial(model.set_params(max_iter=0).fit, x))
    took, _ = seconds(partial(model.set_params(max_iter=10).fit, x))
    print(f"{x.shape}, K=20, m=10: start {start:.1f} s, {(took - start) / 10:.2f} s per step")
    for steps in (30, 100):
        took, _ = seconds(partial(model.set_params(max_iter=steps).fit, x))
        bits = [-model.score(rows) / (784 * np.log(2)) for rows in sets.values()]
        print(f"{steps} steps in {took:.1f} s: {bits[0]:.4f} bits per pixel, {bits[1]:.4f} on test rows", flush=True)
    call = "jensen.MixtureOfPPCA(20, 10, random_state=0, tol=0, max_iter=3).fit(x)"
    print(f"peak memory {peak_memory(LOAD, call, str(data)):.0f} MB above the data's {60000 * 784 * 8 / 2**20:.0f} MB")


if __name__ == "__main__":
    run_parts(__doc__, {"complete": complete, "missing": missing_values, "analysis": analysis, "mnist": mnist})
