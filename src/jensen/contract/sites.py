"""EM over sites whose rows never leave them: every site sums its statistics, and their sum makes one step.

    at every site   S_a = Σ_{i at a} w_i E_q[s(x_i, z)],   L_a = Σ_i w_i ELBO_i       with the θ of one model file
    anywhere        θ ← m_step(θ, Σ_a S_a),   objective (Σ_a L_a + ln prior(θ)) / Σ_a N_a
The statistics of EM add, so this is the step on all rows together, and the prior counts once. The units of the engine
are those of the model that the first step began with, and stay, so that every step raises the same objective.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.contract.problem import Stream
from jensen.contract.rows import Rows
from jensen.contract.scanning import as_scan
from jensen.contract.statistics import Statistics
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Summary
from jensen.engines.em.checkpoint import leaves, restored
from jensen.engines.em.frame import Frame
from jensen.engines.em.streamed import sum_over
from jensen.files.records import checksum, encode
from jensen.files.scan import Block, Scan
from jensen.runtime.messages import levels_inside
from jensen.runtime.threads import threads_for

# Sums over fewer rows than this tell much about each of them.
FEW_ROWS = 20


def units_of(model: Any) -> Frame:
    """The engine's coordinates for a model without rows: those of merges before, or the model's own."""
    units = getattr(model, "units_", None)
    own: Frame = model.theta_.frame() if units is None else Frame(*torch.from_numpy(units))
    return own


def no_rows(model: Any, n_features: int) -> Rows:
    """A table without rows, to get the verbs of a fitted model."""
    x = torch.empty(0, n_features, dtype=torch.float64)
    return Rows(x, None, None, getattr(model, "classes_", np.array([])), model._kind)


def fingerprint(model: Any) -> str:
    """A checksum of all that statistics depend on beside the rows; the same after `save` and `load`."""
    tensors: dict[str, Tensor] = {}
    record = {
        "class": type(model).__name__,
        "theta": model._theta_record(),
        "units": getattr(model, "units_", None),
        "label_weight": float(getattr(model, "label_weight", 1.0)),
    }
    content = json.dumps(encode(record, tensors, "model"))
    return checksum({"content": content}, tensors)


def statistics_of(model: Any, X: Any, y: Any, sample_weight: Any, executor: Any) -> Statistics:
    """The statistics of rows in memory, or of a scan block by block."""
    check_is_fitted(model)
    site = OfTable(without_stream(model))
    X = as_scan(X, y, sample_weight, executor)
    total = sum_over(X, OfBlock(site)) if isinstance(X, Scan) else site(X, y, sample_weight)
    n_rows = int(total.n_rows)
    if n_rows < FEW_ROWS:
        warnings.warn(
            f"statistics of {n_rows} rows tell much about each of them, and those of one row are the row; "
            f"share those of {FEW_ROWS} or more",
            UserWarning,
            stacklevel=levels_inside(),
        )
    return Statistics(
        type(model).__name__,
        fingerprint(model),
        {name: value.clone() for name, value in leaves(total.summary.stats, "stats").items()},
        float(total.summary.bound),
        float(total.summary.weight),
        n_rows,
    )


@dataclass(frozen=True)
class Counted:
    """A sweep, and the number of its rows."""

    summary: Summary[Any]
    n_rows: int

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.summary + other.summary, self.n_rows + other.n_rows)


@dataclass(frozen=True)
class OfTable:
    """The statistics of a table; a model that reads it may change, so each table has a copy of its own."""

    model: Any

    def __call__(self, X: Any, y: Any, sample_weight: Any) -> Counted:
        own = copy(self.model)
        rows = own._read_rows(X, y if own.capabilities.labels else None, sample_weight, reset=False)
        rows = own._varying(rows, is_first=False)
        if not rows.x.shape[1]:
            raise ValueError(f"{type(own).__name__} has no column that varies, and so no statistics; fit other rows")
        counted = rows.n_rows if rows.weight is None else int((rows.weight > 0).sum())
        stream, source = own._resume(rows)
        with threads_for(source.n_numbers):
            return Counted(em.sweep(own._with_bound(stream.verbs), stream.theta, source), counted)


@dataclass(frozen=True)
class OfBlock:
    """The statistics of a block of a scan."""

    table: OfTable

    def __call__(self, block: Block) -> Counted:
        return self.table(block.table, block.y, block.weight)


def without_stream(model: Any) -> Any:
    """A copy whose engine's units depend on its file alone."""
    own = copy(model)
    own._stream, own._is_at_site = None, True
    return own


