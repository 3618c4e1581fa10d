"""Entropy, cross-entropy and Kullback-Leibler divergence.

    H(P) = -Σ P ln P,   H(P,Q) = -Σ P ln Q,   KL(P‖Q) = H(P,Q) - H(P) ≥ 0
    KL(P(X|Y)‖Q(X|Y)) = Σ_y P(y) KL(P(X|y)‖Q(X|y))
    KL(P(X,Y)‖Q(X,Y)) = KL(P(Y)‖Q(Y)) + KL(P(X|Y)‖Q(X|Y))          (chain rule)
Cover & Thomas (2006), chapter 2. 0 ln 0 = 0; where Q = 0 and P > 0 the divergence is +inf.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily, kl_divergence

UNITS = {"nats": 1.0, "bits": math.log(2)}


def entropy(p: Any, *, unit: str = "nats") -> float | Tensor:
    """The entropy H(P) of a table of probabilities of any shape, or of a torch distribution.

    Args:
        p: probabilities that sum to 1 over all entries, or a `torch.distributions` object.
        unit: "nats" or "bits".

    Example:
        >>> from jensen import entropy
        >>> entropy([1 / 32] * 32, unit="bits")
        5.0
    """
    if isinstance(p, Distribution):
        return p.entropy() / nats_per(unit)
    return cross_entropy(p, p, unit=unit)


def cross_entropy(p: Any, q: Any, *, unit: str = "nats") -> float | Tensor:
    """The cross-entropy H(P,Q): the mean code length for outcomes of P with a code that is optimal for Q.

    Args:
        p, q: two tables of the same shape or two distributions, as in `entropy`.
        unit: "nats" or "bits".

    Example:
        >>> from jensen import cross_entropy
        >>> cross_entropy([0.5, 0.5], [0.25, 0.75], unit="bits")
        1.207518749639422
    """
    if are_distributions(p, q):
        total: Tensor = p.entropy() + kl_divergence(p, q)
        return total / nats_per(unit)
    p, q = both_tables(p, q)
    # 0 - x is never -0, unlike -x.
    return float((0 - torch.special.xlogy(p, q).sum()) / nats_per(unit))


def kl(p: Any, q: Any, *, unit: str = "nats") -> float | Tensor:
    """The Kullback-Leibler divergence KL(P‖Q).

    Args:
        p, q: two tables of the same shape or two distributions, as in `entropy`.
        unit: "nats" or "bits".

    Example:
        >>> from jensen import kl
        >>> kl([0.5, 0.5], [1.0, 0.0])
        inf
    """
    if are_distributions(p, q):
        return kl_divergence(p, q).clamp(min=0) / nats_per(unit)
    return float(divergences(*both_tables(p, q)).sum() / nats_per(unit))


def conditional_kl(p: Any, q: Any, *, unit: str = "nats") -> float:
    """The conditional divergence KL(P(X|Y)‖Q(X|Y)), the last term of the chain rule.

    Args:
        p, q: tables of joint probabilities with X along the rows and Y along the columns.
        unit: "nats" or "bits".

    Example:
        >>> from jensen import conditional_kl
        >>> joint = [[0.1, 0.4], [0.4, 0.1]]
        >>> conditional_kl(joint, joint)
        0.0
    """
    p, q = probabilities(p, "p"), probabilities(q, "q")
    if p.ndim != 2 or p.shape != q.shape:
        raise ValueError(f"p {tuple(p.shape)} and q {tuple(q.shape)} must be joint tables of one shape (X, Y)")
    p_y, q_y = p.sum(0), q.sum(0)
    # A column with Q(y) = 0 < P(y) has no conditional distribution Q(X|y): the divergence is infinite.
    p_x_given_y, q_x_given_y = p / p_y.where(p_y > 0, 1.0), q / q_y.where(q_y > 0, 1.0)
    return float(p_y @ divergences(p_x_given_y, q_x_given_y).sum(0) / nats_per(unit))


def divergences(p: Tensor, q: Tensor) -> Tensor:
    """p ln(p/q) - p + q for every entry: never negative, and for tables that sum to 1 the sum is KL(P‖Q)."""
    change = (q - p) / p.where(p > 0, 1.0)
    # For nearly equal entries the logarithm of the ratio would be only rounding.
    near = p * (change - change.clamp(min=-0.5).log1p())
    apart = torch.special.xlogy(p, p) - torch.special.xlogy(p, q) - p + q
    return torch.where((change.abs() < 0.5) & (p > 0), near, apart).clamp(min=0)


def entropies(q: Tensor | Distribution) -> Tensor:
    """H(q) of every row (n,), of probabilities (n, K) or of a batch of distributions.

    That of a mixture is of the pair of component and value: H(k) + Σ_k q_k H(z|k).
    """
    if isinstance(q, Tensor):
        entropy: Tensor = -torch.special.xlogy(q, q).sum(-1)
    elif isinstance(q, MixtureSameFamily):
        share = q.mixture_distribution.probs
        entropy = entropies(share) + (share * q.component_distribution.entropy()).sum(-1)
    else:
        entropy = q.entropy()
    return entropy


def are_distributions(p: Any, q: Any) -> bool:
    if isinstance(p, Distribution) != isinstance(q, Distribution):
        raise ValueError(
            f"p is a {type(p).__name__} and q a {type(q).__name__}; give two tables or two torch distributions"
        )
    return isinstance(p, Distribution)


def both_tables(p: Any, q: Any) -> tuple[Tensor, Tensor]:
    p, q = probabilities(p, "p"), probabilities(q, "q")
    if p.shape != q.shape:
        raise ValueError(f"p has shape {tuple(p.shape)} and q {tuple(q.shape)}; give both over the same outcomes")
    return p, q


def nats_per(unit: str) -> float:
    if unit not in UNITS:
        raise ValueError(f"unit={unit!r} is not known; use 'nats' or 'bits'")
    return UNITS[unit]


def probabilities(values: Any, name: str) -> Tensor:
    """A table of probabilities as a tensor, normalised."""
    try:
        # torch does not accept arrays with negative strides, such as p[::-1].
        table = values.detach().cpu() if isinstance(values, Tensor) else np.array(values, dtype=np.float64)
        p = torch.as_tensor(table, dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, one probability per outcome: {error}") from None
    if not p.numel():
        raise ValueError(f"{name} is empty, with shape {tuple(p.shape)}; give one probability per outcome")
    total = float(p.sum())
    # One part in 10⁶ leaves room for probabilities that were stored as float32.
    if bool((p < 0).any()) or not math.isclose(total, 1.0, rel_tol=1e-6):
        raise ValueError(f"{name} must be probabilities that sum to 1, got minimum {float(p.min())} and sum {total}")
    return p / total
