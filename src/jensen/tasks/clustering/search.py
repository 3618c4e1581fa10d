"""The mixture that clusters come from: structure and number of components by BIC, then with and without noise.

Every structure is a step: `select` fits it with 1, 2, 3, ... components, with its guards against degenerate fits. If
the best number is the largest, the best structures are tried with more. The best few are fitted again with noise. Large
tables are searched on some of their rows, and the winner is fitted to all.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from jensen.data.container import n_rows
from jensen.data.some import check_same_columns
from jensen.evaluate.flaws import flaw_of
from jensen.evaluate.select import select
from jensen.evaluate.trial import FAILURES, Task
from jensen.evaluate.warm_starts import run
from jensen.models.factors.mixtures import MixtureOfFactorAnalysers
from jensen.models.mixtures.families.choice import learn_for_families
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.models.mixtures.gaussians import MCLUST
from jensen.models.mixtures.mixture import Mixture
from jensen.runtime.interrupt import InterruptedFitWarning, propagating_interrupts
from jensen.runtime.messages import levels_inside, own_filters
from jensen.runtime.progress import Bar
from jensen.tasks.clustering.rows import Rows, Scaled

# Structures for a first look, and those of mixed tables: none depends on the units of a column.
FEW = ("VVI", "EEE", "VEV", "VVV")
UNIT_FREE = ("EEI", "VVI", "EEE", "VVV")
# Dimensions of the subspaces in wide tables.
LATENT = (1, 2, 4, 8)
# A component needs this many rows on average.
ROWS_PER_COMPONENT = 10


@dataclass(frozen=True)
class Effort:
    """
    Args:
        n_rows: rows that the search uses.
        structures: of covariances, in narrow tables of numbers.
        first: numbers of components up to this one are tried.
        most: the search ends here, if the best number is at the edge again and again.
        n_best: so many of the best structures are tried with more components, and with noise.
        is_warm: whether fits also start from those with one component more or less.
        n_resamples: halves of the rows by which stability is measured.
    """

    n_rows: int
    structures: tuple[str, ...]
    first: int
    most: int
    n_best: int
    is_warm: bool
    n_resamples: int


EFFORTS = {
    "quick": Effort(1000, FEW, 4, 12, 1, False, 5),
    "normal": Effort(3000, MCLUST, 6, 20, 3, False, 10),
    "thorough": Effort(10_000, MCLUST, 9, 40, 3, True, 30),
}


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture and its row in the table of what was tried."""

    model: Any
    bic: float
    structure: str


@dataclass(frozen=True, eq=False)
class Found:
    """The best fit, to all rows in the units of the search, and a table of all that was tried."""

    fit: Fit
    tried: pd.DataFrame


def candidates(rows: Rows, structures: Sequence[str], seed: int) -> dict[str, Any]:
    """Mixtures that suit the columns, by the name of their structure."""
    if not rows.are_numbers:
        kinds = UNIT_FREE if rows.n_numbers > 1 else UNIT_FREE[:2] if rows.n_numbers else UNIT_FREE[:1]
        # One pseudo-count for every level, so that no combination of levels is impossible.
        return {name: Mixture(covariance_type=name, alpha=1.0, random_state=seed) for name in kinds}
    if not rows.is_wide:
        # Of one column a structure has only a volume.
        names = structures if rows.n_columns > 1 else ("EII", "VII")
        return {name: GaussianMixture(covariance_type=name, random_state=seed) for name in names}
    found: dict[str, Any] = {name: GaussianMixture(covariance_type=name, random_state=seed) for name in ("EEI", "VVI")}
    for m in LATENT:
        found[f"{m} factors"] = MixtureOfFactorAnalysers(n_latent=m, random_state=seed)
    return found


def search(rows: Rows, scaled: Scaled, effort: Effort, least: int, tries_noise: bool, seed: int, bar: Bar) -> Found:
    """The best mixture with at least so many components. Ctrl-C ends the search, and the best so far is kept."""
    n = rows.n_rows
    part = scaled
    if n > effort.n_rows:
        part = scaled.take(np.sort(np.random.default_rng(seed).choice(n, effort.n_rows, replace=False)))
    fits: dict[str, Fit] = {}
    tables: list[pd.DataFrame] = []
    try:
        for fit, table in steps(rows, part, effort, least, tries_noise, seed, bar, fits):
            tables.append(table)
            if fit is not None and (fit.structure not in fits or fit.bic < fits[fit.structure].bic):
                fits[fit.structure] = fit
    except KeyboardInterrupt:
        if not fits:
            raise
        warnings.warn(
            f"the search was interrupted after {len(fits)} structures; the best so far is kept",
            InterruptedFitWarning,
            stacklevel=levels_inside(),
        )
    if not fits:
        reasons = [reason for table in tables for reason in table["failure"] if reason]
        raise ValueError(f"no mixture can be fitted to the table: {reasons[0] if reasons else 'every fit failed'}")
    best = min(fits.values(), key=lambda fit: fit.bic)
    tried = pd.concat(tables, ignore_index=True)
    is_best = (tried["structure"] == best.structure) & np.isclose(tried["bic"], best.bic, rtol=1e-12)
    tried["chosen"] = np.arange(len(tried)) == int(np.flatnonzero(is_best)[-1])
    if part is not scaled:
        whole = refitted(best.model, scaled.X)
        best = best if whole is None else replace(best, model=whole)
    return Found(best, tried.sort_values("bic", kind="stable", ignore_index=True))


