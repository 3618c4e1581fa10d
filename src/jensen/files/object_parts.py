"""Rows of objects in this process as parts of a scan: a function, a LazyFrame, a query, a Dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
class DatasetPart:
    """Items of a map-style torch Dataset."""

    dataset: Any
    start: int
    stop: int
    is_fast: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"the Dataset, items {self.start} to {self.stop}"

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    def blocks(self, n_rows: int) -> Iterator[Any]:
        from jensen.data.container import read_items

        for start in range(self.start, self.stop, n_rows):
            yield read_items(self.dataset, np.arange(start, min(start + n_rows, self.stop)))


def dataset_parts(dataset: Any) -> list[Part]:
    if not hasattr(dataset, "__len__"):
        raise TypeError("scan needs a map-style Dataset, with a length; give a function that returns its batches")
    return [DatasetPart(dataset, i, min(i + ITEMS, len(dataset))) for i in range(0, len(dataset), ITEMS)]
