"""A denoising diffusion of MNIST's 256 grey levels: bits per dimension of test images, and samples.

    python benchmarks/diffusion_mnist.py train --data DIR --output m.jensen --checkpoint m.ckpt
    python benchmarks/diffusion_mnist.py evaluate --data DIR m.jensen [--rows 1000] [--levels 200] [--picture grid.png]
The network, a U-Net with 24, 48 and 48 channels, predicts the probability of each grey level; there are 1000 noise
levels. One thread by default (--threads). Uniformly dequantised flows report 1.06 (RealNVP), 1.05 (Glow) and 0.97 bits
(residual flows; Chen et al. 2019, table 2).
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import measuring  # noqa: F401  (first: it sets the number of threads)
import mnist
import numpy as np
import torch

import jensen
from jensen import Diffusion, Trainer, UNet


def images(data: Path, split: str) -> np.ndarray:
    return mnist.idx(data, split, "images-idx3").reshape(-1, 28, 28)


def train(arguments: argparse.Namespace) -> None:
    model = Diffusion(
        "linear",
        network=UNet(channels=(24, 48, 48), n_blocks=1),
        max_epochs=arguments.epochs,
        batch_size=64,
        learning_rate=2e-3,
        trainer=Trainer(validation_fraction=0.01),
        checkpoint=arguments.checkpoint,
        random_state=0,
        verbose=1,
    )
    rows = images(arguments.data, "train")
    began = time.perf_counter()
    model.fit(rows[:2000] if arguments.quick else rows)
    model.set_params(checkpoint=None).save(arguments.output)
    print(f"{(time.perf_counter() - began) / 60:.1f} minutes; {arguments.output}")
    history = model.history_
    print((-history["held_out"] / (784 * math.log(2))).round(4).to_list(), "bits per dimension of held-out rows")


def evaluate(arguments: argparse.Namespace) -> None:
    model = jensen.load(arguments.model)
    rows = images(arguments.data, "test")
    rows = rows[:: len(rows) // arguments.rows][: arguments.rows]
    began = time.perf_counter()
    bound = model.bound(rows, levels=arguments.levels).in_bits()
    bits = -bound.total / 784
    of_draws = np.sqrt((bound.standard_error**2).sum()) / len(bits) / 784
    print(
        f"{bits.mean():.4f} bits per dimension of {len(rows)} test rows (standard error "
        f"{bits.std() / len(bits) ** 0.5:.4f}, of the draws {of_draws:.4f}), "
        f"{arguments.levels} levels per row, {time.perf_counter() - began:.0f} s"
    )
    print(bound)
    if arguments.picture:
        from jensen.report.images import image_grid, write_png

        began = time.perf_counter()
        samples, _ = model.sample(64, random_state=0, steps=arguments.steps)
        write_png(image_grid(samples, limits=(0, 255)), arguments.picture)
        print(f"64 samples in {arguments.steps} steps, {time.perf_counter() - began:.0f} s; {arguments.picture}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parts = parser.add_subparsers(required=True)
    training = parts.add_parser("train")
    training.add_argument("--data", type=Path, required=True, help="folder with mnist/")
    training.add_argument("--output", type=Path, required=True, help="file for the model")
    training.add_argument("--checkpoint", type=Path, help="checkpoint file, from which training resumes")
    training.add_argument("--epochs", type=int, default=5)
    training.add_argument("--quick", action="store_true", help="2000 rows")
    training.set_defaults(run=train)
    evaluation = parts.add_parser("evaluate")
    evaluation.add_argument("model", type=Path)
    evaluation.add_argument("--data", type=Path, required=True, help="folder with mnist/")
    evaluation.add_argument("--rows", type=int, default=1000)
    evaluation.add_argument("--levels", type=int, default=200)
    evaluation.add_argument("--steps", type=int, default=250, help="steps of the ancestral sampler")
    evaluation.add_argument("--picture", type=Path, help="PNG of 64 samples")
    evaluation.set_defaults(run=evaluate)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
