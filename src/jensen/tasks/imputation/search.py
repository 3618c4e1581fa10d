"""From codes to a fitted average: models are fitted without some entries, weighed on these, and fitted again to all.

1. A tenth of the observed entries is hidden, repeatedly if the table is small.
2. Every candidate is fitted to the rest and expects the hidden entries; each column weighs the models (`weighing`).
3. Their average completes the rows, among which nearest rows are found with a metric for each column; all are weighed.
4. The models with a weight are fitted to all observed entries, from where they are.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.base import clone

from jensen.runtime.interrupt import InterruptedFitWarning, propagating_interrupts
from jensen.runtime.messages import levels_inside
from jensen.runtime.progress import Bar
from jensen.tasks.imputation.candidates import Candidate, Effort, candidates
from jensen.tasks.imputation.coding import Coding
from jensen.tasks.imputation.ensemble import ROUNDS, Ensemble
from jensen.tasks.imputation.members import Member, fitted_member
from jensen.tasks.imputation.nearest import Nearest, learn_metric
from jensen.tasks.imputation.weighing import weigh_column

HIDDEN_SHARE, TRIAL_STEPS = 0.1, 30
# A column has at least so many observed entries that stay when some are hidden, and nearest rows at least so many.
FEWEST, FEWEST_DONORS = 3, 20
FAILURES = (ArithmeticError, ValueError, RuntimeError)
OWN_VALUES = "own values"


@dataclass(frozen=True, eq=False)
class Trial:
    """One set of hidden entries, and what the candidates expect of them.

    Args:
        truth: codes (n, d) of some rows.
        hidden: (n, d) the entries that are hidden from all models.
        left: the codes without them.
        members: {name: fitted model}.
        guesses: {name: expected coordinates (n, D)}.
    """

    truth: np.ndarray
    hidden: np.ndarray
    left: np.ndarray
    members: dict[str, Member] = field(default_factory=dict)
    guesses: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search.

    Args:
        ensemble: fitted to all observed entries.
        names: of its models, nearest rows last.
        seconds: {name: seconds} of the candidates.
        failed: {name: reason} of those that could not be fitted.
        truth: {column: coordinates (h, w)} of the hidden entries.
        guesses: {column: [coordinates (h, w) of every model]}, in the order of the names.
        average: {column: coordinates (h, w)}, each with weights from other entries.
    """

    ensemble: Ensemble
    names: tuple[str, ...]
    seconds: dict[str, float]
    failed: dict[str, str]
    truth: dict[int, np.ndarray]
    guesses: dict[int, list[np.ndarray]]
    average: dict[int, np.ndarray]


def search(
    coding: Coding, x: np.ndarray, targets: Sequence[int], effort: Effort, seed: int, progress: str | None = None
) -> Found:
    """The average of models for codes (n, d) whose columns `targets` are to be filled."""
    rng = np.random.default_rng(seed)
    trials = hidden_entries(x, targets, effort, rng)
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    is_interrupted = False
    offered = list(candidates(coding, x, targets, effort, seed))
    base = Member(OWN_VALUES, tuple(range(coding.d)), coding)
    for trial in trials:
        add(trial, replace(base, values=trial.left))
    with Bar(progress, len(offered) * len(trials) + 2, unit="model") as bar:
        try:
            with propagating_interrupts():
                for candidate in offered:
                    bar.note(candidate.name)
                    began = time.perf_counter()
                    for trial in trials:
                        if candidate.name not in failed:
                            attempt(candidate, trial, coding, failed)
                        bar.update()
                    seconds[candidate.name] = time.perf_counter() - began
        except KeyboardInterrupt:
            is_interrupted = True
        names = [name for name in trials[0].members if all(name in trial.members for trial in trials)]
        first = weights_of(coding, trials, names, seed)
        bar.note(Nearest.name)
        began = time.perf_counter()
        near = None
        if not is_interrupted:
            try:
                near = nearest_rows(coding, trials, names, first, targets, effort, seed, bar)
            except KeyboardInterrupt:
                is_interrupted = True
            seconds[Nearest.name] = time.perf_counter() - began
        is_tried = near is not None
        metric, guessed, weights = near or ({}, [], np.concatenate([first, np.zeros((1, coding.d))]))
        bar.update()
        bar.note("fit to all entries")
        fitted = partial(refit, coding, x, trials[0], names, first, weights, metric, effort, rng)
        try:
            with propagating_interrupts():
                ensemble = fitted(is_interrupted)
        except KeyboardInterrupt:
            if is_interrupted:
                raise  # the second Ctrl-C
            is_interrupted = True
            ensemble = fitted(is_interrupted)
        bar.update()
    if is_interrupted:
        warnings.warn(
            f"impute was interrupted after {len(names) - 1} of {len(offered)} models; the average of these is used, "
            "not fitted to the entries that were hidden for the comparison",
            InterruptedFitWarning,
            stacklevel=levels_inside(),
        )
    every = (*names, Nearest.name) if is_tried else tuple(names)
    truth, guesses, average = {}, {}, {}
    for j in range(coding.d):
        own = hidden_guesses(coding, trials, names, j, guessed)
        if own is not None:
            truth[j], guesses[j] = own
            average[j] = weigh_column(guesses[j], truth[j], coding.is_level(j), seed, is_tried)[1]
    return Found(ensemble, every, seconds, failed, truth, guesses, average)