def merge_into(model: Any, given: Iterable[Any]) -> None:
    """One M-step of the model from the statistics of all sites; its lower bound is that of before the step."""
    check_is_fitted(model)
    if isinstance(given, (Statistics, str, os.PathLike)):
        given = [given]
    sites = [one if isinstance(one, Statistics) else Statistics.load(one) for one in given]
    if not sites:
        raise ValueError("there are no statistics to merge; give those of at least one site")
    check_sites(model, sites)
    total = sites[0]
    for other in sites[1:]:
        total = total + other
    before, n_iter = getattr(model, "_stream", None), getattr(model, "n_iter_", 0)
    model._stream = None
    try:
        old, _ = model._resume(model._no_rows())
        stats = sums_of(old.running.stats, total)
        verbs = model._informed(old, stats)
        objective = (total.bound + float(verbs.log_prior(old.theta))) / total.weight
        has_settled = model._has_settled(objective, total.weight)
        theta = verbs.m_step(old.theta, stats)
    except BaseException:
        model._stream = before
        raise
    running = em.Running(stats * (1 / total.weight), total.weight)
    new = replace(old, verbs=verbs, running=running, theta=theta)
    model.lower_bound_, model.converged_ = model._take_merge(new, old, objective, has_settled)
    model.n_iter_ = n_iter + 1


def has_settled(model: Any, objective: float, weight: float, tol: float) -> bool:
    """Whether the objective differs by less than tol from that of the last step, if that was on rows of this weight."""
    is_same = math.isclose(weight, getattr(model, "total_weight_", 0.0), rel_tol=1e-9)
    return is_same and abs(objective - getattr(model, "lower_bound_", math.inf)) < tol


def keep_merge(model: Any, stream: Stream) -> None:
    """Give the model the parameters of a merge, and the sums for batches that follow."""
    model.theta_, model.total_weight_ = model._presented(stream.theta.outside(stream.frame)), stream.running.weight
    model._stream = stream
    if model._keeps_units:
        model.units_ = torch.stack([stream.frame.origin, stream.frame.scale]).numpy()


def sums_of(like: Any, found: Statistics) -> Any:
    """The statistics as the engine has them; `like` has their shapes."""
    wanted = leaves(like, "stats")
    for name in sorted({*wanted, *found.sums}):
        own, given = wanted.get(name), found.sums.get(name)
        if own is None or given is None or not adds_to(given, own):
            raise ValueError(f"{found.source} does not fit the model in {name}; take the statistics again")
    return restored(like, found.sums, "stats", adds_to)


def adds_to(found: Tensor, like: Tensor) -> bool:
    """Whether sums have the same axes; complete rows have one entry where others have one for every column."""
    axes = zip(found.shape, like.shape, strict=False)
    return found.dtype == like.dtype and found.ndim == like.ndim and all(a == b or 1 in (a, b) for a, b in axes)


def check_sites(model: Any, sites: list[Statistics]) -> None:
    """An error names the first statistics that do not belong to the model; a warning those that look the same."""
    name, own = type(model).__name__, fingerprint(model)
    for one in sites:
        if one.model != name:
            raise ValueError(f"{one.source} is of a {one.model}, and the model is a {name}; give statistics of it")
        if one.fingerprint != own:
            raise ValueError(
                f"{one.source} was taken with other parameters than those of this model; take the statistics of every "
                "site with this model, and merge each of them once"
            )
    for i, one in enumerate(sites):
        for other in sites[:i]:
            if one.bound == other.bound and one.weight == other.weight:
                warnings.warn(
                    f"{one.source} and {other.source} are the same numbers, so that a site may count twice",
                    UserWarning,
                    stacklevel=levels_inside(),
                )
