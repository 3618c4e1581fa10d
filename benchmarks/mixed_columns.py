"""Mixture on yes/no columns and on mixed tables, compared with StepMix and pomegranate: EM steps, whole fits, memory.

    python benchmarks/mixed_columns.py [--quick] [--data DIR] [part ...]
All three run in this process, in turns, from the same parameters for the same number of EM steps, on two threads; their
final ln p is compared after 11 steps. "step" is the difference of a long fit and one of a single step, divided by the
steps between them: 40, or 10 where a fit takes longer than ten seconds. "fit" is the fit of 11 steps with everything
around it, for Mixture also reading the table. "CPU" is the processor time of a step, which other programs disturb less.
Figures are medians of three; a library 15 times slower than the fastest runs once.
StepMix computes in float64 as Mixture does, pomegranate in float32, its only precision. StepMix
keeps every probability of a level above 1e-15, which sends rows with rare levels of Adult to other components: without
that clip its ln p after 11 steps equals Mixture's to 8 decimals, with it the two differ by 5e-5.

    bernoulli   1e5 rows, 100 yes/no columns, 20 components
    adult       Adult (adult.data.gz in --data) repeated to 1e5 rows of 14 columns, 10 components; numbers are
                standardised and have noise of a tenth of a standard deviation, because 0 capital gain in all rows of a
                component would bring its variance to the libraries' different floors; covariances are diagonal
    million     a default fit to a million rows of 8 mixed columns, 5 % of the entries missing: seconds and peak memory
    profile     where the time of these fits goes

The peers are not in the extra "bench"; they were run in an environment of their own, with the pins of constraints.txt:
    pip install -c constraints.txt torch==2.13.0 stepmix==3.0.0 pomegranate==1.1.2 narwhals safetensors tqdm rich typer
"""

from __future__ import annotations

import copy
import cProfile
import gzip
import json
import os
import pstats
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Threads that spin while they wait slow every torch program on a busy machine.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

from measuring import THREADS, peak_memory, run_parts, seconds  # isort: skip (thread counts come first)

import numpy as np
import pandas as pd
import torch

from jensen import Mixture

torch.set_num_threads(THREADS)
REPEATS, STEPS = 3, 10
SHORT, SLOW = 10.0, 15.0  # seconds below which more steps are timed; how many times slower is not repeated
ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
ADULT_NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]

Run = Callable[[int], Any]


def adult(folder: Path) -> pd.DataFrame:
    """The 14 columns of Adult as they stand in the file, without the class."""
    with gzip.open(folder / "adult.data.gz", "rt") as file:
        table = pd.read_csv(file, names=ADULT, skipinitialspace=True)
    return table.drop(columns="income")


