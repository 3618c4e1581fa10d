"""What every answer of a fitted model must be, whatever the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

from cases import Case
from jensen.files.answers import Answered
from jensen.files.scan import Scan

# Rounding of float64 scores, and of probabilities in single precision, in units of what is added up.
TOLERANCE = 1e-6


def collected(value: Any) -> Any:
    """What a user holds at last."""
    return value.collect() if isinstance(value, Answered) else value


def n_rows(table: Any) -> int:
    if isinstance(table, Scan):
        return sum(block.n_rows for block in table)
    return len(table)


def copied(value: Any) -> Any:
    """A copy to compare with later."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, pd.DataFrame | pd.Series):
        return value.copy(deep=True)
    return value.clone() if isinstance(value, pl.DataFrame) else value


def assert_unchanged(now: Any, before: Any, what: str) -> None:
    if isinstance(now, torch.Tensor):
        now, before = now.detach().numpy(), before.numpy()
    if isinstance(now, np.ndarray):
        same = now.tobytes() == before.tobytes() if now.dtype != object else repr(now) == repr(before)
    elif isinstance(now, pd.DataFrame | pd.Series | pl.DataFrame):
        same = now.equals(before)
    else:
        same = True
    assert same, f"{what} was changed"


def is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value


def columns_of(table: Any) -> list[list[Any]]:
    """Cells by column, as Python has them."""
    if isinstance(table, pd.DataFrame):
        return [table.iloc[:, j].tolist() for j in range(table.shape[1])]
    if isinstance(table, pl.DataFrame):
        return [column.to_list() for column in table]
    if hasattr(table, "column_names"):
        return [column.to_pylist() for column in table.columns]
    if isinstance(table, torch.Tensor):
        table = table.detach().numpy()
    if isinstance(table, np.ma.MaskedArray):
        table = table.filled(np.nan)
    table = np.asarray(table)
    table = table.reshape(len(table), -1)
    return [list(table[:, j]) for j in range(table.shape[1])]


def names_of(table: Any) -> list[Any] | None:
    if hasattr(table, "column_names"):
        return list(table.column_names)
    return list(table.columns) if hasattr(table, "columns") else None


def same_cell(one: Any, other: Any) -> bool:
    """Bit for bit, but for the type of a number that an array of floats has no room for."""
    if isinstance(one, str) or isinstance(other, str):
        return str(one) == str(other)
    if one == 0 and other == 0:
        return bool(np.signbit(float(one)) == np.signbit(float(other)))
    return bool(one == other)


def check_completed(found: Any, asked: Any, unknown: list[int]) -> None:
    """Observed cells as they were, and a value in every other, but in columns that are unknown to the model."""
    before, after = columns_of(asked), columns_of(found)
    assert names_of(found) == names_of(asked), f"columns {names_of(found)} for {names_of(asked)}"
    assert len(before) == len(after)
    for j, (given, filled) in enumerate(zip(before, after, strict=True)):
        assert len(given) == len(filled), f"{len(filled)} rows for {len(given)}"
        for i, (one, other) in enumerate(zip(given, filled, strict=True)):
            if not is_missing(one):
                assert same_cell(one, other), f"observed entry ({i}, {j}) is {other!r} instead of {one!r}"
            elif j not in unknown:
                assert not is_missing(other), f"entry ({i}, {j}) is not filled"
                assert not isinstance(other, float) or np.isfinite(other), f"entry ({i}, {j}) is {other}"


def numbers(value: Any) -> np.ndarray:
    return np.asarray(value.detach() if isinstance(value, torch.Tensor) else value, dtype=np.float64)


def check_scores(found: Any, n: int, may_be_zero: np.ndarray | None) -> None:
    values = numbers(found)
    assert values.shape == (n,), f"scores have shape {values.shape}, not ({n},)"
    wrong = ~np.isfinite(values)
    if may_be_zero is not None:
        wrong &= ~((values == -np.inf) & may_be_zero)
    assert not wrong.any(), f"score of row {np.flatnonzero(wrong)[0]} is {values[wrong][0]}"


