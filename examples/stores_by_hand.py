"""Stores, customers and a depot: small cases of k-means that can be checked by hand.

    python examples/stores_by_hand.py [picture.png]
(a, b) L(μ) = Σ_i min_j ‖x_i - μ_j‖² falls with every step of k-means, here to the best division of four customers.
(c) Records with c_i customers:  L_C(μ) = Σ_i c_i min_j ‖x_i - μ_j‖², as if every customer were a row.
(d) One store for ((-1, 10), (1, 4)) lies at their mean, -3/7.
(e) A depot at x_D supplies the stores:  L_S(μ) = Σ_i c_i (‖x_i - μ_{y_i}‖² + λ‖μ_{y_i} - x_D‖²), y_i the nearest store.
    Given y:  μ_j = (x̄_j + λ x_D) / (1 + λ). If customers are assigned to the store with the smallest total cost
    ("assigned"), this is plain k-means of the points (x_i + λ x_D) / (1 + λ), with cost
    (loss + λ Σ_i c_i ‖x_i - x_D‖²) / (1 + λ). With the nearest store, alternating steps need not reach the minimum of
    L_S, which may lie where a customer is equally near to two stores; the fit continues with a local search.
(f) With x_D = 10 and λ = 1 the store of (d) moves to 67/14.
Except for (d) and (f), the positions of customers, first guesses, records and depot are made up. stores.py does the
same for the cities of a country.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import Depot, KMeans

PICTURE = picture_path(__doc__)
# Single steps do not converge.
warnings.simplefilter("ignore", ConvergenceWarning)
CUSTOMERS = np.array([[4.0, 7.0], [8.0, 2.0], [5.0, 6.0], [2.0, 7.0]])
GUESS = np.array([[1.0, 5.0], [6.0, 6.0]])
RECORDS = np.array([[6.0, 5], [2, 1], [7, 2], [5, 3], [8, 3], [2, 6], [8, 4], [9, 4]])
COUNTS, DEPOT = np.array([3, 5, 4, 2, 2, 1, 1, 1]), np.array([9.0, 5.0])
STREET, STREET_COUNTS = np.array([[-1.0], [1.0]]), np.array([10, 4])


def loss(x: np.ndarray, stores: np.ndarray, counts: np.ndarray) -> float:
    """L_C(μ) by its formula; L(μ) with counts of 1."""
    return float(counts @ ((x[:, None] - stores) ** 2).sum(-1).min(1))


def divisions(x: np.ndarray, counts: np.ndarray) -> list[float]:
    """The losses of all divisions of the rows between two stores, each store at the mean of its rows."""
    found = []
    for labels in product((0, 1), repeat=len(x)):
        total = 0.0
        for own in (np.array(labels) == 0, np.array(labels) == 1):
            if own.any():
                total += counts[own] @ ((x[own] - np.average(x[own], 0, counts[own])) ** 2).sum(1)
        found.append(total)
    return found


# (a) and (b)
steps = [KMeans(2, init=GUESS, n_init=1, max_iter=n, tol=0.0).fit(CUSTOMERS) for n in range(4)]
losses = [model.inertia_ for model in steps]
print("(a, b) loss of the first guess and after every step:", ", ".join(f"{value:.4f}" for value in losses))
# Tolerances are for rounding where no other reason is given.
assert np.allclose(losses, [loss(CUSTOMERS, model.cluster_centers_, np.ones(4)) for model in steps], rtol=1e-12)
assert abs(losses[0] - 31) < 1e-12, "by hand: 5 + 20 + 1 + 5"
assert np.diff(losses).max() < 0, "every step lowers the loss"
assert abs(losses[-1] - min(divisions(CUSTOMERS, np.ones(4)))) < 1e-12, (
    "and no division of the four customers is better"
)
assert np.allclose(steps[-1].cluster_centers_, [[11 / 3, 20 / 3], [8, 2]])

# (c)
by_record = KMeans(2, n_init=10, random_state=0).fit(RECORDS, sample_weight=COUNTS)
one_by_one = KMeans(2, n_init=10, random_state=0).fit(np.repeat(RECORDS, COUNTS, axis=0))
least = min(divisions(RECORDS, COUNTS))
assert np.allclose([by_record.inertia_, one_by_one.inertia_], least)
assert np.isclose(by_record.inertia_, loss(RECORDS, by_record.cluster_centers_, COUNTS))
print(f"(c) {COUNTS.sum()} customers in {len(COUNTS)} records: loss {by_record.inertia_:.4f} by weights or repetition")

# (d) and (f)
alone = KMeans(1).fit(STREET, sample_weight=STREET_COUNTS).cluster_centers_[0, 0]
supplied = KMeans(1, depot=Depot([10.0], 1.0)).fit(STREET, sample_weight=STREET_COUNTS)
pulled = supplied.cluster_centers_[0, 0]
print(f"(d) one store at {alone:.6f}, -3/7 = {-3 / 7:.6f}; (f) with the depot at {pulled:.6f}, 67/14 = {67 / 14:.6f}")
assert abs(alone + 3 / 7) < 1e-12
assert abs(pulled - 67 / 14) < 1e-12
place = np.linspace(-2, 11, 1301)
customers = ((place[:, None] - STREET.ravel()) ** 2) @ STREET_COUNTS
supply = STREET_COUNTS.sum() * (place - 10) ** 2
assert abs(place[customers.argmin()] - alone) <= 0.005, "the minimum of L_C on a grid of step 0.01"
assert abs(place[(customers + supply).argmin()] - pulled) <= 0.005
assert np.isclose(supplied.cost_, (customers + supply).min(), rtol=1e-6)

# (e)
pair = {rule: KMeans(2, n_init=10, random_state=0, depot=Depot(DEPOT, 1.0, rule)) for rule in ("nearest", "assigned")}
for rule, model in pair.items():
    y = model.fit(RECORDS, sample_weight=COUNTS).labels_
    ways = ((RECORDS[:, None] - model.cluster_centers_) ** 2).sum(-1)
    expected = COUNTS @ (ways[np.arange(len(y)), y] + ((model.cluster_centers_ - DEPOT) ** 2).sum(1)[y])
    print(f"(e) {rule}: {model.inertia_:.3f} customers + {model.supply_cost_:.3f} supply = {model.cost_:.3f}")
    assert np.isclose(model.cost_, expected), "L_S by its formula"
    assert rule == "assigned" or (y == ways.argmin(1)).all()
assert np.isclose(pair["assigned"].cost_, (least + COUNTS @ ((RECORDS - DEPOT) ** 2).sum(1)) / 2), (
    "the formula for assigned customers"
)
assert (pair["assigned"].labels_ == by_record.labels_).all() or (pair["assigned"].labels_ != by_record.labels_).all()


def supplied_loss(stores: np.ndarray) -> float:
    """L_S(μ) for stores (4,), each customer at the nearest."""
    places = stores.reshape(2, 2)
    ways = ((RECORDS[:, None] - places) ** 2).sum(-1)
    return float(COUNTS @ (ways.min(1) + ((places - DEPOT) ** 2).sum(1)[ways.argmin(1)]))


# The loss jumps where a customer changes stores: many random points, then a derivative-free search from the best.
starts = sorted(np.random.default_rng(0).uniform(0, 10, (5000, 4)), key=supplied_loss)[:20]
searched = min(minimize(supplied_loss, start, method="Nelder-Mead", options={"maxiter": 2000}).fun for start in starts)
print(f"(e) nearest, by direct search: {searched:.3f}")
assert np.isclose(supplied_loss(pair["nearest"].cluster_centers_.ravel()), pair["nearest"].cost_)
assert pair["nearest"].cost_ < 1.001 * searched, "the local search reaches the minimum"
assert pair["assigned"].cost_ < searched, "assigning customers costs less"


def draw(ax: Axes, model: KMeans, rows: np.ndarray, counts: np.ndarray) -> None:
    stores = model.cluster_centers_
    for k, colour in enumerate(COLOURS[:2]):
        for x, c in zip(rows[model.labels_ == k], counts[model.labels_ == k], strict=True):
            ax.plot(*np.stack([x, stores[k]]).T, color=colour, lw=1, zorder=1)
            ax.scatter(*x, s=70 * c, color=colour, zorder=2)
            if counts.max() > 1:
                ax.text(*x, c, ha="center", va="center", color="white", fontsize=8.5, zorder=3)
        ax.plot(*stores[k], "^", color=colour, mec=INK, ms=11, zorder=4)
    ax.set(xlim=(0.5, 9.7), ylim=(0.3, 8), aspect="equal", xticks=range(2, 10, 2), yticks=range(2, 9, 2))


fig = figure(14, 7.4)
above, below = fig.subfigures(2, 1, height_ratios=(1, 1.25))
for n, (ax, model) in enumerate(zip(above.subplots(1, 4, sharey=True), steps, strict=True)):
    draw(ax, model, CUSTOMERS, np.ones(4, int))
    name = ("(a) first guess", "one step", "two steps", "(b) three steps, converged")[n]
    ax.set_title(f"{name}: L = {losses[n]:.2f}")
line, whole, *maps = below.subplots(1, 4, width_ratios=(1.15, 1, 1, 1))
line.plot(place, customers, color=COLOURS[0], label="customers (d)")
line.plot(place, supply, color=GREY, lw=1.2, ls="--", label="supply")
line.plot(place, customers + supply, color=COLOURS[1], label="customers + depot (f)")
for where, curve, colour, text in (
    (alone, customers, COLOURS[0], "−3/7"),
    (pulled, customers + supply, COLOURS[1], "67/14"),
):
    line.plot(where, curve.min(), "^", color=colour, mec=INK, ms=11, zorder=4)
    line.annotate(text, (where, curve.min()), (0, -17), textcoords="offset points", ha="center", color=colour)
line.scatter(STREET.ravel(), [0, 0], s=45 * STREET_COUNTS / 4, color=INK, zorder=3)
line.plot(10, 0, "*", color=INK, ms=14)
line.set(xlim=(-2, 11), ylim=(-260, 2400), xlabel="position of the store; customers at −1 and 1, depot at 10")
line.set(ylabel="loss", title="one store on a line, without and with a depot")
line.legend(loc="upper right")
draw(whole, by_record, RECORDS, COUNTS)
whole.set_xlabel("positions in (a-c) and (e) are assumed", color=GREY, fontsize=9)
whole.set_title(f"(c) no depot: L = {by_record.inertia_:.2f}")
for ax, (rule, model) in zip(maps, pair.items(), strict=True):
    draw(ax, model, RECORDS, COUNTS)
    ax.plot(*DEPOT, "*", color=INK, mec="white", ms=17, zorder=5)
    ax.set_title(f"(e) {rule}: {model.inertia_:.1f} + {model.supply_cost_:.1f} = {model.cost_:.1f}")
maps[0].text(0.8, 7.4, f"{searched:.1f} by direct search", color=GREY)
marks = {"o": "customers", "^": "store", "*": "depot"}
handles = [Line2D([], [], ls="", marker=mark, color=INK, mew=0, ms=9, label=name) for mark, name in marks.items()]
fig.legend(handles=handles, loc="upper right", ncols=3, handletextpad=0.2, columnspacing=1.2)
title(fig, "Stores converge to the means of their customers; a depot pulls them towards it")
save(fig, PICTURE)
