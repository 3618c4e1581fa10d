"""Draws for missing values and their calibration: half-hidden digits, and tables with missing values.

    python benchmarks/diffusion_imputation.py digits [--model digits.jensen] [--rows 100] [--save FOLDER]
    python benchmarks/diffusion_imputation.py tables --data DIR [--masks 5 6] [--only NAME ...] [--save FOLDER]
Columns, over hidden entries only:
    error      RMSE of the posterior mean, or of the mean of draws for models without one
    coverage   of central 90 % intervals, in %: between the 5 % and the 95 % quantile of 50 draws, at the ranks p(n + 1)
               with which draws from the true posterior cover 90 %. Both ends belong to the interval, which matters for
               values on a grid: a pixel that is certainly 0 has the interval [0, 0], and is covered
    own        coverage of one more draw of the model instead of the truth: the coverage if the model were correct. If
               `coverage` is lower, the intervals are too narrow
    width      mean width of these intervals
    CRPS       E|X - x| - E|X - X'| / 2, the continuous ranked probability score, from all pairs of different draws: it
               combines error and sharpness, smaller is better, and for a point it is |error|
    seconds    on one thread, for the imputation with all draws; for tables also for the fit
The diffusion draws by RePaint, in --steps levels with --resamplings of each; "diffusion, masks" is trained with
imputation="masks" and goes through each of --steps levels once. The draws of the mean imputer are observed
values of the column from other rows.

digits: the 1437 training images of scikit-learn's digits are complete. In --rows of the 360 test images the lower half
is hidden if the row number is even, and the right half if it is odd. Units are grey levels, 0 to 16; standard errors
are over images. The size of the mixture is the one with the smallest error on a fifth of the training images, hidden in
the same way; it treats pixels as numbers, so its draws may lie between and beyond the levels. Both VAEs have
categorical pixels; the second is also trained on two copies of the training images, each with a random half hidden. The
encoder of the first is not trained on missing values. The diffusion is that of --model, fitted to these training images
with or without labels, or a U-Net with 32 and 64 channels trained for --epochs. "bound" in the last column is that of
these test images when they are complete, in nats, with nothing known to the network.

tables: those of imputation.py, at most --rows rows in random order, 30 and 50 % of the entries hidden completely at
random. Models are fitted to the remaining entries, standardised by the observed ones, and tested on the first 200 rows.
Units are standard deviations of the complete column; standard errors are over masks. Mixture and VAE have the settings
of vae_missing.py; iterative imputation draws with sample_posterior=True. The diffusion has 100 levels,
ResidualMLP(128, 2), 1000 training steps, and 10 steps with 5 resamplings. These settings were chosen on wine and
concrete with half of the entries hidden by mask 0: three times the training and a wider network gained almost nothing,
and more steps or resamplings were worse. "refitted" is a second diffusion, fitted to a draw of the first: its training
rows are complete, like the rows in RePaint, whereas hardly any row of a table with half of its entries hidden is.

With --save, figures are kept, and a run with the same arguments resumes where the last one ended.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import imputation  # first: it sets the number of threads

import numpy as np
import torch
from measuring import seconds
from sklearn.datasets import load_digits
from sklearn.impute import IterativeImputer
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import jensen
from jensen import MLP, VAE, ConjugatePrior, Diffusion, GaussianMixture, ResidualMLP, Trainer, UNet, select

N_DRAWS = 50  # and one more in place of the truth
N_JUDGED = 200  # rows of a table to test on
SHARES = (0.3, 0.5)
HALVES = (np.s_[4:, :], np.s_[:, 4:], np.s_[:4, :], np.s_[:, :4])  # lower, right, upper, left


@dataclass(frozen=True)
class Setting:
    """Settings on which the figures depend."""

    rows: int
    steps: int
    resamplings: int
    epochs: int | None
    model: str | None
    quick: bool


class Filled(NamedTuple):
    """The posterior mean of rows (n, ...) and draws (1 + N_DRAWS, n, ...), observed entries unchanged."""

    mean: np.ndarray
    draws: np.ndarray


@dataclass(frozen=True)
class Row:
    """Squared error, coverage, own, width and CRPS per image or mask, (5, k), and seconds."""

    values: list[list[float]]
    seconds: float
    note: str = ""


# figures


def judged(filled: Filled, truth: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Squared error, coverage, own, width and CRPS of every hidden entry, (5, k)."""
    mean, x, (own, *draws) = filled.mean[hidden], truth[hidden], filled.draws[:, hidden]
    low, high = np.quantile(draws, (0.05, 0.95), axis=0, method="weibull")
    covers = [(low <= value) & (value <= high) for value in (x, own)]
    return np.stack([(mean - x) ** 2, *covers, high - low, ranked_score(np.array(draws), x)])


