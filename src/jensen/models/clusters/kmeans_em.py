"""From the arguments of k-means and its rows to the problem EM solves: q restricted to one-hot, and what limits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.contract import Problem
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch, Footprint, Summary
from jensen.engines.em.frame import Frame, one_unit
from jensen.engines.em.seeding import distinct_rows
from jensen.engines.em.sources import ArraySource
from jensen.models.clusters.centres import CentreMoments, Pull, moments_of, optimal_centres, partial_distances
from jensen.models.clusters.kmeans_lines import Customers, search_lines
from jensen.models.clusters.kmeans_moves import Clusters, search_moves
from jensen.models.clusters.transport import transport
from jensen.runtime.memory import need_memory

__all__ = ["KMeansVerbs", "checked_limits", "dense_rows", "kmeans_problem", "served_by", "without_effect"]


# Takes verbs and centres to centres that cost no more, or about no more where it looks at some rows alone.
Search = Callable[["KMeansVerbs", Tensor], Tensor]
# Steps without a better solution that end in a search; fewer than em.fit waits for.
CIRCLES = 10
# Distinct rows a search along lines looks at, at most.
SEARCHED = 5000


@dataclass(frozen=True)
class KMeansVerbs:
    """The verbs of k-means; theta is the centres (K, d), and the objective is -cost.

    Args:
        pull: of a depot.
        limits: the least and the most weight a centre may serve.
    """

    pull: Pull | None
    limits: tuple[float, float] | None

    def e_step(self, theta: Tensor, batch: Batch) -> Summary[CentreMoments]:
        distance = partial_distances(batch.x, batch.observed, theta)
        q = self.choose(theta, distance, batch.weight)
        if self.pull is not None:
            distance = distance + self.pull.supply(theta)[:, None]
        moments = moments_of(q, batch)
        return Summary(moments, -(q * distance).sum(), moments.weight.sum())

    def choose(self, theta: Tensor, distance: Tensor, weight: Tensor | None) -> Tensor:
        """How much of every row's weight goes to every centre (K, n): all of it to one, unless limits split a row."""
        cost = distance
        if self.pull is not None and self.pull.chooses:
            cost = distance + self.pull.supply(theta)[:, None]
        ones = torch.ones_like(distance[0]) if weight is None else weight
        if self.limits is not None:
            return torch.from_numpy(transport(cost.T.numpy(), ones.numpy(), *self.limits)).T
        return torch.zeros_like(distance).scatter_(0, cost.argmin(0, keepdim=True), ones[None])

    def m_step(self, theta: Tensor, stats: CentreMoments) -> Tensor:
        return optimal_centres(stats, self.pull)

    def resolution(self, theta: Tensor) -> float:
        return 0.0

    def log_prior(self, theta: Tensor) -> Tensor:
        return theta.new_zeros(())


def kmeans_problem(
    x: np.ndarray,
    weight: np.ndarray | None,
    start: Callable[[torch.Generator], np.ndarray],
    tol: float,
    pull: Pull | None = None,
    limits: tuple[float, float] | None = None,
    frame: Frame | None = None,
) -> tuple[Problem, Frame]:
    """The problem in the frame's units, None taking them from the rows; all else is in the user's.

    Args:
        x: rows (n, d).
        weight: (n,), or None.
        start: draws centres (K, d).
        tol: stop when the centres move by less, squared and relative to the mean variance.
        pull: of a depot.
        limits: the least and the most weight a centre may serve.
        frame: the engine's coordinates.
    """
    # torch warns of arrays that it could write to but must not.
    values = torch.from_numpy(x if x.flags.writeable else x.copy())
    mass = None if weight is None else torch.from_numpy(weight)
    frame = frame or isotropic_frame(values, mass)
    verbs = KMeansVerbs(None if pull is None else pull.within(frame.origin, frame.scale), limits)
    source = ArraySource(
        values.T.clone(memory_format=torch.contiguous_format),
        frame,
        weight=mass,
        footprint=Footprint(per_row=2 * x.shape[1] + 16, per_block=1),
        by_pattern=False,
        # Limits couple all rows.
        in_one=limits is not None,
    )

    def begin(generator: torch.Generator) -> Tensor:
        return (torch.from_numpy(start(generator)) - frame.origin) / frame.scale

    def has_settled(old: em.State[Any, Any], new: em.State[Any, Any]) -> bool:
        # scikit-learn's rule: in these units the mean variance is 1.
        return bool((new.theta - old.theta).square().sum() <= tol)

    # A customer who goes to the nearest store may cost more than before.
    is_monotone = pull is None or pull.chooses
    search: Search | None = None
    if is_monotone and limits is not None:
        search = moves(source)
    elif not is_monotone and limits is None:
        search = lines(x, weight, frame)
    algorithm = refilling(source, has_settled, search, resumes=is_monotone)
    problem = Problem(verbs, source, begin, lambda theta, cost, w: cost, has_settled, algorithm, is_monotone)
    return problem, frame


def dense_rows(x: Any) -> np.ndarray:
    """An array or a CSR matrix, written out."""
    if hasattr(x, "toarray"):
        need_memory(
            2 * 8 * x.shape[0] * x.shape[1],
            f"X of shape {x.shape}, which is sparse, written out",
            "without depot, size_limits and missing values it stays sparse; or give fewer features",
        )
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


