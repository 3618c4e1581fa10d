"""Many models, one table: scores of held-out rows in one unit.

All models are trained on the same rows and scored on the same other rows, so differences are taken row by row.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import check_random_state
from torch import Tensor

from jensen.data.container import as_array, n_rows, take, to_take_apart
from jensen.data.reader import read_weights
from jensen.evaluate.agreement import in_words, of_rows_left_out, scored_by_all, unit_of, with_one_measure
from jensen.evaluate.attempt import attempt
from jensen.evaluate.blending import BLEND, blended
from jensen.evaluate.candidates import entrants
from jensen.evaluate.checkpoint import described, rows_in_words, trials_at
from jensen.evaluate.criterion import mean_and_error
from jensen.evaluate.dependent import warn_of_functions
from jensen.evaluate.entering import count_classes, is_sized, named
from jensen.evaluate.entry import Entry, failed
from jensen.evaluate.footing import Footing, names_of
from jensen.evaluate.kinds import find_ground
from jensen.evaluate.leaderboard import HeldOut, Leaderboard, short
from jensen.evaluate.ranking import UnseenSlots, before_any_fit, board_of
from jensen.evaluate.scoring import on_footing
from jensen.evaluate.sizing import EFFORTS, sized_split
from jensen.evaluate.trial import Task
from jensen.evaluate.words import UNIT, WORDS, check_no_texts
from jensen.formulas.completion import per_word
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.messages import levels_inside
from jensen.runtime.progress import Bar

# With fewer rows than this, a fifth of them is too few to rank models, and every row is held out once.
FEW_ROWS = 500
HELD_OUT = 0.2
OF_UNSEEN = (
    "of n observed training entries, a level that is not among them has the probability 1/(n+1), and other levels "
    "n/(n+1) times that of the model"
)


def compare(
    X: Any,
    models: str | Sequence[Any] | Mapping[str, Any] = "auto",
    y: Any = None,
    *,
    discrete: str | bool = "auto",
    cv: Any = None,
    effort: str = "normal",
    sample_weight: Any = None,
    blend: bool = False,
    random_state: Any = 0,
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Leaderboard:
    """Fit many models to the same rows and score them on held-out rows: one table in nats per row.

    Args:
        X: a table (n, d), a data frame or images; NaN is missing. A sparse matrix holds counts of words, one document
            per row; so does a dense table if all models are of words.
        models: "auto" enters all models that suit the rows. Otherwise a list of names such as "vae" or of estimators,
            or a dictionary of estimators. A name stands for the model of "auto", or for one with default arguments.
        y: labels for models that use them; scores are of X alone.
        discrete: True treats values as discrete (probability), False as continuous (density). "auto" treats them as
            discrete if every column has whole numbers with at most 256 levels. Models of densities are then trained on
            rows with uniform noise on their cells.
        cv: number of folds, or a scikit-learn splitter. None is one 80/20 split, or 5 folds below 500 rows unless the
            effort is "quick".
        effort: "quick", "normal" or "thorough": training budget and model sizes of "auto" and of models given by name.
            The first two also limit the rows that are trained on and held out, unless `cv` is given.
        sample_weight: weight of every row, in fits and in mean scores: 2 counts the row twice.
        blend: whether a `Blend` of the models is in the table, too. Its weights are fitted to training rows, held out
            from another fit of each model.
        random_state: seed for folds, noise, and models without a seed of their own.
        verbose: 1 shows a progress bar on a terminal, and the score of every model as soon as it is known.
        checkpoint: a folder where every fit is kept with its scores, as soon as it is done. The same call, after Ctrl-C
            or a crash, does not repeat these and returns the same table. One of other rows or arguments is refused.

    Ctrl-C ends the comparison: the table has the models that are done. A model that fails has a row with the reason. So
    has a model with a density for a column where the ranked models have a probability, or the reverse. Held-out rows
    that one of the models cannot score are left out for all. Beside a `Mixture`, and with "auto", a table with text has
    one description of its columns for all models: identifiers and constants are left out, and models with a density for
    counts and whole numbers are dequantised there. Models of words are ranked by document completion.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import GaussianMixture, ProbabilisticPCA, compare
        >>> board = compare(load_iris().data, [GaussianMixture(3), ProbabilisticPCA(2)])
        >>> board.best
        'GaussianMixture'

        The same call resumes after a crash:

        >>> import tempfile
        >>> folder = tempfile.mkdtemp() + "/run"
        >>> once, again = (compare(load_iris().data, [GaussianMixture(3)], checkpoint=folder) for _ in range(2))
        >>> once.table.equals(again.table)
        True
    """
    if effort not in EFFORTS:
        raise ValueError(f"effort={effort!r} is not known; choose 'quick', 'normal' or 'thorough'")
    check_no_texts(X)
    rows = {"X": X, "y": y, "sample_weight": sample_weight}
    X = to_take_apart(X)
    X = X if hasattr(X, "shape") and not isinstance(X, Tensor) else as_array(X)
    if not (isinstance(models, (str, Mapping)) or hasattr(models, "get_params")):
        models = list(models)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    n = n_rows(X)
    if n < 2:
        raise ValueError(f"X has {n} rows, which is too few to train on some and hold out others; give more")
    if y is not None and n_rows(y) != n:
        raise ValueError(f"y has {n_rows(y)} labels, but X has {n} rows; give one per row, -1 for an unknown one")
    given = read_weights(sample_weight, n)
    ground = find_ground(X, discrete, models)
    X, footing = ground.X, ground.footing
    if blend and footing.unit == WORDS:
        raise ValueError(
            "blend=True needs models that are ranked by their score, but models of words are not; leave it out"
        )
    if not footing.is_image and footing.unit != WORDS:
        warn_of_functions(footing.as_table(X))
    sizes = sized_split(n, footing, HELD_OUT, EFFORTS[effort] if is_sized(models) else EFFORTS["thorough"])
    folds = default_cv(n, effort, seed, sizes) if cv is None else cv
    task = Task(X, y, None if given is None else given.numpy(), folds, 0, seed)
    splits, names = task.splits, names_of(X)
    (trained, scored), n_folds = map(len, splits[0]), len(splits)
    auto = entrants(footing, trained, count_classes(y), EFFORTS[effort], seed, scored, n_folds)
    wanted = {name: on_footing(model, ground) for name, model in named(models, auto, seed).items()}
    if blend and BLEND in wanted:
        raise ValueError(f"blend=True adds a model of the name {BLEND!r}, which models has already; rename that one")
    ranked, reasons = before_any_fit(wanted, task, footing, names, is_asked=discrete != "auto")

    def about() -> dict[str, Any]:
        return {
            "call": "compare",
            **{name: rows_in_words(value) for name, value in rows.items()},
            **{"discrete": discrete, "folds": rows_in_words(splits), "seed": seed},
            **{f"model {name!r}": described(model) for name, model in wanted.items()},
        }

    trials = trials_at(checkpoint, about, wanted.values(), random_state)
    slots = UnseenSlots(task, ground, ranked)
    entries: list[Entry] = []
    with Bar("compare" if verbose else None, len(splits) * (len(wanted) + blend), unit="fit") as bar:
        try:
            for number, (name, model) in enumerate(wanted.items()):
                bar.note(name)
                if name in reasons:
                    done = failed(name, reasons[name])
                else:
                    done = attempt(name, model, task, footing, bar, trials, number)
                entries.append(slots.paid(done))
                if verbose:
                    bar.say(line_of(entries[-1]))
            entries = with_one_measure(entries, ranked, footing, names)
            if blend:
                bar.note(BLEND)
                entries.append(blended(entries, task, footing, trials=trials))
        except KeyboardInterrupt:
            if all(entry.failure for entry in entries):
                raise
            entries = with_one_measure(entries, ranked, footing, names)
            known = {entry.name for entry in entries}
            left = [name for name in (*wanted, *([BLEND] if blend else [])) if name not in known]
            entries += [failed(name, "interrupted before it was done") for name in left]
            warnings.warn(
                f"interrupted; the table has {len(known)} of {len(known) + len(left)} models, without "
                f"{', '.join(left)}{trials.hint}",
                InterruptedFitWarning,
                stacklevel=levels_inside(),
            )
    if all(entry.failure for entry in entries):
        raise ValueError(f"every model failed, {entries[0].name} with: {entries[0].failure}")
    kept = scored_by_all(entries)
    tested = np.concatenate([test for _, test in splits])
    how = [f"{len(splits)} folds" if len(splits) > 1 else f"{len(tested)} of {n} rows held out"]
    if len(splits) == 1 and trained < n - len(tested):
        how.append(f"effort={effort!r} trains on {trained} of the other {n - len(tested)}")
    if is_sized(models):
        how += [text for text in [auto.reduced] if text]
    if isinstance(models, str) and models == "auto" and footing.unit == "mixed":
        how.append("k-means, Gaussian mixtures, subspaces and the latent curve take numbers only and are left out")
    if ground.left_out:
        how.append(ground.left_out)
    if not kept.all():
        how.append(of_rows_left_out(entries, tested, kept))
    how.append(footing.reason if ranked == footing.measure else in_words(ranked, names))
    if slots.has_levels:
        how.append(OF_UNSEEN)
    if given is not None:
        how.append("rows count by their weights")
    first = splits[0][1][kept[: len(splits[0][1])]]
    held_out = HeldOut(task.rows(first), None if y is None else take(y, first), first, footing)
    blender = partial(first_blend, entries, task, footing)
    unit = UNIT if footing.unit == WORDS else unit_of(ranked)
    entries = [entry.some(kept) for entry in entries]
    return board_of(entries, footing, task, tested[kept], "; ".join([*how, unit]), held_out, blender)


def default_cv(n: int, effort: str, seed: int, sizes: tuple[int, int]) -> Any:
    """Five folds of few rows, or one split; both sizes of a split are numbers of rows."""
    if n < FEW_ROWS and effort != "quick":
        return 5
    trained, held_out = sizes
    return ShuffleSplit(1, train_size=max(trained, 1), test_size=max(held_out, 1), random_state=seed)


def line_of(entry: Entry) -> str:
    """The result of a model as soon as it is known."""
    if entry.failure:
        return f"{entry.name} is not ranked: {entry.failure}"
    seconds = entry.fit_seconds + entry.score_seconds
    if entry.completed is not None and entry.words is not None:
        mean, error = per_word(entry.completed, entry.words)
        return f"{entry.name}: {short(mean)} ± {short(error)} nats per completed word, {seconds:.1f} s"
    mean, error = mean_and_error(entry.nats[~np.isnan(entry.nats)], None)
    return f"{entry.name}: {short(mean)} ± {short(error)} nats per row ({entry.value}), {seconds:.1f} s"


def first_blend(entries: Sequence[Entry], task: Task, footing: Footing) -> Any:
    """The blend of the models of the first fold."""
    if footing.unit == WORDS:
        raise ValueError("models of words are ranked by document completion, and a blend has none; use board.models")
    found = next((entry for entry in entries if entry.name == BLEND and not entry.failure), None)
    found = blended(entries, task, footing, n_folds=1) if found is None else found
    if found.failure:
        raise ValueError(f"there is no blend: {found.failure}")
    return found.model
