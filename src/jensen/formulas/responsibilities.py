"""Responsibilities of mixtures.

p(x) = Σ_k π_k p_k(x),   q(k) = π_k p_k(x) / p(x)
"""

from __future__ import annotations

import torch
from torch import Tensor


def posterior_in_place(log_joint: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """ln Σ_k π_k p_k (*, n) and q (*, K, n) from ln π_k p_k (*, K, n), whose memory is reused for q.

    `allowed` (*, K, n) excludes components before normalising: with labels, the sum runs over the label's components.
    """
    if allowed is not None:
        log_joint.masked_fill_(~allowed, -torch.inf)
    # For a row infinitely far from all components the largest term is -inf; a finite one avoids -inf - (-inf), and such
    # a row gets equal responsibilities.
    largest = log_joint.amax(-2, keepdim=True).clamp_(min=torch.finfo(log_joint.dtype).min)
    q = log_joint.sub_(largest).exp_()
    total = q.sum(-2, keepdim=True)
    q.div_(total)
    if bool((total == 0).any()):
        q.masked_fill_(total == 0, 1 / q.shape[-2])
    return total.log_().add_(largest).squeeze(-2), q


def allowed_components(label: Tensor | None, class_of: Tensor) -> Tensor | None:
    """The components a row may come from (*, K, n): those of its class if it is labelled, otherwise all.

    Args:
        label: the class of every row (*, n), -1 where unknown.
        class_of: the class of every component (K,).
    """
    if label is None:
        return None
    return (label < 0)[..., None, :] | (label[..., None, :] == class_of.to(label.device)[:, None])