def hidden_entries(x: np.ndarray, targets: Sequence[int], effort: Effort, rng: np.random.Generator) -> list[Trial]:
    """Sets of hidden entries: of every target column a tenth of what is observed, at least one entry."""
    trials: list[Trial] = []
    n_hidden = 0.0
    while not trials or (n_hidden < effort.hidden_entries and len(trials) < effort.most_repeats):
        truth = x[np.sort(rng.permutation(len(x))[: effort.search_rows])]
        hidden = np.zeros(truth.shape, dtype=bool)
        for j in targets:
            seen = np.flatnonzero(~np.isnan(truth[:, j]))
            n = min(max(1, round(HIDDEN_SHARE * len(seen))), len(seen) - FEWEST)
            if n > 0:
                hidden[rng.choice(seen, n, replace=False), j] = True
        trials.append(Trial(truth, hidden, np.where(hidden, np.nan, truth)))
        n_hidden += hidden.sum() / max(len(targets), 1)
        if not hidden.any():
            break
    return trials


def add(trial: Trial, member: Member) -> None:
    trial.members[member.name] = member
    trial.guesses[member.name] = member.expected(trial.left)


def attempt(candidate: Candidate, trial: Trial, coding: Coding, failed: dict[str, str]) -> None:
    """Fit a candidate; a model that does not suit the rows is left out with its reason."""
    model = clone(candidate.model)
    if "max_iter" in model.get_params(deep=False):
        model.set_params(max_iter=TRIAL_STEPS)
    try:
        add(trial, fitted_member(candidate.name, candidate.columns, coding, model, trial.left))
    except FAILURES as error:
        failed[candidate.name] = " ".join(str(error).split())


