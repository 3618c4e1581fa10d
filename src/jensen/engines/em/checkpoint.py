"""Checkpoints of EM: theta after every step, so that a fit that was stopped resumes and ends with the same bits.

A plain step depends on theta alone. So a file holds theta, in the engine's own coordinates, the objectives so far, and
where among several starts the fit is. Theta is a frozen record of tensors, numbers and such records: its leaves are
written by their path, and put back into a start of the same shape.
"""

from __future__ import annotations

import json
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from jensen.data.sparse import is_sparse, rows_matrix
from jensen.files.replacing import replacing
from jensen.runtime.messages import levels_inside

VERSION = "1"
# Seconds between two checkpoints: a step over rows in memory may take less than writing one.
EVERY = 1.0
PATH: ContextVar[str | None] = ContextVar("checkpoint", default=None)


@contextmanager
def checkpoint_at(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Fits inside write their steps to this file, and resume from it."""
    token = PATH.set(None if path is None else os.fspath(path))
    try:
        yield
    finally:
        PATH.reset(token)


@dataclass(frozen=True)
class Progress:
    """How far a fit is.

    Args:
        attempt: the number of the start, from 0.
        history: the objective at the start and after every step.
        theta: its leaves by path.
        state: of the generator, before it drew this start.
        converged: whether this start is done.
        best: the best of the starts before; None if there is none.
    """

    attempt: int
    history: list[float]
    theta: dict[str, Tensor]
    state: Tensor
    converged: bool = False
    best: Best | None = None


@dataclass(frozen=True)
class Best:
    """Where a start ended."""

    theta: dict[str, Tensor]
    history: list[float]
    converged: bool


def leaves(value: Any, path: str = "theta") -> dict[str, Tensor]:
    """Tensors and numbers of a theta, by path."""
    if isinstance(value, Tensor):
        return {path: value}
    if isinstance(value, (bool, int, float)):
        return {path: torch.tensor(value, dtype=torch.float64)}
    if is_dataclass(value) and not isinstance(value, type):
        return {k: v for f in fields(value) for k, v in leaves(getattr(value, f.name), f"{path}.{f.name}").items()}
    if isinstance(value, (tuple, list)):
        return {k: v for i, own in enumerate(value) for k, v in leaves(own, f"{path}.{i}").items()}
    return {}


def is_alike(found: Tensor, template: Tensor) -> bool:
    return found.shape == template.shape and found.dtype == template.dtype


def restored(
    template: Any,
    found: dict[str, Tensor],
    path: str = "theta",
    fits: Callable[[Tensor, Tensor], bool] = is_alike,
) -> Any:
    """A value shaped as the template, with other leaves."""
    if isinstance(template, Tensor):
        if path not in found or not fits(found[path], template):
            raise ValueError(f"{path} of the checkpoint has another shape")
        return found[path].clone(memory_format=torch.preserve_format)
    if isinstance(template, (bool, int, float)):
        return type(template)(found[path].item())
    if is_dataclass(template) and not isinstance(template, type):
        own = {
            f.name: restored(getattr(template, f.name), found, f"{path}.{f.name}", fits)
            for f in fields(template)
            if f.init
        }
        return replace(template, **own)
    if isinstance(template, (tuple, list)):
        return type(template)(restored(own, found, f"{path}.{i}", fits) for i, own in enumerate(template))
    return template


def write(path: str, progress: Progress, about: str) -> None:
    """Write a checkpoint, so that there is always a whole one."""
    tensors = {f"now/{name}": value for name, value in progress.theta.items()}
    tensors["history"] = torch.tensor(progress.history, dtype=torch.float64)
    tensors["state"] = progress.state
    facts = {"version": VERSION, "about": about, "attempt": str(progress.attempt)}
    facts["converged"] = json.dumps(progress.converged)
    if progress.best is not None:
        tensors |= {f"best/{name}": value for name, value in progress.best.theta.items()}
        tensors["best_history"] = torch.tensor(progress.best.history, dtype=torch.float64)
        facts["best_converged"] = json.dumps(progress.best.converged)
    # The order in memory decides how products of matrices round.
    facts["strides"] = json.dumps({name: value.stride() for name, value in tensors.items() if is_turned(value)})
    held = {name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
    try:
        with replacing(path) as aside:
            save_file(held, aside, metadata=facts)
    except (OSError, SafetensorError) as error:
        # A fit of hours is worth more than its checkpoint.
        warnings.warn(
            f"checkpoint={path!r} cannot be written: {error}; the fit goes on without it until it can",
            UserWarning,
            stacklevel=levels_inside(),
        )


def is_turned(value: Tensor) -> bool:
    """Whether a tensor lies in memory in another order than that of its axes, without gaps."""
    strides = value.stride()
    order = sorted(range(value.ndim), key=lambda axis: -strides[axis])
    return not value.is_contiguous() and value.permute(order).is_contiguous()


def read(path: str, about: str) -> Progress | None:
    """The checkpoint at this path, or None; an error if it is damaged, or one of another fit."""
    if not os.path.exists(path):
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
        for name, stride in json.loads(facts["strides"]).items():
            tensors[name] = torch.empty_strided(tensors[name].shape, stride, dtype=tensors[name].dtype).copy_(
                tensors[name]
            )
        best = None
        if "best_history" in tensors:
            best = Best(under("best/", tensors), tensors["best_history"].tolist(), json.loads(facts["best_converged"]))
        history = tensors["history"].tolist()
        is_done = json.loads(facts["converged"])
        found = Progress(int(facts["attempt"]), history, under("now/", tensors), tensors["state"], is_done, best)
        was, version = facts["about"], facts["version"]
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"checkpoint={path!r} is damaged or no checkpoint of EM ({error}); give another path"
        ) from None
    if version != VERSION or was != about:
        raise ValueError(
            f"checkpoint={path!r} is of another fit: {differing(was, about)}; delete it, or give another path"
        )
    return found


def differing(was: str, now: str) -> str:
    """What differs between the descriptions of two fits."""
    try:
        old, new = json.loads(was), json.loads(now)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return ", ".join(f"{name} was {old.get(name)!r} and is {new.get(name)!r}" for name in names) or "its format"
    except (ValueError, AttributeError):
        return "its description"


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


class Keeper:
    """Writes the checkpoint of a fit, and knows what it resumes from.

    Args:
        path: the file, or None where nothing is kept.
        about: what a fit must share with a checkpoint: names and values.
    """

    def __init__(self, path: str | None, about: dict[str, Any]) -> None:
        self.path, self._about = path, about
        self._found: Progress | None = None
        self._best: Best | None = None
        self._last = 0.0

    def begin(self) -> Progress | None:
        """What the file holds."""
        self._found = None if self.path is None else read(self.path, self._text)
        self._best = None if self._found is None else self._found.best
        return self._found

    @property
    def _text(self) -> str:
        return json.dumps(self._about, sort_keys=True)

    def saver(self, attempt: int, state: Tensor) -> Callable[[Any, list[float], bool], None] | None:
        """Takes theta, the objectives and whether the fit has converged to the file."""
        if self.path is None:
            return None
        path = self.path

        def save(theta: Any, history: list[float], converged: bool) -> None:
            now = time.monotonic()
            if converged or now - self._last >= EVERY:
                self._last = now
                write(path, Progress(attempt, history, leaves(theta), state, converged, self._best), self._text)

        return save

    def keep(self, theta: Any, history: list[float], converged: bool) -> None:
        """Remember the best of several starts."""
        if self.path is not None:
            self._best = Best(leaves(theta), history, converged)


def fingerprint(*tensors: Tensor | None) -> str:
    """A checksum of numbers, by which a fit knows its rows again."""
    found = 0
    for tensor in tensors:
        if tensor is None:
            continue
        own = rows_matrix(tensor.detach())
        for part in (own.indptr, own.indices, own.data) if is_sparse(tensor) else (own,):
            found = zlib.crc32(np.ascontiguousarray(part).data, found)
    return f"{found:08x}"
