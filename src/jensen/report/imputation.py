"""Imputations in a report: known entries that were hidden, and rows with missing values."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from jensen.data.container import as_array
from jensen.report import charts
from jensen.report.charts import Series, number
from jensen.report.html import picture, table
from jensen.report.subject import Subject, as_frame

# Rows with hidden entries, and the share of entries that is hidden.
N_HIDDEN, SHARE_HIDDEN = 60, 0.2
# The most rows with missing values, and the most images, that are shown.
N_LISTED, N_IMAGES = 6, 8
# For a diffusion, which draws missing values in many steps.
SHORT = {"n_draws": 5, "steps": 25, "resamplings": 4}


def imputations(subject: Subject) -> tuple[str, str, str] | None:
    """Known entries that are hidden and imputed."""
    if not hasattr(subject.model, "impute") or subject.is_documents:
        return None
    return of_images(subject) if subject.is_image else of_a_table(subject)


def of_images(subject: Subject) -> tuple[str, str, str]:
    shown = subject.complete().few(N_IMAGES)
    images = subject.images(shown.rows)
    # The middle part of every image.
    h, w = images.shape[-2:]
    is_hidden = np.zeros(images.shape, dtype=bool)
    is_hidden[..., h // 4 : h - h // 4, w // 4 : w - w // 4] = True
    partial, given = (np.where(is_hidden, np.nan, subject.images(rows)) for rows in (shown.rows, shown.model_rows))
    answer = subject.images(subject.call("impute", given.reshape(shown.model_rows.shape), **shortened(subject)))
    filled = np.where(is_hidden, answer, images)
    return (
        "Imputations",
        "Top: real rows. Middle: the same with their centre hidden. Bottom: the centre imputed by its posterior mean."
        + sentence_on_draws(subject),
        picture(
            np.concatenate([images, partial, filled]),
            "real rows, rows with a hidden centre, and imputed rows",
            subject.limits,
            shown.n_rows,
        ),
    )


def of_a_table(subject: Subject) -> tuple[str, str, str] | None:
    if subject.frame.isna().any(axis=1).all():
        text = "Every row has missing values, so no known entries were hidden."
        return "Imputations", text, rows_with_missing_values(subject)
    shown, names = subject.complete().few(min(N_HIDDEN, subject.quick.n_rows)), subject.number_columns
    if not names or shown.n_rows < 2:
        return None
    mask = np.random.default_rng(subject.seed).random((shown.n_rows, len(names))) < SHARE_HIDDEN
    # A row with all entries hidden is of no use.
    mask[mask.all(1), 0] = False
    if not mask.any():
        return None
    truth = as_frame(shown.model_rows, subject.names)[names].to_numpy(dtype=np.float64)
    answer = as_frame(subject.call("impute", with_hidden(shown, names, mask), **shortened(subject)), subject.names)
    filled = answer[names].to_numpy(dtype=np.float64)
    spread = np.where(truth.std(0) > 0, truth.std(0), 1.0)
    x, y = (((values - truth.mean(0)) / spread)[mask] for values in (truth, filled))
    error = number(float(np.sqrt(np.mean((x - y) ** 2))))
    tips = [
        f"row {shown.number(i)}, {names[j]}: {number(truth[i, j])}, imputed {number(filled[i, j])}"
        for i, j in np.argwhere(mask)
    ]
    text = (
        f"A fifth of the entries of {shown.n_rows} rows was hidden and imputed. The error is {error} standard "
        "deviations of a column; imputing means would give about 1. The diagonal is good: imputed equals true."
    ) + sentence_on_draws(subject)
    low, high = charts.span([x, y])
    drawn = charts.scatter(
        [Series("entries", x, y, tips)],
        "true, in standard deviations",
        "imputed",
        text,
        line=[np.array([[low, low], [high, high]])],
    )
    return "Imputations", text, drawn + rows_with_missing_values(subject)


def shortened(subject: Subject) -> dict[str, int]:
    """Options for a fast imputation; the model gets those that it takes."""
    n_draws = subject.quick.n_draws
    short = {} if n_draws is None else {"importance_samples": n_draws}
    # A diffusion by masks repeats no step.
    left_out = "resamplings" if getattr(subject.model, "imputation", "repaint") == "masks" else ""
    return {name: value for name, value in (SHORT | short).items() if name != left_out}


def sentence_on_draws(subject: Subject) -> str:
    """A sentence on the number of draws per imputed entry, if it is a mean of draws."""
    known, short = signature(subject.model.impute).parameters, shortened(subject)
    counts = [short[name] for name in ("importance_samples", "n_draws") if name in known]
    return "".join(f" Every imputed entry is the mean of {n} draws." for n in counts)


def with_hidden(subject: Subject, names: list[str], mask: np.ndarray) -> Any:
    """The rows as the model takes them, with entries of these columns hidden."""
    rows = subject.model_rows
    if hasattr(rows, "columns"):
        # A model identifies columns by name, in any container.
        out = rows.copy() if hasattr(rows, "iloc") else as_frame(rows, subject.names)
        for name, hidden in zip(names, mask.T, strict=True):
            original = out.columns[subject.names.index(name)]
            out[original] = out[original].astype(np.float64).mask(hidden)
        return out
    whole = np.zeros(rows.shape, dtype=bool)
    whole[:, [subject.names.index(name) for name in names]] = mask
    return np.where(whole, np.nan, as_array(rows).astype(np.float64))


def rows_with_missing_values(subject: Subject) -> str:
    """The first rows with missing values, imputed."""
    missing = subject.frame.isna().to_numpy()
    rows = np.flatnonzero(missing.any(1) & ~missing.all(1))[:N_LISTED]
    if not len(rows):
        return ""
    shown = subject.some(rows)
    answer = as_frame(subject.call("impute", shown.model_rows, **shortened(subject)), subject.names)
    filled = answer.where(missing[rows], shown.frame.set_axis(answer.index))
    filled.insert(0, "row", [shown.number(i) for i in range(len(rows))], allow_duplicates=True)
    marked = np.column_stack([np.zeros(len(rows), bool), missing[rows]])
    return "<h4>Rows with missing values, imputed</h4>" + table(filled, marked=marked)
