"""What leaves a site: sums over its rows, as a value and as a file."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace

from torch import Tensor

from jensen.files.records import read_record, write_record


@dataclass(frozen=True)
class Statistics:
    """Sums over the rows of a site, from which `model.merge` takes an EM step; `model.statistics(X)` computes them.

    Statistics of several sites add. A file holds what is here, and nothing else.

    Args:
        model: the class of the model.
        fingerprint: of the parameters that the sums were taken with.
        sums: the statistics, by name.
        bound: Σ w ELBO over the rows, in nats.
        weight: Σ w.
        n_rows: number of rows.
        source: where they were read from, for messages.

    Example:
        >>> import numpy as np
        >>> from jensen import GaussianMixture
        >>> rows = np.random.default_rng(0).normal(size=(90, 2))
        >>> model = GaussianMixture(2, random_state=0).fit(rows[:30])  # the first site begins
        >>> sites = [model.statistics(part) for part in (rows[:30], rows[30:])]
        >>> sites[0].n_rows, sites[1].n_rows
        (30, 60)
        >>> (sites[0] + sites[1]).weight
        90.0
        >>> before = model.merge(sites).lower_bound_  # of all rows, at the parameters before this step
        >>> sites = [model.statistics(part) for part in (rows[:30], rows[30:])]
        >>> model.merge(sites).lower_bound_ > before
        True
    """

    model: str
    fingerprint: str
    sums: dict[str, Tensor]
    bound: float
    weight: float
    n_rows: int
    source: str = field(default="statistics", compare=False)

    def __add__(self, other: Statistics) -> Statistics:
        if (self.model, self.fingerprint) != (other.model, other.fingerprint):
            raise ValueError(
                f"{other.source} of a {other.model} cannot be added to {self.source} of a {self.model}: they were "
                "taken with other parameters; take all of them with one model"
            )
        return replace(
            self,
            sums={name: value + other.sums[name] for name, value in self.sums.items()},
            bound=self.bound + other.bound,
            weight=self.weight + other.weight,
            n_rows=self.n_rows + other.n_rows,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file; `Statistics.load` reads it back."""
        held = {name: getattr(self, name) for name in ("model", "fingerprint", "sums", "bound", "weight", "n_rows")}
        write_record(path, {"statistics": held})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read a file that `save` wrote; an error names a file that is damaged or holds something else."""
        try:
            record = read_record(path)
            if "statistics" not in record:
                raise ValueError(f"it holds a {record.get('class', 'record')}")
            found = cls(**record["statistics"], source=os.fspath(path))
            found.check()
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} holds no statistics ({error}); write it again with model.statistics(X).save(path)"
            ) from None
        return found

    def check(self) -> None:
        """An error for values that no rows have."""
        if not all(isinstance(value, Tensor) for value in self.sums.values()):
            raise ValueError("its sums are no arrays")
        numbers = [self.bound, self.weight, *(float(value.sum()) for value in self.sums.values())]
        if not all(math.isfinite(number) for number in numbers) or self.weight <= 0 or self.n_rows < 1:
            raise ValueError("its sums are not those of any rows")