def ranked_score(draws: np.ndarray, x: np.ndarray) -> np.ndarray:
    """CRPS of draws (n, k) for truths (k,), unbiased in n (Ferro 2014); E|X - X'| from ranks."""
    n = len(draws)
    rank = np.arange(n)[:, None]
    between = (np.sort(draws, 0) * (2 * rank - n + 1)).sum(0) * 2 / (n * (n - 1))
    score: np.ndarray = np.abs(draws - x).mean(0) - between / 2
    return score


def cells(values: np.ndarray) -> list[str]:
    """Means of values (5, k) and their standard errors over the k."""
    mean = values.mean(1)
    error = values.std(1, ddof=1) / math.sqrt(values.shape[1]) if values.shape[1] > 1 else np.full(5, np.nan)
    root = math.sqrt(mean[0])
    shown = [f"{root:.3f} ± {error[0] / (2 * root):.3f}"]
    shown += [f"{100 * mean[i]:.1f} ± {100 * error[i]:.1f}" for i in (1, 2)]
    return shown + [f"{mean[i]:.3f} ± {error[i]:.3f}" for i in (3, 4)]


def resumed(folder: Path | None, name: str, setting: Setting, study: Callable[[], Row]) -> Row:
    """The row of an earlier run with this setting, or a new study."""
    file = None if folder is None else folder / (name.replace(", ", "-").replace(" ", "-") + ".json")
    if file is not None and file.exists():
        found = json.loads(file.read_text())
        if found["setting"] == asdict(setting):
            return Row(**found["row"])
    row = study()
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"setting": asdict(setting), "row": asdict(row)}))
    return row


# imputers of digits: training images -> a function that imputes images, and the chosen size

Fill = Callable[[np.ndarray], Filled]


def half_hidden(images: np.ndarray, n_halves: int = 2, order: Sequence[int] | None = None) -> np.ndarray:
    """Hide one half of each image, by row number unless an order is given."""
    holed = images.copy()
    for i, image in enumerate(holed):
        image[HALVES[i % n_halves if order is None else order[i]]] = np.nan
    return holed


def of_model(model: Any, holed: np.ndarray) -> Filled:
    """Imputation by a model that has a posterior mean."""
    return Filled(model.impute(holed), np.stack(model.impute_draws(holed, 1 + N_DRAWS, random_state=0)))


def of_draws(draws: Sequence[np.ndarray]) -> Filled:
    return Filled(np.mean(draws[1:], 0), np.stack(draws))


def from_others(train: np.ndarray, holed: np.ndarray) -> Filled:
    """The mean of observed values, and draws from them."""
    rng, shape = np.random.default_rng(0), (1 + N_DRAWS, *holed.shape)
    drawn = np.empty(shape)
    for place in np.ndindex(holed.shape[1:]):
        values = train[(slice(None), *place)]
        drawn[(..., *place)] = rng.choice(values[~np.isnan(values)], shape[:2])
    return Filled(*(np.where(np.isnan(holed), new, holed) for new in (np.nanmean(train, 0), drawn)))


def digits_mean(train: np.ndarray, setting: Setting) -> tuple[Fill, str]:
    return partial(from_others, train), ""


def digits_mixture(train: np.ndarray, setting: Setting) -> tuple[Fill, str]:
    sizes = [("full", k) for k in (1, 2, 5, 10, 20)] + [("diag", k) for k in (20, 50, 100)]
    rest, held_out = (part.reshape(-1, 64) for part in train_test_split(train, test_size=0.2, random_state=0))
    holed = half_hidden(held_out.reshape(-1, 8, 8)).reshape(-1, 64)

    def fitted(size: tuple[str, int], rows: np.ndarray) -> GaussianMixture:
        return GaussianMixture(size[1], covariance_type=size[0], prior=ConjugatePrior(), random_state=0).fit(rows)

    def error(size: tuple[str, int]) -> float:
        return float(np.mean((fitted(size, rest).impute(holed) - held_out) ** 2))

    size = min(sizes[:1] if setting.quick else sizes, key=error)
    model = fitted(size, train.reshape(-1, 64))

    def fill(images: np.ndarray) -> Filled:
        mean, draws = of_model(model, images.reshape(-1, 64))
        return Filled(mean.reshape(images.shape), draws.reshape(-1, *images.shape))

    return fill, f"{size[0]}, K={size[1]}"


