"""Training rows as models ask for them: where they lie, a source for the engine, and a sample for starts.

`Rows` are in memory. `StreamedRows` are those of a scan: one additive sweep finds what is to be known before the first
step, and the engine's sweeps read them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.data.container import Kind
from jensen.data.sparse import is_sparse, stacked
from jensen.engines.em.batch import Footprint
from jensen.engines.em.checkpoint import fingerprint
from jensen.engines.em.frame import Frame
from jensen.engines.em.hash_sample import HashSample
from jensen.engines.em.sampling import RowSample, sample_of
from jensen.engines.em.sources import ArraySource, Hold, Patterns, Source, source_of
from jensen.engines.em.spool import Spool
from jensen.engines.em.streamed import Shown, StreamedSource, sum_over
from jensen.files.scan import Block, Scan
from jensen.formulas.moments import Extent, HeldExtent, SummedExtent
from jensen.runtime.memory import available_bytes

LogDensity = Callable[[Tensor], Tensor]
# Of a number.
BYTES = 8


@dataclass(frozen=True)
class Rows:
    """Training rows: values (n, d), weights and class numbers, and the kind of table they came in.

    If the values are not those of the user, `log_jacobian` (n,) takes log-densities back to the user's units.
    """

    x: Tensor
    weight: Tensor | None
    label: Tensor | None
    classes: np.ndarray
    kind: Kind
    log_jacobian: Tensor | None = None

    @property
    def n_rows(self) -> int:
        return int(self.x.shape[0])

    @property
    def mass(self) -> float:
        """The total weight."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @property
    def extent(self) -> Extent:
        """Where the columns lie."""
        return HeldExtent(self.x.mT, self.weight)

    @property
    def has_missing(self) -> bool:
        return bool(self.x.isnan().any())

    @property
    def n_entries(self) -> int:
        """Observed entries."""
        return int((~self.x.isnan()).sum())

    @property
    def examples(self) -> Tensor:
        """Rows (m, d) among which every column has its least and its greatest value: all of them."""
        return self.x

    def with_label_weight(self, label_weight: float) -> Rows:
        """Labelled rows count α times."""
        if self.label is None or label_weight == 1:
            return self
        weight = torch.ones(len(self.x), dtype=self.x.dtype) if self.weight is None else self.weight
        return replace(self, weight=torch.where(self.label >= 0, label_weight * weight, weight))

    def source(
        self,
        frame: Frame,
        *,
        footprint: Footprint,
        by_pattern: Patterns = True,
        hold: Hold | None = None,
        log_noise: LogDensity | None = None,
        in_one: bool = False,
    ) -> Source:
        """The rows for the engine, in the frame's units.

        Args:
            footprint, by_pattern, hold, in_one: see `ArraySource`.
            log_noise: the log-density of noise, of rows (n, d), where a model has such a component.
        """
        noise = None if log_noise is None else log_noise(self.x)
        if noise is not None and self.log_jacobian is not None:
            noise = noise + self.log_jacobian
        if in_one:
            own = self.x.T.clone(memory_format=torch.contiguous_format)
            return ArraySource(own, frame, weight=self.weight, footprint=footprint, by_pattern=by_pattern, in_one=True)
        return source_of(
            self.x,
            frame,
            weight=self.weight,
            label=self.label,
            log_jacobian=self.log_jacobian,
            log_noise=noise,
            footprint=footprint,
            by_pattern=by_pattern,
            hold=hold,
        )


@dataclass(frozen=True)
class BlockBatches:
    """The batches of a block, for the engine."""

    read: Callable[[Block], Rows]
    frame: Frame
    options: dict[str, Any]

    def __call__(self, block: Block) -> Any:
        return self.read(block).source(self.frame, **self.options)


