"""64 samples of a model with its defaults, trained on a few thousand images of MNIST: the first thing that a user sees.

    python benchmarks/image_samples.py --data DIR --output grid.png [--model vae|diffusion] [--images 5000]
    python benchmarks/image_samples.py --data DIR --output grid.png --model diffusion --seconds 60 180 360
With several limits of seconds, each has two lines of 16 samples. The VAE's samples are the decoder's means, as in
`jensen sample --output grid.png`. OMP_NUM_THREADS limits the threads. Prints the seconds of the training by the clock
and of the processor, and bits per dimension of test images.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import measuring  # noqa: F401  (first: it sets the number of threads)
import mnist
import numpy as np

from jensen import VAE, Diffusion, Trainer
from jensen.report.images import image_grid, write_png


def images(data: Path, split: str) -> np.ndarray:
    return mnist.idx(data, split, "images-idx3").reshape(-1, 28, 28)


def new_model(name: str, seconds: float | None) -> VAE | Diffusion:
    options: dict[str, Any] = {"trainer": Trainer(max_seconds=seconds), "random_state": 0, "verbose": 1}
    return VAE(**options) if name == "vae" else Diffusion(**options)


def drawn(model: VAE | Diffusion, n: int) -> np.ndarray:
    rows, _ = model.sample(n, mean=True) if isinstance(model, VAE) else model.sample(n, sampler="dpm", steps=20)
    return np.asarray(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist/")
    parser.add_argument("--model", choices=["vae", "diffusion"], default="vae")
    parser.add_argument("--images", type=int, default=5000, help="the first images of the training set")
    parser.add_argument(
        "--seconds", type=float, nargs="+", default=[None], help="limits of trainings; none: the default"
    )
    parser.add_argument("--rows", type=int, default=500, help="test images that are scored")
    parser.add_argument("--output", type=Path, required=True, help="file for the picture, .png")
    arguments = parser.parse_args()
    rows, test = (images(arguments.data, split) for split in ("train", "test"))
    rows, n = rows[: arguments.images], 64 if len(arguments.seconds) == 1 else 32
    found = []
    for limit in arguments.seconds:
        model = new_model(arguments.model, limit)
        began, of_processor = time.perf_counter(), time.process_time()
        model.fit(rows)
        seconds, of_processor = time.perf_counter() - began, time.process_time() - of_processor
        bits = model.bits_per_dimension(test[: arguments.rows])
        print(
            f"{arguments.model}, {len(rows)} images: {model.n_iter_} epochs in {seconds:.0f} s, {of_processor:.0f} s "
            f"of the processor; {bits.mean():.3f} ± {bits.std() / len(bits) ** 0.5:.3f} bits per dimension of "
            f"{len(bits)} test images",
            flush=True,
        )
        found.append(drawn(model, n))
    grid = image_grid(np.concatenate(found), n_columns=8 if n == 64 else 16, scale=2, limits=(0, 255))
    write_png(grid, arguments.output)
    print(f"samples: {arguments.output}", flush=True)


if __name__ == "__main__":
    main()
