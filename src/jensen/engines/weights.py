"""The weights of a network: their moving average, copies of them, and gradients of a bounded length.

    θ̄ ← a θ̄ + (1 - a) θ,   a = min(decay, (1 + t) / (10 + t)) after step t = 0, 1, 2, ...
The second argument lets the average forget its start. Polyak & Juditsky (1992).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

__all__ = ["WeightAverage", "are_finite", "clip_gradients", "copy_weights"]


class WeightAverage:
    """The average of a module's weights, in a module of its own; its buffers are those of the last step."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._source, self._decay = module, decay
        self._module = copy.deepcopy(module).requires_grad_(False).eval()
        # Found once: walking the modules in every step takes longer than the sum. Views of the weights follow them.
        self._averages: list[Tensor] = list(self._module.parameters())
        self._weights = [weight.detach() for weight in module.parameters()]

    @torch.no_grad()
    def update(self, t: int) -> None:
        """After step t, counted from 0."""
        torch._foreach_lerp_(self._averages, self._weights, 1 - min(self._decay, (1 + t) / (10 + t)))

    @property
    def module(self) -> nn.Module:
        for mine, theirs in zip(self._module.buffers(), self._source.buffers(), strict=True):
            mine.copy_(theirs)
        return self._module


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> float:
    """g ← g / max(1, |g| / limit), touching g only where it is too long; |g| as it was, which may not be finite."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    length = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if limit < length < math.inf:
        torch._foreach_mul_(gradients, limit / length)
    return length


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def are_finite(weights: dict[str, Tensor]) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in weights.values() if tensor.is_floating_point())
