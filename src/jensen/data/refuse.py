"""Errors for what cannot be read as a table of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import Dataset

from jensen.data.labels import MISSING
from jensen.data.names import listed


def check_container(X: Any) -> None:
    """An error for what is no table of rows in memory: dictionaries, records, lazy frames, scans; or not real."""
    is_list = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping)
    if is_list or (isinstance(X, Mapping) and not issparse(X)):  # scipy has a sparse array that is a dictionary
        what = f"a list of dictionaries ({type(X[0]).__name__})" if is_list else f"a dictionary ({type(X).__name__})"
        raise TypeError(f"X is {what}, and a table is a data frame or an array; give pd.DataFrame(X)")
    if isinstance(X, str):
        raise TypeError(f"X is the text {X[:80]!r}; give the rows, or jensen.scan({X[:80]!r}) if it is a path")
    if isinstance(X, Dataset):
        raise TypeError("X is a Dataset, and this takes tables; give jensen.scan(X), which is read block by block")
    if nw.dependencies.is_polars_lazyframe(X):
        raise TypeError("X is a LazyFrame, whose rows are not computed yet; give X.collect(), or jensen.scan(X)")
    if hasattr(X, "block_rows"):  # a scan, whose class is in a layer above
        raise TypeError(
            "X is a scan, and this needs rows in memory; read the table if it fits, or take the first rows, "
            "X.head().table. `fit` of mixtures, k-means, factors, topics and deep models takes scans, and so do their "
            "score, predict, transform and impute; partial_fit takes blocks: `for block in X: "
            "model.partial_fit(block.table)`"
        )
    if X.is_complex() if isinstance(X, Tensor) else getattr(getattr(X, "dtype", None), "kind", None) == "c":
        raise ValueError(
            "Complex data not supported: X holds complex numbers; give real ones, such as the columns X.real and X.imag"
        )
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        raise TypeError(f"X is an array of records with the fields {listed(X.dtype.names)}; give pd.DataFrame(X)")


def check_no_text(X: Any, takes_text: bool) -> None:
    """An error for text and pd.NA in an array or in lists, which are read as numbers; text may write out a number."""
    if issparse(X):  # of numbers alone, and scipy before 1.13 cannot go through all kinds of them
        return
    way_out = "encode it as numbers" + (", or give a data frame, such as pd.DataFrame(X)" if takes_text else "")
    cells = np.asarray(X, dtype=object)
    if isinstance(X, np.ndarray) and X.dtype.kind in "US":
        raise ValueError(f"X holds text, such as {str(cells.flat[0])!r}, and no numbers; {way_out}")
    for place, value in np.ndenumerate(cells):
        if type(value).__name__ == MISSING:
            row, column = (*place, 0)[:2]
            raise ValueError(
                f"X holds pd.NA in row {row}, column {column}, and arrays and lists are read as numbers; write np.nan "
                "where a value is missing, or give pd.DataFrame(X).convert_dtypes()"
            )
        if isinstance(value, str | bytes) and not is_number(value):
            row, column = (*place, 0)[:2]
            raise ValueError(
                f"X holds text, such as {value!r} in row {row}, column {column}, and arrays and lists are read as "
                f"numbers; {way_out}"
            )


def is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