def compare(runs: dict[str, Run], scores: dict[str, Callable[[Any], float]]) -> None:
    """Seconds of a step and of a fit, and the final ln p of every library."""
    steps: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    fits: dict[str, list[float]] = {name: [] for name in runs}
    found = {}

    def timed(run: Run, n_steps: int) -> tuple[float, float, Any]:
        began, cpu_began = time.perf_counter(), time.process_time()
        model = run(n_steps)
        return time.perf_counter() - began, time.process_time() - cpu_began, model

    for repetition in range(REPEATS):
        for name, run in runs.items():
            if repetition and fits[name][0] > SLOW * min(times[0] for times in fits.values()):
                continue
            short, short_cpu, _ = timed(run, 1)
            fit, long_cpu, found[name] = timed(run, 1 + STEPS)
            long, n_steps = fit, STEPS
            if fit < SHORT:
                (long, long_cpu, _), n_steps = timed(run, 1 + 4 * STEPS), 4 * STEPS
            fits[name].append(fit)
            steps[name].append((long - short) / n_steps)
            cpu[name].append((long_cpu - short_cpu) / n_steps)
    print(f"{'':>12} {'step, s':>9} {'CPU, s':>9} {'fit, s':>9} {'ln p per row':>16}   steps of every repetition")
    for name in runs:
        figures = (statistics.median(values[name]) for values in (steps, cpu, fits))
        each = ", ".join(f"{value:.4f}" for value in steps[name])
        print(f"{name:>12} {' '.join(f'{v:9.4f}' for v in figures)} {scores[name](found[name]):16.8f}   {each}")

    def ratio(values: dict[str, list[float]]) -> float:
        median = {name: statistics.median(values[name]) for name in runs}
        return min(median[name] for name in runs if name != "jensen") / median["jensen"]

    print(
        f"the faster peer's time divided by jensen's: {ratio(steps):.1f} a step ({ratio(cpu):.1f} in CPU time), "
        f"{ratio(fits):.1f} a fit; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def jensen_run(start: Mixture, X: Any) -> Run:
    def run(n_steps: int) -> Mixture:
        model = copy.copy(start).set_params(max_iter=n_steps, tol=0.0, warm_start=True)
        return model.fit(X)

    return run


def stepmix_run(k: int, measurement: Any, start: dict[str, Any], X: np.ndarray) -> Run:
    from stepmix.stepmix import StepMix

    class Started(StepMix):  # type: ignore[misc]
        def _initialize_parameters(self, X: Any, random_state: Any) -> None:
            self.set_parameters(copy.deepcopy(start))

    def run(n_steps: int) -> Any:
        model = Started(k, measurement=measurement, max_iter=n_steps, abs_tol=0, rel_tol=0, progress_bar=0)
        model.fit(X)
        assert model.n_iter_ == n_steps
        return model

    return run


def pomegranate_run(parts: Callable[[], list[Any]], weights: np.ndarray, X: torch.Tensor) -> Run:
    from pomegranate.gmm import GeneralMixtureModel

    def run(n_steps: int) -> Any:
        model = GeneralMixtureModel(parts(), priors=weights.astype(np.float32), max_iter=n_steps, tol=-np.inf)
        return model.fit(X)

    return run


def bernoulli_runs(n: int, d: int, k: int) -> tuple[dict[str, Run], dict[str, Callable[[Any], float]]]:
    from pomegranate.distributions import Bernoulli

    rng = np.random.default_rng(0)
    p = 0.05 + 0.9 * rng.beta(0.7, 0.7, size=(k, d))  # none so rare that pomegranate meets 0 ln 0
    X = (rng.random((n, d)) < p[rng.integers(k, size=n)]).astype(np.float64)
    start = Mixture(k, families="bernoulli", init_params="random_from_data", max_iter=0, random_state=0).fit(X)
    weights, theta = start.weights_, start.theta_.components.parts[0].probabilities.numpy()
    own = {"weights": weights, "measurement": {"pis": theta}, "measurement_in": d}
    single = torch.from_numpy(X.astype(np.float32))
    runs = {
        "jensen": jensen_run(start, X),
        "StepMix": stepmix_run(k, "binary", own, X),
        "pomegranate": pomegranate_run(
            lambda: [Bernoulli(probs=row.astype(np.float32)) for row in theta], weights, single
        ),
    }
    return runs, {
        "jensen": lambda model: float(model.score(X)),
        "StepMix": lambda model: float(model.score(X)),
        "pomegranate": lambda model: float(model.log_probability(single).double().mean()),
    }


def bernoulli(quick: bool, data: Path | None) -> None:
    compare(*bernoulli_runs(10_000 if quick else 100_000, 100, 20))


def repeated_adult(folder: Path, n: int) -> pd.DataFrame:
    table = adult(folder)
    rng = np.random.default_rng(0)
    table = table.iloc[np.resize(np.arange(len(table)), n)].reset_index(drop=True)
    numbers = table[ADULT_NUMBERS]
    table[ADULT_NUMBERS] = (numbers - numbers.mean()) / numbers.std() + 0.1 * rng.normal(size=numbers.shape)
    return table


def adult_start(table: pd.DataFrame, k: int) -> Mixture:
    return Mixture(
        k,
        families=dict.fromkeys(ADULT_NUMBERS, "gaussian"),
        covariance_type="diag",
        init_params="random_from_data",
        max_iter=0,
        random_state=0,
    ).fit(table)


def level_shares(found: dict[str, np.ndarray]) -> np.ndarray:
    """Probabilities (K, L) of the levels of a column, or of no and yes."""
    if "probability" in found:
        return np.column_stack([1 - found["probability"], found["probability"]])
    return found["probabilities"]


def adult_runs(table: pd.DataFrame, k: int) -> tuple[dict[str, Run], dict[str, Callable[[Any], float]]]:
    from pomegranate.distributions import Categorical, IndependentComponents, Normal

    class Levels(Categorical):  # type: ignore[misc]
        """pomegranate's Categorical reads whole-number tensors only, so a mixed table needs this cast."""

        def log_probability(self, X: torch.Tensor) -> torch.Tensor:
            return super().log_probability(X.long())

        def summarize(self, X: torch.Tensor, sample_weight: Any = None) -> None:
            super().summarize(X.long(), sample_weight)

    start = adult_start(table, k)
    weights, found = start.weights_, start.parameters_
    names = [name for name in table if name not in ADULT_NUMBERS]
    levels = dict(zip(start.columns_.names, start.columns_.levels, strict=True))
    codes = np.column_stack([pd.Categorical(table[name], categories=levels[name]).codes for name in names])
    assert codes.min() >= 0
    X = np.column_stack([table[ADULT_NUMBERS].to_numpy(), codes])
    most = max(len(levels[name]) for name in names)
    # StepMix gives every column as many levels as the largest has.
    shares = [level_shares(found[name]) for name in names]
    padded = [np.pad(p, ((0, 0), (0, most - p.shape[1]))) for p in shares]
    measurement = {
        "numbers": {"model": "gaussian_diag", "n_columns": len(ADULT_NUMBERS), "reg_covar": 0.0},
        "levels": {"model": "categorical", "n_columns": len(names)},
    }
    means = np.column_stack([found[name]["mean"] for name in ADULT_NUMBERS])
    variances = np.column_stack([found[name]["variance"] for name in ADULT_NUMBERS])
    outcomes = {"max_n_outcomes": most, "total_outcomes": sum(len(levels[name]) for name in names)}
    own = {
        "weights": weights,
        "measurement": {
            "numbers": {"means": means, "covariances": variances},
            "levels": {"pis": np.concatenate(padded, 1), **outcomes},
        },
        "measurement_in": X.shape[1],
    }
    single = torch.from_numpy(X.astype(np.float32))

    def parts() -> list[Any]:
        components = []
        for i in range(k):
            numbers = [
                Normal(means[i, j : j + 1].astype(np.float32), variances[i, j : j + 1].astype(np.float32), "diag")
                for j in range(len(ADULT_NUMBERS))
            ]
            others = [Levels(p[i : i + 1].astype(np.float32)) for p in shares]
            components.append(IndependentComponents(numbers + others))
        return components

    runs = {
        "jensen": jensen_run(start, table),
        "StepMix": stepmix_run(k, measurement, own, X),
        "pomegranate": pomegranate_run(parts, weights, single),
    }
    return runs, {
        "jensen": lambda model: float(model.score(table)),
        "StepMix": lambda model: float(model.score(X)),
        "pomegranate": lambda model: float(model.log_probability(single).double().mean()),
    }


def adult_part(quick: bool, data: Path | None) -> None:
    if data is None:
        print("needs --data, a folder with adult.data.gz")
        return
    compare(*adult_runs(repeated_adult(data, 10_000 if quick else 100_000), 10))


MILLION = """
import numpy as np, pandas as pd
def million(n):
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=n)
    table = pd.DataFrame({
        "height": rng.normal(160 + 6 * z, 7), "weight": rng.normal(60 + 8 * z, 9), "income": rng.normal(10 + z, 1.5),
        "visits": rng.poisson(np.array([1.0, 3.0, 6.0, 2.0])[z]).astype(float),
        "calls": rng.poisson(np.array([0.5, 4.0, 1.0, 2.0])[z]).astype(float),
        "smokes": (rng.random(n) < np.array([0.1, 0.3, 0.6, 0.8])[z]).astype(float),
        "town": pd.Categorical.from_codes((z + rng.integers(3, size=n)) % 6, list("ABCDEF")),
        "job": pd.Categorical.from_codes((2 * z + rng.integers(4, size=n)) % 10, list("abcdefghij")),
    })
    for name in table:
        table.loc[rng.random(n) < 0.05, name] = np.nan
    return table
"""


def million(quick: bool, data: Path | None) -> None:
    n, k = 100_000 if quick else 1_000_000, 4
    scope: dict[str, Any] = {}
    exec(MILLION, scope)
    table = scope["million"](n)
    took = []
    for seed in range(REPEATS):
        one, model = seconds(lambda seed=seed: Mixture(k, random_state=seed).fit(table))
        took.append(one)
        print(
            f"seed {seed}: {one:.1f} s, {model.n_iter_} steps, ln p {model.score(table.head(100_000)):.5f}", flush=True
        )
    print({str(name): family for name, family in model.families_.items()})
    as_table = table.memory_usage(deep=True).sum() / 2**20
    as_numbers = n * table.shape[1] * 8 / 2**20
    above = peak_memory(
        f"{MILLION}\nfrom jensen import Mixture\ntable = million({n})\n"
        f"Mixture({k}, random_state=0).fit(table.head(2000))",
        f"Mixture({k}, random_state=0).fit(table)",
    )
    print(
        f"({n}, 8, {k}): {statistics.median(took):.1f} s a default fit; peak memory above the data {above:.0f} MB, "
        f"{above / as_numbers:.2f} times its {as_numbers:.0f} MB as numbers ({as_table:.0f} MB as a DataFrame); "
        f"load {os.getloadavg()[0]:.1f}"
    )


def profile(quick: bool, data: Path | None) -> None:
    scope: dict[str, Any] = {}
    exec(MILLION, scope)
    table = scope["million"](50_000 if quick else 500_000)
    fits = {"million": lambda: Mixture(4, random_state=0).fit(table)}
    runs, _ = bernoulli_runs(10_000 if quick else 100_000, 100, 20)
    fits["bernoulli"] = lambda: runs["jensen"](1 + STEPS)
    if data is not None:
        of_adult = repeated_adult(data, 10_000 if quick else 100_000)
        from_here = jensen_run(adult_start(of_adult, 10), of_adult)
        fits["adult"] = lambda: from_here(1 + STEPS)
    for name, fit in fits.items():
        watch = cProfile.Profile()
        took, _ = seconds(lambda fit=fit, watch=watch: watch.runcall(fit))
        print(f"\n{name}: {took:.2f} s")
        pstats.Stats(watch).sort_stats("tottime").print_stats(14)


PARTS = {"bernoulli": bernoulli, "adult": adult_part, "million": million, "profile": profile}

if __name__ == "__main__":
    print(json.dumps({"torch": torch.__version__, "numpy": np.__version__, "threads": THREADS}))
    run_parts(__doc__, PARTS)
