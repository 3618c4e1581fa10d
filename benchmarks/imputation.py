"""Imputation of real tables: jensen's exact models compared with scikit-learn's mean, KNN and iterative imputation.

    python benchmarks/imputation.py [--quick] [--data DIR] [part ...]
10, 30 and 50 % of the entries are hidden completely at random, with masks of seeds 5 to 9 (earlier seeds were used to
choose the rule below); a row may lose all of its entries. All imputers get the same table, standardised by the observed
entries. The error is the RMSE over the hidden entries in standard deviations of the complete column, mean ± standard
error over masks; seconds are medians of choice, fit and imputation together, on one thread.

Choices do not use hidden entries: a fifth of the observed entries is hidden as well (of at most 1000 rows), every entry
of a model's grid is fitted to the rest, and the one with the smallest squared error on that fifth is fitted again to
all observed entries. K grows while that error falls. "chosen" is the model with the smallest such error of the five.
"""

from __future__ import annotations

import argparse
import cProfile
import gzip
import os
import pstats
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

THREADS = 1
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402 (thread counts come first)
import torch  # noqa: E402
from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.experimental import enable_iterative_imputer  # noqa: E402, F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer  # noqa: E402

import jensen  # noqa: E402

torch.set_num_threads(THREADS)
warnings.simplefilter("ignore")

SHARES = (0.1, 0.3, 0.5)
SEEDS = range(5, 10)
SEARCH_ROWS = 1000
VALIDATION_SHARE = 0.2
WIDE = 20  # features above which more than two full covariances have too many parameters
DATA: Path | None = None
ONLY: list[str] = []

PEERS: dict[str, Callable[[int], Any]] = {
    "mean": lambda seed: SimpleImputer(),
    "KNN": lambda seed: KNNImputer(),
    "iterative": lambda seed: IterativeImputer(random_state=seed),
}
EXACT = ("PPCA", "factor analysis", "mixture", "mixture of PPCA", "mixture of FA")


class Trial(NamedTuple):
    """A model of the grid, fitted to the entries that the search does not hide."""

    label: str
    make: Callable[[], Any]
    error: float
    model: Any


class Result(NamedTuple):
    error: float
    seconds: float
    label: str


