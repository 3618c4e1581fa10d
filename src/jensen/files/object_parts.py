"""Rows of objects in this process as parts of a scan: a function, a LazyFrame, a query, a Dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jensen.files.parts import Part, frame_of

# Items of a Dataset in a part.
ITEMS = 2**16


@dataclass(frozen=True)
class Called:
    """Blocks from a function of the user's."""

    function: Callable[[], Iterable[Any]]

    def __call__(self, n_rows: int) -> Iterable[Any]:
        return self.function()


@dataclass(frozen=True)
class LazyBlocks:
    """Blocks of a polars LazyFrame, computed anew for every sweep."""

    frame: Any

    def __call__(self, n_rows: int) -> Iterable[Any]:
        yield from self.frame.collect_batches(chunk_size=n_rows, maintain_order=True)


@dataclass(frozen=True)
class RelationBlocks:
    """Blocks of a DuckDB query, run anew for every sweep."""

    relation: Any

    def __call__(self, n_rows: int) -> Iterable[Any]:
        for batch in self.relation.to_arrow_reader(n_rows):
            yield frame_of(batch)


@dataclass(frozen=True)
class Tuples:
    """Rows of a Dataset of tuples, with what stands beside x, by its place in the tuple."""

    x: np.ndarray
    aside: dict[str, np.ndarray]


@dataclass(frozen=True)
class DatasetPart:
    """Items of a map-style torch Dataset.

    Args:
        dataset: of rows x, or of tuples that begin with them.
        start, stop: its items.
        aside: places in the tuples of a label and of a weight.
    """

    dataset: Any
    start: int
    stop: int
    aside: tuple[int, ...] = ()
    is_fast: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"the Dataset, items {self.start} to {self.stop}"

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    def blocks(self, n_rows: int) -> Iterator[Any]:
        from jensen.data.container import places_of_items

        for start in range(self.start, self.stop, n_rows):
            numbers = np.arange(start, min(start + n_rows, self.stop))
            x, *aside = places_of_items(self.dataset, numbers, [0, *self.aside])
            yield Tuples(x, dict(zip(map(str, self.aside), aside, strict=True))) if aside else x


def dataset_parts(dataset: Any, aside: Sequence[str]) -> list[Part]:
    """Parts of a Dataset; label and weight are places in its tuples, or columns of items that are no tuples."""
    if not hasattr(dataset, "__len__"):
        raise TypeError("scan needs a map-style Dataset, with a length; give a function that returns its batches")
    n, places = len(dataset), tuple[int, ...]()
    if n and aside and isinstance(dataset[0], (tuple, list)):
        known = [str(place) for place in range(1, len(dataset[0]))]
        if wrong := [name for name in aside if name not in known]:
            raise ValueError(
                f"the items of the Dataset are tuples of {len(known) + 1}, and labels and weights go by their place in "
                f"them: {wrong[0]!r} is none of {', '.join(map(repr, known)) or 'them, since there is only x'}"
            )
        places = tuple(map(int, aside))
    return [DatasetPart(dataset, i, min(i + ITEMS, n), places) for i in range(0, n, ITEMS)]
