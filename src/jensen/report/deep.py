"""Panels of deep models: the bound of a diffusion by noise level, and reconstructions of an autoencoder."""

from __future__ import annotations

import numpy as np

from jensen.data.container import as_array
from jensen.report import charts
from jensen.report.charts import Series, number
from jensen.report.html import picture
from jensen.report.subject import Subject

# Every level of a diffusion costs a pass through its network: rows for all levels.
N_PROFILED = 10

Made = tuple[str, str, str] | None


def levels(subject: Subject) -> Made:
    """The terms of a diffusion's bound."""
    if not hasattr(subject.model, "bound_by_level"):
        return None
    shown = subject.complete().few(N_PROFILED)
    found = as_array(subject.model.bound_by_level(shown.model_rows))
    nats = found.mean(0)[1:]
    level = np.arange(2, len(nats) + 2)
    text = (
        f"The cost of each noise level, in nats per row: the mean over {shown.n_rows} rows, from little noise (left) "
        f"to much (right). The last step, from level 1 to the row itself, costs {number(float(found.mean(0)[0]))}."
    )
    tips = [f"level {t}: {number(value)} nats" for t, value in zip(level, nats, strict=True)]
    drawn = charts.lines([Series("cost", level, nats, tips)], "level", "nats per row", text)
    return "Bound by noise level", text, drawn


def reconstructions(subject: Subject) -> Made:
    """Images and their reconstructions, for a model without a likelihood."""
    model = subject.model
    if not hasattr(model, "reconstruction_error") or not subject.is_image:
        return None
    shown = subject.few(8)
    back = subject.images(model.reconstruct(shown.model_rows))
    drawn = picture(
        np.concatenate([subject.images(shown.rows), back]), "rows and reconstructions", subject.limits, shown.n_rows
    )
    return "Reconstructions", "Top: real rows. Bottom: their reconstructions.", drawn
