"""A memory limit for networks that are built from a file: no tensor that the weights in the file do not account for.

A recipe is a few numbers, but the network that they describe may need any amount of memory. The weights are in the same
file, so a network that fits them needs no more tensors than there are weights, and none of another shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

FACTORIES = frozenset(
    (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.arange, torch.linspace, torch.eye)
)
# Tensors, and their total entries, that a network may have besides its weights: tables, and rows for a trial run.
FREE_TENSORS, FREE_ENTRIES = 1000, 2**24
# Largest table of levels and columns, however many the file has.
MOST_ENTRIES = 2**26


class Allowance(TorchFunctionMode):
    """A context in which, in this thread, creating a tensor that these weights do not account for is an error.

    Args:
        weights: the weights in the file, by name.
        facts: the facts in the file; tables may be as large as its tensors.
        n_cells: number of columns times the largest number of levels.
    """

    def __init__(self, weights: dict[str, Tensor], facts: Mapping[str, object], n_cells: int) -> None:
        super().__init__()
        # A network may create each of its weights twice.
        self.shapes = Counter(tuple(weight.shape) for weight in (*weights.values(), *weights.values()))
        self.n_tensors = FREE_TENSORS + 2 * len(weights)
        largest = max((tensor.numel() for tensor in (*weights.values(), *tensors_in(facts))), default=0)
        self.n_entries = max(FREE_ENTRIES, 8 * largest, min(4 * n_cells, MOST_ENTRIES))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in FACTORIES:
            # On the device "meta" a tensor has a shape but no data.
            asked = func(*args, **{**without_generator(kwargs), "device": "meta"})
            self.n_tensors -= 1
            if self.shapes[tuple(asked.shape)] > 0:
                self.shapes[tuple(asked.shape)] -= 1
            else:
                self.n_entries -= asked.numel()
            if min(self.n_tensors, self.n_entries) < 0:
                raise ValueError(
                    f"the file's networks ask for a tensor of shape {tuple(asked.shape)}, or for more tensors, than "
                    "its weights have; the file is damaged"
                )
        return func(*args, **kwargs)


def tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def check_weights(given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """Raise an error unless the weights of a file match those of a network by name, type and shape."""
    if given.keys() != own.keys():
        name = min(given.keys() ^ own.keys())
        missing_from = "networks" if name in given else "file"
        raise ValueError(f"{name} is missing from the {missing_from}")
    for name, weight in given.items():
        if (weight.dtype, weight.shape) != (own[name].dtype, own[name].shape):
            raise ValueError(
                f"{name} is {weight.dtype} of shape {tuple(weight.shape)}, not {own[name].dtype} of shape "
                f"{tuple(own[name].shape)}"
            )


def check_finite(weights: dict[str, Tensor]) -> None:
    """Raise an error if a weight is NaN or infinite."""
    for name, weight in weights.items():
        if not weight.isfinite().all():
            raise ValueError(f"the weights hold NaN or infinity in {name}; the file is damaged")


def without_generator(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in ("generator", "out", "pin_memory")}
