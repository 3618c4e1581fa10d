"""A diffusion as the prior of a VAE's latent vectors, compared with N(0, I).

    python benchmarks/latent_diffusion.py digits [--save FOLDER]
    python benchmarks/latent_diffusion.py mnist --data DIR [--save FOLDER] [--judge FILE] [--picture grid.png]
The table shows the bound of test rows, and the gain from the diffusion row by row with its standard error; the same for
the rows used for early stopping in both stages. With two-stage training both bounds have the same encoder and decoder.
MNIST has Bernoulli pixels, binarised at every use, and a 784-200-200-50 network; samples are means of the decoder.
A sample is recognised if an independent classifier, trained on real images, gives some digit a probability of 0.9 or
more.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from measuring import THREADS, seconds  # first: it sets the number of threads

import numpy as np
import torch
from diffusion_judged import network_probabilities, real_digits, real_mnist

import jensen
import mnist
from jensen import MLP, VAE, Bernoulli, Diffusion, LatentDiffusion, ResidualMLP, Trainer
from jensen.report.images import image_grid, write_png

CONFIDENCE = 0.9
N_SAMPLES, N_STEPS = 1000, 200
# For the bound, per row.
N_LEVELS = 100

RECIPES: dict[str, dict[str, Any]] = {
    "two-stage, beta, variational": {},
    "two-stage, beta, simple": {"objective": "simple"},
    "two-stage, learned": {"variance": "learned"},
    "two-stage, posterior": {"variance": "posterior"},
    "joint, beta": {},
}


def model_of(name: str, vae: VAE, options: dict[str, Any]) -> LatentDiffusion:
    prior = Diffusion(**({"objective": "variational"} | options | RECIPES[name]))
    return LatentDiffusion(vae, prior, training=name.split(",")[0], random_state=0)


def kept(folder: Path | None, name: str, make: Callable[[], LatentDiffusion]) -> tuple[float, LatentDiffusion]:
    """A new fit, or the one saved in the folder."""
    file = None if folder is None else folder / f"{name.replace(', ', '-')}.jensen"
    if file is not None and file.exists():
        return float("nan"), jensen.load(file)
    took, model = seconds(make)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        model.save(file)
    return took, model


def more(model: LatentDiffusion, rows: np.ndarray, levels: int) -> tuple[float, float, float]:
    """Mean bound of rows, and the gain from the diffusion with its standard error."""
    ours, own = model.bound(rows, levels=levels).total, model.vae_.bound(rows).total
    gain = ours - own
    return float(ours.mean()), float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))


def held_out(model: LatentDiffusion, rows: np.ndarray, share: float) -> np.ndarray:
    """The rows used for early stopping in both stages."""
    order = np.random.default_rng(model._seed()).permutation(len(rows))
    return rows[np.sort(order[: round(share * len(rows))])]


def line(name: str, took: float, model: LatentDiffusion, train: np.ndarray, test: np.ndarray, share: float) -> None:
    stopped, tested = (more(model, rows, N_LEVELS) for rows in (held_out(model, train, share)[:1000], test))
    print(
        f"| {name} | {took:.0f} | {tested[0]:.2f} | {tested[1]:+.3f} ± {tested[2]:.3f} | "
        f"{stopped[1]:+.3f} ± {stopped[2]:.3f} | {model.n_iter_} |",
        flush=True,
    )


def header() -> None:
    print("| prior | fit, s | test bound, nats | gain over N(0, I) | gain on stopping rows | epochs |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)


def digits(options: argparse.Namespace) -> None:
    real = real_digits()
    network = MLP(hidden=(256, 256), dropout=0.2)
    vae = VAE(8, likelihood="categorical", encoder=network, decoder=network)
    if options.quick:
        vae.set_params(max_epochs=2)
    header()
    for name in options.only:
        make = partial(model_of, name, vae, {"n_steps": 200, **({"max_epochs": 2} if options.quick else {})})
        took, model = kept(options.save, f"digits-{name}", lambda make=make: make().fit(real.train))
        line(name, took, model, real.train, real.test, 0.1)


def handwriting(options: argparse.Namespace) -> None:
    train, test = mnist.grey(options.data), mnist.grey(options.data, "test")
    real = real_mnist(options.data)
    if options.quick:
        train, test = train[:3000], test[:300]
    binary = mnist.binarised(test[:: len(test) // 1000 or 1], 0)
    network = MLP(hidden=(200, 200), activation="tanh")
    trainer = Trainer(validation_fraction=0.02)
    vae = VAE(
        50,
        likelihood=Bernoulli(resample=True),
        encoder=network,
        decoder=network,
        max_epochs=1 if options.quick else options.epochs,
        trainer=trainer,
    )
    prior = {
        "network": ResidualMLP(width=384, n_blocks=4),
        "trainer": trainer,
        "max_epochs": 1 if options.quick else 2 * options.epochs,
    }
    probabilities = network_probabilities(real, options.judge)
    shown = {"test images": test[:N_SAMPLES]}
    header()
    for name in options.only:
        took, model = kept(options.save, f"mnist-{name}", lambda name=name: model_of(name, vae, prior).fit(train))
        line(name, took, model, train, binary, 0.02)
        n = 200 if options.quick else N_SAMPLES
        _, z = model.sample(n, random_state=0, steps=N_STEPS)
        _, other = model.vae_.sample(n, random_state=0)
        shown[f"N(0, I) of {name}"] = model.inverse_transform(other)
        shown[name] = model.inverse_transform(z)
    print(f"\n| images | recognised with {CONFIDENCE} or more | mean confidence |\n| --- | --- | --- |")
    for name, images in shown.items():
        sure = probabilities(255 * np.float32(images).reshape(-1, 28, 28)).max(1)
        print(f"| {name} | {100 * (sure >= CONFIDENCE).mean():.1f} % | {sure.mean():.3f} |", flush=True)
    if options.picture is not None:
        for name, images in shown.items():
            file = options.picture.with_stem(f"{options.picture.stem}-{name.replace(', ', '-').replace(' ', '-')}")
            write_png(image_grid(images[:100].reshape(-1, 28, 28), limits=(0, 1)), file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["digits", "mnist"])
    parser.add_argument("--only", nargs="+", choices=list(RECIPES), default=list(RECIPES), metavar="NAME")
    parser.add_argument("--data", type=Path, help="folder with mnist/")
    parser.add_argument(
        "--epochs", type=int, default=40, help="epochs of the VAE of MNIST; twice as many for the prior"
    )
    parser.add_argument("--save", type=Path, help="folder for models; a later run reads them")
    parser.add_argument("--judge", type=Path, help="file of the classifier")
    parser.add_argument("--picture", type=Path, help="PNG of 100 samples, one file per prior")
    parser.add_argument("--quick", action="store_true", help="few rows and epochs, to test the script")
    parser.add_argument("--threads", type=int, default=THREADS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.part == "mnist" and options.data is None:
        parser.error("mnist needs --data, a folder with mnist/")
    (digits if options.part == "digits" else handwriting)(options)


if __name__ == "__main__":
    main()
