"""What a file may ask for when its networks are built: no tensor that its own weights do not account for.

A recipe is a few numbers, and the network that they describe may need any amount of memory. Its weights stand in the
same file, so a network that fits them needs no more tensors than they are, and none of another shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Allowance", "check_weights"]

FACTORIES = frozenset(
    (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.arange, torch.linspace, torch.eye)
)
# Tensors, and entries of them together, that a network may have beside its weights: tables, and rows to try it on.
FREE_TENSORS, FREE_ENTRIES = 1000, 2**24
# However many levels and columns a file names, tables of both have no more entries than this.
MOST_ENTRIES = 2**26


class Allowance(TorchFunctionMode):
    """Within it, in this thread, a tensor that does not go with these weights is an error before it is made.

    Args:
        weights: of the file, by name.
        facts: what else a fit has decided; tables may be as large as tensors in it.
        n_cells: columns times the levels of that with the most.
    """

    def __init__(self, weights: dict[str, Tensor], facts: Any, n_cells: int) -> None:
        super().__init__()
        # A network may make what it keeps twice.
        self.shapes = Counter(tuple(weight.shape) for weight in (*weights.values(), *weights.values()))
        self.n_tensors = FREE_TENSORS + 2 * len(weights)
        largest = max((tensor.numel() for tensor in (*weights.values(), *tensors_in(facts))), default=0)
        self.n_entries = max(FREE_ENTRIES, 8 * largest, min(4 * n_cells, MOST_ENTRIES))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in FACTORIES:
            # On this device a tensor is its shape alone.
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


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def check_weights(given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """An error unless the weights of a file are those of a network, by name, type and shape."""
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


def without_generator(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in ("generator", "out", "pin_memory")}
