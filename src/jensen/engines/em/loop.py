"""Expectation-maximisation over additive statistics.

    E:  stats, bound = Σ_batches e_step(θ, batch)        M:  θ ← m_step(θ, stats)
The objective, Σ_i w_i ELBO_i + ln prior(θ) per unit of weight, never falls (Dempster, Laird & Rubin 1977), and is
watched for it. Convergence is tested between E and M, so the θ returned is the θ scored.

An algorithm is a generator of states, one per M-step: `plain`, `squarem` (Varadhan & Roland 2008) or `gradient`; a
stopping rule compares a state with the one before it. `stepwise` is online EM (Cappé & Moulines 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from jensen.engines.em.batch import Batch, Stats, Summary
from jensen.runtime.interrupt import Interrupted
from jensen.runtime.progress import Bar
from jensen.runtime.threads import in_threads
from jensen.runtime.watching import measured

# Sums of 10⁶ rows in float64 agree to about 1e-10 of their size, and the expanded square adds about 1e-8 nats a row.
ROUNDING = 1e-8
# An algorithm that may fall can go in circles.
PATIENCE = 20


class CollapseError(ValueError):
    """A fit whose parameters have degenerated; another start may succeed."""


Theta = TypeVar("Theta")


class Verbs(Protocol[Theta, Stats]):
    """What a model gives the engine. All are pure; `theta` and `stats` are frozen values of the model's own."""

    def e_step(self, theta: Theta, batch: Batch) -> Summary[Stats]: ...

    def m_step(self, theta: Theta, stats: Stats) -> Theta:
        """A theta that raises the objective, given statistics taken at the old one; a closed form does not need it."""

    def log_prior(self, theta: Theta) -> Tensor: ...

    def resolution(self, theta: Theta) -> float:
        """Nats per unit of weight by which rounding of theta itself moves the objective, beyond ROUNDING."""


class SmoothVerbs(Verbs[Theta, Stats], Protocol[Theta, Stats]):
    """What `squarem` and `gradient` ask for in addition; only `gradient` asks for the surrogate."""

    def surrogate(self, theta: Theta, stats: Stats) -> Tensor:
        """Σ_i w_i E_q[ln p(x_i, z)], the expected complete log-likelihood, differentiable in theta."""

    def pack(self, theta: Theta) -> Tensor:
        """Unconstrained coordinates."""

    def unpack(self, vector: Tensor) -> Theta: ...

    def project(self, theta: Theta) -> Theta:
        """The nearest theta that keeps to the model's constraints."""


@dataclass(frozen=True)
class State(Generic[Theta, Stats]):
    """A theta with its sweep: the objective per unit weight, and what the last plain step gained."""

    theta: Theta
    summary: Summary[Stats]
    objective: float
    gain: float = math.inf
    # Whether the steps after this one depend on nothing else.
    can_resume: bool = True


@dataclass(frozen=True)
class Fit(Generic[Theta, Stats]):
    """Where a fit ended: the best theta with its objective and statistics, and the objective after every step."""

    theta: Theta
    objective: float
    stats: Stats
    weight: float
    history: list[float]
    n_iter: int
    converged: bool


Evaluate = Callable[[Theta], State[Theta, Stats]]
# The verbs come first: `plain` asks for Verbs, the others for SmoothVerbs.
Algorithm = Callable[[Any, State[Theta, Stats], Evaluate[Theta, Stats]], Iterator[State[Theta, Stats]]]
Stop = Callable[[State[Any, Any], State[Any, Any]], bool]


def small_gain(tol: float) -> Stop:
    """Stop when the last plain step gained less than `tol` nats per unit of weight."""
    return lambda old, new: abs(new.gain) < tol


def total(source: Iterable[Batch], function: Callable[[Batch], Any]) -> Any:
    """Σ function(batch), several batches at a time; a source that adds by itself may do so elsewhere."""
    own: Callable[[Callable[[Batch], Any]], Any] | None = getattr(source, "total", None)
    return reduce(add, in_threads(function, source)) if own is None else own(function)


def sweep(verbs: Verbs[Theta, Stats], theta: Theta, source: Iterable[Batch]) -> Summary[Stats]:
    """One pass over the data."""
    summary: Summary[Stats] = total(source, partial(verbs.e_step, theta))
    return summary


