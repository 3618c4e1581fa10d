"""The rows of a scan for a model that is trained by gradients: one sweep finds what a fit must know before it starts.

Kinds, levels, scales, ends and atoms of the columns, missing values, classes, weights and a sample of rows all add, so
parts are read in any order and by any process. The processes of a fit share the parts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from jensen.data.cells import Cells, check_finite
from jensen.data.columns import Columns
from jensen.data.labels import encode_labels
from jensen.data.network_columns import NetworkColumns
from jensen.data.opening import open_rows, remember_range
from jensen.data.reader import LARGEST, read_weights
from jensen.data.row_sums import RowSums, columns_of_sums
from jensen.data.rows import ColumnRules, Described, refuse_far
from jensen.engines.em.streamed import located
from jensen.engines.sgd.places import hash_places
from jensen.engines.sgd.processes import World
from jensen.engines.sgd.streams import BUFFER_BYTES, BUFFER_ROWS, ReadRows, StreamedSet
from jensen.engines.sgd.training_set import MOST_FOR_FREQUENCIES
from jensen.files.scan import Block, Scan
from jensen.runtime.ahead import ahead
from jensen.runtime.messages import own_filters
from jensen.runtime.threads import in_threads

# Numbers of the sample, at most.
MOST_SAMPLED = 2**24


@dataclass(frozen=True)
class BlockReader:
    """Rows of blocks.

    Args:
        model: a copy of the model that knows the names of the columns.
        shape: of a row.
        has_labels, has_weights: whether the scan has them.
        classes: once they are known.
        columns: once they are known.
    """

    model: Any
    shape: tuple[int, ...]
    has_labels: bool
    has_weights: bool
    classes: np.ndarray | None = None
    columns: Columns | None = None

    def __call__(self, block: Block, first: int) -> ReadRows | None:
        """The encoded rows that have a weight; the first has this number in its part."""
        assert self.columns is not None
        kept, label, weight = self.aside(block)
        if not len(kept):
            return None
        cells = self.cells(block, kept)
        return ReadRows(encoded(cells, self.columns), label, weight, first + np.arange(len(kept)))

    def cells(self, block: Block, kept: np.ndarray) -> Cells:
        given = open_rows(self.model, block.table, reset=False)
        if given.shape != self.shape:
            raise ValueError(f"rows have shape {given.shape}, and those before {self.shape}; give rows of one shape")
        cells = given.rows(np.arange(given.n_rows))
        check_finite(cells, LARGEST)
        return cells if len(kept) == given.n_rows else cells.take(kept)

    def aside(self, block: Block) -> tuple[np.ndarray, Tensor | None, Tensor | None]:
        """The places in the block of the rows with weight, their labels and their weights."""
        n, weight, label = block.n_rows, None, None
        kept = np.ones(n, dtype=bool)
        if self.has_weights:
            given = np.asarray(block.weight, dtype=np.float64)
            # A block may hold only rows of weight 0.
            weight = torch.zeros(n) if not given.any() else read_weights(given, n)
            weight = torch.ones(n) if weight is None else weight.float()
            kept = (weight > 0).numpy()
        if self.has_labels and self.classes is not None:
            label = encode_labels(block.y, n, self.classes, kept)[0]
            label = torch.full((n,), -1) if label is None else label
        places = np.flatnonzero(kept)
        if len(places) == n:
            return places, label, weight
        index = torch.from_numpy(places)
        return places, None if label is None else label[index], None if weight is None else weight[index]


def encoded(cells: Cells, columns: Columns) -> Tensor:
    """Rows (b, D) as networks take them."""
    values = columns.encode(cells)
    refuse_far(values, columns, cells)
    return NetworkColumns.of(columns).split(values).float()


@dataclass(frozen=True)
class Sample:
    """The rows whose places have the least hashes; copies of a row are rows of their own.

    Args:
        most: rows to keep.
        blocks: hashes of places, rising or not, and the rows there.
    """

    most: int
    blocks: tuple[tuple[np.ndarray, Cells], ...]

    def __add__(self, other: Sample) -> Sample:
        return Sample(self.most, (*self.blocks, *other.blocks)).limited()

    def limited(self) -> Sample:
        hashes = np.concatenate([places for places, _ in self.blocks])
        if len(hashes) <= self.most:
            return self
        limit = np.partition(hashes, self.most)[self.most]
        kept = [(places, cells, np.flatnonzero(places < limit)) for places, cells in self.blocks]
        return Sample(self.most, tuple((p[own], copied(cells.take(own))) for p, cells, own in kept if len(own)))


def copied(cells: Cells) -> Cells:
    """Cells that do not keep the table they are from in memory."""
    return replace(cells, numbers=cells.numbers.copy(), texts={j: texts.copy() for j, texts in cells.texts.items()})


@dataclass(frozen=True)
class Classes:
    """The classes that occur, sorted, and the weight of the rows of each."""

    values: np.ndarray
    mass: np.ndarray

    def __add__(self, other: Classes) -> Classes:
        if not len(self.values) or not len(other.values):
            return self if len(self.values) else other
        values, place = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        return Classes(values, np.bincount(place, np.concatenate([self.mass, other.mass])))


@dataclass(frozen=True)
class Survey:
    """What the first sweep finds; surveys add."""

    n_rows: int
    mass: float
    sums: RowSums
    sample: Sample
    classes: Classes

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.n_rows + other.n_rows,
            self.mass + other.mass,
            self.sums + other.sums,
            self.sample + other.sample,
            self.classes + other.classes,
        )


@dataclass(frozen=True)
class SurveyPart:
    """The survey of a part by its number; None if it has no rows."""

    scan: Scan
    read: BlockReader
    rules: ColumnRules
    most_sampled: int

    def __call__(self, item: tuple[int, Any]) -> tuple[int, Survey | None]:
        number, part = item
        total: Survey | None = None
        for block in ahead(self.scan.blocks(part)):
            try:
                own = self.of_block(number, block, 0 if total is None else total.n_rows)
            except ValueError as error:
                raise located(error, part, block) from error
            if own is not None:
                total = own if total is None else total + own
        return number, total

    def of_block(self, part: int, block: Block, first: int) -> Survey | None:
        kept, _, weight = self.read.aside(block)
        if not len(kept):
            return None
        cells = self.read.cells(block, kept)
        mass = np.ones(len(kept)) if weight is None else weight.double().numpy()
        return Survey(
            len(kept),
            float(mass.sum()),
            RowSums.of(cells, self.rules, len(self.read.shape) > 1),
            Sample(self.most_sampled, ((hash_places(part, first + np.arange(len(kept))), cells),)).limited(),
            self.classes_of(block, kept, mass),
        )

    def classes_of(self, block: Block, kept: np.ndarray, mass: np.ndarray) -> Classes:
        none = Classes(np.array([]), np.array([]))
        if not self.read.has_labels:
            return none
        counts = np.zeros(block.n_rows, dtype=bool)
        counts[kept] = True
        with own_filters():
            # One class in a block says nothing about the others.
            warnings.simplefilter("ignore")
            label, classes = encode_labels(block.y, block.n_rows, None, counts)
        if label is None:
            return none
        own = label[torch.from_numpy(kept)].numpy()
        return Classes(classes, np.bincount(own[own >= 0], mass[own >= 0], minlength=len(classes)))


def survey_rows(
    model: Any, scan: Scan, rules: ColumnRules, world: World, shuffle_rows: int | None
) -> tuple[StreamedSet, np.ndarray | None]:
    """The rows of a scan to train on, and the classes of their labels; the model gets to know their columns."""
    reader, table = clone(model), scan.head().table
    head = open_rows(reader, table, reset=True)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(reader, name):
            setattr(model, name, getattr(reader, name))
        elif name in vars(model):
            delattr(model, name)
    read = BlockReader(reader, head.shape, scan.label is not None, scan.weight is not None)
    d, is_image = math.prod(head.shape), len(head.shape) > 1
    job = SurveyPart(scan, read, rules, min(MOST_FOR_FREQUENCIES, max(1000, MOST_SAMPLED // d)))
    own, sizes = list(enumerate(scan.parts))[world.rank :: world.size], np.zeros(len(scan.parts), dtype=np.int64)
    mine, counted = swept(in_threads(job, own))
    for number, n in world.gather(counted):
        sizes[number] = n
    total = added(world.gather([mine]))
    images = np.array([total.sums.moments.low.min(), total.sums.moments.high.max()])
    remember_range(model, images if is_image else None)
    columns = columns_of_sums(total.sums, rules, head.rows(np.arange(1)), is_image, total.n_rows)
    classes = total.classes.values if len(total.classes.values) else None
    read = replace(read, classes=classes, columns=columns)
    parts = NetworkColumns.of(columns)
    most = max(1, BUFFER_BYTES // (4 * len(parts.inner.names)))
    lacks = lacks_cells(columns, total)
    return StreamedSet(
        scan,
        Described(total.n_rows, head.shape, columns, parts.inner, head.kind),
        read,
        sizes,
        encoded_sample(total.sample, columns),
        (lacks, lacks or any(columns.atoms)),
        None if classes is None else torch.from_numpy(total.classes.mass),
        total.mass,
        min(BUFFER_ROWS, most) if shuffle_rows is None else int(shuffle_rows),
        world.size,
        float(total.sums.moments.mean.sum()),
    ), classes


def swept(found: Iterable[tuple[int, Survey | None]]) -> tuple[Survey | None, list[tuple[int, int]]]:
    """The sum over the parts of this process, and the rows of each by its number.

    Surveys are added as they come: those of many parts would fill the memory.
    """
    total, counted = None, []
    for number, survey in found:
        if survey is not None:
            total = survey if total is None else total + survey
            counted.append((number, survey.n_rows))
    return total, counted


def added(surveys: Iterable[Survey | None]) -> Survey:
    known = [survey for survey in surveys if survey is not None]
    if not known:
        raise ValueError("X: the scan has no rows with a weight above 0; give at least one")
    return reduce(add, known)


def lacks_cells(columns: Columns, total: Survey) -> bool:
    """Whether cells are empty in columns that networks model."""
    names: Sequence[int] = columns.kept
    used = [j for place, j in enumerate(names) if columns.kinds[place] != "constant"]
    return bool((total.sums.moments.n[used] < total.n_rows).any())


def encoded_sample(sample: Sample, columns: Columns) -> tuple[Tensor, np.ndarray]:
    """The rows of the sample, and the hashes of their places."""
    x = torch.cat([encoded(cells, columns) for _, cells in sample.blocks])
    return x, np.concatenate([places for places, _ in sample.blocks])
