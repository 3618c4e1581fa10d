"""What a file may ask for when its networks are built: no tensor that its own weights do not account for.

A recipe is a few numbers, and the network that they describe may need any amount of memory. Its weights stand in the
same file, so a network that fits them needs no more tensors than they are, and none of another shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Allowance", "check_weights"]

FACTORIES = frozenset(
    (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.arange, torch.linspace, torch.eye)
)
# Tensors, and entries of one, that a network may have beside its weights: tables, and rows to try it on.
FREE_TENSORS, FREE_ENTRIES = 1000, 2**16


class Allowance(TorchFunctionMode):
    """Within it, in this thread, a tensor that does not go with these weights is an error before it is made.

    Args:
        weights: of the file, by name.
        others: further tensors of the file, whose sizes tables may have.
        n_columns: of the rows.
    """

    def __init__(self, weights: dict[str, Tensor], others: Iterable[Tensor], n_columns: int) -> None:
        super().__init__()
        self.shapes = {tuple(weight.shape) for weight in weights.values()}
        self.n_left = FREE_TENSORS + 2 * len(weights)
        sizes = [tensor.numel() for tensor in (*weights.values(), *others)]
        self.n_entries = max(FREE_ENTRIES, 4 * n_columns, *(4 * size for size in sizes))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in FACTORIES:
            self.n_left -= 1
            # On this device a tensor is its shape alone.
            asked = func(*args, **{**without_generator(kwargs), "device": "meta"})
            is_weight = func is torch.empty and asked.numel() > FREE_ENTRIES
            fits = tuple(asked.shape) in self.shapes if is_weight else asked.numel() <= self.n_entries
            if not fits or self.n_left < 0:
                raise ValueError(
                    f"the file's networks ask for a tensor of shape {tuple(asked.shape)}, or for more tensors, than "
                    "its weights have; the file is damaged"
                )
        return func(*args, **kwargs)


def check_weights(given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """An error unless the weights of a file are those of a network, by name, type and shape."""
    if given.keys() != own.keys():
        name = min(given.keys() ^ own.keys())
        where = "the file, but not the networks," if name in given else "the networks, but not the file,"
        raise ValueError(f"{where} have {name}")
    for name, weight in given.items():
        if (weight.dtype, weight.shape) != (own[name].dtype, own[name].shape):
            raise ValueError(
                f"{name} is {weight.dtype} of shape {tuple(weight.shape)}, not {own[name].dtype} of shape "
                f"{tuple(own[name].shape)}"
            )


def without_generator(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in ("generator", "out", "pin_memory")}
