"""Checkpoints: weights, averages, optimiser, random state and position of a training run in one safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jensen.engines.sgd.plan import Trainer
from jensen.files.records import read_record, write_record

WAY_OUT = "delete it to start again, or give another file"
PARTS = {"parts": dict, "position": dict, "randomness": Tensor, "cuda": list, "identity": dict}
# Arguments that a fit which resumes may change, limits of its length among them.
MAY_CHANGE = (
    "checkpoint",
    "checkpoint_every",
    "device",
    "verbose",
    "max_epochs",
    "max_seconds",
    "random_state",
    "accumulate",
    "shuffle_rows",
)
# The state of Adam.
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: state dictionaries by part, the position of the run, and the states of torch's generators."""

    parts: dict[str, Any]
    position: dict[str, Any]
    randomness: Tensor
    cuda: list[Tensor]

    def restore_randomness(self) -> None:
        torch.set_rng_state(self.randomness)
        if self.cuda and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(self.cuda)


def check_place(path: str) -> None:
    """Raise an error before the training if a file cannot be written here."""
    folder = Path(path).parent
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(
            f"checkpoint={path!r} cannot be written; give a file in an existing folder with write permission"
        )


def write_checkpoint(
    path: str, parts: dict[str, Any], position: dict[str, object], identity: Mapping[str, object]
) -> None:
    """Replace the checkpoint in one step: a crash leaves either the old one or the new one."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    record = {
        "class": "checkpoint",
        "parts": named(parts),
        "position": position,
        "randomness": torch.get_rng_state(),
        "cuda": cuda,
        "identity": plain(identity),
    }
    write_record(path, record)


def read_checkpoint(path: str, identity: Mapping[str, object]) -> Checkpoint | None:
    """Read the checkpoint; None if there is none yet, an error if it is that of another fit."""
    record = read(path)
    if record is None:
        return None
    here, there = comparable(plain(identity)), comparable(record["identity"])
    differing = [
        f"{name} {there.get(name)!r} instead of {here.get(name)!r}"
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    ]
    if differing:
        raise ValueError(f"checkpoint={path!r} was written by another fit, with {'; '.join(differing[:3])}; {WAY_OUT}")
    try:
        parts = numbered(record["parts"])
    except ValueError as error:
        raise ValueError(f"checkpoint={path!r} is damaged: {error}; {WAY_OUT}") from None
    return Checkpoint(parts, record["position"], record["randomness"], record["cuda"])


def seed_in(path: str) -> int | None:
    """The seed of the run that wrote the checkpoint, for a fit without a seed that resumes it."""
    record = read(path)
    return None if record is None else int(record["identity"]["seed"])


def read(path: str) -> dict[str, Any] | None:
    """The content of a file, or an error if it is not a checkpoint."""
    if not Path(path).exists():
        return None
    try:
        record = read_record(path)
    except (ValueError, OSError) as error:
        is_other = "but not a jensen model" in str(error)
        reason = "it is no checkpoint of a training by gradients" if is_other else error
        raise ValueError(f"checkpoint={path!r} cannot be resumed: {reason}; {WAY_OUT}") from None
    if record.get("class") != "checkpoint":
        raise ValueError(f"checkpoint={path!r} is a fitted model, not a checkpoint; give another file")
    absent = [part for part, kind in PARTS.items() if not isinstance(record.get(part), kind)]
    if absent or not isinstance(record["identity"].get("seed"), int):
        raise ValueError(f"checkpoint={path!r} is damaged: it has no {', '.join(absent) or 'seed'}; {WAY_OUT}")
    return record


def check_moments(state: dict[int, dict[str, Tensor]], parameters: list[nn.Parameter]) -> None:
    """Raise an error unless the optimiser's state is empty or fits these parameters, by number."""
    for number, moments in state.items():
        own = {name: (torch.float32, () if name == "step" else parameters[number].shape) for name in MOMENTS}
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in moments.items()}
        if own != found:
            raise ValueError(f"the optimiser's moments of parameter {number} are {found}, not {own}")


def plain(identity: Mapping[str, object]) -> dict[str, object]:
    """The identity after a round trip through JSON, for comparison with one that was read."""
    read: dict[str, object] = json.loads(json.dumps(identity, sort_keys=True, default=str))
    return read


def comparable(identity: Mapping[str, object]) -> dict[str, object]:
    """What must match of an identity: trainer=None is a Trainer() with its defaults, and some arguments may change."""
    trainers = [name for name in identity if name.split("__")[-1] == "trainer"]
    defaults = {f"{name}__{key}": repr(value) for name in trainers for key, value in Trainer().get_params().items()}
    return {
        name: value
        for name, value in (defaults | dict(identity)).items()
        if name not in trainers and name.split("__")[-1] not in MAY_CHANGE
    }


def named(value: Any) -> Any:
    """State dictionaries with text keys, as files need them: an optimiser numbers its parameters."""
    if isinstance(value, dict):
        return {f"#{key}" if isinstance(key, int) else key: named(item) for key, item in value.items()}
    return value


def numbered(value: Any) -> Any:
    """Undo `named`."""
    if isinstance(value, dict):
        return {int(key[1:]) if key.startswith("#") else key: numbered(item) for key, item in value.items()}
    return value
