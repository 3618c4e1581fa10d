"""Short runs from several starts: every round runs the candidates for some steps and keeps the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jensen.runtime.interrupt import Interrupted

Candidate = TypeVar("Candidate")


def tournament(
    candidates: Sequence[Candidate],
    rounds: Sequence[tuple[int, int]],
    run: Callable[[Candidate, int], tuple[Candidate, float]],
) -> tuple[int, Candidate]:
    """The number of the winner among the candidates, and what it is after its runs.

    Args:
        candidates: where to start; of equally good ones the first wins.
        rounds: for every round the steps of a run, and how many candidates are kept.
        run: takes a candidate and a number of steps to the candidate after these and its loss.

    Ctrl-C raises Interrupted with the best candidate so far.
    """
    field = list(enumerate(candidates))
    runs: list[tuple[int, Candidate, float]] = []
    try:
        for n_steps, n_kept in rounds:
            runs = []
            for number, candidate in field:
                runs.append((number, *run(candidate, n_steps)))
            runs.sort(key=lambda one: one[2])
            field = [(number, candidate) for number, candidate, _ in runs[:n_kept]]
    except KeyboardInterrupt:
        best = min(runs, key=lambda one: one[2])[1] if runs else field[0][1]
        raise Interrupted("interrupted in the start; the best start so far is kept", best) from None
    return field[0]


def rounded(loss: float) -> float:
    """A loss with nine digits: runs to the same optimum tie, so the order of the rows does not decide between them."""
    return float(f"{loss:.8e}")
