"""Dates and times as numbers, and back: seconds or days since 1970, of a duration, or since midnight."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

DAY = 86_400.0
SECONDS = {"seconds": 1.0, "days": DAY}
START = datetime(1970, 1, 1)
STEP = timedelta(microseconds=1)


def seconds_of(times: np.ndarray) -> np.ndarray:
    """Seconds (n,) of dates, durations and times of day; NaN where missing. A date without a zone counts as UTC."""
    if times.dtype.kind not in "mM":
        return np.array([second_of(value) for value in times], dtype=np.float64)
    # A float of seconds since 1970 resolves a quarter of a microsecond.
    seconds = times.astype(f"{times.dtype.kind}8[us]").astype(np.int64) / 1e6
    return np.where(np.isnat(times), np.nan, seconds)


def second_of(value: Any) -> float:
    """Seconds of one object; a month or another period counts from its start."""
    if type(value).__name__ == "Period":
        value = value.to_timestamp()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return float(seconds_of(np.array([value]))[0])
    if value is None or value != value:  # NaT
        return np.nan
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return float((value - START.replace(tzinfo=UTC if value.tzinfo else None)).total_seconds())
    if isinstance(value, date):
        return (value - START.date()).days * DAY
    return (datetime.combine(START, value.replace(tzinfo=None)) - START).total_seconds()


def what_is(dtype: str) -> str:
    """Whether a type, as containers and Python write it, is a "timedelta", "time", "date" or "datetime"."""
    name = dtype.lower()
    if name.startswith(("timedelta", "duration")):
        return "timedelta"
    # arrow writes the unit behind the name, as in date32[day].
    own = re.match(r"(time|date)(?:32|64)?(?:\[\w+\]\[pyarrow\])?$", name)
    return own.group(1) if own else "datetime"


def python_times(seconds: np.ndarray, dtype: str) -> np.ndarray:
    """Objects (n,) of Python's types for such a column, in UTC, None for NaN; to the microsecond, dates to the day."""
    what, out = what_is(dtype), np.empty(len(seconds), dtype=object)
    for i in np.flatnonzero(~np.isnan(seconds)):
        passed = STEP * round(float(seconds[i]) * 1e6)
        if what == "timedelta":
            out[i] = passed
        elif what == "time":
            out[i] = (START + min(max(passed, timedelta(0)), timedelta(days=1) - STEP)).time()
        elif what == "date":
            out[i] = (START + timedelta(days=round(float(seconds[i]) / DAY))).date()
        else:
            out[i] = START + passed
    return out


def zone_of(dtype: str) -> str | None:
    """The time zone in a type of pandas, "datetime64[ns, UTC]", or of polars, "Datetime(..., time_zone='UTC')"."""
    found = re.search(r"(?:time_zone='|\[\w+, )([^'\]]+)", dtype)
    return found.group(1) if found else None


def pandas_times(seconds: np.ndarray, dtype: str, index: Any = None) -> Any:
    """The same as a pandas Series, of this type if it is one of pandas."""
    import pandas as pd

    made: Any = pd.Series(python_times(seconds, dtype), index=index, dtype=object)
    if dtype.endswith("[pyarrow]"):
        return made.astype(pd.api.types.pandas_dtype(dtype))
    if dtype.startswith(("timedelta64", "Duration")):
        return pd.to_timedelta(made).astype(dtype if "64[" in dtype else "timedelta64[us]")
    if not dtype.startswith(("datetime64", "period", "Datetime")):
        return made
    zone = zone_of(dtype)
    own = f"datetime64[us{f', {zone}' if zone else ''}]" if dtype.startswith("Datetime") else dtype
    return pd.to_datetime(made, utc=zone is not None).astype(own if "[" in own else "datetime64[ns]")


def frame_times(name: str, seconds: np.ndarray, dtype: str, backend: Any) -> nw.Series[Any]:
    """The same as a Series of polars or pyarrow, by way of narwhals."""
    unit = re.search(r"time_unit='(\w+)'", dtype)
    step: Any = unit.group(1) if unit else "us"
    own: Any = {"timedelta": nw.Duration(step), "time": nw.Time, "date": nw.Date}.get(what_is(dtype))
    own = own or nw.Datetime(step, zone_of(dtype))
    return nw.new_series(name, python_times(seconds, dtype).tolist(), backend=backend).cast(own)
