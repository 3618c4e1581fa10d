"""Gaussians of rows that each miss other entries.

The smaller side of a row, its missing or its observed entries, is all that has to be factorised. With P = Σ⁻¹ and z the
deviation from the mean, 0 where missing:

    few missing    x̂ - μ = z - P_mm⁻¹ (P z)_m,   ‖L⁻¹(x̂ - μ)‖²,   ln|Σ| + ln|P_mm|,   P_mm⁻¹
    few observed   x̂ - μ = Σ_·o Σ_oo⁻¹ z_o,      z_oᵀ Σ_oo⁻¹ z_o,  ln|Σ_oo|,           Σ - Σ_·o Σ_oo⁻¹ Σ_o·
are E[x | x_o] - μ, the square of x_o, ln|Σ_oo| and the covariance of what is missing. Petersen & Pedersen (2012), 9.1.
P holds 1/λ_min, so a nearly singular Σ goes through the factors of Σ_oo, row by row: slower, with all digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jensen.formulas.gaussian import Observed, cholesky, log_det_from_cholesky, solve_lower

# Sides of similar size are padded to the largest of them: by at most this factor, and one more.
PADDING = 1.25
# Numbers that the factors of one chunk of rows hold.
CHUNK = 2**20


@dataclass(frozen=True)
class Side:
    """Rows whose smaller side is of similar size.

    Args:
        rows: their numbers (n,).
        features: the features of that side (n, s), padded with d.
        is_missing: whether it is the missing side.
    """

    rows: Tensor
    features: Tensor
    is_missing: bool


def smaller_sides(observed: Tensor) -> list[Side]:
    """The smaller side of every row of `observed` (d, n)."""
    d = len(observed)
    n_missing = (~observed).sum(0)
    found = []
    for is_missing in (True, False):
        rows = ((2 * n_missing <= d) == is_missing).nonzero().squeeze(1)
        size, order = (n_missing[rows] if is_missing else d - n_missing[rows]).sort(stable=True)
        rows, start = rows[order], 0
        while start < len(rows):
            most = int(PADDING * int(size[start])) + 1
            stop = start + int((size[start:] <= most).sum())
            own = rows[start:stop]
            chosen = observed[:, own] ^ is_missing
            number = torch.arange(d, device=observed.device)[:, None].where(chosen, d)
            found.append(Side(own, number.sort(0).values[: int(size[stop - 1])].T.contiguous(), is_missing))
            start = stop
    return found


@dataclass(frozen=True)
class Completed(ABC):
    """Rows (n) given what is observed of them, under K Gaussians with covariances (K or 1, d, d).

    Args:
        deviation: E[x | x_o] - μ (K, d, n).
        square: (x_o - μ_o)ᵀ Σ_oo⁻¹ (x_o - μ_o), (K, n).
        log_det: ln|Σ_oo| (K or 1, n).
    """

    deviation: Tensor
    square: Tensor
    log_det: Tensor

    @abstractmethod
    def residual(self, weight: Tensor) -> Tensor:
        """Σ_i w_ki Cov[x_i | x_o, k], (K, d, d), for weights (K, n)."""

    @abstractmethod
    def variance(self, feature: int) -> Tensor:
        """Var[x_j | x_o, k] of one feature (K or 1, n), 0 where it is observed."""


@dataclass(frozen=True)
class BySides(Completed):
    """Through inverses (K or 1, n, s, s) of the smaller sides."""

    cov: Tensor
    inverses: tuple[tuple[Side, Tensor], ...]

    @classmethod
    def of(cls, cov: Tensor, z: Tensor, observed: Tensor) -> BySides:
        """
        Args:
            cov: Σ (K or 1, d, d).
            z: x - μ (K, d, n), 0 where missing.
            observed: (d, n).
        """
        chol = cholesky(cov)
        precision, whole = torch.cholesky_inverse(chol), log_det_from_cholesky(chol)[:, None]
        deviation, square = torch.empty_like(z), z.new_empty(len(z), z.shape[2])
        log_det, inverses = z.new_empty(len(cov), z.shape[2]), []
        for side in smaller_sides(observed):
            own, rows = z[:, :, side.rows], side.rows
            inverse, side_log_det = inverse_blocks(precision if side.is_missing else cov, side.features)
            if side.is_missing:
                for _ in range(2):  # the second time corrects the rounding of the first
                    gradient = take(precision @ own, side.features)
                    own = own - put((inverse @ gradient[..., None]).squeeze(-1), side.features, len(observed))
                # The square is least at x̂: it does not feel what rounding is left there.
                square[:, rows] = solve_lower(chol, own).square().sum(1)
                deviation[:, :, rows], log_det[:, rows] = own, whole + side_log_det
            else:
                seen = take(own, side.features)
                solved = (inverse @ seen[..., None]).squeeze(-1)
                square[:, rows] = (seen * solved).sum(-1)
                deviation[:, :, rows] = cov @ put(solved, side.features, len(observed))
                log_det[:, rows] = side_log_det
            inverses.append((side, inverse))
        return cls(deviation, square, log_det, cov, tuple(inverses))

    def residual(self, weight: Tensor) -> Tensor:
        k, d = self.deviation.shape[:2]
        total = weight.new_zeros(k, d, d)
        for side, inverse in self.inverses:
            own = weight[:, side.rows]
            summed = sum_blocks(own[..., None, None] * inverse, side.features, d)
            if side.is_missing:
                total += summed
            else:
                total += own.sum(1)[:, None, None] * self.cov - self.cov @ summed @ self.cov
        return total

    def variance(self, feature: int) -> Tensor:
        found = self.log_det.new_zeros(self.log_det.shape)
        for side, inverse in self.inverses:
            is_feature = side.features == feature
            if side.is_missing:
                own = (inverse.diagonal(dim1=-2, dim2=-1) * is_feature).sum(-1)
            else:
                covariance = take(self.cov[:, feature, :, None].expand(-1, -1, len(side.rows)), side.features)
                explained = (covariance * (inverse @ covariance[..., None]).squeeze(-1)).sum(-1)
                own = (self.cov[:, feature, feature, None] - explained).clamp(min=0) * ~is_feature.any(-1)
            found[:, side.rows] = own
        return found


@dataclass(frozen=True)
class ByRows(Completed):
    """Through the factors of Σ_oo of every row."""

    cov: Tensor
    observed: Tensor

    @classmethod
    def of(cls, cov: Tensor, z: Tensor, observed: Tensor) -> ByRows:
        parts = []
        for rows, pattern in chunks(cov, observed):
            own = z[:, :, rows].permute(2, 0, 1)[..., None]
            gain = (pattern.gain @ own).squeeze(-1)
            square = (pattern.whitening @ own).square().sum((-2, -1))
            parts.append((gain, square, pattern.log_det))
        gain, square, log_det = (torch.cat(part) for part in zip(*parts, strict=True))
        return cls(gain.permute(1, 2, 0), square.mT, log_det.mT, cov, observed)

    def residual(self, weight: Tensor) -> Tensor:
        sums = [
            (weight[:, rows].mT[..., None, None] * pattern.residual).sum(0)
            for rows, pattern in chunks(self.cov, self.observed)
        ]
        return torch.stack(sums).sum(0)

    def variance(self, feature: int) -> Tensor:
        parts = [pattern.residual[..., feature, feature] for _, pattern in chunks(self.cov, self.observed)]
        return torch.cat(parts).mT


def chunks(cov: Tensor, observed: Tensor) -> Iterator[tuple[slice, Observed]]:
    """Σ through the pattern of every row (n, K or 1, d, d), some rows at a time."""
    n = max(1, CHUNK // cov.numel())
    for start in range(0, observed.shape[1], n):
        rows = slice(start, start + n)
        yield rows, Observed(cov, observed[:, rows].T.to(cov.dtype)[:, None, :])


def inverse_blocks(matrices: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Inverses (K, n, s, s) and log-determinants (K, n) of blocks of matrices (K, d, d); padding is an identity."""
    k, d, _ = matrices.shape
    wide = matrices.new_zeros(k, d + 1, d + 1)
    wide[:, :d, :d] = matrices
    block = wide[:, features[:, :, None], features[:, None, :]]
    block.diagonal(dim1=-2, dim2=-1).add_((features == d).to(block.dtype))
    chol: Tensor = torch.linalg.cholesky(block)
    return torch.cholesky_inverse(chol), log_det_from_cholesky(chol)


def take(values: Tensor, features: Tensor) -> Tensor:
    """Entries (K, n, s) of feature-major rows (K, d, n); padding is 0."""
    k, _, n = values.shape
    wide = torch.cat([values, values.new_zeros(k, 1, n)], 1)
    return wide.gather(1, features.T.expand(k, -1, -1)).mT


def put(values: Tensor, features: Tensor, d: int) -> Tensor:
    """Undo `take`: rows (K, d, n) with these entries (K, n, s), and 0 elsewhere."""
    k, n, _ = values.shape
    return values.new_zeros(k, d + 1, n).scatter_(1, features.T.expand(k, -1, -1), values.mT)[:, :d]


def sum_blocks(blocks: Tensor, features: Tensor, d: int) -> Tensor:
    """Σ_i of blocks (K, n, s, s), each in the rows and columns of its features: (K, d, d)."""
    place = (features[:, :, None] * (d + 1) + features[:, None, :]).flatten()
    sums = blocks.new_zeros(len(blocks), (d + 1) ** 2)
    sums.scatter_add_(1, place.expand(len(blocks), -1), blocks.flatten(1))
    return sums.reshape(-1, d + 1, d + 1)[:, :d, :d]