def hidden_guesses(
    coding: Coding, trials: Sequence[Trial], names: Sequence[str], column: int, more: Sequence[np.ndarray] = ()
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """True coordinates (h, w) of the hidden entries of a column in all trials, and what each model expects there."""
    place, rows = coding.places[column], [np.flatnonzero(trial.hidden[:, column]) for trial in trials]
    if not sum(map(len, rows)):
        return None
    pairs = list(zip(trials, rows, strict=True))
    truth = np.concatenate([coding.of_column(trial.truth[own, column], column) for trial, own in pairs])
    found = [np.concatenate([trial.guesses[name][own, place] for trial, own in pairs]) for name in names]
    if more:
        found.append(np.concatenate([guess[own, place] for guess, own in zip(more, rows, strict=True)]))
    return truth, found


def weights_of(
    coding: Coding, trials: Sequence[Trial], names: Sequence[str], seed: int, more: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """Weights (M, d) of the models for every column; one without hidden entries has those of all others together."""
    weights = np.zeros((len(names) + bool(more), coding.d))
    others = []
    for j in range(coding.d):
        own = hidden_guesses(coding, trials, names, j, more)
        if own is None:
            others.append(j)
        else:
            weights[:, j] = weigh_column(own[1], own[0], coding.is_level(j), seed, bool(more))[0]
    if others:
        # A model of all columns is there for new rows that lack a column which had no gaps.
        total = weights.sum(1)
        for j in others:
            usable = [m for m, name in enumerate(names) if j in trials[0].members[name].columns]
            m = max(usable, key=lambda m: (total[m], len(trials[0].members[names[m]].columns) + m))
            weights[m, j] = 1.0
    return weights


def nearest_rows(
    coding: Coding,
    trials: Sequence[Trial],
    names: Sequence[str],
    first: np.ndarray,
    targets: Sequence[int],
    effort: Effort,
    seed: int,
    bar: Bar,
) -> tuple[dict[int, np.ndarray], list[np.ndarray], np.ndarray] | None:
    """The metric of each column, what near rows have in every trial (n, D), and weights (M + 1, d) with them."""
    columns = [j for j in targets if len(np.flatnonzero(~np.isnan(trials[0].left[:, j]))) >= FEWEST_DONORS]
    varying = np.array([kind != "constant" for kind in coding.kinds])
    if not columns or varying.sum() < 2:
        return None
    usual = np.full(coding.d, min(1.0, np.sqrt(10 / varying.sum())))
    metrics = [dict.fromkeys(columns, usual) for _ in trials]
    plain = [Ensemble(coding, tuple(trial.members[name] for name in names), None, first, first) for trial in trials]
    guesses = [[trial.guesses[name] for name in names] for trial in trials]
    completed = [one.averaged(t.left, own, first) for one, t, own in zip(plain, trials, guesses, strict=True)]
    weights = first
    found: list[np.ndarray] = []
    for round_ in range(ROUNDS):
        steps, found = effort.metric_steps // (1 + round_), []
        for i, trial in enumerate(trials):
            for j in columns:
                metrics[i][j] = learn_metric(coding, trial.left, completed[i], j, steps, seed, metrics[i][j])
                bar.beat()
            near = Nearest(coding, trial.left, completed[i], metrics[i])
            found.append(replace(plain[i], nearest=near).guess_of_nearest(trial.left, completed[i]))
        weights = weights_of(coding, trials, names, seed, found)
        completed = [plain[i].averaged(trial.left, [*guesses[i], found[i]], weights) for i, trial in enumerate(trials)]
    return {j: np.exp(np.mean([np.log(own[j] + 1e-12) for own in metrics], 0)) for j in columns}, found, weights


def refit(
    coding: Coding,
    x: np.ndarray,
    trial: Trial,
    names: Sequence[str],
    first: np.ndarray,
    weights: np.ndarray,
    metric: dict[int, np.ndarray],
    effort: Effort,
    rng: np.random.Generator,
    is_interrupted: bool,
) -> Ensemble:
    """The models with a weight, fitted to all observed entries."""
    used = [m for m in range(len(names)) if first[m].any() or weights[m].any()]
    members = [trial.members[names[m]] for m in used]
    if not is_interrupted:
        members = [member.refitted(x, steps=200) for member in members]
    else:
        members = [member.refitted(x) if member.estimator is None else member for member in members]
    ensemble = Ensemble(coding, tuple(members), None, first[used], weights[[*used, -1]])
    if not metric or not weights[-1].any():
        return ensemble
    donors = np.sort(rng.permutation(len(x))[: effort.most_donors])
    guesses = ensemble.guesses(x)
    z = ensemble.averaged(x, guesses, ensemble.first)
    for _ in range(ROUNDS):
        near = Nearest(coding, x, z, metric).with_donors(x, z, donors)
        ensemble = replace(ensemble, nearest=near)
        z = ensemble.averaged(x, [*guesses, ensemble.guess_of_nearest(x, z)], ensemble.weights)
    return replace(ensemble, nearest=near.with_donors(x, z, donors))
