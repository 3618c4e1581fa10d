"""The noise schedule of a diffusion: how much of x_0 is left at level t = 1..T.

    α_t = 1 - β_t,   ᾱ_t = Π_{s≤t} α_s,   q(x_t|x_0) = N(√ᾱ_t x_0, (1 - ᾱ_t) I)
    β̃_t = β_t (1 - ᾱ_{t-1}) / (1 - ᾱ_t)
Linear schedule Ho et al. (2020); cosine schedule and respacing Nichol & Dhariwal (2021); trailing levels Lin et al.
(2024). Arrays are float64 and read-only; level t has index t - 1.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# β of the first and the last level at T = 1000; at another T both are multiplied by 1000 / T.
LINEAR = (1e-4, 0.02)
# The offset of the cosine keeps the first β above zero; the last β is limited to a value below one.
COSINE_OFFSET, LARGEST_BETA = 0.008, 0.999
# An error of the predicted noise is multiplied by β_t/√(1-β_t) in x_{t-1}. With β up to 50/T, two and a half times the
# linear schedule's, later steps correct it; with few levels β is at most 0.75.
GENTLE_RATE, GENTLE_BETA = 50, 0.75
# A network receives the time of a level, from 0 to this.
WHOLE = 1000
# With more levels, times differ by less than single precision, and the set-up takes seconds.
MOST_LEVELS = 1_000_000


class Schedule(BaseEstimator):
    """A noise schedule: the variances β_t of the noise added at each step, and the quantities derived from them.

    Args:
        betas: (T,), each between 0 and 1.
        times: (T,), the time of each level as the network receives it, from 0 to below 1000; None is 1000 (t - 1) / T.
            A respaced schedule keeps the times of the original levels.

    Attributes:
        beta, alpha, alpha_bar: β_t, α_t and ᾱ_t.
        noise_variance: 1 - ᾱ_t.
        alpha_bar_before: ᾱ_{t-1}, with ᾱ_0 = 1.
        snr: ᾱ_t / (1 - ᾱ_t).
        posterior_variance: β̃_t, 0 at t = 1.
        posterior_weights: two arrays, the x_t-weights and x_0-weights in the mean of q(x_{t-1}|x_t, x_0).

    Example:
        >>> from jensen import Schedule
        >>> schedule = Schedule.linear(1000)
        >>> schedule.n_levels, round(float(schedule.alpha_bar[-1]), 7)
        (1000, 4.04e-05)
        >>> schedule.respace(10).n_levels
        10
    """

    def __init__(self, betas: Any, times: Any = None) -> None:
        self.betas = betas
        self.times = times
        beta = np.array(betas, dtype=np.float64)
        if beta.ndim != 1 or not len(beta):
            raise ValueError(f"betas has shape {beta.shape}; give one number for every level, (T,)")
        wrong = np.flatnonzero(~((beta > 0) & (beta < 1)))
        if len(wrong):
            t = wrong[0]
            raise ValueError(f"betas[{t}]={beta[t]:g} must lie between 0 and 1; it is the variance of the noise added")
        # ln ᾱ, because 1 - ᾱ loses digits if ᾱ is near one.
        log_bar = np.log1p(-beta).cumsum()
        time = np.arange(len(beta)) * (WHOLE / len(beta)) if times is None else np.array(times, dtype=np.float64)
        if time.shape != beta.shape:
            raise ValueError(f"times has shape {time.shape}, but betas has {beta.shape}; give one time for every level")
        before = np.append(1.0, np.exp(log_bar[:-1]))
        noise, noise_before = -np.expm1(log_bar), np.append(0.0, -np.expm1(log_bar[:-1]))
        self.beta, self.alpha, self.time = frozen(beta), frozen(1 - beta), frozen(time)
        self.alpha_bar, self.alpha_bar_before = frozen(np.exp(log_bar)), frozen(before)
        self.noise_variance = frozen(noise)
        self.snr = frozen(np.exp(log_bar) / noise)
        self.posterior_variance = frozen(beta * noise_before / noise)
        self.posterior_weights = (
            frozen(np.sqrt(1 - beta) * noise_before / noise),
            frozen(np.sqrt(before) * beta / noise),
        )

    @classmethod
    def linear(cls, n_levels: int = 1000) -> Schedule:
        """β rises linearly from 0.0001 to 0.02 at T = 1000; for other T both ends are multiplied by 1000 / T."""
        n = checked(n_levels)
        first, last = (beta * 1000 / n for beta in LINEAR)
        if last >= 1:
            raise ValueError(
                f"n_steps={n} is too few for the linear schedule, whose last β would be {last:g}, not below 1; "
                "give at least 21, or schedule='cosine'"
            )
        return cls(np.linspace(first, last, n))

    @classmethod
    def cosine(cls, n_levels: int = 1000, largest_beta: float = LARGEST_BETA) -> Schedule:
        """The cosine formula: ᾱ falls as the square of a cosine, slower than the linear schedule's at both ends.

        Args:
            n_levels: T.
            largest_beta: upper limit of β; without it the last β would be 1.
        """
        n = checked(n_levels)
        angle = (np.arange(n + 1) / n + COSINE_OFFSET) / (1 + COSINE_OFFSET) * (math.pi / 2)
        f = np.cos(angle) ** 2
        return cls(np.minimum(1 - f[1:] / f[:-1], largest_beta))

    @property
    def n_levels(self) -> int:
        """T, the number of noise levels."""
        return len(self.beta)

    def variances(self, kind: str) -> np.ndarray:
        """σ_t² of the reverse steps: β_t, or β̃_t with β̃_2 in place of β̃_1 = 0."""
        if kind == "beta" or self.n_levels == 1:
            return self.beta
        first = self.posterior_variance[1:2]
        return frozen(np.append(first, self.posterior_variance[1:]))

    def respace(self, levels: int | Any, spacing: str = "uniform", least_signal: float = 0.0) -> Schedule:
        """The same forward process in fewer steps: ᾱ of the levels kept, and the β between them.

        Args:
            levels: how many levels to keep, or the levels themselves, increasing numbers from 1 to T.
            spacing: how a number of levels is spread: "uniform" from the first to the last, or "trailing" in equal
                steps down from the last.
            least_signal: only levels with √ᾱ_t at or above this are kept, which leaves out the last ones.
        """
        kept = self.spaced(int(levels), spacing, least_signal) if isinstance(levels, Integral) else np.asarray(levels)
        if kept.ndim != 1 or not len(kept) or kept.dtype.kind not in "iu":
            raise ValueError(f"levels={levels!r} must be a number of levels, or the levels themselves as whole numbers")
        if kept[0] < 1 or kept[-1] > self.n_levels or (np.diff(kept) < 1).any():
            raise ValueError(f"levels={kept.tolist()} must be increasing numbers from 1 to {self.n_levels}")
        bar = self.alpha_bar[kept - 1]
        return Schedule(1 - bar / np.append(1.0, bar[:-1]), self.time[kept - 1])

    def spaced(self, n_kept: int, spacing: str, least_signal: float) -> np.ndarray:
        """So many levels, in increasing order, among those with enough signal."""
        n = self.n_levels
        if not 1 <= n_kept <= n:
            raise ValueError(f"steps={n_kept} must be a whole number from 1 to the {n} levels of the schedule")
        last = max(1, int((np.sqrt(self.alpha_bar) >= least_signal).sum()))
        return spaced(last, min(n_kept, last), spacing)

    def plot(self, other: Schedule | None = None, ax: Any = None) -> Any:
        """Plot √ᾱ_t by level, the share of x_0 that is left, next to another schedule.

        Args:
            other: the schedule to compare with; None is the linear one, or the cosine one for a linear schedule.
            ax: matplotlib axes to draw on; None makes a new figure.

        Returns:
            The matplotlib axes.
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 3.6), layout="constrained")[1] if ax is None else ax
        n = self.n_levels
        if other is None and n > 20:
            linear, cosine = Schedule.linear(n), Schedule.cosine(n)
            other = cosine if np.allclose(self.beta, linear.beta) else linear
        for schedule, style in ((self, "-"), *(((other, "--"),) if other is not None else ())):
            share = (np.arange(schedule.n_levels) + 1) / schedule.n_levels
            ax.plot(share, np.sqrt(schedule.alpha_bar), style, label=schedule.name)
        ax.set(xlabel="level t / T", ylabel="factor on the data, √ᾱ", ylim=(0, 1.02), xlim=(0, 1))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        return ax

    @property
    def name(self) -> str:
        """The name for display: "linear", "cosine", or the number of levels."""
        n = self.n_levels
        if n > 20 and np.allclose(self.beta, Schedule.linear(n).beta):
            return "linear"
        most = gentle_beta(n)
        is_cosine = np.allclose(np.minimum(self.beta, most), Schedule.cosine(n, most).beta)
        return "cosine" if is_cosine else f"{n} levels"


def spaced(n_levels: int, n_kept: int, spacing: str) -> np.ndarray:
    if spacing == "uniform":
        # A single level is the last one, because sampling starts from pure noise.
        return np.rint(np.linspace(1, n_levels, n_kept) if n_kept > 1 else [n_levels]).astype(np.int64)
    if spacing == "trailing":
        return np.rint(n_levels * np.arange(1, n_kept + 1) / n_kept).astype(np.int64)
    raise ValueError(f"spacing={spacing!r} is not known; choose 'uniform' or 'trailing'")


def gentle_beta(n_levels: int) -> float:
    """The largest β, for this number of levels, at which a network may predict the noise."""
    return min(GENTLE_RATE / n_levels, GENTLE_BETA)


def checked(n_levels: Any) -> int:
    if not (isinstance(n_levels, Integral) and int(n_levels) >= 1):
        raise ValueError(f"n_steps={n_levels!r} must be a whole number, 1 or more")
    if int(n_levels) > MOST_LEVELS:
        raise ValueError(
            f"n_steps={n_levels} is more than {MOST_LEVELS} levels, too many for a network to distinguish; lower it"
        )
    return int(n_levels)


def frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
