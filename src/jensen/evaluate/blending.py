"""The blend of the models of a comparison.

Its weights must not be fitted to rows that train its models, nor to those that are scored. So a fifth of the training
rows of each fold is held out from another fit of every model, with the settings of the first: these scores give the
weights of the models that were trained on all training rows of the fold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

from jensen.bound import averaging
from jensen.data.codes import without_unseen_warning
from jensen.evaluate.attempt import fit
from jensen.evaluate.checkpoint import NOTHING_KEPT, Trials
from jensen.evaluate.entry import Entry, failed
from jensen.evaluate.footing import Footing
from jensen.evaluate.scoring import score
from jensen.evaluate.trial import Task
from jensen.formulas.blend import Weighing, weigh
from jensen.registry import model_class

BLEND = "blend"
HELD_OUT = 0.2


def blended(
    entries: Sequence[Entry], task: Task, footing: Footing, n_folds: int | None = None, trials: Trials = NOTHING_KEPT
) -> Entry:
    """The result of the blend of all ranked models that have the same measure; of several such groups, the best."""
    good = [entry for entry in entries if not entry.failure and hasattr(entry.model, "measure_")]
    groups: dict[Any, list[Entry]] = {}
    for entry in good:
        groups.setdefault((entry.measures, entry.model.capabilities.images), []).append(entry)  # type: ignore[union-attr]
    members = [entry for group in groups.values() if len(group) > 1 for entry in group]
    if not members:
        return failed(BLEND, "no two ranked models have a density for the same columns, and so no common score")
    splits = task.splits[:n_folds]
    began = time.perf_counter()
    numbers = {entry.name: i for i, entry in enumerate(entries)}
    inner = [inner_scores(members, task, footing, fold, trials, numbers) for fold in range(len(splits))]
    seconds = time.perf_counter() - began
    found: dict[str, list[Weighing]] = {}
    names: list[str] = []
    for group in groups.values():
        own = [entry.name for entry in group if all(entry.name in scores for scores, _ in inner)]
        if len(own) < 2:
            continue
        fits = [weigh(torch.from_numpy(np.stack([scores[name] for name in own], 1)), w) for scores, w in inner]
        if not names or np.mean([one.value for one in fits]) > np.mean([one.value for one in found["best"]]):
            found["best"], names = fits, own
    if not names:
        return failed(BLEND, "too few of its models could be fitted to a part of the training rows")
    chosen = {entry.name: entry for entry in good if entry.name in names}
    blends = [
        model_class(BLEND).from_models({name: chosen[name].models[fold] for name in names}, one.weights, task.seed)
        for fold, one in enumerate(found["best"])
    ]
    ends = np.cumsum([0, *(len(held_out) for _, held_out in splits)])
    nats = np.concatenate(
        [
            logsumexp(
                np.stack([chosen[name].nats[ends[fold] : ends[fold + 1]] for name in names], 1),
                axis=1,
                b=one.weights.numpy(),
            )
            for fold, one in enumerate(found["best"])
        ]
    )
    values = {chosen[name].value for name in names}
    value = values.pop() if len(values) == 1 else "bound"
    measures = chosen[names[0]].measures
    return Entry(BLEND, blends[0], nats, value, blends[0].n_parameters_, seconds, 0.0, measures, tuple(blends))


def inner_scores(
    members: Sequence[Entry], task: Task, footing: Footing, fold: int, trials: Trials, numbers: Mapping[str, int]
) -> tuple[dict[str, np.ndarray], torch.Tensor | None]:
    """Scores of rows held out from the training rows of a fold, by name, and the weights of these rows."""
    trained = task.splits[fold][0]
    order = np.random.default_rng([task.seed, fold, 2]).permutation(trained)
    n_held = max(1, round(HELD_OUT * len(order)))
    rows, held = np.sort(order[n_held:]), np.sort(order[:n_held])
    scores: dict[str, np.ndarray] = {}
    for entry in members:
        name = f"blend-{numbers[entry.name]}-fold-{fold}"
        figures = trials.find(name)
        if figures is not None:
            scores[entry.name] = figures["nats"]
            continue
        try:
            model = fit(entry.models[fold], task, footing, rows, task.seed + fold)
            with averaging(), without_unseen_warning():
                scores[entry.name] = score(model, footing, task.rows(held), task.seed + fold)
        except Exception:
            continue
        trials.keep(name, {"nats": scores[entry.name]})
    known = ~np.any([np.isnan(one) for one in scores.values()], 0) if scores else np.zeros(len(held), dtype=bool)
    weight = None if task.weight is None else torch.from_numpy(task.weight[held][known])
    return {name: one[known] for name, one in scores.items() if known.any()}, weight
