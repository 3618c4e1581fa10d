"""How much a diffusion of images computes by default: its U-Net, its training and its held-out scores.

Comparisons count this work before they load a network, so nothing here does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# Default U-Net: pixels become patches until the larger side has at most so many points. From patches of 4x4 on, whose
# points hold more, stages are wider.
MOST_POINTS, CHANNELS, WIDER_FROM, WIDER_CHANNELS = 16, (32, 64), 4, (48, 96)
# Training steps, and passes over the rows at least, by default: of images with more than so many pixels.
FEW_PIXELS, IMAGE_STEPS, IMAGE_EPOCHS = 64, 1800, 5
# Levels per held-out row for early stopping, which otherwise takes as long as the training: the term of a level is an
# average over the values of a row, of which images have many.
HELD_OUT_LEVELS, HELD_OUT_LEVELS_OF_IMAGES, MANY_VALUES = 16, 4, 256


def image_network(shape: Sequence[int]) -> tuple[list[int], int]:
    """Channels and patches of the default U-Net for images (c, h, w)."""
    patch = 1
    while max(shape[1:]) > MOST_POINTS * patch:
        patch *= 2
    return list(CHANNELS if patch < WIDER_FROM else WIDER_CHANNELS), patch


def default_steps(shape: Sequence[int]) -> tuple[int | None, int | None]:
    """Training steps by default, and the smallest number of passes over the rows; None is that of every model."""
    is_small = len(shape) < 3 or math.prod(shape[1:]) <= FEW_PIXELS
    return (None, None) if is_small else (IMAGE_STEPS, IMAGE_EPOCHS)


def held_out_levels(n_values: int) -> int:
    """The levels at which a held-out row of so many values is scored for early stopping."""
    return HELD_OUT_LEVELS_OF_IMAGES if n_values >= MANY_VALUES else HELD_OUT_LEVELS
