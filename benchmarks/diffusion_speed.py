"""Speed of the denoising diffusion, compared with peers that run alternately in the same process.

    python benchmarks/diffusion_speed.py [--quick] [--threads 2] [step unet sample bound levels]
step     a training step of `Diffusion.fit` and of a plain torch loop, at the size of digits (8x8, batches of 128) and
         of MNIST (28x28, batches of 64). The plain loop has the same network, draws rows, levels and noise, minimises
         the mean squared error of the noise with fused Adam and sums its loss. Both run without averages, clipping,
         learning-rate schedules and held-out rows. The setup before the first step is not counted. Target: at most 1.1.
unet     forward and backward pass of jensen's U-Net and of diffusers' with the same weights, 1x8x8 in batches of 128
         and 1x28x28 in batches of 32. Target: at least 1.
sample   256 digits in 20 steps.
bound    the bound over all 1000 levels of one row, and a loop over the levels, two at a time; for many rows, a loop
         over the levels with all rows as a batch. Target: at least 5, and at least 1.
levels   the bound from 50 levels per row minus that from all. Target: within 3 standard errors.
The network has 32 and 64 channels and one block per stage; for the last three parts it is trained for five epochs on
digits. Images of 28x28 are random pixels, because the content does not affect the time. Figures are medians of repeats.
"""
# ruff: noqa: I001 (the number of threads is set by the first import)

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from measuring import THREADS, peak_memory, seconds  # first: it sets the number of threads

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from jensen import Diffusion, Schedule, Trainer, UNet
from jensen.formulas.noising import prior_kl

CHANNELS = (32, 64)
NETWORK = UNet(channels=CHANNELS, n_blocks=1, dropout=0.0)
LEARNING_RATE = 1e-3
N_EPOCHS = 5  # of training for the last three parts

Steps = tuple[list[float], float]  # seconds of a step by epoch, and the mean loss of all


def images(side: int, n_rows: int) -> np.ndarray:
    """Digits, or random grey values of another size."""
    if side == 8:
        return load_digits().images[:n_rows]
    return np.random.default_rng(0).integers(0, 256, (n_rows, side, side)).astype(np.float32)


