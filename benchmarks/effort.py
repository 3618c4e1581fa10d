"""How long `compare` takes at an effort, and the constants of its sizes (src/jensen/evaluate/sizing.py).

    python benchmarks/effort.py [--effort quick] [--only NAME ...] [--mnist train-images.gz] [--adult adult.data.gz]
    python benchmarks/effort.py --constants
Processor seconds of one thread for every model and in total; on two cores a comparison takes at most that. Rows are
generated, but for scikit-learn's digits, and for MNIST and Adult where their files are given.

The constants are those of Σ over steps and levels; every line has the seconds of a training step, which are
STEP + 3 b f, and of a level of a row, which are f.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import numpy as np
import pandas as pd
import torch
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits

from jensen import MLP, VAE, Diffusion, ResidualMLP, Trainer, UNet, compare

ADULT = [
    *("age", "work", "weight", "education", "years", "marital", "occupation", "relation"),
    *("race", "sex", "gain", "loss", "hours", "country", "income"),
]


def images(n: int, *shape: int, levels: int = 256) -> np.ndarray:
    """Smooth images on a grid."""
    x = gaussian_filter(np.random.default_rng(0).normal(size=(n, *shape)), (0,) * (len(shape) - 1) + (2, 2))
    x = (x - x.min()) / (x.max() - x.min())
    return np.rint((levels - 1) * x).astype(np.uint8)


def numbers(n: int, d: int) -> np.ndarray:
    """Rows of five clusters."""
    rng = np.random.default_rng(0)
    axes, means, group = rng.normal(size=(5, d, d)) / np.sqrt(d), 3 * rng.normal(size=(5, d)), rng.integers(0, 5, n)
    noise = rng.normal(size=(n, d))
    return means[group] + np.stack([axes[k] @ row for k, row in zip(group, noise, strict=True)])


def tables(mnist: str | None, adult: str | None) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {
        "digits": lambda: load_digits().images,
        "300 colour images of 32 x 32": lambda: images(300, 3, 32, 32),
        "60 colour images of 128 x 128": lambda: images(60, 3, 128, 128),
        "20 000 x 20": lambda: numbers(20_000, 20),
        "2000 x 784": lambda: numbers(2000, 784),
        "300 x 6": lambda: numbers(300, 6),
    }
    if mnist:
        with gzip.open(mnist) as file:
            rows = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
        found |= {"10 000 MNIST images": lambda: rows[:10_000], "2000 MNIST images": lambda: rows[:2000]}
    if adult:
        table = pd.read_csv(adult, header=None, names=ADULT, skipinitialspace=True)
        for n in (300, 3000):
            found[f"{n} rows of Adult"] = lambda n=n: table.sample(n, random_state=0).reset_index(drop=True)
    return found


def seconds(job: Callable[[], Any]) -> float:
    began = time.process_time()
    job()
    return time.process_time() - began


def constants() -> None:
    def line(name: str, make: Callable[..., Any], shape: tuple[int, ...], levels: int, b: int) -> None:
        few, many = 10, 40
        took = []
        for n_steps in (few, many):
            n = b * n_steps
            x = images(n, *shape, levels=levels) if levels else np.random.default_rng(0).normal(size=(n, *shape))
            if levels:
                x.reshape(len(x), -1)[:2] = [[0], [levels - 1]]
            model = make(max_epochs=1, batch_size=b, trainer=Trainer(validation_fraction=0.0), random_state=0)
            took.append(seconds(lambda model=model, x=x: model.fit(x)))
        score = seconds(lambda: model.score_samples(x[:64])) / 640
        step = (took[1] - took[0]) / (many - few)
        print(
            f"{name:10s} {shape!s:12s} {levels:3d} levels, batches of {b:3d}: {step * 1e3:6.1f} ms a step, "
            f"{score * 1e6:7.1f} us a level",
            flush=True,
        )

    def diffusion(network: Any) -> Callable[..., Any]:
        return lambda **options: Diffusion(network=network, evaluation_levels=10, **options)

    def vae(**options: Any) -> Any:
        return VAE(encoder=MLP((128, 128)), decoder=MLP((128, 128)), evaluation_samples=10, **options)

    Diffusion(network=UNet((16, 32)), max_epochs=1).fit(images(256, 8, 8))  # what only the first fit takes
    for b in (16, 128):
        line("U-Net", diffusion(UNet((16, 32))), (8, 8), 17, b)
        line("U-Net, wide", diffusion(UNet((32, 64))), (8, 8), 17, b)
        for shape, levels in (((20,), 0), ((784,), 0), ((8, 8), 256)):
            line("blocks", diffusion(ResidualMLP(128)), shape, levels, b)
    for levels in (17, 256):
        line("U-Net", diffusion(UNet((16, 32))), (28, 28), levels, 16)
        line("blocks", diffusion(ResidualMLP(128)), (28, 28), levels, 16)
    for d in (20, 784, 3072):
        line("VAE", vae, (d,), 0, 128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--mnist")
    parser.add_argument("--adult")
    parser.add_argument("--constants", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if given.constants:
        constants()
        return
    for name, make in tables(given.mnist, given.adult).items():
        if given.only and name not in given.only:
            continue
        X, began, wall = make(), time.process_time(), time.perf_counter()
        board = compare(X, effort=given.effort, verbose=1)
        took = time.process_time() - began
        print(f"{name}, {given.effort}: {took:.0f} processor seconds, {time.perf_counter() - wall:.0f} s of the clock")
        print(board.shown().to_string(index=False), board.caption, sep="\n", flush=True)


if __name__ == "__main__":
    main()
