"""The loss of a step, the score of held-out rows, clipped gradients and averaged weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from jensen.engines.sgd.feeds import HeldOut
from jensen.engines.sgd.plan import Objective
from jensen.engines.sgd.processes import World
from jensen.runtime.randomness import mixed, seeded

SEED = 0


class Loss(nn.Module):
    """Minus the mean objective of a batch, and its terms, in one forward pass.

    DistributedDataParallel wraps this module rather than the networks: terms that the objective leaves out are not part
    of the loss, and no process waits for their gradients.
    """

    def __init__(self, module: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.module, self.objective = module, objective

    def forward(self, done: float, weight: Tensor | None, *inputs: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        terms = self.module(*inputs)
        loss = -row_mean(self.objective(terms, done), weight)
        return loss, {name: term.detach() for name, term in terms.items()}


@torch.no_grad()
def mean_score(module: nn.Module, feed: HeldOut, score: Objective, world: World, n_rows: int) -> float:
    """The mean score of held-out rows, `n_rows` at a time, shared between processes; -inf if it is not finite."""
    module.eval()
    sums = [0.0, 0.0]
    # The same noise every time makes rounds comparable.
    with seeded(mixed(SEED, world.rank), world.device):
        for batch in feed.in_order(n_rows, world.rank, world.size):
            values = score(module(*to_device(batch.inputs, world.device)), 1.0).cpu().double()
            weights = torch.ones_like(values) if batch.weight is None else batch.weight.to(values)
            sums = [sums[0] + float(weights @ values), sums[1] + float(weights.sum())]
    total, mass = world.mean(sums)
    return total / mass if math.isfinite(total) else -math.inf


def row_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """The weighted mean over rows; weights have mean 1 over all rows of a fit, so that of a batch is unbiased."""
    return values.mean() if weight is None else (values * weight.to(values)).mean()


def to_device(inputs: Sequence[Tensor | None], device: torch.device) -> list[Tensor | None]:
    return [None if tensor is None else tensor.to(device, non_blocking=True) for tensor in inputs]


class WeightAverage:
    """The moving average of a module's weights, in a copy of the module; buffers are those of the last step.

    `torch.optim.swa_utils.AveragedModel` walks all modules in every step, which costs 7 % of the step of a small VAE,
    and replaces the average by the weights at the first step.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._source, self._decay = module, decay
        self._module = copy.deepcopy(module).requires_grad_(False).eval()
        # Collected once; detached tensors share memory with the weights.
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
    """g ← g / max(1, |g| / limit); returns |g| before clipping, which may not be finite.

    `torch.nn.utils.clip_grad_norm_` divides by |g| + 1e-6 instead, and multiplies even where nothing is clipped.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    length = float(nn.utils.get_total_norm(gradients))
    if limit < length < math.inf:
        torch._foreach_mul_(gradients, limit / length)
    return length


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def are_finite(weights: dict[str, Tensor]) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in weights.values() if tensor.is_floating_point())
