"""Optimal transport between many rows and a few stores of limited size.

    min Σ_ij f_ij c_ij   subject to   Σ_j f_ij = w_i,   a ≤ Σ_i f_ij ≤ b,   f ≥ 0
This linear programme is solved exactly on the few pairs that can matter: those that are cheap at near-optimal prices p
of the stores, which maximise the dual Σ_i w_i min_j (c_ij + p_j) - Σ_j (b p_j⁺ - a p_j⁻). The prices of the solution
show which pairs were left out wrongly; these are added until there are none. If w, a and b are whole numbers, so are
the flows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_array, vstack
from scipy.special import logsumexp

# Tolerance of prices relative to the range of the costs, the smallest that the solver accepts. With the default of 1e-7
# an assignment can cost more than the previous one.
TOLERANCE = 1e-10


def transport(cost: np.ndarray, supply: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """The cheapest flows (n, K) for costs (n, K) and supplies (n,); the limits must admit the total supply."""
    n, k = cost.shape
    scale, unit = float(cost.max() - cost.min()) or 1.0, float(supply.mean())
    cost = (cost - cost.min()) / scale
    whole = all(np.array_equal(value, np.rint(value)) for value in (supply, lower, upper))
    # The solver's tolerances are absolute.
    supply, lower, upper = supply / unit, lower / unit, upper / unit
    priced = cost + near_optimal_prices(cost, supply, lower, upper)
    excess = priced - priced.min(1, keepdims=True)
    n_pairs = 2 * n
    active = np.zeros((n, k), dtype=bool)
    while True:
        if n_pairs:
            active |= excess <= np.partition(excess, min(n_pairs, n * k) - 1, axis=None)[min(n_pairs, n * k) - 1]
        solution = cheapest(cost, supply, lower, upper, active)
        if solution is None:
            if active.all():
                raise ArithmeticError(f"no transport found between {n} rows and {k} stores of {lower} to {upper}")
            n_pairs *= 2
            continue
        flow, reduced = solution
        missed = (reduced < -TOLERANCE) & ~active
        if not missed.any():
            return np.rint(flow * unit) if whole else flow * unit
        active |= missed
        n_pairs = 0


def near_optimal_prices(cost: np.ndarray, supply: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Prices (K,) that maximise the dual with a smoothed minimum over stores."""
    k = cost.shape[1]
    temperature = 0.01 * float(np.median(cost.max(1) - cost.min(1))) or 1e-3
    total = float(supply.sum())

    def loss(both: np.ndarray) -> tuple[float, np.ndarray]:
        raised, lowered = both[:k], both[k:]
        logits = -(cost + (raised - lowered)) / temperature
        log_sum = logsumexp(logits, axis=1, keepdims=True)
        served = supply @ np.exp(logits - log_sum)
        dual = -temperature * (supply @ log_sum[:, 0]) - upper * raised.sum() + lower * lowered.sum()
        slope = np.concatenate([served - upper, lower - served])
        return -dual / total, -slope / total

    start = np.zeros(2 * k)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * k), options={"maxiter": 100})
    return np.asarray(found.x[:k] - found.x[k:])


def cheapest(
    cost: np.ndarray, supply: np.ndarray, lower: float, upper: float, active: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The best flows over active pairs and the reduced costs of all pairs, or None if these pairs are infeasible."""
    n, k = cost.shape
    row, store = np.nonzero(active)
    pair, ones = np.arange(len(row)), np.ones(len(row))
    from_rows = csr_array((ones, (row, pair)), shape=(n, len(row)))
    to_stores = csr_array((ones, (store, pair)), shape=(k, len(row)))
    found: Any = linprog(  # type: ignore[call-overload]  # the stubs omit sparse constraints
        cost[row, store],
        A_eq=from_rows,
        b_eq=supply,
        A_ub=vstack([to_stores, -to_stores]),
        b_ub=np.concatenate([np.full(k, upper), np.full(k, -lower)]),
        method="highs-ds",
        options={"dual_feasibility_tolerance": TOLERANCE, "primal_feasibility_tolerance": TOLERANCE},
    )
    if found.status == 2:
        return None
    if found.status != 0:
        raise ArithmeticError(f"scipy's linear programme ended with: {found.message}")
    flow = np.zeros((n, k))
    flow[row, store] = found.x
    of_stores = found.ineqlin.marginals[:k] - found.ineqlin.marginals[k:]
    return flow, cost - found.eqlin.marginals[:, None] - of_stores
