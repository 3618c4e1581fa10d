"""The first sweep over a scan: what a fit has to know of all rows before its first step.

Names and types come from the first block, classes from a sweep over the labels, and everything else from one sweep
whose parts add: where the columns lie, which are constant, and a sample of distinct rows for the start.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from jensen.contract.rows import Rows, StreamedRows, Survey
from jensen.data.constants import Constants, warn_of_constants
from jensen.data.container import Kind
from jensen.data.labels import encode_labels
from jensen.data.reader import SMALLEST, beside_model, column_names, known_names
from jensen.engines.em.streamed import Shown, sum_over
from jensen.files.scan import Block, Scan, is_dask, scan
from jensen.files.text_parts import TextPart
from jensen.runtime.messages import own_filters


@dataclass(frozen=True)
class ReadBlock:
    """The rows of a block as a model reads them; labelled ones count α times.

    Args:
        reader: a copy of the model without parameters, which knows columns and classes.
        label_weight: α.
        trained: the constant columns, which are left out, once they are known: after the first sweep.
    """

    reader: Any
    label_weight: float = 1.0
    trained: Kind | None = None

    def __call__(self, block: Block) -> Rows:
        y = block.y if self.reader.capabilities.labels else None
        if self.trained is not None and y is None and block.weight is None and self.is_plain(block.table):
            # The first sweep has checked these numbers.
            values = block.table.to_numpy()
            x = torch.from_numpy(values if values.flags.writeable else values.copy())
            rows = Rows(x, None, None, np.array([]), self.trained)
        else:
            rows = self.reader._read_rows(self.reader._of_block(block.table), y, block.weight, reset=False)
        rows = rows.with_label_weight(self.label_weight)
        if self.trained is None or self.trained.constants is None:
            return rows
        x, kind = beside_model(self.reader, rows.x, rows.kind, self.trained, may_differ=False)
        return replace(rows, x=x, kind=kind)

    def is_plain(self, table: Any) -> bool:
        """Whether a table is one array of numbers that the model takes as they are."""
        return (
            self.reader._takes_plain_numbers
            and hasattr(table, "iloc")
            and bool((table.dtypes == np.float64).all())
            and list(table.columns) == list(getattr(self.reader, "feature_names_in_", ()))
        )


def reader_of(model: Any, scan: Scan) -> Any:
    """A copy of the model that knows the columns and the classes of a scan."""
    reader = clone(model)
    reader._begin_scan(scan)
    if scan.label is not None and model.capabilities.labels:
        only = tuple(with_column(part, scan.label) for part in scan.parts)
        labels = replace(scan, parts=only, weight=None, drop=())
        found = sum_over(labels, partial(classes_of_block, reader._unlabelled), Shown("labels", is_verbose(model)))
        if found.classes is not None:
            # Whole numbers of a text file are read as floats, because others may follow.
            is_read_as_float = isinstance(scan.parts[0], TextPart) and found.classes.dtype.kind == "f"
            reader.classes_ = found.classes.astype(np.int64) if is_read_as_float else found.classes
    return reader


def is_verbose(model: Any) -> bool:
    return bool(getattr(model, "verbose", 0))


def with_column(part: Any, name: str) -> Any:
    """A part of which one column is read, if it can be."""
    return replace(part, columns=(name,)) if hasattr(part, "columns") else part


@dataclass(frozen=True)
class Classes:
    """The classes that occur, sorted."""

    classes: np.ndarray | None

    def __add__(self, other: Classes) -> Classes:
        if self.classes is None or other.classes is None:
            return self if other.classes is None else other
        one, two = self.classes, other.classes
        if isinstance(one[0], str) != isinstance(two[0], str):
            raise ValueError(f"y has labels of two types, such as {one[0]} and {two[0]}; give all files one of them")
        return Classes(np.unique(np.concatenate([one, two])))


def classes_of_block(unlabelled: Any, block: Block) -> Classes:
    # One class in a block says nothing about the others.
    with own_filters():
        warnings.simplefilter("ignore")
        label, classes = encode_labels(block.y, block.n_rows, None, None, unlabelled)
    return Classes(None if label is None else classes)


def survey(model: Any, scan: Scan, *, is_batch: bool = False) -> StreamedRows:
    """The rows of a scan for a fit; the model gets to know their columns."""
    reader = reader_of(model, scan)
    alpha = float(getattr(model, "label_weight", 1.0))
    shown = Shown("first sweep", is_verbose(model))
    found = sum_over(scan, SurveyBlock(ReadBlock(reader, alpha)), shown)
    adopt(model, reader)
    check_found(found, column_names(model))
    kind = reader._read_rows(scan.head().table, None, None, reset=False).kind.of_other_rows()
    constants = None if is_batch else constants_of(model, found)
    trained = replace(kind, constants=constants)
    x, weight, label = found.sample.rows()
    classes = getattr(reader, "classes_", np.array([]))
    return StreamedRows(
        trained.narrow(x, 1),
        weight,
        label if len(classes) else None,
        classes,
        trained,
        scan=scan,
        read=ReadBlock(reader, alpha, trained),
        found=found,
        is_plain=model._takes_plain_numbers,
        is_shown=is_verbose(model),
    )


def adopt(model: Any, reader: Any) -> None:
    """Let a model know the columns that its reader knows."""
    for name in ("n_features_in_", "feature_names_in_", "_columns", "_families", "vocabulary_", "is_sparse_"):
        if hasattr(reader, name):
            setattr(model, name, getattr(reader, name))
        elif name in vars(model):
            delattr(model, name)


@dataclass(frozen=True)
class SurveyBlock:
    read: ReadBlock

    def __call__(self, block: Block) -> Survey:
        return Survey.of(self.read(block))


def check_found(found: Survey, names: list[str]) -> None:
    """Errors for columns without a value, and for those that vary by too little to be squared."""
    empty = [names[j] for j in (found.n_observed == 0).nonzero().flatten().tolist() if j < len(names)]
    if empty:
        raise ValueError(
            f"X has no observed value in column {', '.join(empty)}; drop it: there is nothing to learn from"
        )
    apart = found.extent.high - found.extent.low
    for j in ((apart > 0) & (apart < SMALLEST)).nonzero().flatten().tolist():
        raise ValueError(f"X varies by {float(apart[j]):g} in column {names[j]}, too small to square; rescale it")


def constants_of(model: Any, found: Survey) -> Constants | None:
    """The columns that have one value; one warning names them."""
    ends = model._find_constants(torch.stack([found.extent.low, found.extent.high]))
    if ends is None:
        return None
    constants = Constants(ends.values, torch.where(ends.values.isnan(), 0, found.n_observed))
    names = known_names(model)
    warn_of_constants({names[j]: constants.values[j].item() for j in constants.columns.tolist()})
    return constants


def without_labels(X: Any) -> Any:
    """X, or a scan whose labels nobody needs."""
    return X.without_labels() if isinstance(X, Scan) else X


def as_scan(X: Any, y: Any, sample_weight: Any, executor: Any) -> Any:
    """X, or if it is to be read block by block a scan of it, whose sweeps run in the executor."""
    if isinstance(X, (str, os.PathLike)):
        raise TypeError(f"X is {os.fspath(X)!r}; give the rows, or jensen.scan({os.fspath(X)!r}) if it is a path")
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(
            f"executor={executor!r} has no submit(); give an executor such as ProcessPoolExecutor(2) of "
            "concurrent.futures, or client.get_executor() of dask"
        )
    example = "jensen.scan(path, {column}=...)"
    if is_dask(X):
        is_frame = hasattr(X, "columns")
        add = "X.assign({name}={name})" if is_frame else "da.hstack([X, {name}[:, None]]).rechunk({{1: -1}})"
        example = f"jensen.scan({add}, {{column}}={'{name!r}' if is_frame else repr(str(X.shape[1]))})"
        X = scan(X)
    if not isinstance(X, Scan):
        if executor is not None:
            raise ValueError(f"executor={executor!r} runs sweeps over files; give X as jensen.scan(path), not an array")
        return X
    for name, given, column in (("y", y, "label"), ("sample_weight", sample_weight, "weight")):
        if given is not None:
            way_out = example.format(name=name, column=column)
            raise ValueError(f"{name} is given beside a scan; name its column, such as {way_out}")
    return X if executor is None else replace(X, executor=executor)
