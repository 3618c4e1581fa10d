"""Every entry of a grid is measured once, and mixtures again from their neighbours along n_components.

A round starts from the fits at its beginning, so that its result does not depend on the order of the entries.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn import exceptions

from jensen.evaluate.checkpoint import NOTHING_KEPT, Trials
from jensen.evaluate.criterion import Criterion, Score, Settings
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.flaws import flaw_of
from jensen.evaluate.offers import lack_of
from jensen.evaluate.parallel import Done, give, run_all
from jensen.evaluate.trial import FAILURES, Task
from jensen.evaluate.warm_starts import chains, nested, refined
from jensen.runtime.interrupt import Interrupted

# A better fit helps its neighbours in the next round; a fifth round rarely finds more.
ROUNDS = 4
# Fits an entry again from other fits: of (entry, its fit, the others, task); None if that is no better.
Again = Callable[[Any, Any, Any, Task], Any]
Heard = list[tuple[str, type[Warning]]]


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
        trials: the checkpoint.
        given: the warnings that fits have given; all fits have the same rows, and no warning is given twice.

    Ctrl-C raises `Interrupted` with the attempts so far.
    """

    rule: Criterion
    task: Task
    entries: Sequence[Estimator]
    settings: Settings
    n_jobs: int | None
    is_shown: bool
    trials: Trials = NOTHING_KEPT
    given: set[tuple[str, type[Warning]]] = field(default_factory=set)

    def measured(self) -> list[Attempt]:
        """Every entry from its own start."""
        jobs = {i: partial(attempt, self.rule, entry, self.task) for i, entry in enumerate(self.entries)}
        try:
            return list(self._all(jobs, "start", "select").values())
        except Interrupted as interrupted:
            n_done = len(interrupted.best)
            undone = Attempt(Score(np.nan), "interrupted", 0.0)
            message = f"interrupted; the table has {n_done} of {len(jobs)} entries{self.trials.hint}"
            raise Interrupted(message, [interrupted.best.get(i, undone) for i in jobs]) from None

    def warmed(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """The same attempts, or better ones that were started from neighbours."""
        now = list(attempts)
        # Criteria of held-out rows keep no fit to all rows.
        linked = [[i for i in chain if now[i].score.model is not None] for chain in chains(self.entries, self.settings)]
        pairs = [pair for chain in linked for pair in pairwise(chain)]
        moved = {i for pair in pairs for i in pair}
        try:
            for number in range(ROUNDS):
                near: dict[int, list[Any]] = {}
                for i, j in [*pairs, *((j, i) for i, j in pairs)]:
                    if j in moved:
                        near.setdefault(i, []).append(now[j].score.model)
                jobs = {i: self._again(i, now[i], refined, models) for i, models in near.items()}
                found = self._all(jobs, f"round-{number}", "warm starts", now)
                moved = {i for i in found if found[i].is_new}
                now = [found.get(i, known) for i, known in enumerate(now)]
                if not moved:
                    break
            for few, many in pairs:
                job = self._again(many, now[many], nested, now[few].score.model)
                now[many] = self._all({many: job}, "nested", "", now)[many]
        except Interrupted as interrupted:
            # Each of these is at least as good as the one before.
            now = [interrupted.best.get(i, known) for i, known in enumerate(now)]
            message = f"interrupted; the table has all entries, some without warm starts{self.trials.hint}"
            raise Interrupted(message, now) from None
        return now

    def fitted(self, i: int) -> Any:
        """An entry, fitted to all rows."""
        known = self.trials.find(f"winner-{i}")
        if known is not None:
            give(heard_from(known["heard"]), self.given)
            return known["model"]

        def keep(done: Done[Any]) -> None:
            self.trials.keep(f"winner-{i}", {"heard": heard_to(done.heard)}, done.outcome)

        return run_all([partial(self.task.fit, self.entries[i])], None, "", False, self.given, keep)[0]

    def _all(
        self, jobs: Mapping[int, Callable[[], Attempt]], stage: str, title: str, before: Sequence[Attempt] = ()
    ) -> dict[int, Attempt]:
        """The attempts of all jobs, by the number of their entry; those in the checkpoint are not repeated."""
        found: dict[int, Attempt] = {}
        for i in jobs:
            figures = self.trials.find(f"{stage}-{i}")
            if figures is not None:
                give(heard_from(figures.pop("heard")), self.given)
                found[i] = restored(figures, before[i] if before else None)
        left = [i for i in jobs if i not in found]

        def keep(done: Done[Attempt]) -> None:
            if not done.outcome.failure:
                figures, model = figures_of(done.outcome, is_again=bool(before))
                self.trials.keep(f"{stage}-{left[done.number]}", {**figures, "heard": heard_to(done.heard)}, model)

        try:
            done = run_all([jobs[i] for i in left], self.n_jobs, title, self.is_shown and bool(title), self.given, keep)
        except Interrupted as interrupted:
            raise Interrupted(
                str(interrupted), found | {left[number]: one for number, one in interrupted.best.items()}
            ) from None
        found |= dict(zip(left, done, strict=True))
        return {i: found[i] for i in jobs}

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


def figures_of(one: Attempt, is_again: bool) -> tuple[dict[str, Any], Any]:
    """An attempt as a checkpoint keeps it: figures, and the fit. One that is no better than before is not written."""
    if is_again and not one.is_new:
        return {"seconds": one.seconds}, None
    score = {name: value for name, value in vars(one.score).items() if name != "model"}
    figures = {"score": score | {"more": dict(one.score.more)}, "seconds": one.seconds, "flaw": one.flaw}
    return figures, one.score.model


def restored(figures: Mapping[str, Any], before: Attempt | None) -> Attempt:
    """The attempt of these figures."""
    if "score" not in figures:
        assert before is not None
        return replace(before, seconds=figures["seconds"], is_new=False)
    score = Score(**figures["score"], model=figures.get("model"))
    return Attempt(score, "", figures["seconds"], is_new=before is not None, flaw=figures["flaw"])


def heard_to(heard: Heard) -> list[list[str]]:
    """Warnings as a checkpoint keeps them."""
    return [[message, category.__name__] for message, category in heard]


def heard_from(kept: Sequence[Sequence[str]]) -> Heard:
    """Warnings of a checkpoint; those of other libraries are plain ones."""
    known = {
        name: own for home in (builtins, exceptions) for name, own in vars(home).items() if name.endswith("Warning")
    }
    return [(message, known.get(name, UserWarning)) for message, name in kept]
