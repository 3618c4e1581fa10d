"""Answers of several models made one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from jensen.bound import Bound
from jensen.data.container import as_array
from jensen.data.labels import read_posterior
from jensen.runtime.messages import levels_inside, recorded_warnings


def joined_bound(bounds: Sequence[Bound], weights: Tensor, q: Any = None) -> Bound:
    """The bounds of all models, weighted by q (n, A), less KL(q ‖ w); q is the posterior unless given."""
    kind = kind_like(bounds[0].total)
    totals = torch.stack([as_tensor(bound.total) for bound in bounds], 1)
    share = (totals + weights.log()).softmax(1) if q is None else read_posterior(q, *totals.shape)
    kl = {"model": (torch.special.xlogy(share, share) - torch.special.xlogy(share, weights)).sum(1)}
    for a, bound in enumerate(bounds):
        for name, value in bound.kl.items():
            kl[name] = kl.get(name, torch.zeros(len(share))) + share[:, a] * as_tensor(value)
    rest = torch.stack([as_tensor(bound.reconstruction) for bound in bounds], 1)
    errors = [as_tensor(bound.standard_error) * share[:, a] for a, bound in enumerate(bounds) if is_sampled(bound)]
    return Bound(
        kind(torch.where(share > 0, share * rest, 0.0).sum(1)),
        {name: kind(value) for name, value in kl.items()},
        is_exact=q is None and all(bound.is_exact for bound in bounds),
        standard_error=kind(torch.stack(errors).square().sum(0).sqrt()) if errors else None,
    )


def is_sampled(bound: Bound) -> bool:
    return bound.standard_error is not None


def as_tensor(values: Any) -> Tensor:
    return torch.as_tensor(as_array(values)).double()


def kind_like(values: Any) -> Any:
    """A function that turns a tensor into the container of these values; numbers get their type."""

    def turned(tensor: Tensor) -> Any:
        if isinstance(values, Tensor):
            return tensor.to(values.device, values.dtype if tensor.is_floating_point() else tensor.dtype)
        array = tensor.numpy()
        dtype = as_array(values).dtype
        return array.astype(dtype) if array.dtype.kind == "f" and dtype.kind == "f" else array

    return turned


@contextmanager
def once_each() -> Iterator[None]:
    """Warnings that several models give are given once."""
    with recorded_warnings() as heard:
        warnings.simplefilter("always")
        yield
    for message, category in dict.fromkeys((str(one.message), one.category) for one in heard):
        warnings.warn(message, category, stacklevel=levels_inside())
