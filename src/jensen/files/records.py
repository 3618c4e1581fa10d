"""Records on disk: one safetensors file, its structure as JSON in the metadata. No pickle, and no class is known here.

A value is JSON, an array, a recipe (a small estimator that only stores its arguments) or a list, tuple or dict of them.
The metadata contain the version of the format and a SHA-256 of everything else. A file of an older version is converted
version by version, each time by a function from record to record, so that it can always be loaded:
    1   no checksum, and arrays without types and shapes
    2   as above, but the kinds of columns are continuous, binary and categorical, and less is known of them
    3   as above, but the weights of numbers' noise have other names
    4   as above
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from sklearn.base import BaseEstimator
from torch import Tensor

from jensen.files.label_values import encode_label, place_label, time_type
from jensen.files.replacing import replacing
from jensen.runtime.messages import levels_inside

FORMAT, VERSION = "jensen", 4
# The deepest nesting of values; a model has about ten levels.
MOST_NESTED = 32
# Bytes that an array of texts may take even if most of them are short.
FREE_BYTES = 2**24

Record = dict[str, Any]


def to_2(record: Record) -> Record:
    """Version 2 describes its arrays and has a checksum; the record itself is the same."""
    return record


# The kinds of columns in version 2, and what they are called now.
KINDS_OF_2 = {"continuous": "number", "binary": "yes/no", "categorical": "level", "grid": "grid"}
COLUMNS_OF_2 = {"names", "kinds", "levels", "location", "scale", "dtypes", "container"}


def to_3(record: Record) -> Record:
    """Version 3 has other words for kinds of columns, and knows bounds, atoms, units, ranges and counts of them."""

    def renewed(value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == COLUMNS_OF_2:
            d = len(value["names"])
            unlimited = torch.tensor([-math.inf, math.inf], dtype=torch.float64).repeat(d, 1)
            return value | {
                "kinds": tuple(KINDS_OF_2.get(kind, kind) for kind in value["kinds"]),
                "bounds": unlimited,
                "atoms": ((),) * d,
                "units": ("",) * d,
                "ranges": unlimited.clone(),
                "whole": (False,) * d,
                "categories": ((),) * d,
                "n_observed": torch.zeros(d, dtype=torch.int64),
                "n_rows": 0,
                "left_out": (),
                "kept": tuple(range(d)),
            }
        return {key: renewed(item) for key, item in value.items()} if isinstance(value, dict) else value

    renewed_record: Record = renewed(record)
    return renewed_record


# The weights of a VAE's likelihood that belong to numbers alone.
NOISE_OF_3 = re.compile(r"(?<=emission\.)(?=log_(variance|least)$)")


def to_4(record: Record) -> Record:
    """Version 4 has the noise of numbers beside the weights of other kinds of columns."""

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                NOISE_OF_3.sub("numbers.", key) if isinstance(key, str) else key: renamed(item)
                for key, item in value.items()
            }
        return value

    renamed_record: Record = renamed(record)
    return renamed_record


# From each version to the next. Do not change these: a change of records needs a new version.
MIGRATIONS: dict[int, Callable[[Record], Record]] = {1: to_2, 2: to_3, 3: to_4}


def write_record(path: str | os.PathLike[str], record: Record) -> None:
    """Write a record atomically: after a crash there is the old file or the new one, never a part."""
    tensors: dict[str, Tensor] = {}
    content = json.dumps({name: encode(value, tensors, name) for name, value in record.items()})
    metadata = {"format": FORMAT, "version": str(VERSION), "content": content}
    with replacing(path) as aside:
        # `save_file` would write another temporary file.
        aside.write_bytes(save(tensors, metadata | {"sha256": checksum(metadata, tensors)}))


def read_record(path: str | os.PathLike[str], *, way_out: str | None = None) -> Record:
    """The record with its tensors, and with recipes by name; `decode` turns them into objects.

    If `way_out` is given, a file without a checksum causes a warning that ends with it.
    """
    if Path(path).is_dir():
        raise ValueError(f"{path} is a directory, not a jensen model file")
    metadata, tensors = opened(path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a jensen model: save one with model.save(path)")
    version = checked_version(path, metadata)
    if "sha256" in metadata:
        if metadata["sha256"] != checksum(metadata, tensors):
            raise ValueError(f"{path} is damaged: its content does not match its checksum")
    elif version > 1:
        raise ValueError(f"{path} is damaged: it has no checksum, but files of version {version} have one")
    elif way_out is not None:
        warnings.warn(
            f"{path} has no checksum, because an older jensen saved it, so damage cannot be detected; {way_out}",
            UserWarning,
            stacklevel=levels_inside(),
        )
    try:
        content = json.loads(metadata["content"], object_pairs_hook=distinct, parse_constant=refuse_constant)
        record = {name: place(value, tensors) for name, value in content.items()}
        if tensors:
            raise ValueError(f"nothing names the tensors {sorted(tensors)[:3]}")
        for number in range(version, VERSION):
            record = MIGRATIONS[number](record)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its description does not fit its tensors ({error!r})") from None
    return record


def opened(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of a safetensors file; an error if a key appears twice in its header."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        with open(path, "rb") as file:
            json.loads(file.read(int.from_bytes(file.read(8), "little")), object_pairs_hook=distinct)
    except (SafetensorError, ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a jensen model file: {error}") from None
    return metadata, tensors


def checked_version(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> int:
    stated = metadata.get("version", "")
    version = int(stated) if stated.isascii() and stated.isdecimal() and len(stated) < 10 else 0
    if version > VERSION:
        raise ValueError(
            f"{path} has format version {stated!r}, of a newer jensen; this one reads up to {VERSION}: update it"
        )
    if version < 1:
        raise ValueError(f"{path} is damaged: {stated!r} is not a format version")
    return version


def checksum(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of all other metadata, and of the names, types, shapes and bytes of all tensors."""
    found = hashlib.sha256()
    for name in sorted(metadata.keys() - {"sha256"}):
        found.update(f"{name} {len(metadata[name])}\n{metadata[name]}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {type_name(tensor)} {list(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key that appears twice is ambiguous and an error."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:i]))
        raise ValueError(f"the key {twice!r} appears twice")
    return found


def refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def encode(value: Any, tensors: dict[str, Tensor], name: str, depth: int = 0) -> Any:
    """JSON for a value; its arrays go to `tensors` under dotted names."""
    if depth > MOST_NESTED:
        raise ValueError(f"{name} is nested more than {MOST_NESTED} deep and cannot be saved; give a flatter value")
    inner = depth + 1
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
        return {"strings": [encode(item, tensors, name, inner) for item in value.tolist()], "dtype": value.dtype.kind}
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return {"times": encode(value.astype(np.int64), tensors, name, inner), "dtype": value.dtype.str}
    if isinstance(value, (np.ndarray, Tensor)):
        while name in tensors:
            # Two names can be equal if a key contains a dot.
            name += "_"
        tensor = tensors[name] = torch.as_tensor(value).detach().cpu().clone(memory_format=torch.contiguous_format)
        described = {"type": type_name(tensor), "shape": list(tensor.shape)}
        return {"array": name, "numpy": isinstance(value, np.ndarray), **described}
    if isinstance(value, (list, tuple)):
        items = [encode(item, tensors, f"{name}.{i}", inner) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, tensors, f"{name}.{key}", inner) for key, item in value.items()}}
    if isinstance(value, dict) and all(isinstance(key, str) or type(key) is int for key in value):
        # JSON has no numbers as keys; the columns of an array have numbers as names.
        return {"pairs": [[key, encode(item, tensors, f"{name}.{key}", inner)] for key, item in value.items()]}
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        return {
            "recipe": type(value).__name__,
            "params": {key: encode(item, tensors, f"{name}.{key}", inner) for key, item in params.items()},
        }
    raise TypeError(
        f"{name}={value!r} cannot be saved: a file holds JSON values, arrays and recipes, never pickled objects; "
        "set it to one of these before saving"
    )


def place(value: Any, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    """Undo `encode`, but leave recipes as dictionaries. A value that `encode` does not write is an error.

    Each tensor is used once and removed from `tensors`.
    """
    if depth > MOST_NESTED:
        raise ValueError(f"values are nested more than {MOST_NESTED} deep")

    def placed(items: Any) -> Any:
        if isinstance(items, dict):
            return {key: place(item, tensors, depth + 1) for key, item in items.items()}
        return [place(item, tensors, depth + 1) for item in items]

    match value:
        case None | bool() | int() | float() | str():
            return value
        case {"float": str(text)}:
            return float(text)
        case {"times": dict(times), "dtype": str(dtype)}:
            return place(times, tensors, depth + 1).astype(time_type(dtype))
        case {"label": str(text), "of": str(of)}:
            return place_label(text, of)
        case {"strings": [*items], "dtype": "O" | "U" | "S" as kind}:
            return texts(placed(items), kind)
        case {"array": str(name), "numpy": bool(is_numpy)}:
            return array_of(tensors.pop(name), is_numpy, value)
        case {"list": [*items]}:
            return placed(items)
        case {"tuple": [*items]}:
            return tuple(placed(items))
        case {"dict": dict(items)}:
            return placed(items)
        case {"pairs": [*items]}:
            return numbered({key: place(item, tensors, depth + 1) for key, item in items}, len(items))
        case {"recipe": str(name), "params": dict(items)}:
            return {"recipe": name, "params": placed(items)}
    raise ValueError(f"{str(value)[:60]} is not a value")


def numbered(found: dict[Any, Any], n_items: int) -> dict[Any, Any]:
    """A dictionary with texts and whole numbers as keys."""
    if len(found) < n_items or not all(isinstance(key, str) or type(key) is int for key in found):
        raise ValueError("keys must be different texts or whole numbers")
    return found


def array_of(tensor: Tensor, is_numpy: bool, described: Mapping[str, Any]) -> Any:
    """A tensor or array; its type and shape are checked, except in version 1, which has none."""
    found = {"type": type_name(tensor), "shape": list(tensor.shape)}
    stated = {key: described[key] for key in found if key in described}
    if stated and stated != found:
        raise ValueError(f"{described['array']} is described as {stated}, but its tensor has {found}")
    return tensor.numpy() if is_numpy else tensor


def texts(items: list[Any], kind: str) -> np.ndarray:
    """Objects, or texts in an array whose width is that of the longest."""
    if kind == "O":
        # None keeps numpy from reading sequences into more axes.
        return np.array([*items, None], dtype=object)[:-1]
    if not all(isinstance(item, bytes if kind == "S" else str) for item in items):
        raise ValueError("an array of texts contains other values")
    lengths = [len(item) for item in items]
    if 4 * len(items) * max(lengths, default=0) > max(FREE_BYTES, 64 * sum(lengths)):
        raise ValueError(f"{len(items)} texts, one of them {max(lengths)} long, are not an array of texts")
    return np.array(items, dtype=np.bytes_ if kind == "S" else np.str_)


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
