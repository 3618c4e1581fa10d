"""Bits per dimension of test images of digits, 8x8 pixels with 17 grey levels: diffusions and other models.

    python benchmarks/diffusion_digits.py [--epochs 120] [--only NAME ...] [--save FOLDER] [--picture samples.png]
The data are scikit-learn's digits, 1437 training and 360 test images, stratified by class. All figures are upper bounds
of -log2 P(x) / 64 with their standard error over test images, and paired differences to the best model. A uniform
distribution over the levels costs log2 17 = 4.09. Two threads.

Diffusions have a U-Net with 32 and 64 channels, a dropout of 0.2 and 1000 noise levels; the bound sums over all levels.
Early stopping uses a tenth of the training images. "noise, simple" predicts the noise with the loss and the variance
that are common for images: a model with good samples can be a worse code than uniform levels.
Mixtures are fitted to x + u, u uniform on [0, 1): E_u ln p(x + u) is a lower bound of ln P(x), because cells have size
one. u is drawn once for training and 10 times for the test. The VAE has categorical pixels and 1000 importance samples.
For mixtures and the VAE, some sizes are compared on a fifth of the training images, and the best is fitted again to all
of them; the seconds of a fit include this.

With --save, models and figures are kept, and a run with the same arguments resumes where the last one ended.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import THREADS, seconds  # first: it sets the number of threads

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture as PeerMixture
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import jensen
from jensen import MLP, VAE, ConjugatePrior, Diffusion, GaussianMixture, MixtureOfFactorAnalysers, UNet
from jensen.report.images import image_grid, write_png

N_PIXELS, N_LEVELS = 64, 17
BITS = N_PIXELS * math.log(2)
N_DRAWS = 10  # of u per test image

Makes = dict[str, Callable[[], Any]]  # models to choose from, by description
Score = Callable[[Any, np.ndarray], np.ndarray]  # ln P(x) of images (n,), or a bound of it


@dataclass(frozen=True)
class Row:
    """A row of the table, with the bits per dimension of every test image."""

    name: str
    bits: list[float]
    fit_seconds: float
    score_seconds: float
    note: str


@dataclass(frozen=True)
class Setting:
    """Settings on which the figures depend."""

    epochs: int
    quick: bool

    def images(self) -> tuple[np.ndarray, np.ndarray]:
        """Training and test images."""
        digits = load_digits()
        train, test, *_ = train_test_split(
            digits.images, digits.target, test_size=360, random_state=0, stratify=digits.target
        )
        return (train[:300], test[:10]) if self.quick else (train, test)


# diffusions

DIFFUSIONS: dict[str, dict[str, str]] = {
    "levels, linear": {"schedule": "linear"},
    "levels, cosine": {"schedule": "cosine"},
    "levels, variational": {"prediction": "levels", "objective": "variational"},
    "noise, simple": {"schedule": "linear", "prediction": "noise", "objective": "simple", "variance": "posterior"},
    "noise, variational": {"schedule": "linear", "prediction": "noise", "objective": "variational"},
}


def diffusion(name: str, setting: Setting) -> tuple[Makes, Score]:
    network = UNet(channels=(32, 64), n_blocks=1, dropout=0.2)
    make = partial(
        Diffusion, network=network, learning_rate=2e-3, max_epochs=setting.epochs, random_state=0, **DIFFUSIONS[name]
    )

    def score(model: Diffusion, images: np.ndarray) -> np.ndarray:
        return np.asarray(model.bound(images, levels=20 if setting.quick else "all").total)

    return {"": make}, score


# mixtures and the VAE


def with_noise(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rows = images.reshape(-1, N_PIXELS)
    return rows + rng.random(rows.shape)


class Dequantised:
    """A model of densities, fitted to pixels plus uniform noise."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, images: np.ndarray) -> Dequantised:
        self.model.fit(with_noise(images, np.random.default_rng(0)))
        return self

    def score_samples(self, images: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(1)
        return np.mean([self.model.score_samples(with_noise(images, rng)) for _ in range(N_DRAWS)], 0)


def density(makes: Makes) -> tuple[Makes, Score]:
    wrapped = {label: lambda make=make: Dequantised(make()) for label, make in makes.items()}
    return wrapped, lambda model, images: model.score_samples(images)


def mixture(setting: Setting) -> tuple[Makes, Score]:
    sizes = [("full", k) for k in (1, 2, 5, 10, 20)] + [("diag", k) for k in (20, 50, 100)]
    make = partial(GaussianMixture, prior=ConjugatePrior(), random_state=0)
    return density(
        {
            f"{kind}, K={k}": partial(make, n_components=k, covariance_type=kind)
            for kind, k in (sizes[:2] if setting.quick else sizes)
        }
    )


def factor_analysers(setting: Setting) -> tuple[Makes, Score]:
    sizes = [(k, m) for k in (5, 10, 20) for m in (4, 8, 14)]
    make = partial(MixtureOfFactorAnalysers, prior=ConjugatePrior(), random_state=0)
    return density(
        {f"K={k}, m={m}": partial(make, n_components=k, n_latent=m) for k, m in (sizes[:1] if setting.quick else sizes)}
    )


def peer_mixture(setting: Setting) -> tuple[Makes, Score]:
    """Chooses the floor of variances, since scikit-learn has no prior."""
    sizes = [("full", k, floor) for k in (1, 2, 5, 10, 20) for floor in (1e-6, 0.1, 0.3, 1.0)]
    sizes += [("diag", k, floor) for k in (20, 50, 100) for floor in (1e-6, 0.1, 0.3)]
    return density(
        {
            f"{kind}, K={k}, reg_covar={floor:g}": partial(
                PeerMixture, n_components=k, covariance_type=kind, reg_covar=floor, random_state=0
            )
            for kind, k, floor in (sizes[:2] if setting.quick else sizes)
        }
    )


def autoencoder(setting: Setting) -> tuple[Makes, Score]:
    def make(m: int, dropout: float) -> VAE:
        network = MLP(hidden=(256, 256), dropout=dropout)
        options: dict[str, Any] = {"max_epochs": 2} if setting.quick else {}
        return VAE(m, likelihood="categorical", encoder=network, decoder=network, random_state=0, **options)

    def score(model: VAE, images: np.ndarray) -> np.ndarray:
        return np.asarray(model.score_samples(images, importance_samples=20 if setting.quick else 1000))

    sizes = [(m, dropout) for m in (8, 16) for dropout in (0.0, 0.2)]
    makes = {f"m={m}, dropout {dropout:g}": partial(make, m, dropout) for m, dropout in sizes}
    return dict(list(makes.items())[:1]) if setting.quick else makes, score


MODELS: dict[str, Callable[[Setting], tuple[Makes, Score]]] = {
    **{name: partial(diffusion, name) for name in DIFFUSIONS},
    "GaussianMixture": mixture,
    "MixtureOfFactorAnalysers": factor_analysers,
    "scikit-learn GaussianMixture": peer_mixture,
    "VAE, categorical": autoencoder,
}


# the table


def chosen(makes: Makes, score: Score, train: np.ndarray) -> tuple[str, Any]:
    """The model with the highest score on a fifth of the images, fitted again to all images."""
    label = next(iter(makes))
    if len(makes) > 1:
        rest, held_out = train_test_split(train, test_size=0.2, random_state=0)
        scores = {}
        for one, make in makes.items():
            try:
                scores[one] = float(np.mean(score(make().fit(rest), held_out)))
            except (ArithmeticError, ValueError) as failure:
                print(f"{one} failed: {failure}", flush=True)
        label = max(scores, key=scores.__getitem__)
    return label, makes[label]().fit(train)


def study(name: str, setting: Setting) -> tuple[Row, Any]:
    train, test = setting.images()
    makes, score = MODELS[name](setting)
    fit_seconds, (label, model) = seconds(partial(chosen, makes, score, train))
    score_seconds, scores = seconds(partial(score, model, test))
    return Row(name, (-scores / BITS).tolist(), fit_seconds, score_seconds, label), model


def file_of(folder: Path, name: str, ending: str) -> Path:
    return folder / (name.replace(", ", "-").replace(" ", "-") + ending)


def keep(folder: Path, row: Row, model: Any, setting: Setting) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    inner = model.model if isinstance(model, Dequantised) else model
    if hasattr(inner, "save"):  # scikit-learn's models have no `save`
        inner.save(file_of(folder, row.name, ".jensen"))
    file_of(folder, row.name, ".json").write_text(json.dumps({"setting": asdict(setting), "row": asdict(row)}))


def kept(folder: Path | None, name: str, setting: Setting) -> Row | None:
    """The row of an earlier run with this setting, if there is one."""
    file = None if folder is None else file_of(folder, name, ".json")
    if file is None or not file.exists():
        return None
    found = json.loads(file.read_text())
    return Row(**found["row"]) if found["setting"] == asdict(setting) else None


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def differences(rows: list[Row]) -> None:
    """Print paired differences to the best model."""
    ordered = sorted(rows, key=lambda row: float(np.mean(row.bits)))
    best = np.array(ordered[0].bits)
    print("\n| model | bits per dimension | more than the best |\n| --- | --- | --- |")
    for row in ordered:
        bits = np.array(row.bits)
        (mean, error), (more, spread) = mean_and_error(bits), mean_and_error(bits - best)
        print(f"| {row.name} | {mean:.3f} ± {error:.3f} | {more:.3f} ± {spread:.3f} |")
    print(f"| uniform levels | {math.log2(N_LEVELS):.3f} | {math.log2(N_LEVELS) - best.mean():.3f} |", flush=True)


def picture(file: Path, model: Diffusion, quick: bool) -> None:
    took, (samples, _) = seconds(partial(model.sample, 64, random_state=0, steps=20 if quick else None))
    write_png(image_grid(samples, limits=(0, N_LEVELS - 1)), file)
    print(f"64 samples in {took:.1f} s: {file}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME", help=f"of: {'; '.join(MODELS)}"
    )
    parser.add_argument("--epochs", type=int, help="epochs of the diffusions; default 120")
    parser.add_argument("--quick", action="store_true", help="few images, epochs and levels, to test the script")
    parser.add_argument("--picture", type=Path, help="PNG of 64 samples from the first diffusion")
    parser.add_argument("--save", type=Path, help="folder for models and figures")
    parser.add_argument("--threads", type=int, default=THREADS)
    return parser.parse_args()


def found(name: str, setting: Setting, folder: Path | None) -> tuple[Row, Any]:
    """A row of the table and its model; the model is None if the folder has the figures."""
    row = kept(folder, name, setting)
    if row is not None:
        return row, None
    row, model = study(name, setting)
    if folder is not None:
        keep(folder, row, model, setting)
    return row, model


def main() -> None:
    options = arguments()
    threadpool_limits(options.threads)
    torch.set_num_threads(options.threads)
    setting = Setting(options.epochs or (1 if options.quick else 120), options.quick)
    train, test = setting.images()
    print(
        f"{len(train)} training and {len(test)} test images, at most {setting.epochs} epochs of "
        f"diffusions, {options.threads} threads\n"
    )
    print("| model | bits per dimension | fit, s | score, s | choice |\n| --- | --- | --- | --- | --- |", flush=True)
    rows, has_picture = [], options.picture is None
    for name in options.only:
        row, model = found(name, setting, options.save)
        mean, error = mean_and_error(np.array(row.bits))
        times = f"{row.fit_seconds:.0f} | {row.score_seconds:.0f}"
        print(f"| {name} | {mean:.3f} ± {error:.3f} | {times} | {row.note} |", flush=True)
        rows.append(row)
        if not has_picture and name in DIFFUSIONS:
            picture(options.picture, model or jensen.load(file_of(options.save, name, ".jensen")), options.quick)
            has_picture = True
    differences(rows)


if __name__ == "__main__":
    main()
