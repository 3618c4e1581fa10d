"""What sets a cluster apart, column by column, in words.

    distance_j = ½ Σ_v |P(x_j = v | in the cluster) - P(x_j = v | elsewhere)|
The values v are levels, or ten bins of a column of numbers with equally many rows each; missing is a value of its own.
The distance is the share of the cluster's rows that would have to change for no difference to remain: 0 is none, 1 is
complete. It has no unit, so that columns of all kinds stand in one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

# Bins of numbers, the columns named in a description, and the least distance worth a name.
N_BINS, N_NAMED, LEAST = 10, 4, 0.15
# Means that differ by less than this many standard deviations are not what sets a cluster apart.
CLEAR = 0.3


@dataclass(frozen=True)
class Difference:
    """How a column of a cluster differs from the rows elsewhere.

    Args:
        column: its name.
        distance: from 0, no difference, to 1.
        text: the difference in words.
    """

    column: str
    distance: float
    text: str


def differences(frame: pd.DataFrame, inside: np.ndarray) -> list[Difference]:
    """Every column, those that set the rows `inside` apart first."""
    found = [difference(frame.iloc[:, j], str(name), inside) for j, name in enumerate(frame.columns)]
    return sorted(found, key=lambda one: -one.distance)


def difference(column: pd.Series[Any], name: str, inside: np.ndarray) -> Difference:
    codes, values = coded(column)
    n_values = len(values)
    # The last place is for missing values.
    here, elsewhere = (
        np.bincount(np.where(part < 0, n_values, part), minlength=n_values + 1) / max(len(part), 1)
        for part in (codes[inside], codes[~inside])
    )
    gap = here - elsewhere
    distance = float(np.abs(gap).sum() / 2) if inside.any() and not inside.all() else 0.0
    if gap[-1] > np.abs(gap[:-1]).max(initial=0.0):
        return Difference(name, distance, f"{name} missing ({share(here[-1])}, elsewhere {share(elsewhere[-1])})")
    if is_number(column):
        return Difference(name, distance, of_numbers(column, name, inside))
    most, least = int(np.argmax(gap[:-1])), int(np.argmin(gap[:-1]))
    # What a cluster lacks is told where that is clearer than what it has.
    place = least if -gap[least] > 2 * gap[most] else most
    word = "rarely" if gap[place] < 0 else "mostly" if here[place] > 0.5 else "often"
    return Difference(
        name, distance, f"{name} {word} {values[place]} ({share(here[place])}, elsewhere {share(elsewhere[place])})"
    )


def of_numbers(column: pd.Series[Any], name: str, inside: np.ndarray) -> str:
    """The means, or the spreads where these differ and the means do not."""
    here, elsewhere = column[inside].dropna(), column[~inside].dropna()
    if here.empty or elsewhere.empty:  # of one cluster, or where all values are missing, there is nothing to compare
        return name
    if is_date(column):
        return f"{name} around {here.mean():%Y-%m-%d} instead of {elsewhere.mean():%Y-%m-%d}"
    here, elsewhere = here.astype(float), elsewhere.astype(float)
    spread = float(column.dropna().astype(float).std(ddof=0))
    if abs(here.mean() - elsewhere.mean()) < CLEAR * spread:
        a, b = here.std(ddof=0), elsewhere.std(ddof=0)
        if max(a, b) > 1.5 * min(a, b):
            return f"{name} {'spread less' if a < b else 'spread more'}, ± {short(a)} instead of ± {short(b)}"
    return f"{name} {short(here.mean())} instead of {short(elsewhere.mean())}"


def coded(column: pd.Series[Any]) -> tuple[np.ndarray, list[Any]]:
    """Numbers of levels or of bins, -1 where missing, and the levels or the bins."""
    if not is_number(column):
        codes, levels = pd.factorize(column, use_na_sentinel=True)
        return codes, list(levels)
    numbers = column.dropna()
    if is_date(column):
        numbers, column = numbers.astype("int64"), column.astype("int64").where(column.notna())
    edges = np.unique(np.quantile(numbers.astype(float), np.linspace(0, 1, N_BINS + 1)[1:-1]))
    codes = np.searchsorted(edges, column.astype(float).to_numpy(), side="right")
    return np.where(column.isna(), -1, codes), list(range(len(edges) + 1))


def is_number(column: pd.Series[Any]) -> bool:
    return is_date(column) or (
        pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) and column.nunique() > 2
    )


def is_date(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_datetime64_any_dtype(column)


def in_words(found: list[Difference]) -> str:
    """The columns that set a cluster apart."""
    named = [one.text for one in found if one.distance >= LEAST][:N_NAMED]
    return "; ".join(named) or "no column sets it apart alone"


def short(value: float) -> str:
    """Three digits.

    Example:
        >>> short(1.462), short(1234.5), short(0.0)
        ('1.46', '1234', '0')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share in per cent.

    Example:
        >>> share(0.9231), share(0.004)
        ('92 %', '0.4 %')
    """
    return f"{100 * value:.1f} %" if 0 < value < 0.01 else f"{100 * value:.0f} %"
