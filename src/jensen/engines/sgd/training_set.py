"""What a model is trained on: rows that are read by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from jensen.data.network_columns import atom_pairs
from jensen.data.rows import Events
from jensen.engines.sgd.feeds import Feed, LabelledFeed, NumberedFeed, ReadFeed, TensorFeed

# Rows that frequencies of levels are estimated from, at most, and entries; wide rows need at least a thousand.
MOST_FOR_FREQUENCIES, MOST_ENTRIES, LEAST_FOR_FREQUENCIES = 20_000, 2**21, 1000
# Rows that are searched for missing values at a time.
MOST_AT_ONCE = 4096
# With fewer rows none are held out: the score of a handful of rows is too noisy to stop by.
LEAST_ROWS = 40


@dataclass(frozen=True)
class TrainingSet:
    """Rows with numbers; rows of a scan are a `StreamedSet`, with the same methods.

    Args:
        events: the rows.
        extra: one more argument of the module's forward, with an entry per row: class numbers, -1 where unknown, or
            latent vectors.
        weight: of the rows; None if all weights are 1.
        is_mixed: whether every batch has labelled and unlabelled rows, if there are both.
        is_even: whether the rows of a mixed batch count alike, so that few labelled rows count for more.
    """

    events: Events
    extra: Tensor | None = None
    weight: Tensor | None = None
    is_mixed: bool = False
    is_even: bool = False

    @cached_property
    def x(self) -> Tensor:
        """All rows, encoded once."""
        return self.events.all()

    @property
    def has_labels(self) -> bool:
        return self.extra is not None

    def has_missing(self) -> bool:
        """Whether values are missing. Rows on disk are not searched: they may have some, unless they are integers."""
        if not self.events.can_have_missing:
            return False
        return not self.events.is_in_memory or any(bool(part.isnan().any()) for part in self.x.split(MOST_AT_ONCE))

    def lacks_values(self) -> bool:
        """Whether values are missing, other than numbers at atoms."""
        if not self.has_missing() or not self.events.is_in_memory:
            return self.has_missing()
        missing = self.x.isnan()
        for pair in atom_pairs(self.events.columns):
            missing[:, pair.number] &= missing[:, pair.level]
        return bool(missing.any())

    def split(self, validation_fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows to train on and those held out, for the methods below."""
        return split_rows(self.events.n_rows, validation_fraction, seed)

    def some_rows(self, rows: np.ndarray) -> Tensor:
        """A part of the rows with these numbers, enough to estimate frequencies from."""
        entries = MOST_ENTRIES // len(self.events.columns.names)
        most = min(MOST_FOR_FREQUENCIES, max(entries, LEAST_FOR_FREQUENCIES))
        some = rows[:: max(1, len(rows) // most)]
        return self.x[torch.from_numpy(some)] if self.events.is_in_memory else self.events.read(some)

    def feed(self, rows: np.ndarray, device: torch.device) -> NumberedFeed:
        """The rows with these numbers, in memory where they fit; their weights have mean 1."""
        index = torch.from_numpy(rows)
        is_whole = len(rows) == self.events.n_rows
        if self.events.is_in_memory and device.type == "cpu" and self.weight is None:
            # A batch is copied from all rows: a part of them would be as much memory again.
            return TensorFeed(
                (self.x,) if self.extra is None else (self.x, self.extra), numbers=None if is_whole else index
            )
        extra = () if self.extra is None else (self.extra[index].to(device),)
        weight = None if self.weight is None else self.weight[index].float().to(device)
        if weight is not None:
            weight = weight / weight.mean()
        if not self.events.is_in_memory:
            return ReadFeed(lambda numbers: self.events.read(rows[numbers]), np.arange(len(rows)), extra, weight)
        x = self.x if is_whole else self.x[index]
        return TensorFeed((x.to(device), *extra), weight)

    def training_feed(self, rows: np.ndarray, device: torch.device) -> Feed:
        """The rows to train on; held-out rows come from `feed`."""
        if not self.is_mixed or self.extra is None:
            return self.feed(rows, device)
        is_known = (self.extra[torch.from_numpy(rows)] >= 0).numpy()
        if is_known.all() or not is_known.any():
            return self.feed(rows, device)
        mass = torch.ones(len(self.extra)) if self.weight is None else self.weight.float()
        known, unknown = rows[is_known], rows[~is_known]
        share = float(mass[torch.from_numpy(known)].sum() / mass[torch.from_numpy(rows)].sum())
        return LabelledFeed(self.feed(unknown, device), self.feed(known, device), share, self.is_even)

    def class_counts(self, n_classes: int) -> Tensor:
        """The total weight of the labelled rows of every class (C,)."""
        assert self.extra is not None
        known, weight = self.extra >= 0, self.weights()
        return torch.bincount(self.extra[known], weight[known], minlength=n_classes)

    def weights(self) -> Tensor:
        """The weight of every row (n,), in double precision."""
        return torch.ones(self.events.n_rows).double() if self.weight is None else self.weight.double()

    @property
    def total_weight(self) -> float:
        return float(self.weights().sum())

    def identity(self) -> dict[str, object]:
        """What a checkpoint compares: other rows are another fit."""
        first = self.events.read(np.arange(min(self.events.n_rows, 8))).nan_to_num(-1.0).double()
        return {
            "rows of X": self.events.n_rows,
            "shape of a row": list(self.events.shape),
            "the sum of the first rows": float(first.sum()),
            "the sum of the weights": None if self.weight is None else float(self.weight.sum()),
            "the sum of the labels": [] if self.extra is None else [float(self.extra.double().sum())],
        }


def split_rows(n_rows: int, validation_fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to train on and of those held out, both sorted."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_held_out = round(validation_fraction * n_rows) if n_rows >= LEAST_ROWS else 0
    return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
