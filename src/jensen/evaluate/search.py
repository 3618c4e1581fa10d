"""Every entry of a grid is measured once, and mixtures again from their neighbours along n_components.

A round starts from the fits at its beginning, so that its result does not depend on the order of the entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from jensen.evaluate.criterion import Criterion, Score, Settings
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.flaws import flaw_of
from jensen.evaluate.offers import lack_of
from jensen.evaluate.parallel import run_all
from jensen.evaluate.trial import FAILURES, Task
from jensen.evaluate.warm_starts import chains, nested, refined

# A better fit helps its neighbours in the next round; a fifth round rarely finds more.
ROUNDS = 4
# Fits an entry again from other fits: of (entry, its fit, the others, task); None if that is no better.
Again = Callable[[Any, Any, Any, Task], Any]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Attempt:
    """The score of an entry or the reason why it has none, the seconds it took, whether it is better than the one
    before, and why the fit is degenerate, if it is.
    """

    score: Score
    failure: str
    seconds: float
    is_new: bool = False
    flaw: str = ""


@dataclass(frozen=True)
class Search:
    """
    Args:
        rule: the criterion.
        task: the rows and folds.
        entries: estimators.
        settings: the parameters of each in the grid.
        n_jobs: processes.
        is_shown: whether there is a progress bar.
        given: the warnings that fits have given; all fits have the same rows, and no warning is given twice.
    """

    rule: Criterion
    task: Task
    entries: Sequence[Estimator]
    settings: Settings
    n_jobs: int | None
    is_shown: bool
    given: set[tuple[str, type[Warning]]] = field(default_factory=set)

    def measured(self) -> list[Attempt]:
        """Every entry from its own start."""
        jobs = [partial(attempt, self.rule, entry, self.task) for entry in self.entries]
        return run_all(jobs, self.n_jobs, "select", self.is_shown, self.given)

    def warmed(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """The same attempts, or better ones that were started from neighbours."""
        now = list(attempts)
        # Criteria of held-out rows keep no fit to all rows.
        linked = [[i for i in chain if now[i].score.model is not None] for chain in chains(self.entries, self.settings)]
        pairs = [pair for chain in linked for pair in pairwise(chain)]
        moved = {i for pair in pairs for i in pair}
        for _ in range(ROUNDS):
            near: dict[int, list[Any]] = {}
            for i, j in [*pairs, *((j, i) for i, j in pairs)]:
                if j in moved:
                    near.setdefault(i, []).append(now[j].score.model)
            jobs = [self._again(i, now[i], refined, models) for i, models in near.items()]
            done = run_all(jobs, self.n_jobs, "warm starts", self.is_shown, self.given)
            found = dict(zip(near, done, strict=True))
            moved = {i for i in found if found[i].is_new}
            now = [found.get(i, known) for i, known in enumerate(now)]
            if not moved:
                break
        for few, many in pairs:
            now[many] = self._alone(self._again(many, now[many], nested, now[few].score.model))
        return now

    def fitted(self, i: int) -> Any:
        """An entry, fitted to all rows."""
        return self._alone(partial(self.task.fit, self.entries[i]))

    def _alone(self, job: Callable[[], T]) -> T:
        return run_all([job], None, "", False, self.given)[0]

    def _again(self, i: int, known: Attempt, how: Again, other: Any) -> Callable[[], Attempt]:
        return partial(retry, self.rule, self.entries[i], known, how, other, self.task)


def attempt(rule: Criterion, entry: Estimator, task: Task) -> Attempt:
    began, failure, flaw = time.perf_counter(), "", ""
    try:
        failure = lack_of(rule, entry)
        score = Score(np.nan) if failure else rule.measure(entry, task)
        if np.isnan(score.value) and not failure:
            failure = f"{rule.name} is not a number"
        # Criteria of held-out rows keep no fit, and their scores are not misled by a degenerate one.
        flaw = "" if score.model is None or failure else flaw_of(score.model, task)
    except FAILURES as error:
        score, failure = Score(np.nan), " ".join(str(error).split()) or type(error).__name__
    return Attempt(score, failure, time.perf_counter() - began, flaw=flaw)


def retry(
    rule: Criterion, entry: Estimator, known: Attempt, how: Callable[..., Any], other: Any, task: Task
) -> Attempt:
    """The known attempt, or that of a better fit."""
    began = time.perf_counter()
    fitted = how(entry, known.score.model, other, task)
    new = None if fitted is None else attempt(rule, entry, replace(task, fitted=fitted))
    seconds = known.seconds + time.perf_counter() - began
    if new is None or new.failure:
        return replace(known, seconds=seconds, is_new=False)
    return replace(new, seconds=seconds, is_new=True)
