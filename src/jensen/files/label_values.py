"""Classes and column names of types that JSON does not have: bytes, dates and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np


def encode_label(value: Any) -> dict[str, str]:
    """A class or column name of a type that JSON does not have."""
    if isinstance(value, bytes):
        return {"label": value.decode("latin-1"), "of": "bytes"}
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return {"label": str(value.astype(np.int64)), "of": value.dtype.str}
    import pandas as pd  # slow to import, and rarely needed

    if isinstance(value, (timedelta, pd.Timedelta)):
        return {"label": pd.Timedelta(value).isoformat(), "of": type(value).__name__}
    return {"label": value.isoformat(), "of": type(value).__name__}


def place_label(text: str, of: str) -> Any:
    """Undo `encode_label`."""
    import pandas as pd

    makers: dict[str, Callable[[str], Any]] = {
        "bytes": lambda given: given.encode("latin-1"),
        "date": date.fromisoformat,
        "datetime": datetime.fromisoformat,
        "Timestamp": pd.Timestamp,
        "Timedelta": pd.Timedelta,
        "timedelta": lambda given: pd.Timedelta(given).to_pytimedelta(),
    }
    try:
        return makers[of](text) if of in makers else np.int64(text).astype(time_type(of))
    except ValueError as error:
        raise TypeError(f"{text!r} is not a label of the kind {of!r}: {error}") from None


def time_type(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in "mM":
        raise TypeError(f"{name!r} is not a type of dates or times")
    return dtype