def digits_vae(train: np.ndarray, setting: Setting, with_missing: bool = False) -> tuple[Fill, str]:
    if with_missing:
        twice = np.concatenate([train, train])
        order = np.random.default_rng(0).integers(len(HALVES), size=len(twice)).tolist()
        train = np.concatenate([train, half_hidden(twice, order=order)])
    network = MLP(hidden=(256, 256), dropout=0.2)
    options: dict[str, Any] = {"max_epochs": 2} if setting.quick else {}
    model = VAE(16, likelihood="categorical", encoder=network, decoder=network, random_state=0, **options).fit(train)
    model.set_params(evaluation_samples=1000)
    # `impute` returns the most probable level; the mean of draws has a smaller squared error.
    return lambda images: of_draws(model.impute_draws(images, 1 + N_DRAWS, random_state=0)), "m=16"


def digits_diffusion(
    train: np.ndarray, setting: Setting, test: np.ndarray, file: Path | None = None, by: str = "repaint"
) -> tuple[Fill, str]:
    if file is None:
        network = UNet(channels=(32, 64), dropout=0.2)
        epochs = setting.epochs or (1 if setting.quick else 120)
        options: dict[str, Any] = {"learning_rate": 2e-3, "max_epochs": epochs, "random_state": 0}
        model = Diffusion(network=network, imputation=by, **options).fit(train)
    else:
        model = jensen.load(file)
    bound = model.score_samples(test)
    note = f"{noted(setting, by)}, bound {bound.mean():.2f} ± {bound.std(ddof=1) / math.sqrt(len(bound)):.2f}"
    return lambda images: of_draws(model.impute_draws(images, 1 + N_DRAWS, random_state=0, **chain(setting, by))), note


def chain(setting: Setting, by: str) -> dict[str, int]:
    """The options of a diffusion's imputation."""
    return {"steps": setting.steps} | ({"resamplings": setting.resamplings} if by == "repaint" else {})


def noted(setting: Setting, by: str) -> str:
    return ", ".join(f"{number} {name}" for name, number in chain(setting, by).items())


def digits(options: argparse.Namespace) -> None:
    rows = options.rows or (4 if options.quick else 100)
    model = None if options.model is None else options.model.name
    how = options.steps or 25, options.resamplings or 10
    setting = Setting(rows, *how, options.epochs, model, options.quick)
    data = load_digits()
    train, test, *_ = train_test_split(data.images, data.target, test_size=360, random_state=0, stratify=data.target)
    train, test = train[: 300 if options.quick else None], test[:rows]
    holed = half_hidden(test)
    hidden = np.isnan(holed)
    imputers: dict[str, Callable[[np.ndarray, Setting], tuple[Fill, str]]] = {
        "mean": digits_mean,
        "mixture": digits_mixture,
        "VAE": digits_vae,
        "VAE, with missing values": partial(digits_vae, with_missing=True),
        "diffusion": partial(digits_diffusion, test=test, file=options.model),
        "diffusion, masks": partial(digits_diffusion, test=test, by="masks"),
    }

    def study(make: Callable[[np.ndarray, Setting], tuple[Fill, str]]) -> Row:
        fill, note = make(train, setting)
        took, filled = seconds(partial(fill, holed))
        assert np.array_equal(filled.draws[:, ~hidden], np.broadcast_to(test[~hidden], (1 + N_DRAWS, (~hidden).sum())))
        values = judged(filled, test, hidden).reshape(5, len(test), -1).mean(-1)
        return Row(values.tolist(), took, note)

    print(f"{len(train)} training images, {len(test)} half-hidden test images\n")
    print("| imputer | error | coverage, % | own, % | width | CRPS | seconds | |\n" + "| --- " * 8 + "|", flush=True)
    for name, make in imputers.items():
        if options.only and name not in options.only:
            continue
        row = resumed(options.save, f"digits {name}", setting, partial(study, make))
        print(f"| {' | '.join([name, *cells(np.array(row.values)), f'{row.seconds:.1f}', row.note])} |", flush=True)


# imputers of tables: fitted to a table with missing values, whose first rows they impute


def table_mean(x: np.ndarray, first: np.ndarray, seed: int, setting: Setting) -> Filled:
    return from_others(x, first)


def iterative(x: np.ndarray, first: np.ndarray, seed: int, setting: Setting) -> Filled:
    mean = IterativeImputer(random_state=seed).fit(x).transform(first)
    # One call for all draws: equal rows have independent draws.
    model = IterativeImputer(random_state=seed, sample_posterior=True).fit(x)
    return Filled(mean, model.transform(np.tile(first, (1 + N_DRAWS, 1))).reshape(-1, *first.shape))


def mixture(x: np.ndarray, first: np.ndarray, seed: int, setting: Setting) -> Filled:
    model = GaussianMixture(random_state=seed, prior=ConjugatePrior(), tol=1e-3)
    n_components = (1, 2, 3) if x.shape[1] > 20 else (1, 2, 4, 8)
    return of_model(select(model, x, {"n_components": n_components}, "bic", random_state=seed, verbose=0).winner, first)


