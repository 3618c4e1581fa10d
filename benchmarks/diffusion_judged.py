"""Samples of a diffusion of digits, judged by an independent classifier.

    python benchmarks/diffusion_judged.py train MODEL [--data DIR] [--epochs 120] [--minutes 100] [--semi] ...
    python benchmarks/diffusion_judged.py digits MODEL [--n 100] [--steps 250] [--guidance 0] [--picture samples.png]
    python benchmarks/diffusion_judged.py mnist MODEL --data DIR [--n 50] [--judge judge.pt]
    python benchmarks/diffusion_judged.py classify MODEL [--data DIR] [--weighting simple] [--budget 48] [--semi]
MODEL is the file of a `Diffusion` fitted with labels, either to the 1437 training images of scikit-learn's digits,
train_test_split(images, target, test_size=360, random_state=0, stratify=target), or to the training images of MNIST.

`train` fits such a model, of MNIST if --data is given, and writes it to the file; with --semi it has 20 labels per
class and all images.

`digits` and `mnist` sample n images of every class. A classifier trained on real training images only predicts their
classes: a support vector machine for digits, and a small convolutional network, trained for two epochs, for MNIST. The
table shows the share of samples recognised as their class, and the accuracy of the classifier on test images. Copies
are detected by the Euclidean distance to the nearest training image, with grey levels from 0 to 1: samples should have
distances like those of test images. The picture has a row per class with ten samples, and the training images nearest
to them.

`classify` prints the accuracy of the diffusion classifier on test images. With --semi the model is one of digits with
20 labels per class, compared with other models trained on these labels and all images, or on the labelled images only.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import seconds  # first: it sets the number of threads

import mnist
import numpy as np
import torch
from diffusion_digits import Dequantised
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits
from torch import nn

import jensen
from jensen import MLP, VAE, ConjugatePrior, Diffusion, GaussianMixture, Trainer, UNet
from jensen.report.images import image_grid, write_png

N_LABELS = 20  # per class, where labels are few
N_SHOWN, PICTURE_WIDTH = 10, 1600

Judge = Callable[[np.ndarray], np.ndarray]  # classes (n,) of images (n, h, w)


@dataclass(frozen=True)
class Images:
    """Real images, with grey levels from 0 to `top`, and their classes."""

    train: np.ndarray
    train_y: np.ndarray
    test: np.ndarray
    test_y: np.ndarray
    top: float

    def scaled(self, images: np.ndarray) -> np.ndarray:
        """Pixels (n, d) from 0 to 1."""
        return images.reshape(len(images), -1) / np.float32(self.top)


def real_digits() -> Images:
    digits = load_digits()
    train, test, y, test_y = train_test_split(
        digits.images, digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    return Images(train, y, test, test_y, 16.0)


def real_mnist(data: Path) -> Images:
    (train, y), (test, test_y) = (
        (mnist.idx(data, split, "images-idx3").reshape(-1, 28, 28), mnist.labels(data, split))
        for split in ("train", "test")
    )
    return Images(train, y, test, test_y, 255.0)


# judges


def vector_machine(real: Images) -> Judge:
    model = SVC(C=10.0, gamma=1 / 25).fit(real.scaled(real.train), real.train_y)
    return lambda images: np.asarray(model.predict(real.scaled(images)))


def small_network() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def network_judge(real: Images, file: Path | None) -> Judge:
    probabilities = network_probabilities(real, file)
    return lambda images: probabilities(images).argmax(1)


def network_probabilities(real: Images, file: Path | None) -> Judge:
    """Class probabilities (n, 10) of a network that is trained for two epochs, or read from the file."""
    torch.manual_seed(0)
    network = small_network()
    if file is not None and file.exists():
        network.load_state_dict(torch.load(file, weights_only=True))
    else:
        learn(network, torch.tensor(real.scaled(real.train)).view(-1, 1, 28, 28), torch.tensor(real.train_y))
        if file is not None:
            torch.save(network.state_dict(), file)

    @torch.inference_mode()
    def judge(images: np.ndarray) -> np.ndarray:
        x = torch.tensor(real.scaled(images)).view(-1, 1, 28, 28)
        return torch.cat([network(part).softmax(1) for part in x.split(1000)]).numpy()

    return judge


def learn(network: nn.Module, x: torch.Tensor, y: torch.Tensor, n_epochs: int = 2) -> None:
    steps = n_epochs * (len(x) // 128 + 1)
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(n_epochs):
        for rows in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimiser.step()
            rate.step()


# the diffusion


def train(options: argparse.Namespace) -> None:
    is_mnist = options.data is not None
    real = real_mnist(options.data) if is_mnist else real_digits()
    trainer = Trainer(max_seconds=None if options.minutes is None else 60 * options.minutes)
    own: dict[str, Any] = {"network": UNet(channels=(32, 64), n_blocks=1, dropout=0.2), "max_epochs": 120}
    if is_mnist:  # the network that is the default for images of this size
        own = {"max_epochs": 20}
        trainer.set_params(validation_fraction=0.005)
    if options.epochs:
        own["max_epochs"] = options.epochs
    model = Diffusion(
        **own, learning_rate=2e-3, trainer=trainer, checkpoint=options.checkpoint, random_state=0, verbose=1
    )
    took, _ = seconds(partial(model.fit, real.train, few_labels(real.train_y) if options.semi else real.train_y))
    model.set_params(checkpoint=None, verbose=0).save(options.model)
    print(f"{model.n_iter_} epochs in {took / 60:.1f} minutes; {options.model}")


# samples


def draw(model: Diffusion, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Samples of every class, in the order of the classes, and their classes."""
    y = np.repeat(model.classes_, options.n)
    how = {"steps": options.steps, "sampler": options.sampler, "guidance": options.guidance}
    took, (samples, _) = seconds(partial(model.sample, len(y), y, random_state=options.seed, **how))
    steps = options.steps or model.schedule_.n_levels
    print(
        f"{len(y)} samples, {options.n} of each class, {options.sampler}, {steps} steps, guidance "
        f"{options.guidance:g}, in {took:.0f} s\n"
    )
    return np.asarray(samples), y