def fit(
    verbs: Verbs[Theta, Stats],
    theta: Theta,
    source: Iterable[Batch],
    *,
    max_iter: int,
    stop: Stop,
    algorithm: Algorithm[Theta, Stats] | None = None,
    is_monotone: bool = True,
    progress: str | None = None,
    progress_every: int = 1,
    before: Sequence[float] = (),
    save: Callable[[Theta, list[float], bool], None] | None = None,
) -> Fit[Theta, Stats]:
    """Iterate from theta until `stop` returns True, or `max_iter` M-steps are done; the best theta seen is kept.

    With a monotone algorithm, such as EM, that is the last theta, and a fall is an error. Another algorithm also ends
    when PATIENCE steps in a row found nothing better. `progress` names the bar on a terminal, which shows the objective
    every `progress_every` steps. Ctrl-C raises Interrupted with the fit so far.

    A fit that resumes begins with a theta that was saved, and gets the objectives `before` and at it. `save` gets a
    theta from which the fit can resume, the objectives up to it, and whether the fit has converged.
    """

    def evaluate(theta: Theta) -> State[Theta, Stats]:
        summary = sweep(verbs, theta, source)
        return State(theta, summary, float((summary.bound + verbs.log_prior(theta)) / summary.weight))

    def result() -> Fit[Theta, Stats]:
        stats, weight = best.summary.stats, float(best.summary.weight)
        return Fit(best.theta, best.objective, stats, weight, history, len(history) - 1, converged)

    best = state = evaluate(theta)
    history, converged = [*before] or [state.objective], False
    steps = (algorithm or plain)(verbs, state, evaluate)
    bar = Bar(progress, max_iter, unit="step", initial=len(history) - 1)
    try:
        while len(history) <= max_iter and not converged:
            new = next(steps)
            if is_monotone and not check_rise(verbs, state, new, len(history)):
                new, converged = state, True
            state, converged = new, converged or stop(state, new)
            best = state if is_monotone or state.objective > best.objective else best
            history.append(best.objective)
            measured(progress, len(history) - 1, max_iter, {"objective": best.objective})
            if not is_monotone and history[-PATIENCE:] == [best.objective] * PATIENCE:
                converged = True
            bar.update()
            if (len(history) - 1) % progress_every == 0:
                bar.note(f"{best.objective:.6f} per row")
            if save is not None and (state.can_resume or converged):
                save(state.theta, history, converged)
    except KeyboardInterrupt:
        message = f"interrupted after {len(history) - 1} EM steps; the best parameters so far are kept"
        raise Interrupted(message, result()) from None
    finally:
        bar.close()
    return result()


def short_run(verbs: Verbs[Theta, Stats], theta: Theta, source: Iterable[Batch], n_steps: int) -> Fit[Theta, Stats]:
    """A few steps, to compare starts by."""
    return fit(verbs, theta, source, max_iter=n_steps, stop=small_gain(1e-5))


def check_rise(verbs: Verbs[Theta, Stats], old: State[Theta, Stats], new: State[Theta, Stats], iteration: int) -> bool:
    """Whether a step is to be taken. One that falls because theta has no more digits is not: nothing is left to gain.

    A covariance with an eigenvalue λ is held to about ε, so ln λ only to ε/λ: with λ at its floor, where the objective
    still has a slope, the exact M-step can lower what is computed. A fall beyond that is a wrong M-step.
    """
    fall, rounding = old.objective - new.objective, ROUNDING * (1 + abs(old.objective))
    if fall <= rounding:
        return True
    if fall <= rounding + max(verbs.resolution(old.theta), verbs.resolution(new.theta)):
        return False
    raise ArithmeticError(
        f"the objective fell from {old.objective!r} to {new.objective!r} in EM step {iteration}; "
        "EM cannot do that, so this is a bug in jensen: please report it"
    )


