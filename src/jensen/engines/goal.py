"""What a step lowers, minus the mean objective of a batch, and what is measured on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from jensen.engines.feeds import Feed
from jensen.engines.plan import Objective
from jensen.engines.processes import World
from jensen.engines.randomness import mixed, seeded

__all__ = ["Goal", "mean_score", "row_mean", "to_device"]

SEED = 0


class Goal(nn.Module):
    """The loss of a batch and its terms in one forward pass, which is what processes share gradients of.

    Whatever the objective leaves out has no part in the loss, and no process waits for its gradient.
    """

    def __init__(self, module: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.module, self.objective = module, objective

    def forward(self, done: float, weight: Tensor | None, *inputs: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        terms = self.module(*inputs)
        loss = -row_mean(self.objective(terms, done), weight)
        return loss, {name: term.detach() for name, term in terms.items()}


@torch.no_grad()
def mean_score(module: nn.Module, feed: Feed, score: Objective, world: World, n_rows: int) -> float:
    """The mean score of held-out rows, `n_rows` at a time, each process having its share; -inf where it is none."""
    module.eval()
    sums, own = [0.0, 0.0], torch.arange(world.rank, len(feed), world.size)
    # The same noise every time, so that rounds can be compared.
    with seeded(mixed(SEED, world.rank), world.device):
        for index in own.split(n_rows) if len(own) else ():
            batch = feed.take(index)
            values = score(module(*to_device(batch.inputs, world.device)), 1.0).cpu().double()
            weights = torch.ones_like(values) if batch.weight is None else batch.weight.to(values)
            sums = [sums[0] + float(weights @ values), sums[1] + float(weights.sum())]
    total, mass = world.mean(sums)
    return total / mass if math.isfinite(total) else -math.inf


def row_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """The mean over rows; weights have mean 1 over all rows of a fit, so a batch's is an unbiased estimate."""
    return values.mean() if weight is None else (values * weight.to(values)).mean()


def to_device(inputs: Sequence[Tensor | None], device: torch.device) -> list[Tensor | None]:
    return [None if tensor is None else tensor.to(device, non_blocking=True) for tensor in inputs]
