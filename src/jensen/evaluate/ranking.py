"""From the results of single models to one table: who is ranked, on which rows, and the cost of unseen levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from jensen.evaluate.agreement import agreed, disagreement
from jensen.evaluate.attempt import check_scores
from jensen.evaluate.criterion import mean_and_error
from jensen.evaluate.entry import Entry, reason_of
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.footing import Footing, Measure
from jensen.evaluate.kinds import Ground, Kinds, level_kinds, log_seen, other_atoms, own_level_kinds
from jensen.evaluate.leaderboard import HeldOut, Leaderboard
from jensen.evaluate.scoring import measure_of
from jensen.evaluate.trial import Task
from jensen.evaluate.words import WORDS
from jensen.formulas.completion import per_word, perplexity


def before_any_fit(
    wanted: Mapping[str, Estimator], task: Task, footing: Footing, names: Sequence[str], is_asked: bool
) -> tuple[Measure, dict[str, str]]:
    """Density or probability per column in ranked models, and the reasons why other models are not ranked."""
    measures, reasons = {}, {}
    for name, model in wanted.items():
        try:
            check_scores(model, task, footing)
            measures[name] = footing.counted(measure_of(model, footing, task.X))
        except Exception as error:
            reasons[name] = reason_of(error, np.arange(task.n_rows))
    ranked = agreed(measures, footing.measure, is_asked)
    apart = {name: disagreement(measure, ranked, names) for name, measure in measures.items()}
    same = {name: wanted[name] for name, measure in measures.items() if not apart[name] and "both" in measure}
    apart |= other_atoms(same, footing.as_table(task.X))
    return ranked, reasons | {name: reason for name, reason in apart.items() if reason}


class UnseenSlots:
    """What seen levels pay for those that are not among the training rows, so that probabilities sum to 1.

    It is the same for all models, but for levels that a network alone has, where others have all numbers.

    Args:
        task: the rows and folds.
        ground: what the columns are.
        ranked: the measure of ranked models.
    """

    def __init__(self, task: Task, ground: Ground, ranked: Measure) -> None:
        self.task, self.ground = task, ground
        kinds = level_kinds(ground, ranked)
        self.common = self._discount(kinds)
        self.is_common = bool(kinds) or ground.footing.is_image
        self.has_levels = isinstance(self.common, np.ndarray)

    def _discount(self, kinds: Kinds) -> np.ndarray | float:
        splits, rows = self.task.splits, self.task.rows
        found = [log_seen(self.ground, kinds, rows(trained), rows(held_out)) for trained, held_out in splits]
        known = [one for one in found if one is not None]
        return np.concatenate(known) if known else 0.0

    def paid(self, entry: Entry) -> Entry:
        """The entry with seen levels discounted."""
        if entry.failure:
            return entry
        own = 0.0 if self.is_common else self._discount(own_level_kinds(entry.model))
        self.has_levels |= isinstance(own, np.ndarray)
        return replace(entry, nats=entry.nats + self.common + own)


def by_row(entries: Sequence[Entry], part: str, numbers: np.ndarray) -> pd.DataFrame:
    """Nats or words of held-out rows (index) under every model that did not fail (column)."""
    values = {entry.name: getattr(entry, part) for entry in entries if not entry.failure}
    # Rows are independent, but not several scores of one row, which a splitter may hold out more than once.
    return pd.DataFrame(values, index=numbers).groupby(level=0, sort=False).mean()


def board_of(
    entries: Sequence[Entry],
    footing: Footing,
    task: Task,
    numbers: np.ndarray,
    caption: str,
    held_out: HeldOut,
    blender: Callable[[], Any],
) -> Leaderboard:
    """The table, best model first, with its caption, scores and models."""
    nats = by_row(entries, "nats", numbers)
    weight = None if task.weight is None else task.weight[nats.index.to_numpy()]
    ranked, words = nats, None
    if footing.unit == WORDS:
        ranked, words = by_row(entries, "completed", numbers), by_row(entries, "words", numbers).iloc[:, 0].to_numpy()
    means = pd.Series(np.average(ranked, axis=0, weights=weight), ranked.columns)
    order = means.sort_values(ascending=False, kind="stable").index
    nats, ranked = nats[order], ranked[order]
    by_name = {entry.name: entry for entry in entries}
    good, best = [by_name[str(name)] for name in nats], ranked.iloc[:, 0].to_numpy()
    n_seen = float(np.average(footing.n_observed(task.rows(nats.index.to_numpy())), weights=weight))

    def mean_of(values: np.ndarray) -> tuple[float, float]:
        return mean_and_error(values, weight) if words is None else per_word(values, words, weight)

    table = []
    for entry in [*good, *(entry for entry in entries if entry.failure)]:
        own = np.full(len(nats), math.nan) if entry.failure else nats[entry.name].to_numpy()
        mean, error = mean_and_error(own, weight)
        lead = own if entry.failure else ranked[entry.name].to_numpy()
        behind, off = mean_of(lead - best)
        units = {"bits_per_dimension": -mean / (n_seen * math.log(2))}
        if words is not None:
            completion, apart = mean_of(lead)
            units = {"nats_per_word": mean / n_seen if n_seen else math.nan}
            units |= {"completion": completion, "completion_error": apart, "perplexity": perplexity(completion)}
        table.append(
            {
                "model": entry.name,
                "nats": mean,
                "standard_error": error,
                **units,
                "behind": behind,
                "behind_low": behind - 1.96 * off,
                "behind_high": behind + 1.96 * off,
                "value": entry.value,
                "n_parameters": entry.n_parameters,
                "fit_seconds": entry.fit_seconds,
                "score_seconds": entry.score_seconds,
                "failure": entry.failure,
            }
        )
    frame = pd.DataFrame(table).astype({"n_parameters": "Int64"})
    return Leaderboard(frame, caption, nats, {entry.name: entry.model for entry in good}, held_out, blender)
