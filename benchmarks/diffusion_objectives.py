"""The simple loss against the bound as a training objective, with a network that predicts the noise: samples and bits.

    python benchmarks/diffusion_objectives.py [--epochs 120] [--n 50] [--steps 250] [--seeds 0 1] [--picture FILE]
scikit-learn's digits, 1437 training and 360 test images, stratified by class, with labels. A U-Net with 16 and 32
channels, a linear schedule of 1000 levels, variance "posterior", 120 epochs and the same seeds for both objectives;
early stopping is off, so that both take the same number of steps.

Samples are n of every class by the ancestral sampler, without guidance. A support vector machine that was trained on
the real training images predicts their classes: the share that it recognises as the class they were drawn for. The
bits per dimension are those of test images, from 100 levels each; log2 17 = 4.09 is a uniform distribution.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from measuring import seconds  # first: it sets the number of threads

import numpy as np
from diffusion_judged import Images, real_digits, vector_machine

from jensen import Diffusion, Trainer, UNet
from jensen.report.images import image_grid, write_png


def fitted(objective: str, seed: int, epochs: int, real: Images) -> Diffusion:
    model = Diffusion(
        "linear",
        prediction="noise",
        objective=objective,
        variance="posterior",
        network=UNet(channels=(16, 32), n_blocks=1),
        max_epochs=epochs,
        learning_rate=2e-3,
        trainer=Trainer(validation_fraction=0.0),
        random_state=seed,
    )
    return model.fit(real.train, real.train_y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--n", type=int, default=50, help="samples per class")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--picture", type=Path, help="PNG: a row of ten samples per objective and seed")
    options = parser.parse_args()
    real, rows = real_digits(), []
    judge = vector_machine(real)
    print(f"judge: {100 * (judge(real.test) == real.test_y).mean():.1f} % of the real test images\n")
    print("| objective | seed | recognised, % | bits per dimension | fit, s |\n" + "| --- " * 5 + "|", flush=True)
    for objective in ("simple", "variational"):
        for seed in options.seeds:
            took, model = seconds(partial(fitted, objective, seed, options.epochs, real))
            y = np.repeat(model.classes_, options.n)
            samples = np.asarray(model.sample(len(y), y, random_state=seed, steps=options.steps)[0])
            right = judge(samples) == y
            bits = model.bits_per_dimension(real.test, levels=100)
            shown = f"{100 * right.mean():.1f} ± {100 * (right.std() / len(right) ** 0.5):.1f}"
            error = bits.std() / len(bits) ** 0.5
            print(f"| {objective} | {seed} | {shown} | {bits.mean():.3f} ± {error:.3f} | {took:.0f} |", flush=True)
            rows.append(samples[:: options.n])
    if options.picture:
        write_png(image_grid(np.concatenate(rows), 10, 16, limits=(0, 16)), options.picture)


if __name__ == "__main__":
    main()
