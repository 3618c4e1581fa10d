"""K-means as EM with hard assignments: E-step, M-step, and the problem to solve for given arguments and rows.

E:  q_ij = 1 for the centre with the least cost r_ij (+ the supply of a depot), within limits on sizes a transport plan
M:  centres with the least Σ_ij w_i q_ij cost_ij
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jensen.contract import Problem, Rows
from jensen.contract.rows import StreamedRows
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Batch, Footprint, Summary
from jensen.engines.em.frame import Frame, one_unit
from jensen.engines.em.seeding import distinct_rows
from jensen.engines.em.sources import Hold, Source
from jensen.models.clusters.centres import CentreMoments, Matrix, Pull, moments_of, optimal_centres, partial_distances
from jensen.models.clusters.depot import Depot
from jensen.models.clusters.kmeans_lines import Customers, search_lines
from jensen.models.clusters.kmeans_moves import Clusters, search_moves
from jensen.models.clusters.lloyd import nearest_sums
from jensen.models.clusters.transport import transport
from jensen.runtime.memory import need_memory

# Takes verbs and centres to centres with no higher cost, or hardly higher if it uses only some of the rows.
Search = Callable[["KMeansVerbs", Tensor], Tensor]
# After this many steps without improvement a search follows; fewer than em.fit waits for.
CIRCLES = 10
# A search along lines uses at most this many distinct rows.
SEARCHED = 5000
# Empty clusters choose among this many rows each.
CANDIDATES = 50


@dataclass(frozen=True)
class KMeansVerbs:
    """E- and M-step; theta is the centres (K, d), and the objective is -cost.

    Args:
        pull: the depot's, in the frame's units.
        limits: least and most weight of a cluster.
    """

    pull: Pull | None
    limits: tuple[float, float] | None

    def e_step(self, theta: Tensor, batch: Batch) -> Summary[CentreMoments]:
        if batch.held is not None:
            return nearest_step(theta, batch)
        distance = partial_distances(batch.x, batch.observed, theta)
        q = self.choose(theta, distance, batch.weight)
        if self.pull is not None:
            distance = distance + self.pull.supply(theta)[:, None]
        moments = moments_of(q, batch)
        return Summary(moments, -(q * distance).sum(), moments.weight.sum())

    def choose(self, theta: Tensor, distance: Tensor, weight: Tensor | None) -> Tensor:
        """How much of each row's weight goes to each centre (K, n): all of it to one, unless limits split a row."""
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


def nearest_step(theta: Tensor, batch: Batch) -> Summary[CentreMoments]:
    """The E-step for complete rows that go to their nearest centre, which are held in rows (n, d)."""
    mass = None if batch.weight is None else batch.weight.numpy()
    weight, first, second = (torch.from_numpy(sums) for sums in nearest_sums(batch.held, mass, theta.numpy()))
    moments = CentreMoments(weight, weight[:, None].expand_as(first), first, second)
    return Summary(moments, -moments.loss(theta), weight.sum())


def in_rows(batch: Batch) -> Any:
    """Complete rows (n, d) as the compiled step takes them; the batch itself where values are missing."""
    return batch if batch.observed is not None else np.ascontiguousarray(batch.x.T.numpy())


@dataclass(frozen=True)
class KMeansProblem(Problem):
    """A problem whose verbs are those of k-means."""

    verbs: KMeansVerbs


def kmeans_problem(
    rows: Rows,
    start: Callable[[torch.Generator], np.ndarray],
    tol: float,
    pull: Pull | None = None,
    limits: tuple[float, float] | None = None,
) -> tuple[KMeansProblem, Frame]:
    """The problem in the units of a frame, and this frame; the arguments are in the user's units.

    Args:
        rows: training rows.
        start: draws centres (K, d).
        tol: stop when the centres move by less, squared and relative to the mean variance.
        pull: the depot's.
        limits: least and most weight of a cluster.
    """
    frame = Frame.of(rows.extent, one_unit)
    verbs = KMeansVerbs(None if pull is None else pull.within(frame.origin, frame.scale), limits)
    # Limits couple all rows, so they come in one batch.
    is_nearest = isinstance(rows, StreamedRows) and pull is None and limits is None
    source = centre_source(rows, frame, in_one=limits is not None, hold=in_rows if is_nearest else None)

    def begin(generator: torch.Generator) -> Tensor:
        return (torch.from_numpy(start(generator)) - frame.origin) / frame.scale

    def has_settled(old: em.State[Tensor, CentreMoments], new: em.State[Tensor, CentreMoments]) -> bool:
        # scikit-learn's rule: in these units the mean variance is 1.
        return bool((new.theta - old.theta).square().sum() <= tol)

    # If customers go to the nearest store, a step can raise the cost.
    is_monotone = pull is None or pull.chooses
    search: Search | None = None
    if is_monotone and limits is not None:
        search = moves(source)
    elif not is_monotone and limits is None:
        search = lines(rows.x.numpy(), None if rows.weight is None else rows.weight.numpy(), frame)
    algorithm = refilling(source, has_settled, search, resumes=is_monotone)
    problem = KMeansProblem(verbs, source, begin, lambda theta, cost, w: cost, has_settled, algorithm, is_monotone)
    return problem, frame


def centre_source(rows: Rows, frame: Frame, in_one: bool = False, hold: Hold | None = None) -> Source:
    """Rows for the engine, in the frame's units."""
    footprint = Footprint(per_row=2 * rows.x.shape[1] + 16, per_block=1)
    return rows.source(frame, footprint=footprint, by_pattern=False, in_one=in_one, hold=hold)