def tried(
    verbs: SmoothVerbs[Theta, Stats], evaluate: Evaluate[Theta, Stats], vector: Tensor
) -> State[Theta, Stats] | None:
    """The state at coordinates that no M-step gave; None where it cannot be evaluated, as they may lie anywhere."""
    try:
        state = evaluate(verbs.project(verbs.unpack(vector)))
    except (CollapseError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        return None
    return state if math.isfinite(state.objective) else None


def plain(
    verbs: Verbs[Theta, Stats], state: State[Theta, Stats], evaluate: Evaluate[Theta, Stats]
) -> Iterator[State[Theta, Stats]]:
    while True:
        old, state = state, evaluate(verbs.m_step(state.theta, state.summary.stats))
        state = State(state.theta, state.summary, state.objective, gain=state.objective - old.objective)
        yield state


def squarem(
    verbs: SmoothVerbs[Theta, Stats], state: State[Theta, Stats], evaluate: Evaluate[Theta, Stats]
) -> Iterator[State[Theta, Stats]]:
    """Two plain steps, then an extrapolation through them; where that is worse than the step, the step is kept."""
    while True:
        first = next(plain(verbs, state, evaluate))
        yield replace(first, can_resume=False)
        second_theta = verbs.m_step(first.theta, first.summary.stats)
        v0, v1, v2 = (verbs.pack(theta) for theta in (state.theta, first.theta, second_theta))
        r, v = v1 - v0, (v2 - v1) - (v1 - v0)
        alpha = -r.norm() / v.norm() if v.norm() > 0 else -1.0
        jump = None
        if alpha < -1:
            jump = tried(verbs, evaluate, v0 - 2 * alpha * r + alpha**2 * v)
        state = jump if jump is not None and jump.objective >= first.objective else evaluate(second_theta)
        yield state


def gradient(learning_rate: float) -> Algorithm[Any, Any]:
    """Gradient EM: θ ← θ + η ∇_θ ELBO(q, θ) in unconstrained coordinates, η halved until the objective rises."""

    def steps(
        verbs: SmoothVerbs[Theta, Stats], state: State[Theta, Stats], evaluate: Evaluate[Theta, Stats]
    ) -> Iterator[State[Theta, Stats]]:
        while True:
            start = verbs.pack(state.theta).detach()
            point = start.clone().requires_grad_()
            theta = verbs.unpack(point)
            value = (verbs.surrogate(theta, state.summary.stats) + verbs.log_prior(theta)) / state.summary.weight
            (slope,) = torch.autograd.grad(value, point)
            rate, new = learning_rate, None
            while rate > 1e-12 * learning_rate and (new is None or new.objective < state.objective):
                new, rate = tried(verbs, evaluate, start + rate * slope), rate / 2
            if new is None or new.objective < state.objective:
                new = state
            gain = new.objective - state.objective
            state = State(new.theta, new.summary, new.objective, gain)
            yield state

    return steps


@dataclass(frozen=True)
class Running(Generic[Stats]):
    """What stepwise EM keeps: mean statistics per unit of weight, and the weight they come from."""

    stats: Stats
    weight: float


def stepwise(
    verbs: Verbs[Theta, Stats],
    theta: Theta,
    source: Iterable[Batch],
    running: Running[Stats] | None,
    exponent: float = 0.7,
    *,
    rate: float | None = None,
    total: float | None = None,
    decay: float | None = None,
) -> tuple[Theta, Running[Stats]]:
    """One step of online EM: s ← (1-ρ) s + ρ s(batch), ρ = (weight of all so far / weight of the batch)^-exponent.

    With equal batches ρ_t = t^-exponent, and any exponent in (½, 1] converges. `rate` is another ρ. The M-step is that
    of as much weight as was seen so far, or of the `total` that the stream will have. With a `decay` γ sums are kept
    instead, S ← γ S + S(batch) and their weight likewise, so that a batch counts γ^(batches since) times.
    """
    if decay is not None and running is not None:
        running, exponent = replace(running, weight=decay * running.weight), 1.0
    summary = sweep(verbs, theta, source)
    weight = float(summary.weight)
    now = Running(summary.stats * (1 / weight), weight)
    if running is not None:
        seen = running.weight + weight
        rate = (seen / weight) ** -exponent if rate is None else rate
        now = Running(running.stats * (1 - rate) + now.stats * rate, seen)
    return verbs.m_step(theta, now.stats * (now.weight if total is None else total)), now