def check_bound(case: Case, bound: Any, scores: np.ndarray | None, n: int) -> None:
    total, reconstruction = numbers(bound.total), numbers(bound.reconstruction)
    terms = {name: numbers(value) for name, value in bound.kl.items()}
    size = 1 + np.abs(reconstruction) + sum(np.abs(value) for value in terms.values())
    tolerance = TOLERANCE if total.dtype == np.float64 else 1e-4
    finite = np.isfinite(total)
    for name, value in {"total": total, "reconstruction": reconstruction, **terms}.items():
        assert value.shape == (n,), f"{name} has shape {value.shape}"
        assert np.isfinite(value[finite]).all(), f"{name} is not finite"
    assert not np.isnan(total).any(), "total is NaN"
    rest = np.abs(reconstruction - sum(terms.values()) - total)
    assert (rest <= tolerance * size)[finite].all(), "total is not reconstruction less the divergences"
    if not case.is_sampled:
        for name, value in terms.items():
            assert (value >= -tolerance * size)[finite].all(), f"kl[{name!r}] is {value.min()}"
    if bound.is_exact and scores is not None:
        assert (finite == np.isfinite(scores)).all(), "the exact bound is finite where the score is not"
        assert (np.abs(total - scores) <= tolerance * size)[finite].all(), "the exact bound is not the score"


def check_probabilities(found: Any, n: int) -> None:
    p = numbers(found)
    assert p.ndim == 2, f"probabilities have shape {p.shape}"
    assert len(p) == n, f"probabilities have shape {p.shape}"
    assert ((p >= 0) & (p <= 1)).all(), f"probabilities from {p.min()} to {p.max()}"
    assert np.abs(p.sum(1) - 1).max() < 1e-5, f"probabilities sum to {p.sum(1).min()}"


def check_posterior(found: Any, n: int) -> None:
    shapes = (*found.batch_shape, *found.event_shape)
    assert shapes[0] == n, f"posterior of shape {shapes}"
    assert all(np.isfinite(numbers(tensor)).all() for tensor in parameters_of(found)), "posterior is not finite"


def parameters_of(distribution: Any) -> Iterator[Any]:
    if isinstance(distribution, torch.distributions.MixtureSameFamily):
        yield from parameters_of(distribution.mixture_distribution)
        yield from parameters_of(distribution.component_distribution)
    elif hasattr(distribution, "base_dist"):
        yield from parameters_of(distribution.base_dist)
    else:
        names = ("probs",) if "probs" in distribution.arg_constraints else distribution.arg_constraints
        yield from (getattr(distribution, name) for name in names)


def check_predictions(model: Any, found: Any, n: int) -> None:
    found = np.asarray(found)
    assert found.shape == (n,), f"predictions of shape {found.shape}"
    if hasattr(model, "classes_"):
        allowed = {str(value) for value in (*model.classes_.tolist(), -1, -1.0, None, pd.NaT, np.datetime64("NaT"))}
        unknown = {str(value) for value in found.tolist()} - allowed
        assert not unknown, f"predicts {unknown}, classes are {model.classes_}"
    else:
        assert found.dtype.kind in "iu", f"predictions of type {found.dtype}"
        assert (found >= -1).all(), f"predicts {found.min()}"


def check_sample(drawn: Any, asked: Any, n: int, unknown: list[int]) -> None:
    """Rows of the container, the columns and the floating type of the fit."""
    rows, _ = drawn
    assert len(rows) == n, f"{len(rows)} samples instead of {n}"
    names = names_of(asked)
    if names is not None:
        own = [name for j, name in enumerate(names) if j not in unknown]
        assert names_of(rows) == own, f"columns {names_of(rows)} for {own}"
        return
    assert isinstance(rows, torch.Tensor) == isinstance(asked, torch.Tensor), f"samples are a {type(rows)}"
    if hasattr(asked, "dtype") and asked.dtype in (np.float32, np.float64, torch.float32, torch.float64):
        assert rows.dtype == asked.dtype, f"samples of type {rows.dtype} for {asked.dtype}"
    # Columns that were left out are NaN in an array.
    values = numbers(rows).reshape(n, -1)
    own = [j for j in range(values.shape[1]) if j not in unknown]
    assert np.isfinite(values[:, own]).all(), "samples are not finite"
