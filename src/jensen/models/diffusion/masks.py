"""Masks: the network is told what is known of a row, without noise, and denoises the rest given that.

    ln p(x_hidden | x_known) ≥ the bound over the hidden entries, of a network with x_known and the mask as inputs
Training draws a mask for every row, so that one reverse chain imputes any entries given any others. Half of the rows
have nothing known: their terms are those of ln p(x), which scores, samples and classes need. Tashiro, Song, Song &
Ermon (2021); for images Saharia et al. (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

# Share of training rows of which something is known.
TOLD = 0.5


@dataclass(frozen=True)
class Known:
    """What is known of rows.

    Args:
        points: x_0 (b, D); entries that are not known may hold anything.
        mask: the known columns (b, d).
    """

    points: Tensor
    mask: Tensor

    @classmethod
    def nothing(cls, points: Tensor, n_columns: int) -> Self:
        return cls(points, torch.zeros((len(points), n_columns), dtype=torch.bool, device=points.device))

    def hidden(self, observed: Tensor | None) -> Tensor:
        """Mask (b, d) of what is to be denoised: observed and not known."""
        return ~self.mask if observed is None else observed & ~self.mask


@dataclass(frozen=True)
class Masks:
    """The masks that training draws: single entries, and for images rectangles too.

    Args:
        shape: of the rows, (d,) or (c, h, w).
    """

    shape: tuple[int, ...]

    def draw(self, x0: Tensor, observed: Tensor | None, n_columns: int) -> Known:
        """What is known of rows with points x_0 in one step of the training, among what is observed."""
        n, device = len(x0), x0.device
        # A uniform share of known entries makes every number of them as probable as any other.
        mask = torch.rand((n, n_columns), device=device) < torch.rand((n, 1), device=device)
        if len(self.shape) == 3:
            is_rectangle = torch.rand((n, 1), device=device) < 0.5
            mask = torch.where(is_rectangle, rectangles(n, *self.shape, device=device), mask)
        mask &= torch.rand((n, 1), device=device) < TOLD
        return Known(x0, mask if observed is None else mask & observed)


def rectangles(n: int, c: int, h: int, w: int, device: torch.device) -> Tensor:
    """Masks (n, c h w) of the inside or the outside of a rectangle, whose sides often lie at the border of the image:
    a fourth of them cut an image in two.
    """
    inside = spans(n, h, device)[:, :, None] & spans(n, w, device)[:, None, :]
    mask = inside ^ (torch.rand((n, 1, 1), device=device) < 0.5)
    return mask[:, None].expand(-1, c, -1, -1).reshape(n, -1)


def spans(n: int, size: int, device: torch.device) -> Tensor:
    """Masks (n, size) of the places between two random ones, each of which is an end with probability ½."""
    low, high = (torch.rand((n, 2), device=device).sort(1).values * size).split(1, 1)
    at_low, at_high = (torch.rand((2, n, 1), device=device) < 0.5).unbind()
    place = torch.arange(size, device=device) + 0.5
    inside: Tensor = (at_low | (place > low)) & (at_high | (place < high))
    return inside
