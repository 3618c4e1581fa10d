"""Sizes of a comparison: how many rows, components, latent dimensions, training steps and levels an effort pays for.

An effort is an amount of work, not of time: sizes follow from the shape of the rows alone, so a seed gives the same
result on every machine. Work is counted in seconds of one core of the machine that the constants below were measured
on (two cores at 2.6 GHz, AVX2, one thread each), by these formulas, for n rows of d entries:

    networks of tables   steps (STEP + 3 b P RATE),       P weights, batches of b rows; a diffusion of d entries
                                                          with G levels each has d G CELL beside P RATE
    networks of images   steps 3 b h w PIXEL,             h w pixels, any number of channels
    levels of a score    n L P RATE, or n L h w PIXEL,    L levels
    factor analysis      10 EM_STEPS (n + m) d m RATE,    m latent dimensions
    mixtures             STARTS EM_STEPS n d K 8 RATE,    K components; with full covariances d for 8

A model whose work is above its share gets fewer steps, components or levels; the sizes that are tried share it. A table
with more entries than an effort pays for is trained on some of its rows, the same for all models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jensen.evaluate.footing import Footing

# Seconds of one step of a small network, of one multiply-add, of one pixel in a U-Net, and of one cell of a grid.
STEP, RATE, PIXEL, CELL = 5e-3, 5e-11, 5e-6, 7e-10
# Steps of a fit by EM, and how many of them the search for starts and neighbours takes as often.
EM_STEPS, STARTS = 100, 8
# Batches of networks; images take smaller ones before they take fewer steps.
BATCH, IMAGE_BATCHES = 128, (128, 64, 32)
# Of the steps that an effort has for images a U-Net needs this share, or else a network of tables is trained.
ENOUGH = 0.25
FEWEST_STEPS, FEWEST_LEVELS, MOST_LEVELS = 50, 10, 100
# Fewer rows are not worth training on.
FEWEST_ROWS = 200

Size = TypeVar("Size")


@dataclass(frozen=True)
class Effort:
    """
    Args:
        steps: training steps of a network, at most.
        image_steps: training steps of a U-Net, at most.
        channels: channels of the U-Net.
        n_components: numbers of components to try.
        width: width of networks for tables.
        share: seconds of work of one model in one fold.
        most_entries: entries of the rows to train on.
        most_held_out: rows to score.
    """

    steps: int
    image_steps: int
    channels: tuple[int, ...]
    n_components: tuple[int, ...]
    width: int
    share: float = math.inf
    most_entries: float = math.inf
    most_held_out: float = math.inf


EFFORTS = {
    "quick": Effort(1000, 300, (16, 32), (1, 2, 5, 10), 128, 12.0, 1e6, 1000),
    "normal": Effort(5000, 2000, (32, 64), (1, 2, 3, 5, 10, 20), 256, 60.0, 5e6, 5000),
    "thorough": Effort(20_000, 10_000, (32, 64), (1, 2, 3, 5, 8, 12, 20, 30, 50), 256),
}


def sized_split(n: int, d: int, share_held_out: float, effort: Effort) -> tuple[int, int]:
    """How many rows are trained on and how many are scored, of n rows of d entries."""
    held_out = min(math.ceil(share_held_out * n), effort.most_held_out)
    trained = min(n - held_out, max(FEWEST_ROWS, effort.most_entries // d))
    return int(trained), int(held_out)


def affordable(sizes: Sequence[Size], work: Callable[[Size], float], share: float) -> list[Size]:
    """The sizes that can all be tried within the share, those with the least work first; one at least."""
    ordered = sorted(sizes, key=work)
    totals = itertools.accumulate(map(work, ordered))
    return [size for size, total in zip(ordered, totals, strict=True) if total <= share] or ordered[:1]


def mixture_work(n: int, d: int, k: int, is_full: bool) -> float:
    return STARTS * EM_STEPS * k * n * d * ((d if is_full else 8) * RATE)


def factor_work(n: int, d: int, m: int) -> float:
    return EM_STEPS * 10 * (n + m) * d * m * RATE


def subspaces_work(n: int, d: int, k: int, m: int) -> float:
    return STARTS * EM_STEPS * k * 2 * (n + m) * d * m * RATE


@dataclass(frozen=True)
class Training:
    """
    Args:
        steps: of the training.
        batch_size: rows per step.
        levels: of the score of every row.
        is_unet: whether the network is a U-Net.
    """

    steps: int
    batch_size: int
    levels: int
    is_unet: bool = False


def table_training(d: int, n_outputs: int, n_scored: int, effort: Effort, n_levels: int = 0) -> Training:
    """Of a network that takes d entries to n_outputs, with two hidden layers; a diffusion adds up cells of a grid."""
    weights = effort.width * (d + 2 * effort.width + n_outputs)
    steps = effort.share / (STEP + 3 * BATCH * (weights * RATE + d * n_levels * CELL))
    levels = 0.5 * effort.share / (n_scored * weights * RATE)
    return Training(bounded(steps, FEWEST_STEPS, effort.steps), BATCH, bounded(levels, FEWEST_LEVELS, MOST_LEVELS))


def image_training(footing: Footing, n_trained: int, n_scored: int, effort: Effort) -> Training:
    """Of a U-Net, or of a network of tables where a U-Net could not be trained enough."""
    pixels = math.prod(footing.shape[-2:])
    for batch_size in IMAGE_BATCHES:
        steps = effort.share / (STEP + 3 * batch_size * pixels * PIXEL)
        if steps >= ENOUGH * effort.image_steps and (steps >= effort.image_steps or batch_size == IMAGE_BATCHES[-1]):
            levels = 0.5 * effort.share / (n_scored * pixels * PIXEL)
            steps = bounded(steps, FEWEST_STEPS, effort.image_steps)
            return Training(steps, batch_size, bounded(levels, FEWEST_LEVELS, MOST_LEVELS), is_unet=True)
    return table_training(footing.n_entries, footing.n_entries, n_scored, effort, footing.n_levels)


def bounded(value: float, low: int, high: int) -> int:
    return high if value >= high else max(low, int(value))


def reduction(of_table: Training, of_image: Training, is_image: bool, effort: Effort) -> str:
    """For a caption: which networks are smaller than an effort has them for small tables; empty if none is."""
    parts = []
    if of_table.steps < effort.steps:
        parts.append(f"{of_table.steps} training steps")
    if is_image and not of_image.is_unet:
        parts.append(f"no U-Net, but {of_image.steps} training steps of a network of tables")
    elif is_image and of_image.steps < effort.image_steps:
        parts.append(f"{of_image.steps} training steps of a U-Net")
    levels = min(of_table.levels, of_image.levels)
    if levels < MOST_LEVELS:
        parts.append(f"scores from {levels} levels")
    return f"networks are sized to the effort: {', '.join(parts)}" if parts else ""
