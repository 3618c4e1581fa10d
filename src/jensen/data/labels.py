"""Labels: any values, some of them unknown.

-1, None, NaN and NaT mean unlabelled, as in scikit-learn's semi-supervised estimators; among texts and bytes also "",
"nan" and "-1".
"""

from __future__ import annotations

import warnings
from datetime import date, timedelta
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import type_of_target
from torch import Tensor

from jensen.runtime.messages import levels_inside

UNLABELLED = -1
# What an array of objects may hold.
LABELS = (str, bytes, Real, date, timedelta, type(None), np.datetime64, np.timedelta64)
# The type of pd.NA.
MISSING = "NAType"


def encode_labels(
    y: Any,
    n_rows: int,
    known: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    unlabelled: Any = UNLABELLED,
) -> tuple[Tensor | None, np.ndarray]:
    """Class numbers (n,), -1 where unlabelled, and the classes in order; None when no row has a label.

    With `known` classes, as in a later batch of the same data, others are an error. Where `counts` (n,) is false, a row
    and its label are left out. `unlabelled` is the value that means unknown beside None and NaN; None is no value.
    """
    no_labels = None, np.array([]) if known is None else known
    if y is None:
        return no_labels
    y = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.shape != (n_rows,):
        raise ValueError(
            f"y has shape {y.shape}, but X has {n_rows} rows; give one label per row, -1 for an unknown one"
        )
    y = of_one_kind(y)
    unknown = are_unlabelled(y, unlabelled)
    is_sign = y.dtype.kind in "iuf" and (y[~unknown] == 1).all() and (y == UNLABELLED).any() and not unknown.all()
    if is_sign and known is None and unlabelled == UNLABELLED:
        warnings.warn(
            "y holds only -1 and 1, and -1 means unlabelled: use other values, such as 0 and 1, if it is a class",
            UserWarning,
            stacklevel=levels_inside(),
        )
    if counts is not None:
        unknown = unknown | ~counts
    if unknown.all():
        return no_labels
    if y.dtype.kind == "f" and np.isinf(y[~unknown]).any():
        raise ValueError(
            f"y contains infinity, first in row {np.flatnonzero(np.isinf(y) & ~unknown)[0]}; labels are classes, and "
            "NaN or -1 marks an unknown one"
        )
    if y.dtype.kind == "f" and type_of_target(y[~unknown]).startswith("continuous"):
        raise ValueError(
            f"Unknown label type: y holds continuous values such as {y[~unknown][0]}, but labels are classes; "
            "pass y=None to ignore labels"
        )
    try:
        classes, codes = np.unique(y[~unknown], return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in y[~unknown].tolist()})
        raise ValueError(f"y mixes values of the kinds {', '.join(kinds)}; give labels of one kind") from None
    if known is not None:
        if not np.isin(classes, known).all():
            new = classes[~np.isin(classes, known)].tolist()
            raise ValueError(
                f"y holds the classes {new}, unseen in the first batch or fit, whose classes are {known.tolist()}"
            )
        codes, classes = np.searchsorted(known, classes)[codes], known
    label = np.full(n_rows, UNLABELLED, dtype=np.int64)
    label[~unknown] = codes
    return torch.from_numpy(label), classes


def check_some_labels(name: str, y: Any, label: Tensor | None) -> None:
    """An error unless some training row of a classifier of this name has a label."""
    if tuple(getattr(y, "shape", ()))[1:] == (1,):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; give a vector, such as y.ravel()",
            DataConversionWarning,
            stacklevel=levels_inside(),
        )
    clusters = "fit a Mixture or GaussianMixture for clusters"
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None; give a class per row, None or NaN for an "
            f"unknown one, or {clusters}"
        )
    if label is None:
        raise ValueError(f"y has no label; give the class of at least one row, or {clusters}")