def tensor_of(x: np.ndarray) -> Tensor:
    """The same numbers; a copy if x is read-only, about which torch would warn."""
    return torch.from_numpy(x if x.flags.writeable else x.copy())


def dense_rows(x: Matrix) -> np.ndarray:
    """An array, or a CSR matrix as a dense array."""
    if isinstance(x, np.ndarray):
        return np.asarray(x, dtype=np.float64)
    need_memory(
        2 * 8 * x.shape[0] * x.shape[1],
        f"a sparse X of shape {x.shape} as a dense array",
        "complete rows without depot, size_limits and another metric stay sparse; or give fewer features",
    )
    return np.asarray(x.toarray(), dtype=np.float64)


def checked_limits(limits: Sequence[float | None] | None, n_clusters: int, total: float) -> tuple[float, float] | None:
    """The least and the most weight of a cluster; an error if no assignment can satisfy them."""
    if limits is None:
        return None
    given = [total if limit is None else limit for limit in limits]
    if len(given) != 2 or not all(isinstance(limit, Real) for limit in given) or not 0 <= given[0] <= given[1]:
        raise ValueError(
            f"size_limits={limits!r} must be two numbers, the least and the most weight of a cluster; "
            "None for the most sets no limit"
        )
    least, most = float(given[0]), min(float(given[1]), float(total))
    # Sums of weights have a relative error of about 1e-12.
    if not n_clusters * least <= total * (1 + 1e-9) or not total <= n_clusters * most * (1 + 1e-9):
        raise ValueError(
            f"size_limits={limits!r} cannot be satisfied: n_clusters={n_clusters} clusters hold between "
            f"{n_clusters * least:g} and {n_clusters * most:g}, but X has {total:g}; change the limits or n_clusters"
        )
    return min(least, total / n_clusters), max(most, total / n_clusters)


def without_effect(
    depot: Depot | None, is_plain: bool, limits: tuple[float, float] | None, total: float
) -> dict[str, str]:
    """Arguments of k-means that have no effect for rows of this total weight, and why."""
    unused = {}
    if limits is not None and limits[0] == 0 and limits[1] >= total:
        unused["size_limits"] = "a least of 0 and a most of the total weight limit nothing"
    if depot is not None and not depot.weight:
        unused["depot"] = "with a weight of 0 supply from the depot costs nothing"
    if not is_plain:
        unused["copy_x"] = "missing values, depot, size_limits, other metrics and max_iter=0 are fitted on a copy of X"
    return unused


def served_by(problem: KMeansProblem, theta: Tensor) -> Tensor:
    """The centre that most of each row's weight goes to (n,), within the limits."""
    (batch,) = problem.source
    distance = partial_distances(batch.x, batch.observed, theta)
    return problem.verbs.choose(theta, distance, batch.weight).argmax(0)


def moves(source: Source) -> Search:
    """A search that moves rows between clusters within the limits."""

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
    """A search that moves stores along lines, using a part of the distinct rows if there are many."""
    # Shared by all starts of a fit, so each of them tries other lines.
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
    source: Source, has_settled: em.Stop, search: Search | None, resumes: bool
) -> em.Algorithm[Tensor, CentreMoments]:
    """Plain steps; an empty cluster's centre moves to the row with the largest distance.

    When the steps have converged or run in circles, `search` looks for better centres. `resumes` continues with plain
    steps from there; otherwise the fit ends.
    """

    def steps(
        verbs: KMeansVerbs, state: em.State[Tensor, CentreMoments], evaluate: em.Evaluate[Tensor, CentreMoments]
    ) -> Iterator[em.State[Tensor, CentreMoments]]:
        best, waited = state, 0
        while True:
            moments: CentreMoments = state.summary.stats
            theta = verbs.m_step(state.theta, moments)
            theta = refilled(theta, moments.weight == 0, source)
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


def refilled(centres: Tensor, is_empty: Tensor, source: Source) -> Tensor:
    """Centres (K, d), the empty ones moved to rows far from all others; a row's missing values stay the centre's."""
    if not is_empty.any() or is_empty.all():
        return centres
    centres, numbers = centres.clone(), is_empty.nonzero().flatten().tolist()
    pool = em.total(source, partial(far_rows, centres[~is_empty], CANDIDATES * len(numbers)))
    x, observed = pool.x, ~pool.x.isnan()
    least = pool.distance
    for number in numbers:
        row = int(least.argmax())
        centres[number] = torch.where(observed[:, row], x[:, row], centres[number])
        own = partial_distances(x.nan_to_num(), observed, centres[number][None])[0]
        least = least.minimum(own)
    return centres


@dataclass(frozen=True)
class FarRows:
    """The `most` rows x (d, n) with the largest distances (n,) from their nearest centre; those of parts add."""

    most: int
    distance: Tensor
    x: Tensor

    def __add__(self, other: FarRows) -> FarRows:
        distance = torch.cat([self.distance, other.distance])
        order = distance.argsort(descending=True, stable=True)[: self.most]
        return FarRows(self.most, distance[order], torch.cat([self.x, other.x], 1)[:, order])


def far_rows(centres: Tensor, most: int, batch: Batch) -> FarRows:
    x = batch.x if batch.held is None else torch.from_numpy(batch.held).T
    distance = partial_distances(x, batch.observed, centres).amin(0)
    if batch.weight is not None:
        distance = distance.where(batch.weight > 0, 0)
    order = distance.argsort(descending=True, stable=True)[:most]
    own = x[:, order]
    if batch.observed is not None:
        own = own.where(batch.observed[:, order], torch.nan)
    return FarRows(most, distance[order], own)