def checked_limits(limits: Any, n_clusters: int, total: float) -> tuple[float, float] | None:
    """The least and the most weight of a centre, refused where no assignment can keep to them."""
    if limits is None:
        return None
    given = [total if limit is None else limit for limit in limits]
    if len(given) != 2 or not all(isinstance(limit, Real) for limit in given) or not 0 <= given[0] <= given[1]:
        raise ValueError(
            f"size_limits={limits!r} must be two numbers, the least and the most that a centre serves; "
            "None for the most sets no limit"
        )
    least, most = float(given[0]), min(float(given[1]), float(total))
    # Sums of weights are good to about 1e-12 of their size.
    if not n_clusters * least <= total * (1 + 1e-9) or not total <= n_clusters * most * (1 + 1e-9):
        raise ValueError(
            f"size_limits={limits!r} cannot hold: n_clusters={n_clusters} centres serve between {n_clusters * least:g} "
            f"and {n_clusters * most:g}, but there are {total:g}; change the limits or n_clusters"
        )
    return min(least, total / n_clusters), max(most, total / n_clusters)


def without_effect(model: Any, is_plain: bool, limits: tuple[float, float] | None, total: float) -> dict[str, str]:
    """Arguments of k-means that a fit to rows of this weight does not use, and why."""
    unused = {}
    if limits is not None and limits[0] == 0 and limits[1] >= total:
        unused["size_limits"] = "a least of 0 and a most of all the weight limit nothing"
    if model.depot is not None and not model.depot.weight:
        unused["depot"] = "with a weight of 0 the way from the depot costs nothing"
    if not is_plain:
        unused["copy_x"] = "missing values, depot, size_limits and max_iter=0 are fitted on a copy of X"
    return unused


def served_by(problem: Problem, theta: Tensor) -> Tensor:
    """The centre that serves most of every row (n,), within the limits."""
    (batch,), verbs = problem.source, problem.verbs
    assert isinstance(verbs, KMeansVerbs)
    distance = partial_distances(batch.x, batch.observed, theta)
    return verbs.choose(theta, distance, batch.weight).argmax(0)


def isotropic_frame(x: Tensor, weight: Tensor | None) -> Frame:
    """Centred, with one unit for all features, for distances are in the data's own; rows (n, d)."""
    return Frame.of(x.T, weight, one_unit)


def moves(source: ArraySource) -> Search:
    """Centres after rows have changed places within the limits."""

    def search(verbs: KMeansVerbs, theta: Tensor) -> Tensor:
        (batch,) = source
        flows = verbs.choose(theta, partial_distances(batch.x, batch.observed, theta), batch.weight)
        x = batch.x.T.numpy()
        seen = np.ones_like(x) if batch.observed is None else batch.observed.T.to(batch.x.dtype).numpy()
        pull = verbs.pull
        location, weight = (np.zeros(x.shape[1]), 0.0) if pull is None else (pull.location.numpy(), pull.weight)
        assert verbs.limits is not None
        before = Clusters(x, seen, flows.numpy(), verbs.limits, location, weight)
        after = search_moves(before)
        return theta if after is before else verbs.m_step(theta, moments_of(torch.from_numpy(after.flows), batch))

    return search


def lines(x: np.ndarray, weight: np.ndarray | None, frame: Frame) -> Search:
    """Stores after a search along lines; where distinct rows are many, over some of them."""
    # Every start of a fit tries others.
    rng = np.random.default_rng(0)

    def search(verbs: KMeansVerbs, theta: Tensor) -> Tensor:
        assert verbs.pull is not None
        if len(theta) == 1:
            return theta
        numbers, mass, _ = distinct_rows(x, weight, SEARCHED, SEARCHED)
        rows = (x[numbers] - frame.origin.numpy()) / frame.scale.numpy()
        return torch.from_numpy(search_lines(Customers.of(rows, mass, verbs.pull), theta.numpy(), rng))

    return search


def refilling(
    source: ArraySource, has_settled: em.Stop, search: Search | None, resumes: bool
) -> em.Algorithm[Any, Any]:
    """Plain steps; a centre that serves nobody moves to the row that is served worst.

    Where these come to rest or go in circles, a search may find better centres. Steps resume from there, or leave it at
    that.
    """

    def steps(
        verbs: KMeansVerbs, state: em.State[Any, Any], evaluate: em.Evaluate[Any, Any]
    ) -> Iterator[em.State[Any, Any]]:
        best, waited = state, 0
        while True:
            moments: CentreMoments = state.summary.stats
            theta = verbs.m_step(state.theta, moments)
            for empty in (moments.weight == 0).nonzero().flatten().tolist():
                theta[empty] = worst_served(theta, empty, source)
            old, state = state, evaluate(theta)
            best, waited = (state, 0) if state.objective > best.objective else (best, waited + 1)
            if search is not None and (waited == CIRCLES or has_settled(old, state)):
                theta = search(verbs, best.theta)
                found = best if theta is best.theta else evaluate(theta)
                is_better = found.objective > best.objective + 1e-9 * abs(best.objective)
                best = state = found if is_better else best
                if not (is_better and resumes):
                    break
                waited = 0
            yield replace(state, gain=state.objective - old.objective)
        while True:
            yield replace(best, gain=0.0)

    return steps


def worst_served(centres: Tensor, empty: int, source: ArraySource) -> Tensor:
    """The row (d,) farthest from all other centres; what it lacks stays as it is at the empty one."""
    others = torch.arange(len(centres)) != empty
    if not others.any():
        return centres[empty]
    best, farthest = -1.0, centres[empty]
    for batch in source:
        distance = partial_distances(batch.x, batch.observed, centres[others]).amin(0)
        value, column = distance.max(0)
        if float(value) > best:
            row, seen = batch.x[:, column], None if batch.observed is None else batch.observed[:, column]
            best, farthest = float(value), row if seen is None else torch.where(seen, row, centres[empty])
    return farthest
