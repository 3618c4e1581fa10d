"""The panels of a report. Each one calls one method of the contract and is left out if the model does not have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor

from jensen.data.container import as_array
from jensen.report import charts
from jensen.report.charts import Series, number
from jensen.report.deep import levels, reconstructions
from jensen.report.html import picture, side_by_side, table
from jensen.report.imputation import imputations
from jensen.report.quick import quick_scores
from jensen.report.regression import coefficients, predictions
from jensen.report.subject import Subject, as_frame
from jensen.report.topics import (
    beginning,
    completion,
    excerpts,
    model_divergence,
    nats_per_word,
    topic_shares,
    topics,
    typical,
)
from jensen.runtime.progress import Bar

# Columns of the training history that are not terms of the bound.
ABOUT = ("epoch", "phase", "learning_rate", "seconds", "simple")
# Rows for slow methods, samples, rows of a small table, and images.
N_SLOW, N_SAMPLES, N_LISTED, N_IMAGES = 200, 200, 4, 16
# Every level of a diffusion costs a pass through its network: levels for all rows.
N_LEVELS = 20
# The most classes in a table of components.
MOST_CLASSES = 6
# How samples of a diffusion are drawn.
SHORT_CHAIN = {"sampler": "ddim", "steps": 50}


@dataclass(frozen=True)
class Panel:
    """A heading, a sentence that explains it, and the content."""

    title: str
    text: str
    body: str


def panels_of(subject: Subject, bar: Bar) -> Iterator[Panel]:
    """All panels of a model. If the rows do not allow one, it gives the reason."""
    for title, make in PANELS.items():
        bar.note(title)
        try:
            panel = make(subject)
        except ValueError as error:
            panel = title, "Not available: " + " ".join(str(error).split()) + ".", ""
        bar.update()
        if panel is not None:
            yield Panel(*panel)


Made = tuple[str, str, str] | None


def terms(subject: Subject) -> Made:
    """reconstruction - Σ KL, averaged over some rows."""
    if not hasattr(subject.model, "bound"):
        return None
    shown = subject.few(min(N_SLOW, subject.quick.n_rows))
    bound = shown.with_few_draws().call("bound", shown.model_rows, levels=N_LEVELS)
    means = {"reconstruction": float(bound.reconstruction.mean())}
    means |= {f"− {name.replace('_', ' ')}": -float(value.mean()) for name, value in bound.kl.items()}
    kind = "It equals ln p(x)." if bound.is_exact else "It is a lower bound of ln p(x)."
    if subject.log_cell is not None:
        means["+ log cell size"] = subject.log_cell
        kind = "It is a lower bound of ln P(x): the density is that of dequantised values."
    means["bound"] = float(bound.total.mean()) + (subject.log_cell or 0.0)
    draws = f", each with {shown.quick.n_draws} draws" if shown.with_few_draws() is not shown else ""
    text = f"The evidence lower bound term by term, in nats per row: the mean over {shown.n_rows} rows{draws}. {kind}"
    text += model_divergence(subject)
    summary = "Terms of the bound: " + ", ".join(f"{name} {number(value)}" for name, value in means.items())
    return "Terms of the bound", text, charts.bars(list(means), list(means.values()), "nats per row", summary)


def history(subject: Subject) -> Made:
    """The objective of a training and its terms, or the objective of EM."""
    found = getattr(subject.model, "history_", None)
    if found is not None and len(found) > 1:
        # With the simple loss of a diffusion the objective is not in nats.
        others = (*ABOUT, "objective") if "simple" in found.columns else ABOUT
        names = [name for name in found.columns if name not in others and found[name].notna().any()]
        x, what = found["epoch"], "epoch"
        series = [Series(name.replace("_", " "), x[found[name].notna()], found[name].dropna()) for name in names]
        text = "The training objective and its terms by epoch. “held out”: rows that the model was not trained on."
    elif len(values := np.atleast_1d(getattr(subject.model, "lower_bounds_", []))) > 1:
        series, what = [Series("objective", np.arange(1, len(values) + 1), values)], "step"
        text = "The objective of EM after every step; it never decreases."
    else:
        return None
    ends = ", ".join(f"{one.name} ends at {number(float(np.asarray(one.y)[-1]))}" for one in series)
    drawn = charts.lines(series, what, "value per row", f"{text} {ends}.", settled=True)
    return "Training", text, drawn


def samples(subject: Subject) -> Made:
    """New rows beside real rows."""
    if not hasattr(subject.model, "sample") or subject.is_documents:
        return None
    if subject.is_image:
        text = "A good model draws samples that look like real rows."
        images = {"real": subject.few(N_IMAGES).rows}
        if "mean" in signature(subject.model.sample).parameters:
            text += " The decoder's means belong to the same latent vectors, without the noise of the pixels."
            images["decoder's means"] = subject.sample(N_IMAGES, mean=True, **SHORT_CHAIN)
        images["samples"] = subject.sample(N_IMAGES, **SHORT_CHAIN)
        pictures = {
            name: picture(
                subject.images(rows), "real rows" if name == "real" else f"{name} of {subject.name}", subject.limits
            )
            for name, rows in images.items()
        }
        return "Samples beside real rows", text, side_by_side(pictures)
    made = subject.sample(N_SAMPLES, **SHORT_CHAIN)
    new, real = as_frame(made, subject.names), subject.few(N_SAMPLES).frame
    listed = pd.concat({"real": real.head(N_LISTED), "sample": new.head(N_LISTED)}, names=["which"])
    body = cloud(real, new, subject.number_columns) + table(listed.reset_index("which").rename(columns={"which": ""}))
    return "Samples beside real rows", "A good model draws samples that look like real rows.", body


def cloud(real: pd.DataFrame, new: pd.DataFrame, names: Sequence[str]) -> str:
    """Real rows and samples in the plane of the two most correlated columns."""
    names = [name for name in names if name in new and real[name].nunique() > 1]
    if len(names) < 2:
        return ""
    together = real[names].corr().abs().to_numpy(copy=True)
    np.fill_diagonal(together, -1.0)
    i, j = np.unravel_index(np.nanargmax(together), together.shape)
    a, b = names[int(i)], names[int(j)]
    # Real rows are drawn on top.
    series = [Series("samples", new[a], new[b], colour=1), Series("real", real[a], real[b], colour=0)]
    summary = f"Real rows and samples in the plane of {a} and {b}, whose correlation is {together[i, j]:.2f}"
    return charts.scatter(series, a, b, summary)


def hidden(subject: Subject) -> Made:
    """The latent vectors of the rows."""
    model = subject.model
    if not hasattr(model, "transform") or centres_of(model) is not None or subject.is_documents:
        return None
    shown = subject.few(charts.MOST_MARKS // 2)
    z = as_array(model.transform(shown.model_rows))
    if z.ndim != 2 or z.shape[0] != shown.n_rows:
        return None
    if z.shape[1] == 1:
        z = np.column_stack([z[:, 0], np.random.default_rng(subject.seed).uniform(-1, 1, len(z))])
        i, j, names = 0, 1, ("latent 0", "random, to separate the dots")
    else:
        i, j = widest(z)
        names = (f"latent {i}", f"latent {j}")
    series = by_label(shown, z[:, i], z[:, j])
    summary = f"{shown.n_rows} rows by {names[0]} and {names[1]}"
    return "The latent map", "The latent vectors: one dot per row.", charts.scatter(series, *names, summary)


def widest(z: np.ndarray) -> tuple[int, int]:
    """The first two dimensions with at least half the largest standard deviation."""
    var = z.var(0)
    far = np.flatnonzero(var >= var.max() / 4)
    first, second = np.sort(far[:2] if len(far) > 1 else np.argsort(-var)[:2]).tolist()
    return first, second


def by_label(subject: Subject, x: np.ndarray, y: np.ndarray) -> list[Series]:
    """One series per class, or a single one."""
    labels = subject.labels or [""] * subject.n_rows
    tips = [f"row {subject.number(i)}" + (f", {label}" if label else "") for i, label in enumerate(labels)]
    names = sorted(set(labels), key=lambda label: (label == "", label))
    out = []
    for name in names:
        rows = [i for i, label in enumerate(labels) if label == name]
        is_unknown = name == "" and len(names) > 1
        title = name or ("unlabelled" if is_unknown else "rows")
        out.append(Series(title, x[rows], y[rows], [tips[i] for i in rows], charts.GREY if is_unknown else None))
    return out


def components(subject: Subject) -> Made:
    """Weights and centres of a mixture or of clusters."""
    model = subject.model
    centres = centres_of(model)
    if centres is None:
        return None
    has_noise = getattr(model, "noise", False) is True
    if has_noise:  # it is everywhere
        centres = np.vstack([centres, np.full(centres.shape[1], np.nan)])
    number = as_number(model, subject.model_rows, len(centres))
    counts = np.bincount(number, minlength=len(centres))
    weights = getattr(model, "weights_", getattr(model, "cluster_weights_", None))
    shares = counts / counts.sum() if weights is None else as_array(weights) / as_array(weights).sum()
    order = np.argsort(-shares, kind="stable")
    classes = [str(name) for name in getattr(model, "classes_", ())]
    last = len(centres) - 1
    names = ["noise" if has_noise and k == last else classes[k] if k < len(classes) else str(k) for k in order]
    text = "Every component: its share of p(x), the number of rows assigned to it here, and its centre."
    if subject.is_image:
        own = order[order < last] if has_noise else order
        drawn = picture(subject.images(centres[own]), f"centres of {len(centres)} components", subject.limits)
        cells = pd.DataFrame(
            {"component": names, "share": shares[order], "rows": counts[order], **by_class(subject, number, order)}
        )
        return "Components", text, side_by_side({"centres, largest share first": drawn, "": table(cells)})
    cells = pd.DataFrame(centres[order], columns=subject.names)
    leading = {"component": names, "share": shares[order], "rows": counts[order], **by_class(subject, number, order)}
    for place, (name, values) in enumerate(leading.items()):
        cells.insert(place, name, values, allow_duplicates=True)
    return "Components", text, table(cells, sortable=True)


def by_class(subject: Subject, number: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
    """If there are labels: the number of rows of every class in each component, largest share first."""
    labels = np.array(subject.labels or [])
    found = [label for label in dict.fromkeys(labels.tolist()) if label]
    if len(found) > MOST_CLASSES:
        return {}
    return {f"of {label}": np.bincount(number[labels == label], minlength=len(order))[order] for label in sorted(found)}


def centres_of(model: Any) -> np.ndarray | None:
    found: Any = getattr(model, "means_", getattr(model, "cluster_centers_", None))
    return None if found is None else as_array(found.toarray() if hasattr(found, "toarray") else found)


def as_number(model: Any, rows: Any, n: int) -> np.ndarray:
    """The component of every row; after a labelled fit `predict` returns classes."""
    if hasattr(model, "predict_proba"):
        return np.asarray(as_array(model.predict_proba(rows)).argmax(1))
    return np.asarray(np.clip(as_array(model.predict(rows)).astype(int), 0, n - 1))


def curve(subject: Subject) -> Made:
    """A latent curve or surface among the rows."""
    model = subject.model
    if not hasattr(model, "magnification"):
        return None
    is_curve = hasattr(model, "curve")
    points = as_array(model.curve(200) if is_curve else model.surface(15))
    shown = subject.few(charts.MOST_MARKS // 2)
    rows = shown.frame.to_numpy(dtype=np.float64)
    filled = np.where(np.isnan(rows), np.nanmean(rows, 0), rows)
    middle = filled.mean(0)
    plane = np.linalg.svd(filled - middle, full_matrices=False)[2][:2].T
    if plane.shape[1] < 2:
        return None
    path = (points.reshape(-1, points.shape[-1]) - middle) @ plane
    paths = [path] if is_curve else grid_lines(path)
    z = (filled - middle) @ plane
    summary = "The rows and the curve in the plane of the first two principal axes"
    drawn = charts.scatter(by_label(shown, z[:, 0], z[:, 1]), "first axis", "second axis", summary, line=paths)
    return ("The curve" if is_curve else "The surface"), summary + ".", drawn


def grid_lines(path: np.ndarray) -> list[np.ndarray]:
    side = round(len(path) ** 0.5)
    square = path.reshape(side, side, 2)
    return [*square, *square.transpose(1, 0, 2)]


def least_likely(subject: Subject) -> Made:
    """The rows with the lowest scores."""
    scored, values, what, worst = lowest_scores(subject)
    if values is None:
        return None
    order = np.argsort(values)[:8]
    shown = scored.some(order)
    among = "" if scored.n_rows == subject.n_rows else f" Out of {scored.n_rows} of {subject.n_rows} rows"
    if subject.nats is None and subject.quick.is_short:
        draws = subject.quick.option.replace("_", " ")
        among = f"{among or ' Scored'} with {subject.quick.n_draws} {draws} per row instead of {subject.quick.usual}"
    among += "." if among else ""
    title = worst
    if subject.is_image:
        captions = [f"row {shown.number(i)}: {number(float(value))}" for i, value in enumerate(values[order])]
        drawn = picture(subject.images(shown.rows), worst.lower(), subject.limits, len(order))
        listed = "".join(f"<li>{caption}</li>" for caption in captions)
        return title, f"From left to right, with their {what}.{among}", drawn + f'<ol class="captions">{listed}</ol>'
    if subject.is_documents:
        cells = pd.DataFrame({beginning(subject): excerpts(subject, order)})
    else:
        cells = shown.frame.reset_index(drop=True)
    cells.insert(0, what, values[order], allow_duplicates=True)
    cells.insert(0, "row", [shown.number(i) for i in range(len(order))], allow_duplicates=True)
    body = table(cells, sortable=True)
    body = f'<div class="prose">{body}</div>' if subject.is_documents else body
    return title, f"Sorted by {what}, lowest first.{among}", body


def lowest_scores(subject: Subject) -> tuple[Subject, np.ndarray | None, str, str]:
    """The rows that are scored, a value for each, the name of this value, and a title for the lowest."""
    model = subject.model
    if subject.nats is not None:
        return subject, subject.nats, "nats", "Least likely rows"
    if hasattr(model, "reconstruction_error"):
        errors = -as_array(model.reconstruction_error(subject.model_rows))
        return subject, errors, "negative error", "Rows with the largest reconstruction error"
    if is_regressor(model):
        if subject.y is None:
            return subject, None, "", ""
        return (
            subject,
            as_array(model.score_samples(subject.model_rows, as_array(subject.y))),
            "nats",
            "Least likely rows",
        )
    if not hasattr(model, "score_samples"):
        return subject, None, "", ""
    some = subject.some(subject.quick.some(subject.n_rows))
    if subject.is_documents:
        return some, nats_per_word(some), "nats per word", "Least likely rows"
    return some, quick_scores(model, some.model_rows, subject.quick), "nats", "Least likely rows"


PANELS: dict[str, Callable[[Subject], Made]] = {
    "Topics": topics,
    "Typical documents": typical,
    "Shares of topics": topic_shares,
    "Document completion": completion,
    "Coefficients": coefficients,
    "Predictions": predictions,
    "Terms of the bound": terms,
    "Training": history,
    "Samples beside real rows": samples,
    "The latent map": hidden,
    "Components": components,
    "The curve": curve,
    "Bound by noise level": levels,
    "Reconstructions": reconstructions,
    "Imputations": imputations,
    "Least likely rows": least_likely,
}
