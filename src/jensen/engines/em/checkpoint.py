"""Checkpoints of EM: theta after every step, so that a fit that was stopped resumes and ends with the same bits.

A plain step depends on theta alone. So a file holds theta, in the engine's own coordinates, the objectives so far, and
where among several starts the fit is. Theta is a frozen record of tensors, numbers and such records: its leaves are
written by their path, and put back into a start of the same shape. What else steps depend on, such as the shares of
documents, is in a file beside it.
"""

from __future__ import annotations

import json
import os
import tarfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

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


class Memory(Protocol):
    """What steps depend on beside theta: what the sweep before the one at theta has left."""

    def begin(self) -> None:
        """Keep from now on what every sweep starts from."""

    def write(self, file: IO[bytes]) -> None:
        """Write what the last sweep started from."""

    def read(self, file: IO[bytes], history: list[float]) -> None:
        """Let the next sweep start from it; the objectives so far are known."""


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
        beside: the name of the file with the memory; None if there is none.
    """

    attempt: int
    history: list[float]
    theta: dict[str, Tensor]
    state: Tensor
    converged: bool = False
    best: Best | None = None
    beside: str | None = None


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


def write(path: str, progress: Progress, about: str, memory: Memory | None = None) -> bool:
    """Write a checkpoint, so that there is always a whole one; whether that was possible."""
    tensors = {f"now/{name}": value for name, value in progress.theta.items()}
    tensors["history"] = torch.tensor(progress.history, dtype=torch.float64)
    tensors["state"] = progress.state
    facts = {"version": VERSION, "about": about, "attempt": str(progress.attempt)}
    facts["converged"] = json.dumps(progress.converged)
    if progress.beside is not None:
        facts["beside"] = progress.beside
    if progress.best is not None:
        tensors |= {f"best/{name}": value for name, value in progress.best.theta.items()}
        tensors["best_history"] = torch.tensor(progress.best.history, dtype=torch.float64)
        facts["best_converged"] = json.dumps(progress.best.converged)
    # The order in memory decides how products of matrices round.
    facts["strides"] = json.dumps({name: value.stride() for name, value in tensors.items() if is_turned(value)})
    held = {name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
    try:
        if memory is not None and progress.beside is not None:
            with replacing(beside(path, progress.beside)) as aside, open(aside, "wb") as file:
                memory.write(file)
        with replacing(path) as aside:
            save_file(held, aside, metadata=facts)
        return True
    except (OSError, SafetensorError) as error:
        # A fit of hours is worth more than its checkpoint.
        warnings.warn(
            f"checkpoint={path!r} cannot be written: {error}; the fit goes on without it until it can",
            UserWarning,
            stacklevel=levels_inside(),
        )
        return False


def beside(path: str, name: str) -> Path:
    """A file in the folder of the checkpoint."""
    return Path(path).with_name(name)


def is_turned(value: Tensor) -> bool:
    """Whether a tensor lies in memory in another order than that of its axes, without gaps."""
    strides = value.stride()
    order = sorted(range(value.ndim), key=lambda axis: -strides[axis])
    return not value.is_contiguous() and value.permute(order).is_contiguous()


def read(path: str, about: str) -> Progress | None:
    """The checkpoint at this path, or None; an error if it is damaged, or one of another fit."""
    if not os.path.exists(path):
        return None
    facts: dict[str, str] = {}
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
        attempt, now, other = int(facts["attempt"]), under("now/", tensors), facts.get("beside")
        found = Progress(attempt, history, now, tensors["state"], is_done, best, other)
        was, version = facts["about"], facts["version"]
    except (SafetensorError, KeyError, ValueError) as error:
        is_other = bool(facts) and "about" not in facts
        what = "no checkpoint of EM" if is_other else f"damaged or no checkpoint of EM ({error})"
        raise ValueError(f"checkpoint={path!r} is {what}; give another path") from None
    if version != VERSION or was != about:
        raise ValueError(
            f"checkpoint={path!r} is of another fit: {differing(was, about)}; delete it, or give another path"
        )
    return found


def differing(was: str, now: str) -> str:
    """What differs between the descriptions of two fits."""
    try:
        old, new = json.loads(was), json.loads(now)
        # Another model has other arguments, and there is no end to what differs.
        is_other = old.get("model") != new.get("model")
        names = ["model"] if is_other else [name for name in {**old, **new} if old.get(name) != new.get(name)]
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
        memory: what steps depend on beside theta.
    """

    def __init__(self, path: str | None, about: dict[str, Any], memory: Memory | None = None) -> None:
        self.path, self._about, self._memory = path, about, memory
        self._found: Progress | None = None
        self._best: Best | None = None
        self._last = 0.0
        self._beside: str | None = None

    def begin(self) -> Progress | None:
        """What the file holds."""
        self._found = None if self.path is None else read(self.path, self._text)
        self._best = None if self._found is None else self._found.best
        self._beside = None if self._found is None else self._found.beside
        if self.path is not None and self._memory is not None:
            self._memory.begin()
        return self._found

    def restored(self, start: Any) -> Any:
        """The theta to resume from, shaped as the start; what else steps depend on is as it was then."""
        assert self._found is not None
        assert self.path is not None
        name = self._beside
        if self._memory is not None and name is not None:
            try:
                with open(beside(self.path, name), "rb") as file:
                    self._memory.read(file, self._found.history)
            except (OSError, ValueError, EOFError, tarfile.TarError) as error:
                raise ValueError(
                    f"checkpoint={self.path!r} needs {name!r} in its folder, which cannot be read ({error}); restore "
                    "that file, or delete both"
                ) from None
        return restored(start, self._found.theta)

    def _write(self, path: str, progress: Progress) -> None:
        if self._memory is None:
            write(path, progress, self._text)
            return
        # Two names in turn, since the file of the last checkpoint is needed until the next one is whole.
        names = [f"{Path(path).name}.{turn}" for turn in "ab"]
        old, new = names if self._beside == names[0] else reversed(names)
        if write(path, replace(progress, beside=new), self._text, self._memory):
            self._beside = new
            beside(path, old).unlink(missing_ok=True)

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
                self._write(path, Progress(attempt, history, leaves(theta), state, converged, self._best))

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
