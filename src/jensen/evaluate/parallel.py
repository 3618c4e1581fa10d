"""Many jobs, one after the other or in several processes, with the same result.

Processes, not threads: a fit of a network seeds the generator of its whole process, so threads would have to take
turns. Each process has one torch thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from joblib import Parallel, delayed, effective_n_jobs

from jensen.bound import averaging
from jensen.runtime.interrupt import Interrupted, propagating_interrupts
from jensen.runtime.messages import levels_inside, recorded_warnings
from jensen.runtime.progress import Bar

Outcome = TypeVar("Outcome")


class Done(NamedTuple, Generic[Outcome]):
    """The number of a job, its result, and the warnings it gave."""

    number: int
    outcome: Outcome
    heard: list[tuple[str, type[Warning]]]


def run_all(
    jobs: Sequence[Callable[[], Outcome]],
    n_jobs: int | None,
    name: str,
    is_shown: bool,
    given: set[tuple[str, type[Warning]]] | None = None,
    keep: Callable[[Done[Outcome]], None] | None = None,
) -> list[Outcome]:
    """The results of all jobs, in their order; the bar counts those that are done, and `keep` gets each at once.

    Ctrl-C ends them all, and raises `Interrupted` with the results so far by number. The warnings of all processes are
    given at the end, each once, and those in `given` not again; it is added to.
    """
    given = set() if given is None else given
    n_processes = min(effective_n_jobs(n_jobs), len(jobs))
    done: list[Done[Outcome]] = []
    with Bar(name if is_shown else None, len(jobs), unit="entry") as bar:
        try:
            for one in in_processes(jobs, n_processes) if n_processes > 1 else in_turn(jobs):
                done.append(one)
                if keep is not None:
                    keep(one)
                bar.update()
        except KeyboardInterrupt as error:
            raise Interrupted(str(error) or "interrupted", {one.number: one.outcome for one in done}) from None
    done.sort(key=lambda one: one.number)
    give([warning for one in done for warning in one.heard], given)
    return [one.outcome for one in done]


def give(heard: Sequence[tuple[str, type[Warning]]], given: set[tuple[str, type[Warning]]]) -> None:
    """Warnings of fits, each once, and none that was given before."""
    new = [warning for warning in dict.fromkeys(heard) if warning not in given]
    given.update(new)
    for message, category in new:
        warnings.warn(message, category, stacklevel=levels_inside())


def in_turn(jobs: Sequence[Callable[[], Outcome]]) -> Iterator[Done[Outcome]]:
    return (do(number, job) for number, job in enumerate(jobs))


def in_processes(jobs: Sequence[Callable[[], Outcome]], n_processes: int) -> Iterator[Done[Outcome]]:
    # Arrays are sent as they are: as memory maps they would be treated as rows that stay on disk.
    pool = Parallel(n_processes, return_as="generator_unordered", max_nbytes=None)
    done: Iterator[Done[Outcome]] = pool(delayed(do_with_one_thread)(number, job) for number, job in enumerate(jobs))
    return done


def do_with_one_thread(number: int, job: Callable[[], Outcome]) -> Done[Outcome]:
    torch.set_num_threads(1)
    return do(number, job)


def do(number: int, job: Callable[[], Outcome]) -> Done[Outcome]:
    with recorded_warnings() as heard, propagating_interrupts(), averaging():
        warnings.simplefilter("always")
        outcome = job()
    return Done(number, outcome, [(str(one.message), one.category) for one in heard])


def check_n_jobs(n_jobs: Any) -> None:
    if n_jobs is not None and not (isinstance(n_jobs, Integral) and n_jobs != 0):
        raise ValueError(f"n_jobs={n_jobs!r} is no number of processes; give 1 or more, or -1 for one on every core")