def recognised(judge: Judge, samples: np.ndarray, y: np.ndarray, real: Images) -> None:
    is_right, is_right_real = judge(samples) == y, judge(real.test) == real.test_y
    classes = np.unique(y)
    print(f"| recognised | all | {' | '.join(map(str, classes))} |\n| --- {'| --- ' * (len(classes) + 1)}|")
    for name, right, truth in (("samples", is_right, y), ("test images", is_right_real, real.test_y)):
        cells = " | ".join(f"{right[truth == c].mean():.3f}" for c in classes)
        error = (right.mean() * (1 - right.mean()) / len(right)) ** 0.5
        print(f"| {name} | {right.mean():.4f} ± {error:.4f} | {cells} |", flush=True)


def nearest(images: np.ndarray, real: Images) -> tuple[np.ndarray, np.ndarray]:
    """Distance of every image to the nearest training image, and the number of that image."""
    train = real.scaled(real.train)
    parts = [cdist(part, train) for part in np.array_split(real.scaled(images), len(images) // 500 + 1)]
    return np.concatenate([part.min(1) for part in parts]), np.concatenate([part.argmin(1) for part in parts])


def copies(samples: np.ndarray, real: Images) -> np.ndarray:
    """Print the table of distances; return the numbers of the training images nearest to samples."""
    test = real.test[: max(len(samples), 1000)]
    (own, number), (others, _) = nearest(samples, real), nearest(test, real)
    print("\n| nearest training image | median | 5 % | 1 % | exact copies | nearer than 99 % of test images |")
    print("| --- | --- | --- | --- | --- | --- |")
    bar = np.quantile(others, 0.01)
    for name, distance in ((f"{len(own)} samples", own), (f"{len(others)} test images", others)):
        cells = " | ".join(f"{np.quantile(distance, q):.3f}" for q in (0.5, 0.05, 0.01))
        print(f"| {name} | {cells} | {int((distance == 0).sum())} | {(distance < bar).mean():.3f} |", flush=True)
    return number


def picture(file: Path, samples: np.ndarray, y: np.ndarray, number: np.ndarray, real: Images) -> None:
    """A row for each class: ten samples, each with its nearest training images."""
    rows = np.stack([np.flatnonzero(y == c)[:N_SHOWN] for c in np.unique(y)])
    gap = np.full((len(rows), 1, *samples.shape[1:]), np.nan)
    images = np.concatenate([samples[rows], gap, real.train[number[rows]]], 1)
    n_columns, size = images.shape[1], images.shape[2:]
    scale = max(1, PICTURE_WIDTH // (n_columns * size[1]))
    write_png(image_grid(images.reshape(-1, *size), n_columns, scale, limits=(0, real.top)), file)
    print(f"\nsamples with their nearest training images: {file}")


def judge_samples(options: argparse.Namespace) -> None:
    is_mnist = options.part == "mnist"
    real = real_mnist(options.data) if is_mnist else real_digits()
    judge = network_judge(real, options.judge) if is_mnist else vector_machine(real)
    samples, y = draw(jensen.load(options.model), options)
    recognised(judge, samples, y, real)
    number = copies(samples, real)
    if options.picture:
        picture(options.picture, samples, y, number, real)


# classifiers


def classify(options: argparse.Namespace) -> None:
    real = real_digits() if options.data is None else real_mnist(options.data)
    rows = np.linspace(0, len(real.test) - 1, min(options.rows, len(real.test))).astype(int)
    test, test_y = real.test[rows], real.test_y[rows]
    model = jensen.load(options.model)
    how = {"weighting": options.weighting, "budget": options.budget}
    took, found = seconds(partial(model.classify, test, **how))
    guess = model.classes_[np.asarray(found.probabilities).argmax(1)]
    print("| model | accuracy | s per image |\n| --- | --- | --- |")
    label = f"diffusion, {options.weighting}, budget {options.budget}"
    line(label, guess, test_y, took / len(test))
    if options.semi:
        compare_few_labels(real, test, test_y)
    print(f"\n{np.mean(found.n_evaluations):.0f} evaluations of the network per image")
    # The second most probable class, and its log-odds against the first.
    odds = np.sort(np.asarray(found.log_odds), 1)[:, -2]
    is_right = guess == test_y
    for name, which in (("right", is_right), ("wrong", ~is_right)):
        if which.any():
            print(f"log-odds of the second class, {which.sum()} {name} answers: median {np.median(odds[which]):.2f}")


def line(name: str, guess: np.ndarray, truth: np.ndarray, took: float) -> None:
    right = np.mean(guess == truth)
    error = (right * (1 - right) / len(truth)) ** 0.5
    print(f"| {name} | {right:.4f} ± {error:.4f} | {took:.2g} |", flush=True)


def few_labels(y: np.ndarray) -> np.ndarray:
    """y with -1 for all rows except 20 of each class."""
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.choice(np.flatnonzero(y == c), N_LABELS, replace=False) for c in range(10)])
    answer = np.full_like(y, -1)
    answer[known] = y[known]
    return answer


class LabelledMixture(Dequantised):
    """A mixture fitted to partly labelled images."""

    def fit(self, images: np.ndarray, y: np.ndarray) -> LabelledMixture:
        self.model.fit(images + np.random.default_rng(0).random(images.shape), y)
        return self

    def predict(self, images: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(images + 0.5))


def compare_few_labels(real: Images, test: np.ndarray, test_y: np.ndarray) -> None:
    """Other models with 20 labels per class: trained on all images, or on the labelled ones only."""
    y = few_labels(real.train_y)
    is_known = y >= 0
    network = MLP(hidden=(256, 256), dropout=0.2)
    of_all: dict[str, Any] = {
        "GaussianMixture, full, all images": LabelledMixture(
            GaussianMixture(10, prior=ConjugatePrior(), random_state=0)
        ),
        "VAE, categorical, all images": VAE(
            16, likelihood="categorical", encoder=network, decoder=network, random_state=0
        ),
    }
    of_some: dict[str, Any] = {
        "LogisticRegression, labelled images": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "SVC, labelled images": SVC(C=10.0, gamma=1 / 25),
    }
    for name, model in of_all.items():
        flat = isinstance(model, LabelledMixture)
        train, inputs = (x.reshape(len(x), -1) if flat else x for x in (real.train, test))
        model.fit(train, y)
        took, guess = seconds(partial(model.predict, inputs))
        line(name, guess, test_y, took / len(test))
    for name, model in of_some.items():
        model.fit(real.scaled(real.train)[is_known], y[is_known])
        took, guess = seconds(partial(model.predict, real.scaled(test)))
        line(name, guess, test_y, took / len(test))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parts = parser.add_subparsers(dest="part", required=True)
    for part, n in (("digits", 100), ("mnist", 50)):
        one = parts.add_parser(part)
        one.add_argument("model", type=Path, help="file of a diffusion with classes")
        one.add_argument("--n", type=int, default=n, help="samples per class")
        one.add_argument("--steps", type=int, default=250 if part == "mnist" else None, help="default: all levels")
        one.add_argument("--sampler", default="ancestral")
        one.add_argument("--guidance", type=float, default=0.0)
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--picture", type=Path, help="PNG of ten samples per class and their nearest images")
        if part == "mnist":
            one.add_argument("--data", type=Path, required=True, help="folder with mnist/")
            one.add_argument("--judge", type=Path, help="file of the classifier: read if it exists, else written")
        one.set_defaults(run=judge_samples)
    one = parts.add_parser("train")
    one.add_argument("model", type=Path, help="file to write")
    one.add_argument("--data", type=Path, help="folder with mnist/; without it the model is one of digits")
    one.add_argument("--epochs", type=int, help="default: 120 for digits, 20 for MNIST")
    one.add_argument("--minutes", type=float, help="training ends after so many minutes at the latest")
    one.add_argument("--semi", action="store_true", help="20 labels per class")
    one.add_argument("--checkpoint", type=Path, help="checkpoint file, from which training resumes")
    one.set_defaults(run=train)
    one = parts.add_parser("classify")
    one.add_argument("model", type=Path, help="file of a diffusion with classes")
    one.add_argument("--data", type=Path, help="folder with mnist/; without it the model is one of digits")
    one.add_argument("--weighting", default="variational", choices=["variational", "simple"])
    one.add_argument("--budget", type=int, default=48, help="evaluations per image and class at most")
    one.add_argument("--rows", type=int, default=360, help="test images at most")
    one.add_argument("--semi", action="store_true", help="compare with other models that have 20 labels per class")
    one.set_defaults(run=classify)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    threadpool_limits(options.threads)
    torch.set_num_threads(options.threads)
    options.run(options)


if __name__ == "__main__":
    main()
