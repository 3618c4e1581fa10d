"""Tables that are read block by block, because they do not fit into memory.

A scan is a list of parts. A sweep reads every part once, some rows at a time; fits make several sweeps. Nothing of the
rows stays in memory but the blocks at hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jensen.files.object_parts import Called, LazyBlocks, RelationBlocks, Tuples, dataset_parts
from jensen.files.parts import CallPart, Part, array_parts
from jensen.files.sources import needed
from jensen.files.table_files import FirstNames, check_array_has_no_names, files_of, parts_of_files
from jensen.files.text_parts import TextOptions, check_text

# Numbers of a block: large enough for products of matrices, small enough for several to be in memory.
BLOCK_NUMBERS = 2**20
FEWEST, MOST = 2**10, 2**16


@dataclass(frozen=True)
class Block:
    """Some rows: the table, and the label and the weight of every row, if the scan has them.

    `first` is the number of the first row in its part.
    """

    table: Any
    y: Any = None
    weight: Any = None
    first: int = 0

    @property
    def n_rows(self) -> int:
        return int(self.table.shape[0]) if hasattr(self.table, "shape") else len(self.table)

    @property
    def counts(self) -> bool:
        """Whether a row has a weight other than 0."""
        return self.weight is None or bool((np.asarray(self.weight) != 0).any())


@dataclass(frozen=True, repr=False)
class Scan:
    """Rows on disk, or anywhere else where they are read block by block. `jensen.scan` makes it.

    Args:
        parts: where the rows are.
        label: the column with labels, or None.
        weight: the column with weights, or None.
        drop: columns that are left out.
        block_rows: rows read at a time.
        executor: where sweeps run, see `fit`; None is this process.
        cache: whether a fit keeps its rows in temporary files, or the folder for them; None if that is faster.

    Example:
        >>> import tempfile, numpy, jensen
        >>> path = tempfile.mkdtemp() + "/rows.npy"
        >>> numpy.save(path, numpy.eye(5))
        >>> [block.n_rows for block in jensen.scan(path, block_rows=3)]
        [3, 2]
    """

    parts: tuple[Part, ...]
    label: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    block_rows: int = MOST
    executor: Any = field(default=None, compare=False)
    cache: bool | str | None = None

    def __repr__(self) -> str:
        n_parts, n_rows = len(self.parts), self.n_rows
        parts = "one part" if n_parts == 1 else f"{n_parts} parts"
        return f"<Scan of {parts}, {'a number of' if n_rows is None else n_rows} rows; the first: {self.parts[0].name}>"

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None where only a sweep tells."""
        known = [part.n_rows for part in self.parts]
        return None if any(n is None for n in known) else sum(n for n in known if n is not None)

    @property
    def is_elsewhere(self) -> bool:
        """Whether sweeps run in an executor's workers, or on those of dask."""
        return self.executor is not None or hasattr(self.parts[0], "compute_all")

    def blocks(self, part: Part) -> Iterator[Block]:
        """The rows of one part."""
        first = 0
        for table in part.blocks(self.block_rows):
            block = self.split(table, first)
            first += block.n_rows
            if block.n_rows:
                yield block

    def counted_blocks(self, part: Part) -> Iterator[Block]:
        """The same without blocks of no weight, which a fit leaves out."""
        return (block for block in self.blocks(part) if block.counts)

    def __iter__(self) -> Iterator[Block]:
        for part in self.parts:
            yield from self.blocks(part)

    def split(self, table: Any, first: int = 0) -> Block:
        """The table without the columns of labels and weights, and these."""
        if isinstance(table, Tuples):
            y, weight = (table.aside.get(name or "") for name in (self.label, self.weight))
            return Block(table.x, y, weight, first)
        aside = [name for name in (self.label, self.weight, *self.drop) if name is not None]
        if not aside:
            return Block(table, first=first)
        if isinstance(table, np.ndarray) and table.ndim == 2:
            return self.split_array(table, aside, first)
        if not (hasattr(table, "iloc") and hasattr(table, "columns")):
            import narwhals.stable.v2 as nw

            if not nw.dependencies.is_into_dataframe(table):
                raise ValueError(
                    f"scan: {', '.join(aside)} are columns of a data frame, and the blocks are {type(table).__name__}; "
                    "make a factory of data frames, or leave label, weight and drop out"
                )
            table = nw.from_native(table, eager_only=True).to_pandas()
        absent = [name for name in aside if name not in table.columns]
        if absent:
            raise ValueError(f"there is no column {absent[0]!r}; there are {', '.join(map(str, table.columns))}")
        y = None if self.label is None else table[self.label].to_numpy()
        weight = None if self.weight is None else table[self.weight].to_numpy()
        return Block(table.drop(columns=aside), y, weight, first)

    def without_labels(self) -> Scan:
        """The same rows, whose labels nobody needs."""
        return self if self.label is None else replace(self, label=None, drop=(*self.drop, self.label))

    def split_array(self, table: np.ndarray, aside: list[str], first: int) -> Block:
        """The same for an array, whose columns are called by their numbers."""
        known = [str(j) for j in range(table.shape[1])]
        absent = [name for name in aside if str(name) not in known]
        if absent:
            raise ValueError(f"there is no column {absent[0]!r}; columns of an array are 0 to {len(known) - 1}")
        y, weight = (None if name is None else table[:, int(name)] for name in (self.label, self.weight))
        return Block(np.delete(table, [int(name) for name in aside], axis=1), y, weight, first)

    def head(self) -> Block:
        """The first block."""
        for block in self:
            return block
        raise ValueError("the scan has no rows; give files with at least one")