def medians(calls: Mapping[str, Callable[[], Any]], n_repeats: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds of each, measured alternately after one call that is not counted, and the results of that call."""
    answers = {name: call() for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(n_repeats):
        for name, call in calls.items():
            times[name].append(seconds(call)[0])
    return {name: statistics.median(took) for name, took in times.items()}, answers


# step: the training loop


def bare_loop(pixels: np.ndarray, batch_size: int, n_epochs: int) -> Steps:
    torch.manual_seed(0)
    x = torch.from_numpy(pixels / pixels.max() * 2 - 1).float()[:, None]
    network = NETWORK.build(tuple(x.shape[1:]), tuple(x.shape[1:]))
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)
    bar = torch.from_numpy(np.array(Schedule.linear().alpha_bar)).float()
    signal, noise_std = bar.sqrt()[:, None, None, None], (1 - bar).sqrt()[:, None, None, None]
    times, total, n_steps = [], 0.0, len(x) // batch_size
    for _ in range(n_epochs):
        began = time.perf_counter()
        for index in torch.randperm(len(x)).split(batch_size)[:n_steps]:
            x0, level = x[index], torch.randint(len(bar), (batch_size,))
            noise = torch.randn_like(x0)
            loss = mse_loss(network(signal[level] * x0 + noise_std[level] * noise, level.float()), noise)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach())
        times.append((time.perf_counter() - began) / n_steps)
    return times, total / (n_steps * n_epochs)


def jensen_fit(pixels: np.ndarray, batch_size: int, n_epochs: int) -> Steps:
    model = Diffusion(
        prediction="noise",
        network=NETWORK,
        max_epochs=n_epochs,
        batch_size=batch_size,
        learning_rate=LEARNING_RATE,
        trainer=Trainer(averaging=None, clip=None, warm_up=0, decay=None, validation_fraction=0.0),
        random_state=0,
    ).fit(pixels)
    history = model.history_
    n_passes = np.diff(history["epoch"], prepend=0)  # a round may have several epochs
    per_step = np.diff(history["seconds"], prepend=0.0) / n_passes / (len(pixels) // batch_size)
    return np.repeat(per_step, n_passes).tolist(), -float(np.average(history["objective"], weights=n_passes))


LOOPS: dict[str, Callable[[np.ndarray, int, int], Steps]] = {"plain loop": bare_loop, "jensen": jensen_fit}


def step(quick: bool) -> None:
    for side, batch_size, n_batches, n_epochs in ((8, 128, 11, 10), (28, 64, 15, 4)):
        if quick:
            n_batches, n_epochs = 3, 2
        pixels = images(side, n_batches * batch_size)
        for loop in LOOPS.values():  # the first call includes one-time setup
            loop(pixels[: 2 * batch_size], batch_size, 1)
        times: dict[str, list[float]] = {name: [] for name in LOOPS}
        losses = {}
        n_rounds = 1 if quick else 5
        for _ in range(n_rounds):
            for name, loop in LOOPS.items():
                took, losses[name] = loop(pixels, batch_size, n_epochs)
                times[name] += took
        print(f"training step, {side}x{side}, batches of {batch_size}, {n_rounds * n_epochs * n_batches} steps each")
        report(times, losses)
        if not quick or side == 8:
            memory(side, batch_size, len(pixels))


def report(times: Mapping[str, list[float]], losses: Mapping[str, float]) -> None:
    median = {name: statistics.median(took) for name, took in times.items()}
    for name, took in times.items():
        print(
            f"{name:>10}: {1000 * median[name]:.1f} ms per step ({1000 * min(took):.1f} to {1000 * max(took):.1f}), "
            f"{median[name] / median['plain loop']:.3f} x the plain loop; mean loss {losses[name]:.3f}",
            flush=True,
        )


def memory(side: int, batch_size: int, n_rows: int) -> None:
    """Peak memory of two epochs, each loop in its own process."""
    setup = (
        "sys.path.insert(0, sys.argv[1])\nimport diffusion_speed as speed\n"
        "side, batch_size, n_rows = map(int, sys.argv[3:])\nloop = speed.LOOPS[sys.argv[2]]\n"
        "loop(speed.images(8, 16), 8, 1)\npixels = speed.images(side, n_rows)"
    )
    sizes = [str(size) for size in (side, batch_size, n_rows)]
    for name in LOOPS:
        above = peak_memory(setup, "loop(pixels, batch_size, 2)", str(Path(__file__).parent), name, *sizes)
        print(f"{name:>10}: peak memory {above:.0f} MB", flush=True)


# unet: the network


def unets(side: int) -> dict[str, nn.Module]:
    """The U-Net of diffusers, and jensen's with the same weights."""
    from diffusers import UNet2DModel

    torch.manual_seed(0)
    theirs = UNet2DModel(
        sample_size=side,
        in_channels=1,
        out_channels=1,
        block_out_channels=CHANNELS,
        layers_per_block=1,
        down_block_types=("DownBlock2D",) * len(CHANNELS),
        up_block_types=("UpBlock2D",) * len(CHANNELS),
        norm_num_groups=8,
    )
    ours = UNet(CHANNELS, n_blocks=1, dropout=0.0, position_map=False).build((1, side, side), (1, side, side))
    weights = {
        re.sub(r"(down|up)samplers\.0\.conv", "resample", name).replace("to_out.0", "to_out"): value
        for name, value in theirs.state_dict().items()
    }
    ours.load_state_dict(weights)
    return {"diffusers": theirs, "jensen": ours}


def output_of(network: nn.Module, x: Tensor, t: Tensor) -> Tensor:
    answer = network(x, t)
    output: Tensor = answer if isinstance(answer, Tensor) else answer.sample
    return output


def unet(quick: bool) -> None:
    for side, batch_size in ((8, 128), (28, 32)):
        networks = unets(side)
        x, t = torch.randn(batch_size, 1, side, side), 999 * torch.rand(batch_size)

        def learn(network: nn.Module, x: Tensor = x, t: Tensor = t) -> None:
            network.zero_grad()
            mse_loss(output_of(network, x, t), x).backward()

        with torch.no_grad():
            apart = float((output_of(networks["jensen"], x, t) - output_of(networks["diffusers"], x, t)).abs().max())
        n_repeats = 3 if quick else 31
        took, _ = medians({name: partial(learn, network) for name, network in networks.items()}, n_repeats)
        sizes = {name: sum(p.numel() for p in network.parameters()) for name, network in networks.items()}
        print(f"forward and backward, 1x{side}x{side}, batches of {batch_size}; outputs differ by at most {apart:.1e}")
        for name, median in took.items():
            print(f"{name:>10}: {1000 * median:.1f} ms, {sizes[name]} parameters")
        print(f"diffusers / jensen: {took['diffusers'] / took['jensen']:.2f}", flush=True)


# sample, bound, levels: results of a trained model


@cache
def trained(quick: bool) -> Diffusion:
    model = Diffusion(network=NETWORK, max_epochs=1 if quick else N_EPOCHS, learning_rate=2e-3, random_state=0)
    return model.fit(images(8, 512 if quick else 1437))


def sample(quick: bool) -> None:
    n_samples = 32 if quick else 256
    calls = {
        name: partial(trained(quick).sample, n_samples, random_state=0, sampler=name, steps=20)
        for name in ("dpm", "ddim")
    }
    took, _ = medians(calls, 1 if quick else 5)
    for name, median in took.items():
        print(f"{n_samples} digits in 20 steps of {name!r}: {median:.2f} s", flush=True)


@torch.inference_mode()
def level_by_level(model: Diffusion, rows: np.ndarray) -> Tensor:
    """The bound of rows (n,), one level at a time for all rows."""
    module, x = model.module_, torch.from_numpy(rows).float().flatten(1)
    x0 = module.space.embed(x)
    cost = prior_kl(x0.double(), module.schedule)
    for t in range(1, module.schedule.n_levels + 1):
        level = torch.full((len(x),), t)
        cost += module.terms(x, x0, level, torch.randn_like(x0)).nats.double()
    return -cost


def bound(quick: bool) -> None:
    model = trained(quick)
    for n_rows, n_repeats in ((1, 1), (4, 1)) if quick else ((1, 7), (16, 5), (64, 3)):
        rows = images(8, 1797)[-n_rows:]
        calls = {"loop": partial(level_by_level, model, rows), "jensen": partial(model.bound, rows, levels="all")}
        took, answers = medians(calls, n_repeats)
        apart = float(np.mean(answers["jensen"].total - answers["loop"].numpy()))
        error = float(np.sqrt(2 * np.sum(answers["jensen"].standard_error ** 2)) / n_rows)
        print(
            f"bound of {n_rows} rows, all 1000 levels: jensen {took['jensen']:.2f} s, a loop over the levels "
            f"{took['loop']:.2f} s, loop / jensen {took['loop'] / took['jensen']:.2f}; they differ by {apart:+.2f} "
            f"nats per row, standard error {error:.2f}",
            flush=True,
        )
    setup = (
        "sys.path.insert(0, sys.argv[1])\nimport diffusion_speed as speed\n"
        f"model = speed.trained({quick})\nrows = speed.images(8, 1797)[-{n_rows}:]"
    )
    for name, call in (("jensen", "model.bound(rows, levels='all')"), ("loop", "speed.level_by_level(model, rows)")):
        above = peak_memory(setup, call, str(Path(__file__).parent))
        print(f"{name:>10}: peak memory {above:.0f} MB above that after training", flush=True)


def levels(quick: bool) -> None:
    model, rows = trained(quick), images(8, 1797)[-(8 if quick else 100) :]
    few, every = model.bound(rows, levels=50), model.bound(rows, levels="all")
    differences = few.total - every.total
    error = differences.std(ddof=1) / len(rows) ** 0.5
    reported = np.sqrt(np.mean(few.standard_error**2 + every.standard_error**2))
    print(
        f"50 levels minus all, {len(rows)} rows: {differences.mean():+.3f} nats, standard error {error:.3f}, ratio "
        f"{abs(differences.mean()) / error:.2f}; bound {every.total.mean():.1f} nats"
    )
    print(
        f"standard deviation of a row's difference {differences.std(ddof=1):.2f}; reported errors {reported:.2f}",
        flush=True,
    )


PARTS: dict[str, Callable[[bool], None]] = {
    "step": step,
    "unet": unet,
    "sample": sample,
    "bound": bound,
    "levels": levels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(PARTS)}; default all")
    parser.add_argument("--quick", action="store_true", help="few steps, rows and repeats, to test the script")
    parser.add_argument("--threads", type=int, default=THREADS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.threads} threads, torch {torch.__version__}")
    for part in options.parts or PARTS:
        print(f"\n## {part}", flush=True)
        PARTS[part](options.quick)


if __name__ == "__main__":
    main()
