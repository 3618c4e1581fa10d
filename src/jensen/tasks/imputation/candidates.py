"""The models that are tried, sized to the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import mutual_info_score

import jensen
from jensen.tasks.imputation.coding import Coding

# Full covariances up to so many numbers; a small mixture has so many rows per component, and so many at most.
MOST_FULL, ROWS_PER_COMPONENT, MOST_COMPONENTS = 20, 100, 30
# Bins of ranks in which the mutual information of numbers is measured, and the most rows for it.
BINS, MOST_ROWS = 8, 2000


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Args:
        sizes: K of the mixtures of all columns.
        partners: sizes of the groups of columns, one column aside.
        most_groups: groups at most.
        search_rows: rows at most on which models are compared.
        hidden_entries: entries of a column that are hidden, at least; small tables are hidden repeatedly.
        most_repeats: repetitions at most.
        metric_steps: steps in which the metric of nearest rows is learnt.
        most_donors: near rows are found among so many.
        networks: whether a VAE is tried.
    """

    sizes: tuple[int, ...]
    partners: tuple[int, ...]
    most_groups: int
    search_rows: int
    hidden_entries: int
    most_repeats: int
    metric_steps: int
    most_donors: int
    networks: bool = False


EFFORTS = {
    "quick": Effort((3, 10), (4,), 8, 1500, 60, 2, 20, 4000),
    "normal": Effort((1, 3, 10, 20, 40), (4, 7), 60, 5000, 150, 4, 80, 20000),
    "thorough": Effort((1, 2, 3, 5, 10, 20, 40, 80), (3, 5, 8), 200, 20000, 400, 6, 200, 40000, networks=True),
}


@dataclass(frozen=True)
class Candidate:
    """A model of some columns, not fitted yet."""

    name: str
    columns: tuple[int, ...]
    model: Any


def candidates(coding: Coding, x: np.ndarray, targets: Sequence[int], effort: Effort, seed: int) -> Iterator[Candidate]:
    """Models to try on codes (n, d); the constant columns are in none of them."""
    n, every = len(x), tuple(j for j in range(coding.d) if coding.kinds[j] != "constant")
    numbers = [j for j in every if not coding.is_level(j)]
    are_numbers = len(numbers) == len(every) and all(coding.kinds[j] != "count" for j in every)
    if not every:
        return
    structure = "full" if len(numbers) <= MOST_FULL else "diag"
    for k in effort.sizes:
        if k == 1 or n >= 10 * k:
            if are_numbers and len(every) <= MOST_FULL:
                yield Candidate(f"Gaussian mixture, K={k}", every, gaussian(k, seed))
            if not are_numbers or 3 <= k <= 20:
                name = f"mixture, K={k}"
                yield Candidate(name, every, mixture(coding, every, k, seed, covariance_type=structure))
    if are_numbers and len(every) > MOST_FULL // 2:
        for m in (4, 8, 14, 20):
            if m < len(every) and n > 2 * m:
                yield Candidate(f"factor analysers, m={m}", every, analysers(1, m, seed))
    if len(every) > min(effort.partners) + 1:
        near, made = partners(coding, x, every), set()
        k = max(2, min(MOST_COMPONENTS, n // ROWS_PER_COMPONENT))
        wanted = [j for j in targets if j in every][: max(1, effort.most_groups // len(effort.partners))]
        for size in effort.partners:
            for j in wanted:
                group = tuple(sorted([j, *near[j][:size]]))
                if group not in made and len(group) < len(every):
                    made.add(group)
                    name = f"mixture of {len(group)} columns, {len(made)}"
                    options = {"init_params": "random_from_data", "covariance_type": "full"}
                    yield Candidate(name, group, mixture(coding, group, k, seed + len(made), **options))
    if effort.networks:
        yield Candidate("VAE", every, network(coding, every, seed))


def gaussian(k: int, seed: int) -> Any:
    return jensen.GaussianMixture(k, prior=jensen.ConjugatePrior(), random_state=seed)


def mixture(coding: Coding, columns: Sequence[int], k: int, seed: int, **options: Any) -> Any:
    return jensen.Mixture(
        k, columns=kinds_of(coding, columns), prior=jensen.ConjugatePrior(), alpha=0.1, random_state=seed, **options
    )


def analysers(k: int, m: int, seed: int) -> Any:
    return jensen.MixtureOfFactorAnalysers(k, m, prior=jensen.ConjugatePrior(), random_state=seed)


def network(coding: Coding, columns: Sequence[int], seed: int) -> Any:
    kinds: dict[str | int, str] = {
        place: "level" if coding.is_level(j) else "number" for place, j in enumerate(columns)
    }
    return jensen.VAE(columns=kinds, random_state=seed)


def kinds_of(coding: Coding, columns: Sequence[int]) -> dict[str | int, str]:
    """What the columns of an array of codes are; a date is a number of days or seconds there."""
    return {place: "number" if coding.kinds[j] == "date" else coding.kinds[j] for place, j in enumerate(columns)}


def partners(coding: Coding, x: np.ndarray, columns: Sequence[int]) -> dict[int, list[int]]:
    """For every column the others, that with the largest mutual information first."""
    rows = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    binned = {j: x[rows, j] if coding.is_level(j) else bins_of_ranks(x[rows, j]) for j in columns}
    found = np.full((coding.d, coding.d), -np.inf)
    for place, one in enumerate(columns):
        for two in columns[place + 1 :]:
            found[one, two] = found[two, one] = dependence(binned[one], binned[two])
    return {one: sorted((two for two in columns if two != one), key=lambda two: -found[one, two]) for one in columns}


def bins_of_ranks(values: np.ndarray) -> np.ndarray:
    cuts = np.nanquantile(values, np.linspace(0, 1, BINS + 1)[1:-1])
    return np.where(np.isnan(values), np.nan, np.searchsorted(cuts, values))


def dependence(one: np.ndarray, two: np.ndarray) -> float:
    """Mutual information, less what independent columns have on average."""
    both = ~(np.isnan(one) | np.isnan(two))
    if not both.any():
        return 0.0
    sizes = len(np.unique(one[both])), len(np.unique(two[both]))
    return float(mutual_info_score(one[both], two[both]) - (sizes[0] - 1) * (sizes[1] - 1) / (2 * both.sum()))
