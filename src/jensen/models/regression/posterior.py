"""The fitted ridge regression: the posterior of each target's coefficients, predictions, and its record in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from jensen.contract.fitted import Values, not_negative, read_values
from jensen.formulas import ridge

SCHEMA = {
    "singular": Values("k", check=not_negative),
    "directions": Values("p", "k"),
    "targets": Values("t", "k"),
    "rest": Values("t", check=not_negative),
    "n_contrasts": Values(),
    "mean_x": Values("p"),
    "mean_y": Values("t"),
    "alpha": Values("t", check=not_negative),
    "noise": Values("t", check=not_negative, allows_nan=True),
}


@dataclass(frozen=True)
class Line:
    """The posterior of the coefficients and the intercept of every target.

    Args:
        spectrum: of the centred training rows.
        centred: the means of the training rows.
        alpha: λ (t,).
        noise: σ² (t,), NaN if it is unknown.
        has_intercept: whether the rows were centred for an intercept.
    """

    spectrum: ridge.Spectrum
    centred: ridge.Centred
    alpha: Tensor
    noise: Tensor
    has_intercept: bool

    @cached_property
    def beta(self) -> Tensor:
        """Posterior means (t, p)."""
        return ridge.coefficients(self.spectrum, self.alpha)

    def intercepts(self, beta: Tensor) -> Tensor:
        """The posterior means of the intercepts (*lead, t) given coefficients (*lead, t, p)."""
        return self.centred.y - beta @ self.centred.x

    def mean(self, x: Tensor) -> Tensor:
        """E[y|x] (n, t)."""
        # Centred rows, because a large mean would cost digits; in blocks, because a copy of X would cost memory.
        blocks = x.split(ridge.BLOCK)
        return torch.cat([self.centred.y + (rows - self.centred.x) @ self.beta.T for rows in blocks])

    def variance(self, x: Tensor) -> Tensor:
        """Var[y|x] (n, t)."""
        blocks = x.split(ridge.BLOCK)
        forms = [ridge.quadratic_forms(self.spectrum, self.alpha, rows - self.centred.x) for rows in blocks]
        # Given β the intercept has the variance σ²/n, and n = ν + 1.
        intercept = 1 / (self.spectrum.n_contrasts + 1) if self.has_intercept else 0.0
        return (self.noise[:, None] * (1 + intercept + torch.cat(forms, dim=1))).T

    def check_proper(self) -> None:
        """Raise an error if the posterior is not a distribution."""
        p, rank = len(self.centred.x), self.spectrum.rank
        if (self.alpha == 0).any() and rank < p:
            raise ValueError(
                f"alpha=0 and X of rank {rank} leave {p - rank} of {p} directions of the coefficients without a "
                "variance; set alpha > 0"
            )
        if self.noise.isnan().any():
            n_rows = self.spectrum.n_contrasts + self.has_intercept
            raise ValueError(
                f"noise_variance_ is unknown: {n_rows:g} rows (the sum of the weights) are too few to estimate it; "
                "give noise_variance, more rows, or weights that count rows"
            )

    def check_density(self) -> None:
        """Raise an error if the posterior has no density."""
        self.check_proper()
        if (self.noise == 0).any():
            raise ValueError("noise_variance_ is 0: after a perfect fit there is no density; give noise_variance")

    def record(self) -> dict[str, Tensor]:
        return {
            "singular": self.spectrum.singular,
            "directions": self.spectrum.directions,
            "targets": self.spectrum.targets,
            "rest": self.spectrum.rest,
            "n_contrasts": torch.tensor(self.spectrum.n_contrasts, dtype=torch.float64),
            "mean_x": self.centred.x,
            "mean_y": self.centred.y,
            "alpha": self.alpha,
            "noise": self.noise,
        }

    @staticmethod
    def from_record(record: Mapping[str, Tensor], p: int, t: int, has_intercept: bool) -> Line:
        """Undo `record`; an error if no fit could have written it."""
        found = read_values(record, SCHEMA, p=p, t=t)
        spectrum = ridge.Spectrum(
            found["singular"],
            found["directions"],
            found["targets"],
            found["rest"],
            n_contrasts=float(found["n_contrasts"]),
        )
        centred = ridge.Centred(found["mean_x"], found["mean_y"])
        return Line(spectrum, centred, found["alpha"], found["noise"], has_intercept)
