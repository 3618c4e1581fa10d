"""Answers as JSON: values without NaN, and errors of one line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.responses import Response

# The most characters of an error.
MOST = 500


def plain(value: Any) -> Any:
    """Numbers, words, lists and dictionaries of them; numbers that JSON does not have become null."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    array = np.asarray(value)
    if array.dtype == object:
        return [plain(each) for each in array.tolist()]
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return plain(array.tolist())
    return array.tolist()


def as_json(value: Any, status: int = 200) -> Response:
    """An answer."""
    text = json.dumps(plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode(), status, media_type="application/json")


def as_error(error: BaseException | str, status: int = 400) -> Response:
    """An error in one line, without where it was raised."""
    return as_json({"error": in_one_line(error)}, status)


def in_one_line(error: BaseException | str) -> str:
    """The message of an error; for a method that a model does not offer, with its reason."""
    text = str(error) or type(error).__name__
    if isinstance(error, AttributeError) and isinstance(error.__cause__, AttributeError):
        text = str(error.__cause__)
    text = " ".join(text.split())
    return text if len(text) <= MOST else text[: MOST - 3] + "..."
