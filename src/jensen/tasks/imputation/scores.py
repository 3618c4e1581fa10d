"""What was tried, and the error of every column on hidden entries, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jensen.tasks.imputation.coding import Coding
from jensen.tasks.imputation.search import OWN_VALUES, Found
from jensen.tasks.imputation.weighing import losses


def column_table(found: Found, names: Sequence[str | int], units: Sequence[str], n_missing: np.ndarray) -> pd.DataFrame:
    """One row per column that has missing values or had hidden ones; without hidden ones there are no errors.

    rmse and mae are in the units of the column, of dates in days or seconds, as `unit` says, and `explained` is the
    share of the variance that the average accounts for. Levels have an accuracy, and -ln p of the true level. What the
    column's own mean, or its most frequent level, would have is beside them.
    """
    coding, rows = found.ensemble.coding, []
    for j in range(coding.d):
        truth = found.truth.get(j)
        row: dict[str, Any] = {"column": names[j], "kind": coding.kinds[j], "unit": units[j]}
        row |= {"missing": int(n_missing[j]), "hidden": 0 if truth is None else len(truth)}
        if truth is None:
            if n_missing[j]:
                rows.append(row)
            continue
        own = found.guesses[j][found.names.index(OWN_VALUES)]
        if coding.is_level(j):
            row |= {"accuracy": accuracy(found.average[j], truth), "most_frequent": accuracy(own, truth)}
            row |= {"log_loss": float(losses(found.average[j], truth, is_level=True).mean())}
        else:
            miss, scale = (found.average[j] - truth)[:, 0], coding.scale[j]
            square, plain = float(np.mean(miss**2)), float(np.mean((own - truth) ** 2))
            row |= {"rmse": np.sqrt(square) * scale, "mae": float(np.abs(miss).mean() * scale)}
            row |= {"rmse_of_mean": np.sqrt(plain) * scale, "mae_of_mean": float(np.abs(own - truth).mean() * scale)}
            row |= {"explained": 1 - square / plain if plain else 0.0}
        rows.append(row)
    return pd.DataFrame(rows)


def measured(value: float, unit: Any = "") -> str:
    """An error in its unit; many seconds are minutes, hours or days.

    Example:
        >>> measured(0.12345), measured(274.2, "days"), measured(5400.0, "seconds"), measured(9e5, "seconds")
        ('0.123', '274 days', '90 minutes', '10.4 days')
    """
    for name, seconds in {"days": 86_400, "hours": 3600, "minutes": 60}.items():
        if unit == "seconds" and value >= 2 * seconds:
            return f"{value / seconds:.3g} {name}"
    return f"{value:.3g} {unit}" if isinstance(unit, str) and unit else f"{value:.3g}"


def accuracy(guess: np.ndarray, truth: np.ndarray) -> float:
    return float((guess.argmax(1) == truth.argmax(1)).mean())


def tried_table(found: Found) -> pd.DataFrame:
    """One row per model: its error on hidden entries, averaged over its columns, seconds, and how much it is used.

    rmse is in standard deviations of the columns, misses is a share of the entries, and weight is the mean of the
    model's weights over all columns.
    """
    coding = found.ensemble.coding
    kept = dict(zip([member.name for member in found.ensemble.members], found.ensemble.weights, strict=False))
    kept |= {found.names[-1]: found.ensemble.weights[-1]} if found.ensemble.nearest is not None else {}
    rows = []
    for m, name in enumerate(found.names):
        weight = kept.get(name, np.zeros(coding.d))
        rows.append(
            {"model": name, **mean_errors(coding, {j: own[m] for j, own in found.guesses.items()}, found.truth)}
            | {"seconds": found.seconds.get(name, 0.0), "weight": float(weight.mean())}
            | {"is_used": bool(weight.any()), "note": ""}
        )
    for name, reason in found.failed.items():
        rows.append({"model": name, "seconds": found.seconds.get(name, 0.0), "is_used": False, "note": reason})
    rows.append({"model": "average", **mean_errors(coding, found.average, found.truth), "weight": 1.0, "note": ""})
    return pd.DataFrame(rows, columns=["model", "rmse", "misses", "columns", "seconds", "weight", "is_used", "note"])


def mean_errors(coding: Coding, guesses: dict[int, np.ndarray], truth: dict[int, np.ndarray]) -> dict[str, Any]:
    own = [j for j, guess in guesses.items() if np.isfinite(guess).all()]
    numbers = [np.mean((guesses[j] - truth[j]) ** 2) for j in own if not coding.is_level(j)]
    levels = [1 - accuracy(guesses[j], truth[j]) for j in own if coding.is_level(j)]
    return {
        "rmse": float(np.sqrt(np.mean(numbers))) if numbers else np.nan,
        "misses": float(np.mean(levels)) if levels else np.nan,
        "columns": len(own),
    }
