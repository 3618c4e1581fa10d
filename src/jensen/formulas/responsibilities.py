"""Mixture arithmetic.

p(x) = Σ_k π_k p_k(x),   q(k) = π_k p_k(x) / p(x)
"""

from __future__ import annotations

import torch
from torch import Tensor


def posterior_in_place(log_joint: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """ln Σ_k π_k p_k (*, n) and q (*, K, n) from ln π_k p_k (*, K, n), whose memory q takes over.

    `allowed` (*, K, n) leaves out components before normalising: with labels, the sum runs over the label's components.
    """
    if allowed is not None:
        log_joint.masked_fill_(~allowed, -torch.inf)
    # A row infinitely far from every component has no largest term; any finite one keeps -inf - (-inf) away, and the
    # row says nothing about its component.
    largest = log_joint.amax(-2, keepdim=True).clamp_(min=torch.finfo(log_joint.dtype).min)
    q = log_joint.sub_(largest).exp_()
    total = q.sum(-2, keepdim=True)
    q.div_(total)
    if bool((total == 0).any()):
        q.masked_fill_(total == 0, 1 / q.shape[-2])
    return total.log_().add_(largest).squeeze(-2), q


def allowed_components(label: Tensor | None, n_components: int) -> Tensor | None:
    """Which components a row may come from (*, K, n): a labelled one from its class's, any other from all."""
    if label is None:
        return None
    component = torch.arange(n_components, device=label.device)[:, None]
    return (label < 0)[..., None, :] | (label[..., None, :] == component)
