"""Documents of a scan: what a fit has to know of them, found in one sweep, and sweeps that hold a few at a time.

γ of every document starts where the last sweep left it, as in memory, so topics are the same up to rounding. Between
sweeps γ is in files (`shares`). Where other processes compute, it travels with the task of a part, and comes back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from jensen.contract import Rows
from jensen.contract.scanning import ReadBlock, adopt, reader_of
from jensen.data.sparse import rows_matrix, stacked
from jensen.engines.em.batch import Batch
from jensen.engines.em.streamed import added, located, run, sum_over
from jensen.files.parts import Part
from jensen.files.scan import Block, Scan
from jensen.models.topics.em import DocumentSource, block_of
from jensen.models.topics.fit import HeldCorpus
from jensen.models.topics.shares import Keep, Recall, Shares, recalling, rewriting
from jensen.runtime.ahead import ahead
from jensen.runtime.hashing import hash_rows
from jensen.runtime.threads import in_threads
from jensen.runtime.workers import Durations, new_durations

# Documents that online steps are drawn from; if there are more, parts are read in random order.
BUFFER = 2**15


@dataclass(frozen=True)
class Census:
    """What the first sweep finds; those of parts add."""

    n_rows: int
    n_entries: int
    total: float
    n_occurrences: float
    class_sizes: Tensor
    class_words: Tensor | None
    checksum: int

    @classmethod
    def of(cls, corpus: HeldCorpus) -> Census:
        n = corpus.counts.shape[0]
        sizes = corpus.class_sizes
        checksum = int(hash_rows(rows_matrix(corpus.counts)).sum(dtype=np.uint64))
        return cls(n, corpus.n_entries, corpus.total, corpus.n_occurrences, sizes, corpus.class_words, checksum)

    def __add__(self, other: Census) -> Census:
        words = self.class_words
        if words is None or other.class_words is None:
            words = other.class_words if words is None else words
        else:
            words = words + other.class_words
        return Census(
            self.n_rows + other.n_rows,
            self.n_entries + other.n_entries,
            self.total + other.total,
            self.n_occurrences + other.n_occurrences,
            self.class_sizes + other.class_sizes,
            words,
            (self.checksum + other.checksum) % 2**64,
        )


@dataclass(frozen=True)
class CensusOfBlock:
    read: ReadBlock
    n_classes: int

    def __call__(self, block: Block) -> Census:
        rows = self.read(block)
        return Census.of(HeldCorpus(rows.x, rows.weight, rows.label, self.n_classes))


@dataclass(frozen=True)
class ScannedCorpus:
    """Documents of a scan."""

    scan: Scan
    read: ReadBlock
    found: Census
    n_words: int

    @property
    def n_entries(self) -> int:
        return self.found.n_entries

    @property
    def total(self) -> float:
        return self.found.total

    @property
    def mean_length(self) -> float:
        return self.found.n_occurrences / self.found.total

    @property
    def class_weights(self) -> Tensor:
        sizes = self.found.class_sizes
        return sizes / sizes.sum() if len(sizes) else sizes

    @property
    def class_words(self) -> Tensor | None:
        return self.found.class_words

    def source(self, n_topics: int, dtype: torch.dtype, block: int | None = None) -> ScannedSource:
        if block is None:
            block = block_of(n_topics, self.n_words, self.n_entries / max(1, self.found.n_rows))
        documents = ReadDocuments(self.read, len(self.found.class_sizes), n_topics, dtype, block)
        checksum = f"{self.found.checksum:016x}"
        return ScannedSource(self.scan, documents, self.found.n_rows, self.n_entries * n_topics, checksum)


@dataclass(frozen=True)
class ScannedDocuments(Rows):
    """Training documents of a scan; x, weight and label are those of none of them."""

    corpus: ScannedCorpus | None = None

    @property
    def n_rows(self) -> int:
        assert self.corpus is not None
        return self.corpus.found.n_rows


def survey_documents(model: Any, scan: Scan) -> ScannedDocuments:
    """The documents of a scan for a fit; the model gets to know their words and classes."""
    reader = reader_of(model, scan)
    classes: np.ndarray = getattr(reader, "classes_", np.array([]))
    model._check_classes(classes)
    read = ReadBlock(reader)
    found = sum_over(scan, CensusOfBlock(read, len(classes)))
    adopt(model, reader)
    kind = reader._read_rows(reader._of_block(scan.head().table), None, None, reset=False).kind.of_other_rows()
    v = int(reader.n_features_in_)
    corpus = ScannedCorpus(scan, read, found, v)
    return ScannedDocuments(torch.empty(0, v), None, None, classes, kind, corpus=corpus)


@dataclass(frozen=True)
class ReadDocuments:
    """The documents of a block, for the engine."""

    read: ReadBlock
    n_classes: int
    n_topics: int
    dtype: torch.dtype
    block: int

    def __call__(self, block: Block) -> list[Batch]:
        return self.source(self.read(block)).batches

    def source(self, rows: Rows) -> DocumentSource:
        label = rows.label
        if self.n_classes and label is None:
            # No document of these has a label, but others have.
            label = torch.full((rows.n_rows,), -1)
        corpus = HeldCorpus(rows.x, rows.weight, label, self.n_classes)
        return corpus.source(self.n_topics, self.dtype, self.block)


@dataclass(frozen=True)
class SweepOfPart:
    """Σ over the documents of a part of what a function returns about a batch, and their new γ."""

    scan: Scan
    documents: ReadDocuments
    function: Callable[[Batch], Any]

    def __call__(self, part: Part, before: Path | list[np.ndarray]) -> tuple[Any, list[np.ndarray] | None]:
        """`before` are the γ that the last sweep found, or a file of them, which then gets the new ones."""
        if isinstance(before, Path):
            with rewriting(before) as (recall, keep):
                return self.total(part, recall, keep), None
        after: list[np.ndarray] = []
        return self.total(part, recalling(iter(before)), lambda gamma: after.append(gamma.numpy())), after

    def total(self, part: Part, recall: Recall, keep: Keep) -> Any:
        total = None
        for block in ahead(self.scan.counted_blocks(part)):
            try:
                batches = self.documents(block)
            except ValueError as error:
                raise located(error, part, block) from error
            for batch in batches:
                batch.held.gamma = recall()
            for own in in_threads(self.function, batches):
                total = own if total is None else total + own
            for batch in batches:
                keep(batch.held.gamma)
        return total


@dataclass(frozen=True)
class ScannedSource:
    """
    Args:
        scan: where the documents are.
        documents: reads those of a block.
        n_rows: their number.
        n_numbers: those of a sweep.
        checksum: of the documents.
        shares: what the last sweep found of every document.
        durations: of the parts in earlier sweeps, where workers compute.
    """

    scan: Scan
    documents: ReadDocuments
    n_rows: int
    n_numbers: int
    checksum: str
    shares: Shares = field(default_factory=Shares)
    durations: Durations = field(default_factory=new_durations)

    @property
    def dtype(self) -> torch.dtype:
        return self.documents.dtype

    @property
    def is_labelled(self) -> bool:
        return self.documents.n_classes > 0

    def __iter__(self) -> Iterator[Batch]:
        for block in ahead(self.scan):
            if block.counts:
                yield from self.documents(block)

    def fingerprint(self) -> str:
        return self.checksum

    def forget(self) -> None:
        self.shares.forget()

    def remember(self) -> None:
        self.shares.remember()

    def write_shares(self, file: IO[bytes]) -> None:
        self.shares.write(file)

    def read_shares(self, file: IO[bytes]) -> None:
        self.shares.read(file)

    def total(self, function: Callable[[Batch], Any]) -> Any:
        """Σ function(batch) over all batches."""
        scan = self.scan
        self.shares.begin()
        job = SweepOfPart(replace(scan, parts=(), executor=None), self.documents, function)
        note = self.shares.load if scan.is_elsewhere else self.shares.path
        return added(self._kept(run(job, scan.parts, scan.executor, note, self.durations)))

    def _kept(self, results: Iterator[Any]) -> Iterator[Any]:
        for number, found in enumerate(results):
            # An empty partition has no result.
            total, arrays = (None, None) if found is None else found
            if arrays is not None:
                self.shares.store(number, arrays)
            yield total

    def shuffled(self, block: int) -> ShuffledDocuments:
        if self.scan.is_elsewhere:
            raise ValueError(
                "learning_method='online' takes one step after another in this process; leave executor out and scan "
                "files, or choose 'batch' or 'collapsed'"
            )
        return ShuffledDocuments(self, block)


@dataclass(frozen=True)
class ShuffledDocuments:
    """The documents of a scan in an order that is random but always the same, in batches of so many."""

    source: ScannedSource
    block: int

    @cached_property
    def scan(self) -> Scan:
        parts = list(self.source.scan.parts)
        if self.source.n_rows > BUFFER:
            random.Random(0).shuffle(parts)
        return replace(self.source.scan, parts=tuple(parts))

    def __iter__(self) -> Iterator[Batch]:
        with rewriting(self.source.shares.folder / "online.gamma") as (recall, keep):
            for rows in self.buffers():
                for batch in self.source.documents.source(rows).shuffled(self.block):
                    batch.held.gamma = recall()
                    yield batch
                    keep(batch.held.gamma)

    def buffers(self) -> Iterator[Rows]:
        """About BUFFER documents at a time."""
        held: list[Rows] = []
        for block in ahead(self.scan):
            if block.counts:
                held.append(self.source.documents.read(block))
            if sum(own.n_rows for own in held) >= BUFFER:
                yield joined(held)
                held = []
        if held:
            yield joined(held)


def joined(rows: list[Rows]) -> Rows:
    """All of them in one."""
    return replace(
        rows[0],
        x=stacked([own.x for own in rows]),
        weight=None if all(own.weight is None for own in rows) else torch.cat([weight_of(own) for own in rows]),
        label=None if all(own.label is None for own in rows) else torch.cat([label_of(own) for own in rows]),
    )


def label_of(rows: Rows) -> Tensor:
    return torch.full((rows.n_rows,), -1) if rows.label is None else rows.label


def weight_of(rows: Rows) -> Tensor:
    return torch.ones(rows.n_rows, dtype=torch.float64) if rows.weight is None else rows.weight
