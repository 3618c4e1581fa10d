"""Columns as a network sees them: numbers as they are, counts n as ln(1+n), yes/no ±1, levels one-hot, missing 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Plan:
    """How columns become the inputs of a network: y = gain x[source] - shift, or 1 where x[source] is the level."""

    source: Tensor
    level: Tensor
    is_level: Tensor
    gain: Tensor
    shift: Tensor
    is_count: Tensor

    @classmethod
    def of(cls, kinds: Sequence[str], n_levels: Sequence[int]) -> Plan:
        source, level = [], []
        for j, (kind, n) in enumerate(zip(kinds, n_levels, strict=True)):
            own = list(range(n)) if kind == "level" else [-1]
            source += [j] * len(own)
            level += own
        is_binary = torch.tensor([kinds[j] == "yes/no" for j in source], dtype=torch.float64)
        number = torch.tensor(level, dtype=torch.float64)
        is_count = torch.tensor([kinds[j] == "count" for j in source])
        return cls(torch.tensor(source), number, number >= 0, 1 + is_binary, is_binary, is_count)

    def to(self, like: Tensor) -> Plan:
        return Plan(
            self.source.to(like.device),
            self.level.to(like),
            self.is_level.to(like.device),
            self.gain.to(like),
            self.shift.to(like),
            self.is_count.to(like.device),
        )


def expand(plan: Plan, kinds: Sequence[str], encoded: Tensor) -> Tensor:
    """Inputs (n, D) of a network from rows (n, d) that are on no grid."""
    if set(kinds) == {"number"}:
        return without_nan(encoded)
    if set(kinds) == {"yes/no"}:
        return without_nan(2 * encoded - 1)
    plan = plan.to(encoded)
    repeated = encoded[:, plan.source]
    numeric = without_nan(repeated * plan.gain - plan.shift)
    # Zeros in the other columns keep the gradient finite.
    counted = without_nan(torch.where(plan.is_count, repeated, 0.0)).log1p()
    numeric = torch.where(plan.is_count, counted, numeric)
    return torch.where(plan.is_level, (repeated == plan.level).to(encoded.dtype), numeric)


def without_nan(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
