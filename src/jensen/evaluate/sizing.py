"""Sizes of a comparison: how many rows, components, latent dimensions, training steps and levels an effort pays for.

An effort is an amount of work, not of time: sizes follow from the shape of the rows alone, so a seed gives the same
result on every machine. Work is counted in seconds of one thread, with constants that were measured, by these formulas
for n rows of d entries:

    a row in a network   f = P RATE + d ENTRY                    P weights
    a row in a U-Net     f = m Σ_c (c PIXEL + c² FILTER) + d ENTRY    m points, of a pixel or a patch; c channels
    a row of a grid      d G CELL beside it, in training half    G levels; all levels of an entry are added up, in
                                                                 training those of some entries if G is large
    training             steps (STEP + 3 b f)                    batches of b rows; the rows that stop it beside it
    levels of a score    n L f                                   L levels
    factor analysis      em_steps 22 (2 d + m) d m RATE          m latent dimensions; of n < d rows 10 (n + m) d m RATE
    mixtures of them     STARTS EM_STEPS K d m (2 (n + m) RATE + LOADING), where wide rows have more loadings than rows
    a latent curve       100 n d² RATE
    topics, words        n w K TOPIC, n w K WORD                 w words that occur in a row; K topics, K components
    mixtures             STARTS EM_STEPS n d K 8 RATE            K components; with full covariances d for 8

A model whose work is above its share gets fewer steps, components or levels; the sizes that are tried share it. A table
with more entries than an effort pays for is trained on some of its rows, the same for all models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jensen.contract.image_sizes import held_out_levels, image_network
from jensen.evaluate.footing import Footing

# Seconds of one thread (benchmarks/effort.py --constants), forward: a multiply-add, an entry of a row, a channel and a
# filter at a pixel of a U-Net, a level of an entry on a grid. A step of a small network, and of a small U-Net.
RATE, ENTRY, PIXEL, FILTER, CELL = 5e-11, 3e-8, 2.8e-8, 1e-9, 1.1e-8
STEP, UNET_STEP = 3e-3, 1.2e-2
# An entry of the loadings in an M-step, of which all tensors of that size are read a few times.
LOADING = 1.5e-7
# Hidden layers of a VAE, and of the blocks and times of a diffusion for tables, as squares of their width.
VAE_LAYERS, DENOISER_LAYERS = 2, 11
# A fit of topics, and of a mixture of words, per word that occurs in a document and topic.
TOPIC, WORD = 5e-7, 1e-7
# Steps of a fit by EM, and how many of them the search for starts and neighbours takes as often.
EM_STEPS, STARTS = 100, 8
# Batches of networks; diffusions take smaller ones before they take fewer steps.
BATCH, SMALLER_BATCHES = 128, (128, 64, 32, 16)
# Of the steps that an effort has for images a U-Net needs this share, or else a network of tables is trained.
ENOUGH = 0.25
FEWEST_STEPS, FEWEST_LEVELS, MOST_LEVELS = 50, 10, 100
# Of a diffusion, whose score of a row then has an error of a few nats, far less than rows differ.
MOST_NOISE_LEVELS = 40
# Fewer rows are not worth training on, or do not rank models.
FEWEST_ROWS, FEWEST_HELD_OUT = 200, 100
# With as many steps some rows are held out to stop the training, and scored at so many levels every so many steps.
STEPS_TO_STOP, STOPPING_ROWS, ROUND = 200, 0.1, 50
# Outputs per entry of a diffusion on a grid, at most.
MOST_OUTPUTS = 32

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
        em_steps: of factor analysis, at most.
        n_topics: numbers of topics to try.
    """

    steps: int
    image_steps: int
    channels: tuple[int, ...]
    n_components: tuple[int, ...]
    width: int
    share: float = math.inf
    most_entries: float = math.inf
    most_held_out: float = math.inf
    em_steps: int = 1000
    n_topics: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200)


EFFORTS = {
    "quick": Effort(1000, 300, (16, 32), (1, 2, 5, 10), 128, 22.0, 1e6, 1000, 100, (2, 5, 20)),
    "normal": Effort(5000, 2000, (32, 64), (1, 2, 3, 5, 10, 20), 256, 60.0, 5e6, 5000, 300, (2, 5, 10, 20, 50)),
    "thorough": Effort(20_000, 10_000, (32, 64), (1, 2, 3, 5, 8, 12, 20, 30, 50), 256),
}


