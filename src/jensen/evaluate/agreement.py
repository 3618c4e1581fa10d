"""Which models can be ranked together, and on which rows.

Models: those with a density for the same columns and a probability for the others. The logarithm of a density depends
on the unit of the column, that of a probability does not: if two models differ in a single column, so does the unit of
their scores. Rows: those that all of these models can score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jensen.evaluate.entry import Entry
from jensen.evaluate.footing import Footing, Measure

MOST_NAMED = 5
WORDS = {
    "density": "density",
    "probability": "probability",
    "both": "density with a probability for its frequent values",
}


def agreed(measures: Mapping[str, Measure], wanted: Measure, is_asked: bool = False) -> Measure:
    """Density or probability per column in ranked models: `wanted` if it is asked for or some model has it, or else
    what most of them have.
    """
    if is_asked or not measures or wanted in measures.values():
        return wanted
    return Counter(measures.values()).most_common(1)[0][0]


def disagreement(own: Measure, ranked: Measure, names: Sequence[str]) -> str:
    """Why a model is not ranked; empty if it is."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, mine, theirs in zip(names, own, ranked, strict=True):
        if mine != theirs:
            found.setdefault((mine, theirs), []).append(name)
    parts = [
        f"gives {listed(found[pair])} a {WORDS[pair[0]]}, where ranked models give a {WORDS[pair[1]]}"
        for pair in sorted(found, reverse=True)
    ]
    if not parts:
        return ""
    return f"it {' and '.join(parts)}; these scores have different units: compare it with models that do the same"


def with_one_measure(entries: Sequence[Entry], ranked: Measure, footing: Footing, names: Sequence[str]) -> list[Entry]:
    """The entries; a fit whose measure differs from that of the ranked models is a failure with this reason.

    A fold may lack a level, so that a column is no flag there: then the fits to this fold must agree with each other.
    """
    reasons: dict[str, str] = {}
    n_folds = max((len(entry.measures) for entry in entries), default=0)
    for fold in range(n_folds):
        found = {entry.name: footing.counted(entry.measures[fold]) for entry in entries if not entry.failure}
        here = agreed(found, ranked)
        for name, measure in found.items():
            reasons[name] = reasons.get(name) or disagreement(measure, here, names)
    return [replace(e, model=None, failure=reasons[e.name]) if reasons.get(e.name) else e for e in entries]


def scored_by_all(entries: Sequence[Entry]) -> np.ndarray:
    """Which held-out rows, in the order of the folds, every ranked model can score."""
    good = [entry for entry in entries if not entry.failure]
    kept: np.ndarray = ~np.any([np.isnan(entry.nats) for entry in good], 0)
    if not kept.any():
        lost = ", ".join(f"{entry.name} cannot score {n}" for entry in good if (n := int(np.isnan(entry.nats).sum())))
        raise ValueError(
            f"no held-out row is scored by every model: of {len(kept)} rows {lost}; leave one of these models out"
        )
    return kept


def of_rows_left_out(entries: Sequence[Entry], numbers: np.ndarray, kept: np.ndarray) -> str:
    """For a caption: how many held-out rows are left out, and which models cannot score them."""
    lacking = [entry.name for entry in entries if not entry.failure and np.isnan(entry.nats).any()]
    n_rows, n_left_out = len(np.unique(numbers)), len(np.unique(numbers[~kept]))
    return (
        f"{n_left_out} of {n_rows} held-out rows are left out for all models: they have values that "
        f"{', '.join(lacking)} cannot score"
    )


def unit_of(measure: Measure) -> str:
    """For a caption: the units of nats and bits."""
    if set(measure) == {"probability"}:
        return "nats of ln P(x) per row, bits per entry; densities are dequantised"
    return (
        "nats of ln p(x) per row in the units of the data; bits per observed entry: bits of a density may be negative "
        "and are not a code length"
    )


def in_words(measure: Measure, names: Sequence[str]) -> str:
    """For a caption: density or probability per column in ranked models."""
    some = [name for name, word in zip(names, measure, strict=True) if word == "probability"]
    if len(some) in (0, len(names)):
        return f"every ranked model gives every column a {measure[0]}"
    return f"every ranked model gives {listed(some)} a probability, and other columns a density"


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"column{'s' if len(names) > 1 else ''} {shown}{more}"
