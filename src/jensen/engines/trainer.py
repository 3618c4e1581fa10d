"""How a network is trained, apart from how long and how fast: one small value beside the model's own arguments."""

from __future__ import annotations

import math
from typing import Any

from sklearn.base import BaseEstimator

__all__ = ["Trainer"]


class Trainer(BaseEstimator):
    """What the training path does besides plain steps of Adam.

    Args:
        weight_decay: of AdamW; 0 is Adam.
        warm_up: steps over which the learning rate rises from 0.
        decay: "cosine" lets the learning rate fall to 0 at the last step, None keeps it.
        clip: the norm to which gradients are cut, or None.
        averaging: decay of the moving average of the weights that scores and samples use, or None for the weights
            themselves; the average forgets its start quickly, by (1 + t) / (10 + t) at step t.
        validation_fraction: share of the rows held out for early stopping; 0 trains on all and keeps the last weights.
        patience: rounds without a better held-out bound after which training stops; the best weights are kept.
        checkpoint_every: seconds between checkpoints, where the model has a `checkpoint`.

    Example:
        >>> from jensen import Trainer
        >>> Trainer(clip=1.0).clip
        1.0
    """

    def __init__(
        self,
        *,
        weight_decay: float = 0.0,
        warm_up: int = 100,
        decay: str | None = "cosine",
        clip: float | None = 10.0,
        averaging: float | None = 0.999,
        validation_fraction: float = 0.1,
        patience: int = 20,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.weight_decay = weight_decay
        self.warm_up = warm_up
        self.decay = decay
        self.clip = clip
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint_every = checkpoint_every

    def check(self) -> None:
        """Refuse values that cannot be meant; constructors only store them."""
        at_least_zero = {name: getattr(self, name) for name in ("weight_decay", "warm_up", "checkpoint_every")}
        for name, value in at_least_zero.items():
            if not is_number(value) or value < 0:
                raise ValueError(f"Trainer({name}={value!r}) must be a number, 0 or more")
        if self.decay not in ("cosine", None):
            raise ValueError(f"Trainer(decay={self.decay!r}) must be 'cosine' or None")
        if self.clip is not None and not (is_number(self.clip) and self.clip > 0):
            raise ValueError(f"Trainer(clip={self.clip!r}) must be a number above 0, or None")
        if self.averaging is not None and not (is_number(self.averaging) and 0 < self.averaging < 1):
            raise ValueError(f"Trainer(averaging={self.averaging!r}) must lie between 0 and 1, or be None")
        if not (is_number(self.validation_fraction) and 0 <= self.validation_fraction < 1):
            raise ValueError(f"Trainer(validation_fraction={self.validation_fraction!r}) must be 0 or more and below 1")
        if not (is_number(self.patience) and self.patience >= 1):
            raise ValueError(f"Trainer(patience={self.patience!r}) must be 1 or more")

    def rate(self, step: int, n_steps: int) -> float:
        """The learning rate of a step, as a share of the largest."""
        rising = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        falling = 0.5 * (1 + math.cos(math.pi * min(step / n_steps, 1.0))) if self.decay == "cosine" else 1.0
        return rising * falling


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