def sized_split(n: int, footing: Footing, share_held_out: float, effort: Effort) -> tuple[int, int]:
    """How many of n rows are trained on, and how many are scored."""
    d = footing.held or footing.n_entries
    by_levels = 0.5 * effort.share / (FEWEST_LEVELS * d * footing.n_levels * CELL) if footing.n_levels else math.inf
    most = min(effort.most_held_out, max(FEWEST_HELD_OUT, by_levels))
    held_out = min(math.ceil(share_held_out * n), most)
    trained = min(n - held_out, max(FEWEST_ROWS, effort.most_entries // d))
    return int(trained), int(held_out)


def affordable(sizes: Sequence[Size], work: Callable[[Size], float], share: float) -> list[Size]:
    """The sizes that can all be tried within the share, those with the least work first; one at least."""
    ordered = sorted(sizes, key=work)
    totals = itertools.accumulate(map(work, ordered))
    return [size for size, total in zip(ordered, totals, strict=True) if total <= share] or ordered[:1]


def mixture_work(n: int, d: int, k: int, is_full: bool) -> float:
    return STARTS * EM_STEPS * k * n * d * ((d if is_full else 8) * RATE)


def factor_work(n: int, d: int, m: int, em_steps: int) -> float:
    # Where there are enough rows, EM runs twice, on 2d rows of the same covariance.
    rows = 22 * (2 * d + m) if d <= n else 10 * (n + m)
    return em_steps * rows * d * m * RATE


def curve_work(n: int, d: int) -> float:
    return n * d**2 * 100 * RATE


def subspaces_work(n: int, d: int, k: int, m: int) -> float:
    return STARTS * EM_STEPS * k * d * m * (2 * (n + m) * RATE + LOADING)


def words_work(n: int, held: float, k: int, per_word: float) -> float:
    return n * held * k * per_word


@dataclass(frozen=True)
class Training:
    """
    Args:
        steps: of the training.
        batch_size: rows per step.
        levels: of the score of every row.
        is_unet: whether the network is a U-Net.
        has_levels: whether a diffusion on a grid adds up the levels of every entry.
        patch: of the U-Net.
    """

    steps: int
    batch_size: int
    levels: int
    is_unet: bool = False
    has_levels: bool = True
    patch: int = 1

    @property
    def is_stopped(self) -> bool:
        """Whether rows are held out to stop the training."""
        return self.steps >= STEPS_TO_STOP


def table_training(d: int, n_outputs: int, n_scored: int, effort: Effort) -> Training:
    """Of a network that takes d entries to n_outputs, with two hidden layers."""
    row = network_work(d, n_outputs, VAE_LAYERS, effort)
    steps = effort.share / (STEP + 3 * BATCH * row)
    return Training(bounded(steps, FEWEST_STEPS, effort.steps), BATCH, affordable_levels(row, n_scored, effort))


def diffusion_training(footing: Footing, n_trained: int, n_scored: int, effort: Effort) -> Training:
    """Of a U-Net for images, or of a network of tables where a U-Net could not be trained enough."""
    d, n_levels = footing.n_entries, footing.n_levels
    cells = d * n_levels * CELL
    # One pass over the rows, and their score, have to be paid in any case.
    has_levels = max(1.5 * n_trained, FEWEST_LEVELS * n_scored) * cells <= effort.share
    cells = cells if has_levels else 0.0
    work = Work(cells, min(1.0, MOST_OUTPUTS / max(n_levels, 1)), held_out_levels(d))
    if footing.is_image:
        _, patch = image_network((1, *footing.shape[-2:]))
        n_points = math.prod(-(-side // patch) for side in footing.shape[-2:])
        row = n_points * sum(c * PIXEL + c**2 * FILTER for c in effort.channels) + (patch > 1) * d * ENTRY
        steps, batch_size = affordable_steps(row, work, UNET_STEP, n_trained, effort.image_steps, effort)
        if steps >= ENOUGH * effort.image_steps:
            n_steps = bounded(steps, FEWEST_STEPS, effort.image_steps)
            levels = affordable_levels(row + cells, n_scored, effort, MOST_NOISE_LEVELS)
            return Training(n_steps, batch_size, levels, True, has_levels, patch)
    n_outputs = d * (min(n_levels, MOST_OUTPUTS) if has_levels and n_levels else 1)
    row = network_work(d, n_outputs, DENOISER_LAYERS, effort)
    steps, batch_size = affordable_steps(row, work, STEP, n_trained, effort.steps, effort)
    levels = affordable_levels(row + cells, n_scored, effort, MOST_NOISE_LEVELS)
    return Training(bounded(steps, FEWEST_STEPS, effort.steps), batch_size, levels, False, has_levels)


def network_work(d: int, n_outputs: int, n_layers: int, effort: Effort) -> float:
    """f of a network with so many hidden layers."""
    return effort.width * (d + n_layers * effort.width + n_outputs) * RATE + d * ENTRY


@dataclass(frozen=True)
class Work:
    """Work of a diffusion's row beside that of its network.

    Args:
        cells: of all levels of all entries.
        some: the share of the entries whose levels a training step adds up.
        stopping_levels: of the rows that stop the training.
    """

    cells: float
    some: float
    stopping_levels: int


def affordable_steps(row: float, work: Work, step: float, n: int, wanted: int, effort: Effort) -> tuple[float, int]:
    """Steps and the size of their batches, for n rows of this work each."""
    trained = 3 * (row + work.some * work.cells / 2)
    for batch_size in SMALLER_BATCHES:
        to_stop = work.stopping_levels * STOPPING_ROWS * n / max(ROUND, n / batch_size)
        steps = effort.share / (step + batch_size * trained + to_stop * (row + work.cells))
        if steps >= wanted:
            break
    if steps < STEPS_TO_STOP:
        steps = min(effort.share / (step + batch_size * trained), STEPS_TO_STOP - 1)
    return steps, batch_size


def affordable_levels(row: float, n_scored: int, effort: Effort, most: int = MOST_LEVELS) -> int:
    return bounded(0.5 * effort.share / (n_scored * row), FEWEST_LEVELS, most)


def bounded(value: float, low: int, high: int) -> int:
    return high if value >= high else max(low, int(value))


def reduction(of_table: Training, diffused: Training, is_image: bool, effort: Effort) -> str:
    """For a caption: which networks are smaller than an effort has them for small tables; empty if none is."""
    parts = []
    if of_table.steps < effort.steps:
        parts.append(f"{of_table.steps} training steps")
    if is_image and not diffused.is_unet:
        parts.append(f"no U-Net, but {diffused.steps} training steps of a network of tables")
    elif diffused.steps < (effort.image_steps if is_image else effort.steps):
        parts.append(f"{diffused.steps} training steps of the diffusion")
    levels = min(of_table.levels, diffused.levels)
    if of_table.levels < MOST_LEVELS or diffused.levels < MOST_NOISE_LEVELS:
        parts.append(f"scores from {levels} levels")
    return f"networks are sized to the effort: {', '.join(parts)}" if parts else ""