def tables(quick: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Tables without quality and class; red and white wine stacked; concrete with its strength."""
    for name, x in all_tables():
        if ONLY and name not in ONLY:
            continue
        yield name, x[np.random.default_rng(0).permutation(len(x))[:400]] if quick else x


def all_tables() -> Iterator[tuple[str, np.ndarray]]:
    if DATA is not None:
        wines = [
            np.loadtxt(DATA / f"winequality-{colour}.csv", delimiter=";", skiprows=1) for colour in ("red", "white")
        ]
        yield "wine", np.concatenate(wines)[:, :-1]
        with gzip.open(DATA / "concrete.data.txt.gz") as file:
            yield "concrete", np.loadtxt(file)
        yield "yeast", np.loadtxt(DATA / "yeast.data", usecols=range(1, 9))
        yield "banknote", np.loadtxt(DATA / "banknote_authentication.csv", delimiter=",")[:, :-1]
    yield "breast cancer", load_breast_cancer().data


def standardised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    origin, scale = np.nanmean(x, 0), np.nanstd(x, 0)
    scale = np.where(scale > 0, scale, 1.0)
    return (x - origin) / scale, origin, scale


def rmse(filled: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    return float(np.sqrt(np.mean((filled - truth)[where] ** 2)))


def ladders(name: str, d: int, prior: Any) -> list[list[tuple[str, Callable[[], Any]]]]:
    """The grid of a model as sequences of growing sizes; each is followed while the error falls."""
    if name in ("PPCA", "factor analysis"):
        kind = jensen.ProbabilisticPCA if name == "PPCA" else jensen.FactorAnalysis
        sizes = (4, 8, 14, 20) if d >= WIDE else sorted({m for m in (1, 2, 4, 8, d - 1) if m < d})
        # Plain EM is slow where m is nearly d.
        return [[(f"m={m}", lambda m=m: kind(m, prior=prior, acceleration="squarem", random_state=0))] for m in sizes]
    if name == "mixture":
        counts = (1, 2) if d >= WIDE else (1, 3, 10)
        return [[(f"K={k}", lambda k=k: jensen.GaussianMixture(k, prior=prior, random_state=0)) for k in counts]]
    mixture = jensen.MixtureOfPPCA if name == "mixture of PPCA" else jensen.MixtureOfFactorAnalysers
    return [
        [
            (f"K={k}, m={m}", lambda k=k, m=m: mixture(k, m, prior=prior, random_state=0))
            for k in ((1, 3) if d >= WIDE else (1, 3, 10))
        ]
        for m in ((14, 20) if d >= WIDE else sorted({d // 2, d - 1}))
    ]


def search(name: str, z: np.ndarray, seed: int, prior: Any, is_whole: bool = False) -> list[Trial]:
    """Fitted entries of a model's grid, with their errors on the entries that the search hides."""
    rng = np.random.default_rng(1000 + seed)
    rows = z[rng.permutation(len(z))[:SEARCH_ROWS]]
    hidden = (rng.random(rows.shape) < VALIDATION_SHARE) & ~np.isnan(rows)
    left = np.where(hidden, np.nan, rows)
    trials = []
    for ladder in ladders(name, z.shape[1], prior):
        last = np.inf
        for label, make in ladder:
            try:
                model = make().fit(left)
            except (ArithmeticError, ValueError) as failure:
                print(f"{name}, {label} failed: {failure}", flush=True)
                break
            trials.append(Trial(label, make, rmse(model.impute(left), rows, hidden), model))
            if trials[-1].error > last and not is_whole:
                break
            last = trials[-1].error
    return trials


def best(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.error)


def hide(x: np.ndarray, share: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(x.shape) < share


def study(x: np.ndarray, share: float, seed: int) -> dict[str, Result]:
    """Results of every imputer for one mask."""
    hidden = hide(x, share, seed)
    z, origin, scale = standardised(np.where(hidden, np.nan, x))
    truth, deviation = (x - origin) / scale, x.std(0) / scale

    def result(filled: np.ndarray, began: float, label: str = "") -> Result:
        took = time.perf_counter() - began
        return Result(rmse(filled / deviation, truth / deviation, hidden), took, label)

    found: dict[str, Result] = {}
    for name, make in PEERS.items():
        began = time.perf_counter()
        found[name] = result(make(seed).fit_transform(z), began)
    errors = {}
    for name in EXACT:
        began = time.perf_counter()
        winner = best(search(name, z, seed, jensen.ConjugatePrior()))
        errors[name] = winner.error
        found[name] = result(winner.make().fit(z).impute(z), began, winner.label)
    name = min(errors, key=errors.__getitem__)
    found["chosen"] = Result(found[name].error, sum(found[other].seconds for other in EXACT), name)
    return found


def table(quick: bool) -> None:
    """All tables, shares, masks and imputers, as markdown."""
    names = [*PEERS, *EXACT, "chosen"]
    errors, seconds, choices, wins = [], [], [], dict.fromkeys([*names, "an exact model", "within an error"], 0)
    for data, x in tables(quick):
        for share in SHARES[1:2] if quick else SHARES:
            found = [study(x, share, seed) for seed in SEEDS[: 1 if quick else None]]
            mean = {name: float(np.mean([one[name].error for one in found])) for name in names}
            spread = {name: standard_error([one[name].error for one in found]) for name in names}
            took = {name: statistics.median(one[name].seconds for one in found) for name in names}
            row = f"{data} {share:.0%}".replace("%", " %")
            least = min(names[:-1], key=mean.__getitem__)
            wins[least] += 1
            wins["an exact model"] += least in EXACT
            peer = min(PEERS, key=mean.__getitem__)
            wins["chosen"] += mean["chosen"] < mean[peer]
            wins["within an error"] += mean["chosen"] < mean[peer] + max(spread["chosen"], spread[peer])
            cells = {name: f"{mean[name]:.3f} ± {spread[name]:.3f}" for name in names}
            cells[least] = f"**{cells[least]}**"
            errors.append((row, *(cells[name] for name in names)))
            seconds.append((row, *(f"{took[name]:.2f}" for name in names)))
            choices.append((row, *(counted([one[name].label for one in found]) for name in [*EXACT, "chosen"])))
            print(f"{row}: " + ", ".join(f"{name} {cells[name]}" for name in names), flush=True)
    for title, header, rows in (
        ("Error", ("data, hidden", *names), errors),
        ("Seconds", ("data, hidden", *names), seconds),
        ("Choices", ("data, hidden", *EXACT, "chosen"), choices),
    ):
        print(f"\n### {title}\n{markdown(header, rows)}")
    print(f"\nSmallest error in {len(errors)} rows: " + ", ".join(f"{k} {wins[k]}" for k in names[:-1]), end="; ")
    print(f"an exact model in {wins['an exact model']}.")
    print(f"The chosen model is ahead of the best of scikit-learn's three in {wins['chosen']} rows, ", end="")
    print(f"and ahead or within a standard error in {wins['within an error']}.", flush=True)


def standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def counted(labels: Sequence[str]) -> str:
    """Labels with their counts, the most frequent first."""
    count: Mapping[str, int] = {label: labels.count(label) for label in dict.fromkeys(labels)}
    return "; ".join(f"{label} ({n})" for label, n in sorted(count.items(), key=lambda item: -item[1]))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rules(quick: bool) -> None:
    """Effect of the rule and of the prior: errors on the hidden entries of mask 0 (at most 1000 rows), whole grids.

    "held out" and "bic" are two rules, "least" is the smallest error of the grid, which is unknown in practice.
    """
    rows = []
    for data, x in tables(quick):
        x = x[np.random.default_rng(0).permutation(len(x))[:SEARCH_ROWS]]
        for share in SHARES[1:2] if quick else SHARES:
            hidden = hide(x, share, 0)
            z, origin, scale = standardised(np.where(hidden, np.nan, x))
            truth, deviation = (x - origin) / scale / (x.std(0) / scale), x.std(0) / scale
            for name in ("mixture", "mixture of PPCA"):
                cells = []
                for prior in (None, jensen.ConjugatePrior()):
                    trials = search(name, z, 0, prior, is_whole=True)
                    models = [trial.make().fit(z) for trial in trials]
                    missed = [rmse(model.impute(z) / deviation, truth, hidden) for model in models]
                    held_out = int(np.argmin([trial.error for trial in trials]))
                    bic = int(np.argmin([model.bic(z) for model in models]))
                    for i in (held_out, bic, int(np.argmin(missed))):
                        cells.append(f"{missed[i]:.3f} ({trials[i].label})")
                rows.append((f"{data} {share:.0%}".replace("%", " %"), name, *cells))
                print(" | ".join(rows[-1]), flush=True)
    header = [f"{kind}, {rule}" for kind in ("likelihood", "prior") for rule in ("held out", "bic", "least")]
    print(f"\n{markdown(('data, hidden', 'model', *header), rows)}", flush=True)


def twins(quick: bool) -> None:
    """Wine has duplicate rows, which KNN finds if few entries are hidden: all rows and distinct rows, 10 % hidden."""
    wine = next((x for name, x in tables(quick) if name == "wine"), None)
    if wine is None:
        print("needs --data")
        return
    for kind, x in (("all", wine), ("distinct", np.unique(wine, axis=0))):
        errors: dict[str, list[float]] = {}
        for seed in range(2 if quick else 5):
            hidden = hide(x, 0.1, seed)
            z, origin, scale = standardised(np.where(hidden, np.nan, x))
            filled = {"KNN": KNNImputer().fit_transform(z)}
            for k in (3, 10):
                model = jensen.GaussianMixture(k, prior=jensen.ConjugatePrior(), random_state=0)
                filled[f"K={k}"] = model.fit(z).impute(z)
            for name, one in filled.items():
                errors.setdefault(name, []).append(rmse(one * scale / x.std(0), (x - origin) / x.std(0), hidden))
        cells = [f"{name} {np.mean(e):.3f} ± {standard_error(e):.3f}" for name, e in errors.items()]
        print(f"{kind} {len(x)} rows: {', '.join(cells)}", flush=True)


def trap(quick: bool) -> None:
    """Yeast's erl has one value in 99 % of the rows: the rows of two components, half of the entries hidden."""
    yeast = next((x for name, x in all_tables() if name == "yeast"), None)
    if yeast is None:
        print("needs --data")
        return
    hidden = hide(yeast, 0.5, 0)
    z, origin, scale = standardised(np.where(hidden, np.nan, yeast))
    truth, erl = (yeast - origin) / scale, 4
    for model in (
        jensen.GaussianMixture(1),
        jensen.GaussianMixture(4, random_state=0),
        jensen.MixtureOfPPCA(4, 4, random_state=0),
        jensen.MixtureOfFactorAnalysers(2, 2, random_state=0, prior=jensen.ConjugatePrior()),
    ):
        took = model.fit(z).predict(z)
        miss = rmse(model.impute(z), truth, hidden), rmse(model.impute(z)[:, erl], truth[:, erl], hidden[:, erl])
        print(f"{model}: error {miss[0]:.2f}, of erl {miss[1]:.2f}")
        for k in np.unique(took):
            share, mean = hidden[took == k, erl].mean(), model.means_[k, erl]
            print(f"    component of {np.sum(took == k)} rows: erl missing in {share:.0%}, mean {mean:.1f} s.d.")


def profile(quick: bool) -> None:
    """Profile of a full mixture if every row has its own pattern of missing values: (569, 30), half hidden."""
    x = load_breast_cancer().data
    z = standardised(np.where(hide(x, 0.5, 0), np.nan, x))[0]
    for k in (1, 2) if quick else (1, 2, 4):
        model = jensen.GaussianMixture(k, tol=0, max_iter=10, random_state=0)
        watch = cProfile.Profile()
        began = time.perf_counter()
        watch.runcall(model.fit, z)
        print(f"K = {k}: {time.perf_counter() - began:.2f} s for the start and {model.n_iter_} steps", flush=True)
        pstats.Stats(watch).sort_stats("tottime").print_stats(6)


PARTS = {"table": table, "rules": rules, "twins": twins, "trap": trap, "profile": profile}


def main() -> None:
    global DATA, ONLY
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="one mask, one share and 400 rows")
    parser.add_argument("--data", type=Path, help="folder with the UCI tables; without it only breast cancer")
    parser.add_argument("--only", nargs="*", default=[], help="tables, such as wine 'breast cancer'; else all")
    arguments = parser.parse_args()
    DATA, ONLY = arguments.data, arguments.only
    for part in arguments.parts or PARTS:
        print(f"\n## {part}", flush=True)
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
