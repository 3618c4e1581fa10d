"""Outliers among digits: images of a class that was left out of training, against new images of the other nine.

    python benchmarks/diffusion_outliers.py [--classes 0 1 ...] [--epochs 60] [--only NAME ...] [--save FOLDER]
The data are scikit-learn's digits, 8x8 pixels with 17 grey levels. For every class c, models are trained without labels
on 80 % of the images of the other nine. Outliers are all images of c, the usual images are the remaining 20 %. The
figure is the area under the ROC curve, with mean and standard error over classes. Two threads.

The diffusion has a U-Net with 32 and 64 channels, a dropout of 0.2 and 1000 noise levels. "bound" is its negative
bound, "profile" the distance of its bound by bands of levels to that of 500 training images; both use 100 levels per
image. Mixtures are fitted to x + u, u uniform on [0, 1), drawn once for training and 10 times for the test. The VAE has
categorical pixels and 1000 importance samples. For mixtures and the VAE, some sizes are compared on a fifth of the
training images, and the one with the highest score is fitted again to all of them; no outlier is used for this choice.
The isolation forest has 500 trees.

With --save, models and figures are kept, and a run with the same arguments resumes where the last one ended.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import THREADS, seconds  # first: it sets the number of threads

import numpy as np
import torch
from diffusion_digits import Makes, Score, Setting, autoencoder, chosen, mixture
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from jensen import Diffusion, UNet, outlier_scores

N_REFERENCE = 500


@dataclass(frozen=True)
class Task:
    """Training images without class c, and test images: new ones, and those of c."""

    train: np.ndarray
    test: np.ndarray
    truth: np.ndarray

    @classmethod
    def without(cls, c: int, quick: bool) -> Task:
        digits = load_digits()
        is_other = digits.target != c
        train, usual = train_test_split(
            digits.images[is_other], test_size=0.2, random_state=0, stratify=digits.target[is_other]
        )
        strange = digits.images[~is_other]
        if quick:
            train, usual, strange = train[:300], usual[:40], strange[:40]
        return cls(train, np.concatenate([usual, strange]), np.repeat([0, 1], [len(usual), len(strange)]))

    def area(self, scores: np.ndarray) -> float:
        return float(roc_auc_score(self.truth, scores))


@dataclass(frozen=True)
class Row:
    """Result of one kind of model for one class: an area for each of its scores."""

    areas: dict[str, float]
    seconds: float
    note: str


def diffusion(task: Task, setting: Setting, file: Path | None) -> tuple[dict[str, float], str]:
    model = Diffusion(
        network=UNet(channels=(32, 64), n_blocks=1, dropout=0.2),
        learning_rate=2e-3,
        max_epochs=setting.epochs,
        evaluation_levels=20 if setting.quick else 100,
        random_state=0,
    ).fit(task.train)
    if file is not None:
        model.save(file)
    scores = {
        "diffusion, bound": outlier_scores(model, task.test),
        "diffusion, profile": outlier_scores(model, task.test, task.train[:N_REFERENCE], by="profile"),
    }
    return {name: task.area(found) for name, found in scores.items()}, ""


def likelihood(
    name: str, models: Callable[[Setting], tuple[Makes, Score]], task: Task, setting: Setting, file: Path | None
) -> tuple[dict[str, float], str]:
    makes, score = models(setting)
    label, model = chosen(makes, score, task.train)
    return {name: task.area(-score(model, task.test))}, label


def forest(task: Task, setting: Setting, file: Path | None) -> tuple[dict[str, float], str]:
    model = IsolationForest(n_estimators=20 if setting.quick else 500, random_state=0)
    model.fit(task.train.reshape(len(task.train), -1))
    return {"IsolationForest": task.area(outlier_scores(model, task.test.reshape(len(task.test), -1)))}, ""


MODELS: dict[str, Callable[[Task, Setting, Path | None], tuple[dict[str, float], str]]] = {
    "diffusion": diffusion,
    "GaussianMixture": partial(likelihood, "GaussianMixture, dequantised", mixture),
    "VAE": partial(likelihood, "VAE, categorical", autoencoder),
    "IsolationForest": forest,
}


def found(name: str, c: int, setting: Setting, folder: Path | None) -> Row:
    """Result of a model for a class, from an earlier run with this setting if there is one."""
    file = None if folder is None else folder / f"{name}-without-{c}.json"
    if file is not None and file.exists():
        kept = json.loads(file.read_text())
        if kept["setting"] == asdict(setting):
            return Row(**kept["row"])
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    task = Task.without(c, setting.quick)
    model_file = None if file is None else file.with_suffix(".jensen")
    took, (areas, note) = seconds(partial(MODELS[name], task, setting, model_file))
    row = Row(areas, took, note)
    if file is not None:
        file.write_text(json.dumps({"setting": asdict(setting), "row": asdict(row)}))
    return row


def table(areas: dict[str, list[float]], classes: list[int]) -> None:
    print(f"\n| score | {' | '.join(f'without {c}' for c in classes)} | mean |")
    print("| --- " * (len(classes) + 2) + "|")
    for name, values in areas.items():
        error = f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
        cells = " | ".join(f"{value:.3f}" for value in values)
        print(f"| {name} | {cells} | {np.mean(values):.3f}{error} |", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", nargs="+", type=int, choices=range(10), default=[0, 1, 4, 7, 9], metavar="C")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME")
    parser.add_argument("--epochs", type=int, help="epochs of the diffusion; default 60")
    parser.add_argument("--quick", action="store_true", help="few images, epochs and levels, to test the script")
    parser.add_argument("--save", type=Path, help="folder for models and figures")
    parser.add_argument("--threads", type=int, default=THREADS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    threadpool_limits(options.threads)
    torch.set_num_threads(options.threads)
    setting = Setting(options.epochs or (1 if options.quick else 60), options.quick)
    areas: dict[str, list[float]] = {}
    for c in options.classes:
        for name in options.only:
            row = found(name, c, setting, options.save)
            parts: list[Any] = [f"{score} {area:.3f}" for score, area in row.areas.items()]
            parts += [f"{row.seconds:.0f} s", *([row.note] if row.note else [])]
            print(f"without {c}: {', '.join(parts)}", flush=True)
            for score, area in row.areas.items():
                areas.setdefault(score, []).append(area)
    table(areas, options.classes)


if __name__ == "__main__":
    main()
