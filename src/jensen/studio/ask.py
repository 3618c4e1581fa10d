"""Questions to a fitted model about one row: its score, the terms, the posterior, what is missing, who is to blame.

Only the contract's methods are used. What a model does not offer is answered by the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from jensen.data.container import n_rows, take
from jensen.evaluate.blame import as_pandas
from jensen.studio.answers import in_one_line
from jensen.studio.cells import Column, changed, columns_of, frame_of, in_kind

# Draws behind an interval, values of a cell along a curve, and rows that are returned at most.
DRAWS, ALONG, MOST_ROWS = 200, 41, 50
INTERVAL = (0.05, 0.95)
MOST_LATENT = 12


def or_reason(answer: Callable[[], Any]) -> Any:
    """An answer, or why there is none."""
    try:
        return answer()
    except (AttributeError, ValueError, TypeError, NotImplementedError, ArithmeticError, RuntimeError) as error:
        return {"reason": in_one_line(error)}


def method(model: Any, verb: str) -> Any:
    """A method of a model, or an error with the reason why there is none."""
    try:
        return getattr(model, verb)
    except AttributeError as error:
        reason = f": {error.__cause__}" if isinstance(error.__cause__, AttributeError) else ""
        raise ValueError(f"{type(model).__name__} has no {verb}{reason}") from None


def offers(model: Any, verb: str) -> bool:
    return method(model, verb) is not None


@dataclass(frozen=True)
class Subject:
    """A model and rows that it is asked about.

    Args:
        model: fitted.
        X: rows as the model takes them.
    """

    model: Any
    X: Any

    @cached_property
    def frame(self) -> pd.DataFrame | None:
        return frame_of(self.X)

    @cached_property
    def columns(self) -> list[Column]:
        return [] if self.frame is None else columns_of(self.frame)

    def describe(self) -> dict[str, Any]:
        """What the page shows before a row is chosen."""
        can = self.model.capabilities
        verbs = ("score_samples", "bound", "posterior", "impute", "sample", "predict", "transform", "inverse_transform")
        return {
            "model": type(self.model).__name__,
            "arguments": " ".join(repr(self.model).split())[:300],
            "n_rows": n_rows(self.X),
            "columns": [column.described() for column in self.columns],
            "shape": getattr(self.model, "row_shape_", None) if self.frame is None else None,
            "score": can.score or "none",
            "takes_missing": can.missing_in_fit,
            "offers": {verb: or_reason(partial(offers, self.model, verb)) for verb in verbs},
        }

    def row(self, number: Any, cells: Any) -> tuple[Any, pd.DataFrame | None]:
        """The row, as the model takes it and as cells."""
        n = n_rows(self.X)
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= n:
            raise ValueError(f"row={number!r} must be a whole number from 1 to {n}")
        if not isinstance(cells, Mapping):
            raise ValueError("cells must be a dictionary of columns and values")
        if self.frame is None:
            if cells:
                raise ValueError(
                    "the cells of these rows cannot be changed one by one: they are images, texts or too many"
                )
            return take(self.X, np.array([number - 1])), None
        one = changed(self.frame, number - 1, cells, self.columns)
        return in_kind(one, self.X), one

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All that the model says about one row."""
        rows, cells = self.row(given.get("row", 1), given.get("cells", {}))
        model = self.model
        return {
            "cells": None if cells is None else cells_of(cells),
            "pixels": pixels(rows) if cells is None else None,
            "log_p": or_reason(lambda: float(method(model, "score_samples")(rows)[0])),
            "bound": or_reason(lambda: terms(method(model, "bound")(rows))),
            "posterior": or_reason(lambda: posterior(method(model, "posterior")(rows), model)),
            "predict": or_reason(lambda: predicted(model, rows)),
            "latent": or_reason(lambda: latent(model, rows)),
            "imputed": or_reason(lambda: self.imputed(rows, cells)),
            "blame": or_reason(lambda: self.blame(rows, cells)),
            "along": or_reason(lambda: self.along(cells, given.get("column"))),
        }

    def imputed(self, rows: Any, cells: pd.DataFrame | None) -> Any:
        """Each missing cell: its imputation and an interval, or the frequency of each level among draws."""
        if cells is None or not cells.isna().to_numpy().any():
            return []
        filled, drawn = as_pandas(method(self.model, "impute")(rows)), self.drawn(cells, DRAWS, 0)
        return [
            {"column": self.columns[j].name, "imputed": value_of(filled.iat[0, j])}
            | summary(drawn[drawn.columns[j]].tolist(), self.columns[j])
            for j in np.flatnonzero(cells.isna().to_numpy()[0]).tolist()
        ]

    def drawn(self, cells: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
        """The row n times, each with its missing cells drawn anew."""
        many = in_kind(pd.concat([cells] * n, ignore_index=True), self.X)
        return self.named(method(self.model, "impute_draws")(many, 1, random_state=seed)[0])

    def blame(self, rows: Any, cells: pd.DataFrame | None) -> Any:
        """Each observed cell given the rest of its row: ln p(x) - ln p(x without it), and what was expected if "
        "known."""
        model = self.model
        if cells is None:
            raise ValueError("the cells of these rows are not compared one by one")
        if hasattr(model, "given_rest"):
            found = model.given_rest(rows)
            parts = {name: as_pandas(getattr(found, name)) for name in ("expected", "low", "high")}
            return [
                {"column": column.name, "nats": float(found.nats[0, j]), "tail": float(found.tail[0, j])}
                | {name: value_of(part.iloc[0, j]) for name, part in parts.items()}
                for j, column in enumerate(self.columns)
            ]
        if not model.capabilities.missing_in_score:
            raise ValueError(f"{type(model).__name__} has no score without a cell, so no cell can be blamed")
        seen = np.flatnonzero(cells.notna().to_numpy()[0])
        every = [cells, *(changed(cells, 0, {self.columns[j].name: None}, self.columns) for j in seen)]
        scores = np.asarray(method(model, "score_samples")(in_kind(pd.concat(every, ignore_index=True), self.X)))
        nats = dict(zip(seen.tolist(), (scores[0] - scores[1:]).tolist(), strict=True))
        return [{"column": column.name, "nats": nats.get(j)} for j, column in enumerate(self.columns)]

    def along(self, cells: pd.DataFrame | None, column: Any) -> Any:
        """ln p of the row as one cell moves."""
        if cells is None or column is None:
            return None
        places = [j for j, each in enumerate(self.columns) if each.name == column]
        if not places:
            raise ValueError(f"there is no column {str(column)[:60]!r}")
        (j,) = places
        own = self.columns[j]
        values = list(own.levels) if own.levels else np.linspace(own.low, own.high, ALONG).tolist()
        if own.is_whole:
            values = sorted({round(value) for value in values})
        many = pd.concat([cells] * len(values), ignore_index=True)
        dtype = cells.dtypes.iloc[j]
        moved = pd.Series(values) if dtype.kind in "iuf" else pd.Series(values, dtype=dtype)
        many[many.columns[j]] = moved
        scores = np.asarray(self.model.score_samples(in_kind(many, self.X)), dtype=np.float64)
        return {"column": own.name, "values": [value_of(value) for value in values], "log_p": scores}

    def decode(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The row at a place in the latent space."""
        z = given.get("z")
        if not isinstance(z, list) or not all(isinstance(x, int | float) and abs(x) < 1e6 for x in z) or not z:
            raise ValueError(f"z={z!r} must be a list of numbers, one per latent dimension")
        rows = method(self.model, "inverse_transform")(np.array([z], dtype=np.float64))
        if self.frame is None:
            return {"pixels": pixels(rows)}
        return {"cells": cells_of(self.named(rows))}

    def draw(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """New rows; with given cells, rows that agree with them: draws of all others."""
        n, seed, cells = given.get("n", 8), given.get("seed", 0), given.get("cells") or {}
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_ROWS:
            raise ValueError(f"n={n!r} must be a whole number from 1 to {MOST_ROWS}")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
            raise ValueError(f"seed={seed!r} must be a whole number, 0 or more")
        if not cells:
            rows = method(self.model, "sample")(n, random_state=seed)[0]
            return {"pixels": pixels(rows)} if self.frame is None else {"rows": table_of(self.named(rows))}
        if self.frame is None:
            raise ValueError("conditions are on the columns of a table")
        hidden = {column.name: None for column in self.columns} | dict(cells)
        if all(value is not None for value in hidden.values()):
            raise ValueError("all columns are given; leave at least one to draw")
        one = changed(self.frame, 0, hidden, self.columns)
        whole = self.drawn(one, max(n, DRAWS), seed)
        asked = [j for j, column in enumerate(self.columns) if hidden[column.name] is None]
        summaries = [
            {"column": self.columns[j].name} | summary(whole[whole.columns[j]].tolist(), self.columns[j]) for j in asked
        ]
        return {"rows": table_of(whole.iloc[:n]), "summaries": summaries, "n_draws": len(whole)}

    def named(self, rows: Any) -> pd.DataFrame:
        """Rows that a model returned, with the names of the columns."""
        found = as_pandas(rows).reset_index(drop=True)
        if found.shape[1] == len(self.columns):
            found.columns = [column.name for column in self.columns]
        return found


def value_of(value: Any) -> Any:
    """A cell for the page: a number, a text or None."""
    if value is None or value is pd.NA or (not isinstance(value, str) and pd.isna(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    return float(value) if isinstance(value, int | float | np.number) else str(value)


def cells_of(frame: pd.DataFrame) -> list[Any]:
    return [value_of(value) for value in frame.iloc[0].tolist()]


def table_of(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "head": list(map(str, frame.columns)),
        "rows": [[value_of(x) for x in row] for row in frame.to_numpy(dtype=object).tolist()],
    }


def pixels(rows: Any) -> Any:
    """Images for the page: their shape, and the grey levels of each; None for other rows."""
    array = np.asarray(rows) if not hasattr(rows, "tocsr") else np.asarray(rows.todense())
    if array.dtype.kind not in "biuf" or array.ndim not in (2, 3) or not array.size:
        return None
    side = round(array[0].size ** 0.5)
    shape = array.shape[1:] if array.ndim == 3 else (side, side)
    if np.prod(shape) != array[0].size:
        return None
    return {"shape": shape, "images": array.reshape(len(array), -1), "low": 0.0, "high": float(max(array.max(), 1e-9))}


def summary(values: list[Any], column: Column) -> dict[str, Any]:
    """Mean and interval of drawn numbers, or the shares of drawn levels."""
    if column.kind == "number":
        numbers = np.array([np.nan if value_of(x) is None else float(x) for x in values])
        low, high = np.nanquantile(numbers, INTERVAL)
        return {"mean": float(np.nanmean(numbers)), "low": float(low), "high": float(high)}
    words, counts = np.unique([str(x) for x in values], return_counts=True)
    order = np.argsort(-counts)[:8]
    return {"shares": [[str(words[i]), float(counts[i] / len(values))] for i in order]}


def terms(bound: Any) -> dict[str, Any]:
    """A row's bound, term by term."""
    error = bound.standard_error
    return {
        "reconstruction": float(bound.reconstruction[0]),
        "kl": {name: float(value[0]) for name, value in bound.kl.items()},
        "total": float(bound.total[0]),
        "is_exact": bool(bound.is_exact),
        "standard_error": None if error is None else float(np.asarray(error)[0]),
    }


def posterior(q: torch.distributions.Distribution, model: Any = None) -> dict[str, Any]:
    """q(z|x) of a row: probabilities, or means and standard deviations."""
    probs = getattr(q, "probs", None)
    if probs is not None and probs.ndim == 2:
        values = probs[0].detach().numpy()
        return {"kind": "probabilities", "values": values, "shares": shares_of(model, len(values))}
    mixing = getattr(q, "mixture_distribution", None)
    if mixing is not None:
        values = mixing.probs[0].detach().numpy()
        return {"kind": "probabilities", "values": values, "shares": shares_of(model, len(values))}
    mean, std = q.mean[0].detach().numpy(), q.stddev[0].detach().numpy()
    if mean.ndim != 1 or len(mean) > MOST_LATENT:
        raise ValueError(f"the latent variable has {mean.size} numbers, too many to show")
    return {"kind": type(q).__name__, "mean": mean, "std": std}


def shares_of(model: Any, n: int) -> Any:
    """How many rows each of the n components or clusters has, as shares of all; None where that is not known."""
    for name in ("weights_", "cluster_weights_"):
        found = np.asarray(getattr(model, name, ()), dtype=np.float64)
        if found.shape == (n,) and found.sum() > 0:
            return found / found.sum()
    return None


def predicted(model: Any, rows: Any) -> dict[str, Any]:
    """The cluster, class or number that is predicted, with probabilities where there are any."""
    found = {"value": value_of(np.asarray(method(model, "predict")(rows)).ravel()[0])}
    if not hasattr(model, "predict_proba"):
        return found
    classes = getattr(model, "classes_", None)
    probabilities = np.asarray(model.predict_proba(rows))[0]
    names = [str(name) for name in classes] if classes is not None and len(classes) == len(probabilities) else None
    return found | {"names": names, "probabilities": probabilities}


def latent(model: Any, rows: Any) -> dict[str, Any]:
    """The latent vector of a row, if a row can be made from one."""
    method(model, "inverse_transform")
    z = np.asarray(model.transform(rows), dtype=np.float64)[0]
    if z.ndim != 1 or len(z) > MOST_LATENT:
        raise ValueError(f"the latent vector has {z.size} numbers, too many for sliders")
    inside = bool(np.asarray(getattr(model, "grid_", [2.0])).max() <= 1.0)
    return {"z": z, "low": 0.0 if inside else -3.5, "high": 1.0 if inside else 3.5}