def scan(
    source: Any,
    *,
    label: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    missing: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    header: bool | None = None,
    block_rows: int | None = None,
    cache: bool | str | os.PathLike[str] | None = None,
) -> Scan:
    """Rows to fit and to ask about without holding them in memory.

    Args:
        source: a Parquet, Feather, Arrow, CSV or npy file, or an npz file of a sparse matrix; a folder, a pattern such
            as "rows/*.parquet" or a list of such files; a memory-mapped array; a polars LazyFrame; a DuckDB relation; a
            map-style torch Dataset; or a function without arguments that returns an iterable of data frames, arrays,
            sparse matrices or texts, anew for every sweep.
        label: the column with labels, which `fit` then uses; columns of npy files are "0", "1", ..., and so are the
            places in the tuples of a Dataset, of which the row is the first.
        weight: the column with row weights.
        drop: columns to leave out.
        columns: columns to read, beside those of label and weight; None reads all.
        missing: more codes of missing values in text files; with "only" among them, no others but empty cells.
        types: what columns of text files are, by name: "text", "number" or "date"; others are found in the first rows.
        header: whether the first line of text files has the names of the columns; found if not given.
        block_rows: rows read at a time; None chooses by the number of columns.
        cache: whether EM keeps the rows in temporary files, as the model reads them, after its first sweep; or the
            folder for these files. None keeps them where reading takes longer than that: texts, columns of several
            kinds, missing values, queries and functions; and plain numbers, if memory can hold them beside their
            source. The files need about 8 bytes per number.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import jensen
        >>> folder = Path(tempfile.mkdtemp())
        >>> for month in range(3):
        ...     np.save(folder / f"{month}.npy", np.random.default_rng(month).normal(size=(1000, 2)))
        >>> rows = jensen.scan(folder)
        >>> rows.n_rows
        3000
        >>> model = jensen.GaussianMixture(2, random_state=0).fit(rows)
        >>> model.total_weight_
        3000.0
    """
    if isinstance(source, Scan):
        return source
    drop = (drop,) if isinstance(drop, str) else tuple(drop)
    aside = [name for name in (label, weight) if name is not None]
    wanted = None if columns is None else tuple(dict.fromkeys([*columns, *aside]))
    options = TextOptions(tuple(missing), dict(types or {}), header)
    found = Scan(tuple(parts_of(source, wanted, options, aside)), label, weight, drop, cache=checked_cache(cache))
    if not found.parts:
        raise ValueError(f"{source!r} has no rows; give files with at least one")
    check_text(found.parts, options)
    if block_rows is not None:
        if not (isinstance(block_rows, (int, np.integer)) and block_rows >= 1):
            raise ValueError(f"block_rows={block_rows!r} must be a whole number, 1 or more")
        return replace(found, block_rows=int(block_rows))
    head = replace(found, block_rows=FEWEST).head()
    return replace(found, block_rows=max(FEWEST, min(MOST, BLOCK_NUMBERS // numbers_per_row(head.table))))


def numbers_per_row(table: Any) -> int:
    """How much a row takes, in numbers of 8 bytes: those of a sparse matrix with their places, and those of texts."""
    n, shape = max(1, Block(table).n_rows), tuple(getattr(table, "shape", (0,)))
    if hasattr(table, "nnz"):
        return max(1, 2 * int(table.nnz) // n)
    if len(shape) == 1 or shape[1] == 1:
        column = table.iloc[:, 0] if hasattr(table, "columns") and hasattr(table, "iloc") else table
        return max(1, sum(len(own) for own in column if isinstance(own, str)) // (8 * n))
    return max(1, int(np.prod(shape[1:])))


def checked_cache(cache: bool | str | os.PathLike[str] | None) -> bool | str | None:
    if cache is None or isinstance(cache, bool):
        return cache
    if not os.path.isdir(cache):
        raise ValueError(f"cache={os.fspath(cache)!r} is no folder; make it first, or give True, False or None")
    return os.fspath(cache)


def parts_of(
    source: Any, columns: tuple[str, ...] | None, options: TextOptions, aside: Sequence[str]
) -> Iterable[Part]:
    if isinstance(source, (str, os.PathLike)):
        return parts_of_files(files_of(source), columns, options, FirstNames())
    if isinstance(source, (list, tuple)) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        return parts_of_files([path for one in source for path in files_of(one)], columns, options, FirstNames())
    if isinstance(source, np.ndarray):
        check_array_has_no_names(columns)
        return array_parts(source, None)
    from torch.utils.data import Dataset

    if isinstance(source, Dataset):
        check_array_has_no_names(columns)
        return dataset_parts(source, aside)
    module = type(source).__module__.partition(".")[0]
    if module == "polars" and hasattr(source, "collect_batches"):
        lazy = source if columns is None else source.select(list(columns))
        return [CallPart(LazyBlocks(lazy), "the LazyFrame")]
    if "duckdb" in module and hasattr(source, "to_arrow_reader"):
        needed("pyarrow", "blocks of a DuckDB relation are read with pyarrow", "scale")
        relation = source if columns is None else source.select(*columns)
        return [CallPart(RelationBlocks(relation), "the DuckDB relation")]
    if callable(source):
        check_array_has_no_names(columns)
        return [CallPart(Called(source), "the function")]
    if is_dask(source):
        from jensen.files.dask_parts import dask_parts

        return dask_parts(source if columns is None else source[list(columns)])
    raise TypeError(
        f"scan cannot read {type(source).__name__}; give a path, a folder, a pattern, a list of paths, a memory-mapped "
        "array, a LazyFrame, a DuckDB relation, a Dataset, or a function that returns an iterable of blocks"
    )


def is_dask(source: Any) -> bool:
    """Whether this is an array or a data frame of dask, which need not be installed."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(source, "to_delayed")
