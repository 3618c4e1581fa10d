"""What a model that is fitted by EM gives the engine, and keeps between batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from jensen.engines.em import loop as em
from jensen.engines.em.batch import Swept
from jensen.engines.em.checkpoint import Memory
from jensen.engines.em.frame import Frame
from jensen.runtime.messages import levels_inside


@dataclass(frozen=True)
class Problem:
    """What EM needs to fit a model to rows.

    Args:
        verbs: the model's E- and M-step in the source's frame.
        source: the rows.
        start: draws a first theta; Ctrl-C may raise Interrupted with the best so far.
        plausibility: of (theta, objective, weight), both for all rows: by it the best of several fits is chosen.
        stop: when the fit has converged.
        algorithm: how it steps.
        is_monotone: whether a step can only raise the objective; if not, the best theta seen is kept.
        memory: what steps depend on beside theta; None where there is no such thing.
        template: a theta of the same shape, for a fit that resumes, where a start takes long; None takes a start.
    """

    verbs: em.Verbs[Any, Any]
    source: Swept
    start: Callable[[torch.Generator], Any]
    plausibility: Callable[[Any, float, float], float]
    stop: em.Stop
    algorithm: em.Algorithm[Any, Any] = em.plain
    is_monotone: bool = True
    memory: Memory | None = None
    template: Callable[[torch.Generator], Any] | None = None


@dataclass(frozen=True)
class Stream:
    """What stepwise EM keeps between batches.

    Args:
        frame: the units of the statistics and of theta.
        verbs: E- and M-step.
        running: mean statistics of all rows so far, and their weight.
        theta: the parameters of the last step.
        exponent: of the step size (seen weight)^-exponent; with 1 all rows count alike.
    """

    frame: Frame
    verbs: em.Verbs[Any, Any]
    running: em.Running[Any]
    theta: Any
    exponent: float = 0.7


def check_decay(decay: Any) -> None:
    """An error unless decay is None or in (0, 1]."""
    if decay is None or (isinstance(decay, Real) and not isinstance(decay, bool) and 0 < float(decay) <= 1):
        return
    raise ValueError(
        f"decay={decay!r} must be above 0 and at most 1: how much what was seen before a batch still counts; fit a new "
        "model to forget all of it"
    )


@dataclass(frozen=True)
class Answers:
    """Inference with a fitted theta for rows (n, d) in the user's units, as pure functions.

    Args:
        log_evidence: ln p(x) of every row (n,), over what is observed.
        fill: rows with missing entries replaced by their posterior mean.
        fill_draws: n copies of the rows, missing entries drawn from their posterior.
    """

    log_evidence: Callable[[Any, Tensor], Tensor]
    fill: Callable[[Any, Tensor], Tensor]
    fill_draws: Callable[[Any, Tensor, int, torch.Generator], list[Tensor]]


def warn_of_no_convergence(model: Any) -> None:
    is_plain = getattr(model, "acceleration", "none of its arguments") is None
    faster = ", or try acceleration='squarem'" if is_plain else ""
    warnings.warn(
        f"{type(model).__name__} did not converge to tol={model.tol} in max_iter={model.max_iter} steps; "
        f"raise max_iter or tol{faster}",
        ConvergenceWarning,
        stacklevel=levels_inside(),
    )
