"""The page of a report: one HTML file that includes its style, script and pictures, and needs no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from jensen.data.container import n_rows, take, to_take_apart
from jensen.files.replacing import write_text
from jensen.report.panels import PANELS, Panel, panels_of
from jensen.report.subject import Subject
from jensen.runtime.progress import Bar

# The most rows in a report about one model.
MOST_ROWS = 1000


def write_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    y: Any = None,
    *,
    title: str | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> None:
    """Write an HTML report about a fitted model and some rows.

    Args:
        model: fitted.
        X: rows for the model: an array, a data frame, images, or documents. Of more than 1000 rows, 1000 are drawn at
            random.
        path: the file.
        y: a label per row, to colour the latent map; -1, None and NaN are unlabelled.
        title: of the page; the default is the name of the model.
        random_state: seed for samples, hidden entries and the choice of rows.
        verbose: 1 shows a progress bar on a terminal.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from sklearn.datasets import load_iris
        >>> from jensen import GaussianMixture, write_report
        >>> X = load_iris().data
        >>> path = Path(tempfile.mkdtemp()) / "report.html"
        >>> write_report(GaussianMixture(3, random_state=0).fit(X), X, path)
        >>> "Least likely rows" in path.read_text()
        True
    """
    if isinstance(model, type):
        raise TypeError(f"model={model.__name__} is a class; give a fitted model, {model.__name__}().fit(X)")
    if not hasattr(model, "fit"):
        raise TypeError(f"model={model!r} is not a model; give a fitted one")
    check_is_fitted(model)
    takes_texts = getattr(getattr(model, "capabilities", None), "texts", False)
    X = X.tocsr() if hasattr(X, "tocsr") else X
    rows = documents_of(X) if takes_texts else to_take_apart(X)
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    n, is_texts = n_rows(rows), takes_texts and len(rows.shape) == 1
    n_entries = int(model.n_features_in_ if is_texts else np.prod(rows.shape[1:]))
    if getattr(model, "n_features_in_", n_entries) != n_entries:
        raise ValueError(
            f"X has {n_entries} columns, but the model was fitted on {model.n_features_in_}; give the same columns"
        )
    if y is not None and len(y) != n:
        raise ValueError(f"y has {len(y)} labels, but X has {n} rows; give one per row, -1 if it is unknown")
    name = type(model).__name__
    numbers = None
    if n > MOST_ROWS:
        numbers = np.sort(np.random.default_rng(random_state).choice(n, MOST_ROWS, replace=False))
        rows, y = take(rows, numbers), None if y is None else take(y, numbers)
    if hasattr(rows, "tocsr") and not takes_texts:
        # Only rows that are shown become dense.
        rows = rows.toarray()
    shape = rows.shape[1:] if len(rows.shape) > 2 else None
    subject = Subject(name, model, rows, y, shape, numbers=numbers, seed=random_state)
    shown = f"{n} rows" if n <= MOST_ROWS else f"{MOST_ROWS} of {n} rows, drawn at random"
    what = f"{shown}, {n_entries} entries each"
    if takes_texts:
        what = f"{shown.replace('rows', 'documents')}, a vocabulary of {n_entries} words"
    text = page(title or f"{name}: a report", what, "", [subject], verbose)
    write_text(path, text)


def documents_of(X: Any) -> Any:
    """One text per document as an array (n,), or counts; sparse ones stay so."""
    if not (hasattr(X, "columns") or hasattr(X, "tocsr")) and getattr(X, "ndim", 1) == 1:
        values = np.asarray(X, dtype=object)
        if values.ndim == 1:
            return values
    return to_take_apart(X)


def page(title: str, lead: str, board: str, subjects: Sequence[Subject], verbose: int = 0) -> str:
    """HTML with a leaderboard, which may be empty, and a section per model."""
    with Bar("report" if verbose else None, len(subjects) * len(PANELS), unit="panel") as bar:
        sections = "".join(section(subject, bar) for subject in subjects)
    return document(title, lead, f'{board}<div id="models">{sections}</div>')


def document(title: str, lead: str, body: str) -> str:
    """A whole page around the HTML of its body."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{part("page.css")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<div><h1>{escape(title)}</h1><p class="quiet">{escape(lead)}</p></div>
<button type="button" class="plain" id="theme" aria-label="Switch between light and dark" hidden>Theme</button>
</header>
<main id="content">
{body}
</main>
<div id="tip" role="tooltip" hidden></div>
<script>{part("page.js")}</script>
</body>
</html>
"""


def section(subject: Subject, bar: Bar) -> str:
    """All panels of a model."""
    name = escape(subject.name)
    shown = "".join(article(panel) for panel in panels_of(subject, bar))
    return (
        f'<section class="model" data-model="{name}" aria-label="{name}"><h2>{name}</h2>'
        f'<p class="quiet">{escape(described(subject.model))}</p><div class="panels">{shown}</div></section>'
    )


def article(panel: Panel) -> str:
    text = f"<p>{escape(panel.text)}</p>" if panel.text else ""
    return f'<article class="panel"><h3>{escape(panel.title)}</h3>{text}{panel.body}</article>'


def described(model: Any) -> str:
    """The estimator as Python code, without its progress bar."""
    copy = clone(model)
    shown = copy.set_params(verbose=0) if "verbose" in copy.get_params(deep=False) else copy
    text = " ".join(repr(shown).split())
    return text if len(text) < 300 else text[:297] + "..."


@cache
def part(name: str) -> str:
    return files("jensen.report").joinpath(name).read_text(encoding="utf-8")