def vae(x: np.ndarray, first: np.ndarray, seed: int, setting: Setting) -> Filled:
    model = VAE(
        n_components=min(10, x.shape[1] - 1),
        encoder=MLP((128,), "tanh"),
        decoder=MLP((128,), "tanh"),
        importance_samples=5,
        evaluation_samples=1000,
        learning_rate=2e-3,
        max_epochs=2 if setting.quick else max(1, 1500 * 128 // len(x)),
        trainer=Trainer(weight_decay=1e-3, patience=15),
        random_state=seed,
    )
    return of_model(model.fit(x), first)


def diffusion(
    x: np.ndarray, first: np.ndarray, seed: int, setting: Setting, is_refitted: bool = False, by: str = "repaint"
) -> Filled:
    epochs = setting.epochs or (2 if setting.quick else max(1, 1000 * 128 // len(x)))
    network = ResidualMLP(width=128, n_blocks=2)
    options: dict[str, Any] = {"data_levels": None, "max_epochs": epochs, "random_state": seed}
    model = Diffusion(n_steps=100, network=network, imputation=by, **options).fit(x)
    how = chain(setting, by)
    if is_refitted:
        model.fit(model.impute_draws(x, random_state=seed, **how)[0])
    return of_draws(model.impute_draws(first, 1 + N_DRAWS, random_state=seed, **how))


TABLE_IMPUTERS: dict[str, Callable[[np.ndarray, np.ndarray, int, Setting], Filled]] = {
    "mean": table_mean,
    "iterative": iterative,
    "mixture": mixture,
    "VAE": vae,
    "diffusion": diffusion,
    "diffusion, refitted": partial(diffusion, is_refitted=True),
    "diffusion, masks": partial(diffusion, by="masks"),
}


def one_mask(complete: np.ndarray, share: float, seed: int, name: str, setting: Setting) -> Row:
    hidden = imputation.hide(complete, share, seed)
    x, origin, scale = imputation.standardised(np.where(hidden, np.nan, complete))
    first, deviation = slice(0, N_JUDGED), complete.std(0) / scale
    took, filled = seconds(lambda: TABLE_IMPUTERS[name](x, x[first], seed, setting))
    truth = (complete[first] - origin) / scale / deviation
    values = judged(Filled(filled.mean / deviation, filled.draws / deviation), truth, hidden[first])
    return Row(values.mean(1, keepdims=True).tolist(), took)


def tables(options: argparse.Namespace) -> None:
    rows = options.rows or (300 if options.quick else 1500)
    how = options.steps or 10, options.resamplings or 5
    setting = Setting(rows, *how, options.epochs, None, options.quick)
    imputation.DATA = options.data
    names = [name for name in TABLE_IMPUTERS if not options.only or name in options.only]
    print("| data, hidden | imputer | error | coverage, % | own, % | width | CRPS | seconds |\n" + "| --- " * 8 + "|")
    for table, whole in imputation.all_tables():
        if options.tables and table not in options.tables:
            continue
        complete = whole[np.random.default_rng(0).permutation(len(whole))[:rows]]
        for share in SHARES[-1:] if options.quick else SHARES:
            percent = f"{table} {share:.0%}".replace("%", " %")
            for name in names:
                found = [
                    resumed(
                        options.save,
                        f"{table} {100 * share:.0f} {name} {seed}",
                        setting,
                        partial(one_mask, complete, share, seed, name, setting),
                    )
                    for seed in options.masks
                ]
                shown = cells(np.concatenate([row.values for row in found], 1))
                took = float(np.median([row.seconds for row in found]))
                print(f"| {' | '.join([percent, name, *shown, f'{took:.1f}'])} |", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {"digits": digits, "tables": tables}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="few rows and epochs, to test the script")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="imputers")
    parser.add_argument("--save", type=Path, help="folder for figures")
    parser.add_argument("--rows", type=int, help="default: 100 test images, 1500 rows of a table")
    parser.add_argument("--steps", type=int, help="steps of a diffusion; default 25 for digits, 10 for tables")
    parser.add_argument("--resamplings", type=int, help="of RePaint, of every step; default 10 and 5")
    parser.add_argument("--epochs", type=int, help="epochs of the diffusion")
    parser.add_argument("--model", type=Path, help="a saved diffusion of the training images")
    parser.add_argument("--data", type=Path, help="folder with the UCI tables")
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="tables to use")
    parser.add_argument("--masks", type=int, nargs="+", default=[5, 6], help="seeds")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    threadpool_limits(1)
    torch.set_num_threads(1)
    for part in options.parts:
        print(f"\n## {part}", flush=True)
        PARTS[part](options)


if __name__ == "__main__":
    main()
