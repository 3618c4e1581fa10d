"""Checkpoints of `compare` and `select`: a folder of finished trials, which the same call does not repeat.

    call.json      the call, as JSON: its models and arguments, and checksums of its rows
    NAME.trial     the figures of a trial: a safetensors file with JSON in its metadata, and a checksum
    NAME.jensen    its fitted model, where the result needs it; `jensen.load` reads it
Every file is replaced atomically, the figures last, so that a trial is there as a whole or not at all. A damaged one is
repeated, and so is a trial that failed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_array, issparse

from jensen.data.container import as_array, is_frame
from jensen.engines.em.checkpoint import differing
from jensen.files.records import read_record, write_record
from jensen.files.replacing import PREFIX, write_text
from jensen.registry import load
from jensen.runtime.messages import levels_inside

VERSION = 1
CALL = "call.json"
# Arguments of a model that do not change its fit.
SILENT = ("verbose", "verbose_interval", "n_jobs")
# Where an object is in memory.
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Trials:
    """The finished trials of a call.

    Args:
        folder: where they are; None keeps nothing.
        classes: of models and recipes that their files may name, beside those of jensen.
    """

    folder: Path | None = None
    classes: tuple[type[Any], ...] = ()

    @property
    def hint(self) -> str:
        """How to resume."""
        return "" if self.folder is None else f"; the same call with checkpoint={str(self.folder)!r} resumes"

    def find(self, name: str) -> dict[str, Any] | None:
        """The figures of a trial, with its fit as "model" if it was kept; None if it is not done."""
        if self.folder is None or not (self.folder / f"{name}.trial").exists():
            return None
        try:
            found = read_record(self.folder / f"{name}.trial")
            if found.pop("has_model"):
                found["model"] = load(self.folder / f"{name}.jensen", recipes=self.classes)
        except (ValueError, KeyError, OSError) as error:
            warnings.warn(f"{error}; this trial is repeated", UserWarning, stacklevel=levels_inside())
            return None
        return found

    def keep(self, name: str, figures: Mapping[str, Any], model: Any = None) -> None:
        """Write the figures of a trial, and its fit."""
        if self.folder is None:
            return
        place = f"checkpoint={str(self.folder)!r}"
        try:
            if model is not None:
                if not hasattr(model, "save"):
                    raise TypeError("it has no method save")
                model.save(self.folder / f"{name}.jensen")
            write_record(self.folder / f"{name}.trial", {**figures, "has_model": model is not None})
        except OSError as error:
            # Trials of hours are worth more than their checkpoint.
            message = f"{place} cannot be written: {error}; the call goes on without it until it can"
        except (TypeError, ValueError) as error:
            # Without pickle, not every model of another library or with a function as an argument has a file.
            message = f"{place} keeps no fit of {type(model).__name__}: {error}; its trials are repeated"
        else:
            return
        warnings.warn(message, UserWarning, stacklevel=levels_inside())


NOTHING_KEPT = Trials()


def trials_at(
    path: str | os.PathLike[str] | None, about: Callable[[], Mapping[str, Any]], models: Iterable[Any], seed: Any
) -> Trials:
    """The trials in a folder, which is made if it is not there; an error if they are those of another call.

    Args:
        path: the folder; None keeps nothing.
        about: what calls must share, by name.
        models: the estimators of the call.
        seed: its random_state; without one no call is the same.
    """
    if path is None:
        return NOTHING_KEPT
    folder, place = Path(path), f"checkpoint={os.fspath(path)!r}"
    if seed is None:
        raise ValueError(f"{place} needs a random_state, because the same call must draw the same folds; give a number")
    now = json.dumps({"version": VERSION, **about()}, indent=1)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{place} is a file, and finished trials are kept in a folder; give another path")
    if not folder.parent.is_dir():
        raise ValueError(f"{place} cannot be written; give a folder in an existing folder")
    if (folder / CALL).exists():
        try:
            was = (folder / CALL).read_text(encoding="utf-8")
            json.loads(was)
        except ValueError:
            raise ValueError(f"{place} is damaged: {CALL} is no JSON; delete the folder") from None
        if was != now:
            raise ValueError(f"{place} is of another call: {differing(was, now)}; delete it, or give another path")
    else:
        folder.mkdir(exist_ok=True)
        # A process that was killed may have left a temporary file.
        if any(not name.startswith(PREFIX) for name in os.listdir(folder)):
            raise ValueError(f"{place} holds other files and no {CALL}; give a new folder")
        write_text(folder / CALL, now)
    types = {type(part) for model in models for part in with_parts(model)}
    # jensen's are known, and those of scikit-learn have no files, but some have the same names.
    return Trials(folder, tuple(one for one in types if not one.__module__.startswith(("jensen.", "sklearn."))))


def with_parts(model: Any) -> Iterator[Any]:
    """A model, and the recipes and models among its arguments."""
    yield model
    yield from (value for value in model.get_params().values() if hasattr(value, "get_params"))


def described(model: Any) -> str:
    """A model with all its arguments, the same in every process."""
    arguments = (
        f"{name}={in_words(value)}"
        for name, value in sorted(model.get_params().items())
        if name.split("__")[-1] not in SILENT
    )
    return f"{type(model).__name__}({', '.join(arguments)})"


def in_words(value: Any) -> str:
    """An argument: arrays by their checksum, recipes by their class, since their own arguments have names, too."""
    if hasattr(value, "get_params"):
        return type(value).__name__
    if hasattr(value, "shape"):
        return rows_in_words(value)
    return ADDRESS.sub("", repr(value))


def rows_in_words(value: Any) -> str:
    """The number of rows, and a checksum of their content."""
    if value is None:
        return "None"
    found = hashlib.sha256()
    for part in parts_of(value):
        found.update(part)
    n = value.shape[0] if getattr(value, "shape", ()) else len(value) if hasattr(value, "__len__") else 1
    return f"{n} rows, checksum {found.hexdigest()[:16]}"


def parts_of(value: Any) -> Iterator[Any]:
    """The bytes of a table, column by column, of an array, or of lists."""
    if issparse(value):
        rows: Any = csr_array(value)  # type: ignore[call-overload]
        for part in (np.array(rows.shape), rows.indptr, rows.indices, rows.data):
            yield from parts_of(part)
    elif is_frame(value):
        frame = nw.from_native(value, eager_only=True)
        for name, column in zip(frame.columns, frame.iter_columns(), strict=True):
            yield repr(name).encode()
            yield from parts_of(column.to_numpy())
    elif isinstance(value, (list, tuple)) and any(hasattr(item, "__len__") for item in value):
        # Texts, images of several sizes, or pairs of rows to train on and to score.
        for item in value:
            yield from (repr(item).encode(),) if isinstance(item, str) else parts_of(item)
    else:
        array = as_array(value)
        yield f"{array.dtype.kind}{array.dtype.itemsize}{array.shape}".encode()
        is_plain = array.dtype.kind in "biufcmM"
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if is_plain else repr(array.tolist()).encode()