def refitted(model: Any, X: Any) -> Any:
    """The model of a part of the rows fitted to all of them; None if it cannot be.

    It starts from where it is, unless a column is something else in all rows: one negative value is enough for a column
    not to be bounded by 0, and parameters of its logarithm then mean nothing.
    """
    task = task_of(X)
    if is_of_same_columns(model, X):
        return run(model, model.theta_, task)
    with own_filters():
        warnings.simplefilter("ignore")
        try:
            return task.fit(clone(model))
        except FAILURES:
            return None


def is_of_same_columns(model: Any, X: Any) -> bool:
    if not hasattr(model, "columns_"):
        return True
    try:
        check_same_columns(model.columns_, learn_for_families(X, model.families, model.columns))
    except ValueError:
        return False
    return True


def steps(
    rows: Rows,
    part: Scaled,
    effort: Effort,
    least: int,
    tries_noise: bool,
    seed: int,
    bar: Bar,
    fits: dict[str, Fit],
) -> Iterator[tuple[Fit | None, pd.DataFrame]]:
    """A fit, or None, and its lines in the table, for every structure; `fits` holds the best so far."""
    models = candidates(rows, effort.structures, seed)
    most = max(least, min(effort.most, n_rows(part.X) // ROWS_PER_COMPONENT))
    top = min(most, max(effort.first, least + 3))
    tries_noise = tries_noise and not (rows.are_numbers and rows.is_wide)
    n_steps = len(models) + effort.n_best * tries_noise + effort.n_resamples
    bar.expect(n_steps)
    for name, model in models.items():
        bar.note(name)
        yield measured(name, model, part, range(least, top + 1), effort.is_warm, seed)
        bar.update()
    # The names of fits without noise, so far.
    while top < most and fits:
        lead = sorted(fits.values(), key=lambda fit: fit.bic)[: effort.n_best]
        if lead[0].model.n_components < top:
            break
        higher = range(top + 1, min(most, top + effort.first) + 1)
        n_steps += len(lead)
        bar.expect(n_steps)
        for fit in lead:
            bar.note(f"{fit.structure}, more components")
            yield measured(fit.structure, models[fit.structure], part, higher, effort.is_warm, seed)
            bar.update()
        top = higher[-1]
    if tries_noise:
        for fit in sorted(fits.values(), key=lambda fit: fit.bic)[: effort.n_best]:
            bar.note(f"{fit.structure} with noise")
            for k in range(max(least, fit.model.n_components - 1), fit.model.n_components + 1):
                yield with_noise(fit, k, part)
            bar.update()


def measured(
    name: str, model: Any, part: Scaled, ks: range, is_warm: bool, seed: int
) -> tuple[Fit | None, pd.DataFrame]:
    """The best fit of one structure, and all of them in a table."""
    began = time.perf_counter()
    with own_filters():
        # A choice at the edge of the grid, or of a degenerate fit, is dealt with here.
        warnings.simplefilter("ignore")
        try:
            # Ctrl-C ends the whole search, not this part of it.
            with propagating_interrupts():
                chosen = select(model, part.X, {"n_components": ks}, "bic", warm_start=is_warm, random_state=seed)
        except FAILURES as error:
            seconds = time.perf_counter() - began
            return None, line(name, ks[0], False, np.nan, seconds=seconds, failure=" ".join(str(error).split()))
    table = chosen.table
    lines = pd.DataFrame(
        {
            "structure": name,
            "n_components": table["n_components"],
            "noise": False,
            "bic": table["bic"] - 2 * part.log_jacobian,
            "n_parameters": table["n_parameters"],
            "seconds": table["seconds"],
            "degenerate": table["degenerate"],
            "failure": table["failure"],
        }
    )
    if table["degenerate"][chosen.best_index]:
        return None, lines
    return Fit(chosen.winner, float(lines["bic"][chosen.best_index]), name), lines


def with_noise(fit: Fit, n_components: int, part: Scaled) -> tuple[Fit | None, pd.DataFrame]:
    """The same structure with noise, from its own start and, with as many components, from the fit without."""
    began, name = time.perf_counter(), fit.structure
    task = task_of(part.X)
    entry = type(fit.model)(**fit.model.get_params() | {"noise": True, "n_components": n_components})
    with own_filters():
        warnings.simplefilter("ignore")
        try:
            models = [task.fit(entry)]
        except FAILURES:
            models = []
        if n_components == fit.model.n_components and (near := run(entry, fit.model.theta_, task)) is not None:
            models.append(near)
        models = [model for model in models if not flaw_of(model, task)]
    seconds = time.perf_counter() - began
    if not models:
        return None, line(
            name, n_components, True, np.nan, seconds=seconds, failure="every fit with noise is degenerate"
        )
    model = min(models, key=part.bic)
    bic = part.bic(model)
    return Fit(model, bic, name), line(name, n_components, True, bic, model.n_parameters_, seconds)


def line(
    name: str,
    n_components: int,
    noise: bool,
    bic: float,
    n_parameters: int | None = None,
    seconds: float = 0.0,
    failure: str = "",
) -> pd.DataFrame:
    """One line of the table."""
    return pd.DataFrame(
        {
            "structure": [name],
            "n_components": [n_components],
            "noise": [noise],
            "bic": [bic],
            "n_parameters": pd.array([n_parameters], dtype="Int64"),
            "seconds": [seconds],
            "degenerate": [""],
            "failure": [failure],
        }
    )


def task_of(X: Any) -> Task:
    return Task(X, None, None, cv=2, n_references=1, seed=0)