@dataclass(frozen=True)
class StreamedRows(Rows):
    """Rows of a scan. x, weight, label and log_jacobian are those of a sample of distinct rows, in which every class
    keeps its total weight.

    Args:
        scan: where the rows are.
        read: the rows of a block, of the columns that vary, labelled rows weighted by α.
        found: what the first sweep found of all rows.
        is_plain: whether the model takes numbers as they are.
        is_shown: whether long sweeps show a bar.
    """

    scan: Scan | None = None
    read: Callable[[Block], Rows] | None = None
    found: Survey | None = None
    is_plain: bool = False
    is_shown: bool = False

    @property
    def n_rows(self) -> int:
        assert self.found is not None
        return self.found.n_rows

    @property
    def mass(self) -> float:
        assert self.found is not None
        return self.found.mass

    @property
    def extent(self) -> Extent:
        assert self.found is not None
        return (
            self.found.extent
            if self.kind.constants is None
            else self.found.extent.some(self.kind.constants.varying.tolist())
        )

    @property
    def has_missing(self) -> bool:
        assert self.found is not None
        return bool((self.found.n_observed < self.found.n_rows).any())

    @property
    def n_entries(self) -> int:
        assert self.found is not None
        return int(self.found.n_observed.sum())

    @property
    def examples(self) -> Tensor:
        return stacked([self.x, torch.stack([self.extent.low, self.extent.high])])

    def with_label_weight(self, label_weight: float) -> Rows:
        return self  # blocks are read with it

    def total(self, function: Callable[[Rows], Any]) -> Any:
        """Σ over the blocks of what a function returns about their rows."""
        assert self.scan is not None
        assert self.read is not None
        shown = Shown(is_shown=self.is_shown, n_rows=self.n_rows)
        return sum_over(self.scan, BlockRows(self.read, function), shown)

    def source(
        self,
        frame: Frame,
        *,
        footprint: Footprint,
        by_pattern: Patterns = True,
        hold: Hold | None = None,
        log_noise: LogDensity | None = None,
        in_one: bool = False,
    ) -> Source:
        assert self.scan is not None
        assert self.read is not None
        assert self.found is not None
        if in_one:
            raise ValueError("size_limits couples all rows, which a scan cannot hold at once; fit an array")
        options = {"footprint": footprint, "by_pattern": by_pattern, "hold": hold, "log_noise": log_noise}
        return StreamedSource(
            self.scan,
            BlockBatches(self.read, frame, options),
            self.n_rows,
            self.n_rows * footprint.per_row,
            Drawn(self, frame),
            fingerprint(self.x, self.weight, self.extent.spread.mean, self.extent.spread.squares),
            self.spool(),
            self.mass,
            self.is_shown,
        )

    def spool(self) -> Spool | None:
        """Files for the batches of all sweeps but the first, where reading the source again takes longer.

        Plain numbers are read again almost as fast, so their copy pays only while the system can hold it in memory
        beside the source.
        """
        assert self.scan is not None
        cache = self.scan.cache
        if cache is None:
            is_fast = self.is_plain and not self.has_missing and all(part.is_fast for part in self.scan.parts)
            free = None if self.scan.is_elsewhere else available_bytes()
            cache = not is_fast or (free is not None and 2 * BYTES * self.n_rows * self.x.shape[1] < free)
        return None if cache is False else Spool(None if cache is True else cache, self.n_rows)


@dataclass(frozen=True)
class BlockRows:
    """What a function returns about the rows of a block."""

    read: Callable[[Block], Rows]
    function: Callable[[Rows], Any]

    def __call__(self, block: Block) -> Any:
        return self.function(self.read(block))


@dataclass(frozen=True)
class Drawn:
    """A sample of the sample that a survey holds, in the frame's units."""

    rows: StreamedRows
    frame: Frame

    def __call__(self, n: int, limit: int) -> RowSample:
        rows = self.rows
        sample = sample_of(rows.x, rows.weight, rows.label, n, limit)
        assert rows.found is not None
        is_everything = sample.is_everything and rows.found.sample.is_everything
        x = sample.x if is_sparse(sample.x) else self.frame.standardise(sample.x)
        return replace(sample, x=x, is_everything=is_everything)


@dataclass(frozen=True)
class Survey:
    """What the first sweep finds; surveys of parts add.

    Args:
        n_rows: that count, so without those of weight 0.
        mass: their total weight.
        n_observed: entries of every column (d,).
        extent: where the columns lie.
        sample: distinct rows.
    """

    n_rows: int
    mass: float
    n_observed: Tensor
    extent: SummedExtent
    sample: HashSample

    @classmethod
    def of(cls, rows: Rows) -> Survey:
        x = rows.x
        extent = SummedExtent.of(x.mT, rows.weight)
        observed = torch.full((x.shape[1],), len(x)) if is_sparse(x) else (~x.isnan()).sum(0)
        return cls(len(x), rows.mass, observed, extent, HashSample.of(x, rows.weight, rows.label))

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.n_rows + other.n_rows,
            self.mass + other.mass,
            self.n_observed + other.n_observed,
            self.extent + other.extent,
            self.sample + other.sample,
        )
