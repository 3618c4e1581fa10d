"""Estimates of several imputed tables as one, by Rubin's rules.

    Ū = mean of the variances,  B = variance of the estimates,  T = Ū + (1 + 1/M) B,  λ = (1 + 1/M) B / T
    1/ν = λ² / (M - 1) + (ν_c + 3) / ((ν_c + 1) ν_c (1 - λ))     (Barnard & Rubin 1999; without ν_c the first term)
Rubin (1987), Multiple Imputation for Nonresponse in Surveys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t


@dataclass(frozen=True, eq=False)
class Pooled:
    """One estimate, or an array of them.

    Args:
        estimate: the mean over the imputed tables.
        variance: T, its variance.
        degrees_of_freedom: ν of Student's t distribution of (estimate - truth) / √T.
        missing_share: λ, the share of the variance that is due to missing values.

    Example:
        >>> from jensen import pool
        >>> pooled = pool([1, 1.2, 0.9, 1.1, 1.3], [0.04] * 5, degrees_of_freedom=98)
        >>> [round(float(end), 2) for end in pooled.interval(0.95)]
        [0.54, 1.66]
    """

    estimate: Any
    variance: Any
    degrees_of_freedom: Any
    missing_share: Any

    @property
    def standard_error(self) -> Any:
        """√T."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Bounds of the confidence interval."""
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} must be between 0 and 1, such as 0.95")
        half = t.ppf((1 + level) / 2, self.degrees_of_freedom) * self.standard_error
        return self.estimate - half, self.estimate + half


def pool(estimates: Any, variances: Any, *, degrees_of_freedom: float | None = None) -> Pooled:
    """Combine the results of one analysis on M imputed tables.

    Args:
        estimates: (M,) or (M, p), an estimate per table, such as regression coefficients.
        variances: the same shape, its squared standard error in each table.
        degrees_of_freedom: ν_c of the analysis if nothing were missing, such as n - p; None for many rows.

    Example:
        >>> from jensen import pool
        >>> pooled = pool([1, 1.2, 0.9, 1.1, 1.3], [0.04] * 5, degrees_of_freedom=98)
        >>> round(float(pooled.variance), 4), round(float(pooled.degrees_of_freedom), 4)
        (0.07, 15.5918)
    """
    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.ndim < 1 or len(q) < 2:
        raise ValueError(f"estimates has shape {q.shape}; give the results of at least 2 imputed tables, one per row")
    if q.shape != u.shape:
        raise ValueError(f"variances has shape {u.shape}, but estimates has {q.shape}; give one variance per estimate")
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        raise ValueError("estimates must be finite and variances 0 or more; variances are squared standard errors")
    if degrees_of_freedom is not None and not degrees_of_freedom > 0:
        raise ValueError(f"degrees_of_freedom={degrees_of_freedom!r} must be positive, or None for many rows")
    m, within, between = len(q), u.mean(0), q.var(0, ddof=1)
    extra = (1 + 1 / m) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0)
    inverse = share**2 / (m - 1)
    if degrees_of_freedom is not None:
        c = float(degrees_of_freedom)
        with np.errstate(divide="ignore"):
            inverse = inverse + (c + 3) / ((c + 1) * c * (1 - share))
    with np.errstate(divide="ignore"):
        nu = 1 / inverse
    return Pooled(*(value[()] for value in (q.mean(0), total, nu, share)))
