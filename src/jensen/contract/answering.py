"""Answers about rows that are not in memory: the methods of a model, block by block.

What a method returns about a table it returns about a scan lazily, as another scan: iterate over it, `collect` it, or
`write` it to a file. About a collection of dask it returns one of dask's.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jensen.files.answers import Answered
from jensen.files.scan import Scan, is_dask

# Methods that return something per row.
VERBS = ("score_samples", "predict", "predict_proba", "transform", "impute", "reconstruct", "reconstruction_error")


def stream_verbs(cls: type) -> None:
    """Let the methods that a class defines take scans, too."""
    for name in VERBS:
        own = vars(cls).get(name)
        if own is None:
            continue
        if callable(own) and not isinstance(own, type) and hasattr(own, "__code__"):
            setattr(cls, name, streamed(own))
        elif callable(getattr(own, "fn", None)):  # a method that exists only under a condition
            own.fn = streamed(own.fn)


def streamed(verb: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(verb, "takes_scans", False):
        return verb

    @functools.wraps(verb)
    def answer(self: Any, X: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(X, Scan):
            return Answered(X, functools.partial(about, self, verb, arguments, keywords), verb.__name__)
        if is_dask(X):
            return in_partitions(X, functools.partial(about, self, verb, arguments, keywords))
        return verb(self, X, *arguments, **keywords)

    answer.takes_scans = True  # type: ignore[attr-defined]
    return answer


def about(model: Any, verb: Callable[..., Any], arguments: Any, keywords: Any, table: Any) -> Any:
    return verb(model, model._of_block(table), *arguments, **keywords)


def in_partitions(X: Any, answer: Callable[[Any], Any]) -> Any:
    """A lazy collection of dask: a data frame for tables that come back as one, else an array."""
    import dask
    import dask.array as da

    delayed = X.to_delayed()
    parts = list(delayed.ravel() if hasattr(delayed, "ravel") else delayed)
    example = answer(first_row(parts))
    if hasattr(example, "iloc"):
        return X.map_partitions(Answer(answer, example.iloc[:0]), meta=example.iloc[:0])
    example = np.asarray(example)
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(parts)
    lazy = dask.delayed(Answer(answer, example[:0]), pure=False)
    blocks = [
        da.from_delayed(lazy(part), (size, *example.shape[1:]), dtype=example.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(blocks)


@dataclass(frozen=True)
class Answer:
    """What is returned about a partition, which may be empty."""

    answer: Callable[[Any], Any]
    nothing: Any

    def __call__(self, table: Any) -> Any:
        return self.answer(table) if len(table) else self.nothing


def first_row(parts: Sequence[Any]) -> Any:
    """The first row of partitions, some of which may be empty."""
    import dask

    from jensen.files.dask_parts import computed

    for part in parts:
        row = computed(dask.delayed(operator.getitem)(part, slice(1)))
        if len(row):
            return row
    raise ValueError("X has no rows; give a collection with at least one")


def mean_over(answers: Iterable[Any]) -> float:
    """The mean of numbers over all rows, which come block by block."""
    total, n = summed(answers)
    return total / n


def sum_over_rows(answers: Any) -> tuple[float, int]:
    """The sum of numbers over all rows, and their number; they are all there, or come block by block."""
    return summed(answers if isinstance(answers, Answered) else [answers])


def summed(blocks: Iterable[Any]) -> tuple[float, int]:
    total, n = 0.0, 0
    for values in blocks:
        total, n = total + float(np.asarray(values, dtype=np.float64).sum()), n + len(values)
    return total, n
