"""K-means by the EM engine: of rows in memory, and of rows that a scan reads block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from jensen.contract import Rows, Stream
from jensen.contract.scanning import survey
from jensen.engines.em import loop as em
from jensen.files.scan import Scan
from jensen.models.clusters.centres import Pull
from jensen.models.clusters.kmeans_arguments import check_streamed, check_sums
from jensen.models.clusters.kmeans_em import KMeansProblem, kmeans_problem
from jensen.models.clusters.kmeans_start import Start, centre_starts, drawn_to, init_of_varying


def fit_rows(
    model: Any,
    rows: Rows,
    start: Start,
    generator: torch.Generator,
    pull: Pull | None,
    limits: tuple[float, float] | None = None,
) -> tuple[KMeansProblem, em.Fit[Any, Any]]:
    """Find the centres of a model; it keeps them."""
    problem, frame = kmeans_problem(rows, start, model._share_of(rows.x) * model.tol, pull, limits)
    fitted = model._run(problem, generator, model._n_init)
    model.n_iter_, model.converged_ = fitted.n_iter, fitted.converged
    running = em.Running(fitted.stats * (1 / fitted.weight), fitted.weight)
    # Limits hold for all rows, never for a batch of them.
    model._keep_stream(Stream(frame, replace(problem.verbs, limits=None), running, fitted.theta))
    return problem, fitted


def fit_scan(model: Any, scan: Scan) -> None:
    """Fit rows that are not in memory. labels_ would be as long as the table; `predict` returns them block by block."""
    check_sums(model)
    check_streamed(model)
    rows, pull, metric = survey(model, scan), model._pull(), model._metric
    sample = rows.x.numpy()
    init = init_of_varying(model.init, sample, rows.kind, model.n_clusters, metric)
    weight = None if rows.weight is None else rows.weight.numpy()
    start = centre_starts(sample, weight, model.n_clusters, init, metric)
    if pull is not None and pull.chooses and isinstance(model.init, str):
        start = drawn_to(pull, start)
    fit_rows(model, rows, start, model._generator(), pull)
    model._kind = rows.kind.of_other_rows()
    if hasattr(model, "labels_"):
        del model.labels_