def decode_labels(component: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The class of each component; one beyond the classes is unlabelled: -1 among numbers, NaT among dates, or None."""
    beyond = component >= len(classes)
    if not beyond.any():
        return np.take(classes, component)
    if classes.dtype.kind in "mM":
        return np.where(beyond, np.array("NaT", dtype=classes.dtype), classes[np.minimum(component, len(classes) - 1)])
    numeric = classes.dtype.kind in "iufb"
    table = classes.astype(np.result_type(classes.dtype, np.int8) if numeric else object)
    decoded: np.ndarray = table[np.minimum(component, len(classes) - 1)]
    decoded[beyond] = UNLABELLED if numeric else None
    return decoded


def numbers_of_classes(y: Any, known: np.ndarray, n: int) -> Tensor:
    """The numbers of the requested classes: one for all n rows, or one per row."""
    values = np.asarray(y)
    if values.shape not in ((), (n,)):
        raise ValueError(f"y has shape {values.shape}; give one class, or one for each of n_samples={n} rows")
    values = np.broadcast_to(values, (n,))
    if not np.isin(values, known).all():
        raise ValueError(f"y={y!r} is not among {known.tolist()}; sample from one of these")
    return torch.from_numpy(np.searchsorted(known, values))


def classes_to_draw(y: Any, known: np.ndarray | None, n: int) -> Tensor | None:
    """The numbers of the classes that n rows are drawn from; `known` is None after a fit without labels."""
    if y is None:
        return None
    if known is None:
        raise ValueError(f"y={y!r} asks for a class, but the model was fitted without labels; pass y=None")
    return numbers_of_classes(y, known, n)


def classes_of_rows(y: Any, known: np.ndarray | None, n_rows: int) -> Tensor | None:
    """The numbers of the classes of rows, -1 where unknown; `known` is None after a fit without labels."""
    if y is None:
        return None
    if known is None:
        raise ValueError("y asks for classes, but the model was fitted without labels; pass y=None")
    return encode_labels(y, n_rows, known)[0]


def are_unlabelled(y: np.ndarray, unlabelled: Any = UNLABELLED) -> np.ndarray:
    """Which labels (n,) of one kind mean unknown."""
    if y.dtype.kind in "mM":
        return np.asarray(np.isnat(y))
    if y.dtype.kind in "iuf":
        return np.asarray(np.isnan(y) if unlabelled is None else (y == unlabelled) | np.isnan(y))
    return np.array([is_unlabelled(value, unlabelled) for value in y.tolist()], dtype=bool)


def is_unlabelled(value: Any, unlabelled: Any = UNLABELLED) -> bool:
    # pd.NA is not even unequal to itself.
    if value is None or type(value).__name__ == MISSING or value != value:
        return True
    # numpy writes NaN and -1 among texts as texts.
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return text in ("", "nan") or (unlabelled is not None and (text == str(unlabelled) or bool(text == unlabelled)))


def of_one_kind(y: np.ndarray) -> np.ndarray:
    """Labels as values that a file can hold."""
    if y.dtype.kind == "T":
        return np.array(y.tolist())
    if y.dtype.kind == "O":
        values = [value.item() if isinstance(value, (np.number, np.bool_, np.str_)) else value for value in y]
        strange = {type(value).__name__ for value in values if not isinstance(value, LABELS)}
        strange -= {MISSING}
        y = np.array([*values, None], dtype=object)[:-1]
    else:
        strange = {str(y.dtype)} if y.dtype.kind in "cV" else set()
    if strange:
        raise ValueError(
            f"y holds labels of the kind {', '.join(sorted(strange))}; give numbers, texts, bytes or dates"
        )
    return y


def read_targets(y: Any, n_rows: int, counts: Tensor | None = None) -> tuple[Tensor, tuple[int, ...]]:
    """y as float64 (n, t), and the shape of one row of it: () for a vector, (t,) for a table.

    Where `counts` (n,) is false, a row is left out, and may hold anything.
    """
    if y is None:
        raise ValueError("a regression requires y to be passed, but the target y is None; give a number per row")
    given = np.asarray(y.detach().cpu().numpy() if isinstance(y, Tensor) else y)
    if given.dtype.kind == "c":
        raise ValueError("y holds complex numbers; give real ones, for example two targets y.real and y.imag")
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers, one or several per row: {error}") from None
    if values.ndim not in (1, 2) or len(values) != n_rows or not values.size:
        raise ValueError(f"y has shape {values.shape}, but X has {n_rows} rows; give y as (n,) or (n, n_targets)")
    table = values.reshape(n_rows, -1)
    bad = ~np.isfinite(table) & (True if counts is None else counts.numpy()[:, None])
    if bad.any():
        row, column = np.argwhere(bad)[0]
        place = f"row {row}" + (f", column {column}" if values.ndim == 2 else "")
        what = "NaN" if np.isnan(table[row, column]) else "infinity"
        raise ValueError(f"y contains {what}, first in {place}; drop the row, or give it sample_weight 0")
    return torch.from_numpy(table), values.shape[1:]


def read_posterior(q: Any, n: int, k: int) -> Tensor:
    """A posterior q (n, K) that the user gives."""
    tensor = torch.as_tensor(np.asarray(q.cpu() if isinstance(q, Tensor) else q, dtype=np.float64))
    if tensor.shape != (n, k):
        raise ValueError(f"q has shape {tuple(tensor.shape)}; expected one row of probabilities per row of X, {(n, k)}")
    if (tensor < 0).any() or not torch.allclose(tensor.sum(1), torch.ones(n, dtype=torch.float64), atol=1e-6):
        raise ValueError("q must be probabilities: 0 or more, each row with sum 1")
    return tensor
