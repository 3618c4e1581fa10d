"""The evidence lower bound, term by term.

ln p(x) ≥ E_q[ln p(x|z)] - Σ KL(q ‖ prior), per row, in nats and in the units of the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

# Of this thread alone: Python's warning filters would be those of the whole process.
AVERAGING: ContextVar[bool] = ContextVar("averaging", default=False)


class HeavyTailWarning(UserWarning):
    """Scores of some rows rest on a few importance weights, and may be far from ln p(x)."""


@contextmanager
def averaging() -> Iterator[None]:
    """No warnings about single rows where only the mean score is used: on average it is below that of ln p(x)."""
    token = AVERAGING.set(True)
    try:
        yield
    finally:
        AVERAGING.reset(token)


def is_averaging() -> bool:
    """Whether the scores of single rows do not count."""
    return AVERAGING.get()


@dataclass(frozen=True, repr=False)
class Bound:
    """`total = reconstruction - Σ kl`, one value per row, in the kind of array the rows came in.

    Args:
        reconstruction: E_q[ln p(x|z)] per row.
        kl: KL divergences from the prior, by name.
        is_exact: whether the total is ln p(x) itself rather than below it.
        standard_error: of the total, when it was sampled.
        unit: "nats" or "bits".
        diagnostics: how reliable the importance weights are, per row: `pareto_k`, the shape k̂ of their tail, and
            `effective_samples`, (Σ w)² / Σ w²; None if the total uses no importance weights.

    Example:
        >>> import numpy as np
        >>> from jensen import Bound
        >>> bound = Bound(np.array([-1.0]), {"component": np.array([0.5])}, is_exact=True)
        >>> bound
        Bound(-1.5 nats per row = reconstruction -1 - component 0.5; 1 rows, exact)
        >>> float(bound.total[0])
        -1.5
    """

    reconstruction: Any
    kl: Mapping[str, Any]
    is_exact: bool
    standard_error: Any = None
    unit: str = "nats"
    diagnostics: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """The means over rows: thousands of numbers are nothing to read."""
        terms = "".join(f" - {name} {float(value.mean()):.4g}" for name, value in self.kl.items())
        error = (
            "" if self.standard_error is None else f", standard error of a row {float(self.standard_error.mean()):.2g}"
        )
        kind = "exact" if self.is_exact else "a lower bound"
        total, reconstruction = float(self.total.mean()), float(self.reconstruction.mean())
        return (
            f"Bound({total:.4g} {self.unit} per row = reconstruction {reconstruction:.4g}{terms}; "
            f"{len(self.reconstruction)} rows, {kind}{error})"
        )

    @property
    def total(self) -> Any:
        """Reconstruction minus all divergences: the bound itself, one value or one per row."""
        return self.reconstruction - sum(self.kl.values())

    def in_bits(self) -> Bound:
        """The same bound in bits instead of nats."""
        if self.unit == "bits":
            return self
        error = None if self.standard_error is None else self.standard_error / math.log(2)
        kl = {name: value / math.log(2) for name, value in self.kl.items()}
        return Bound(self.reconstruction / math.log(2), kl, self.is_exact, error, "bits", self.diagnostics)
