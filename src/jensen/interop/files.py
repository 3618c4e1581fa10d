"""Records on disk: one safetensors file, its structure as JSON in the metadata. No pickle, and no class is known here.

A value is JSON, an array, a recipe (a small estimator that only stores its arguments) or a list, tuple or dict of such.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.base import BaseEstimator
from torch import Tensor

__all__ = ["decode", "encode", "read_record", "write_record"]

FORMAT, VERSION = "jensen", 1


def write_record(path: str | os.PathLike[str], record: dict[str, Any]) -> None:
    """Write aside, then put in place at once: a crash leaves the old file or the new one, never half of one."""
    tensors: dict[str, Tensor] = {}
    content = json.dumps({name: encode(value, tensors, name) for name, value in record.items()})
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path} cannot be written: it is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}")
    handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        save_file(tensors, aside, metadata={"format": FORMAT, "version": str(VERSION), "content": content})
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(aside, 0o666 & ~mask)
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record with its tensors in place and its recipes still by name: `decode` turns them into objects."""
    if Path(path).is_dir():
        raise ValueError(f"{path} is a directory, not a jensen model file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a jensen model file: {error}") from None
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a jensen model: save one with model.save(path)")
    if metadata.get("version") != str(VERSION):
        raise ValueError(f"{path} has format version {metadata.get('version')!r}; this jensen reads version {VERSION}")
    try:
        content = json.loads(metadata["content"])
        return {name: place(value, tensors) for name, value in content.items()}
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: its description does not fit its tensors ({error!r})") from None


def encode(value: Any, tensors: dict[str, Tensor], name: str) -> Any:
    """JSON for a value; its arrays go to `tensors` under dotted names."""
    if isinstance(value, (bytes, date, timedelta, np.datetime64, np.timedelta64)):
        return encode_label(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
        return {"strings": [encode(item, tensors, name) for item in value.tolist()], "dtype": value.dtype.kind}
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return {"times": encode(value.astype(np.int64), tensors, name), "dtype": value.dtype.str}
    if isinstance(value, (np.ndarray, Tensor)):
        tensors[name] = torch.as_tensor(value).detach().cpu().contiguous().clone()
        return {"array": name, "numpy": isinstance(value, np.ndarray)}
    if isinstance(value, (list, tuple)):
        items = [encode(item, tensors, f"{name}.{i}") for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, tensors, f"{name}.{key}") for key, item in value.items()}}
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        return {
            "recipe": type(value).__name__,
            "params": {key: encode(item, tensors, f"{name}.{key}") for key, item in params.items()},
        }
    raise TypeError(
        f"{name}={value!r} cannot be saved: a file holds JSON values, arrays and recipes, never pickled objects; "
        "set it to one of these before saving"
    )


def encode_label(value: Any) -> dict[str, str]:
    """A class or a column's name that JSON has no word for."""
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


def place(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo `encode`, but leave recipes as their dictionaries."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "strings" in value:
        items = [place(item, tensors) for item in value["strings"]]
        # None keeps numpy from reading sequences into more axes.
        return np.array([*items, None], dtype=object)[:-1] if value["dtype"] == "O" else np.array(items)
    if "times" in value:
        return place(value["times"], tensors).astype(time_type(value["dtype"]))
    if "label" in value:
        return place_label(value["label"], value["of"])
    if "array" in value:
        tensor = tensors[value["array"]]
        return tensor.numpy() if value["numpy"] else tensor
    if "list" in value:
        return [place(item, tensors) for item in value["list"]]
    if "tuple" in value:
        return tuple(place(item, tensors) for item in value["tuple"])
    if "dict" in value:
        return {key: place(item, tensors) for key, item in value["dict"].items()}
    return {"recipe": value["recipe"], "params": {key: place(item, tensors) for key, item in value["params"].items()}}


def decode(value: Any, recipes: Mapping[str, type[BaseEstimator]]) -> Any:
    """Turn recipes into objects of the classes given; a name that is not among them is an error, never an import."""
    if isinstance(value, dict) and value.keys() == {"recipe", "params"}:
        if value["recipe"] not in recipes:
            raise ValueError(
                f"the file names the recipe {value['recipe']!r}, which is not known; known are {sorted(recipes)}: "
                "a class is never imported from a file, so give it as jensen.load(path, recipes=[...])"
            )
        return recipes[value["recipe"]](**{key: decode(item, recipes) for key, item in value["params"].items()})
    if isinstance(value, (list, tuple)):
        return type(value)(decode(item, recipes) for item in value)
    if isinstance(value, dict):
        return {key: decode(item, recipes) for key, item in value.items()}
    return value
