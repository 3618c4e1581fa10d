"""Ten stores for the cities of the United States, without and with a depot that supplies them.

    python examples/stores.py [picture.png] [--cities cities.csv]
Each person i costs the squared distance to their store y_i, plus λ times the squared distance of the store to a depot
at x_D:
    Σ_i c_i (‖x_i - μ_{y_i}‖² + λ ‖μ_{y_i} - x_D‖²),   given y:  μ_j = (x̄_j + λ x_D) / (1 + λ)
where c_i is the population of a city; costs are in person·km². With "nearest" everybody goes to the nearest store.
"assigned" sends people to the store with the smallest total cost. This is plain k-means with stores moved towards the
depot, and its cost is (loss + λ Σ_i c_i ‖x_i - x_D‖²) / (1 + λ). The file has columns name (or city), pop (or
population), lat and lon; without a file, a list of large cities with rounded populations is used. The map is Albers'
equal-area conic projection of a sphere (Snyder 1987, 14-1 to 14-6). Its distances are nearly those along great circles;
the script prints the difference.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist

from drawing import COLOURS, GREY, INK, figure, save, title
from jensen import Depot, KMeans

# Name, million people, degrees north, degrees east.
LARGE_CITIES = """
New York,8.80,40.7,-74.0; Los Angeles,3.90,34.1,-118.2; Chicago,2.75,41.9,-87.6; Houston,2.30,29.8,-95.4;
Phoenix,1.61,33.4,-112.1; Philadelphia,1.60,40.0,-75.2; San Antonio,1.43,29.4,-98.5; San Diego,1.39,32.7,-117.2;
Dallas,1.30,32.8,-96.8; San Jose,1.01,37.3,-121.9; Austin,0.96,30.3,-97.7; Jacksonville,0.95,30.3,-81.7;
Columbus,0.91,40.0,-83.0; Indianapolis,0.89,39.8,-86.2; Charlotte,0.87,35.2,-80.8; San Francisco,0.87,37.8,-122.4;
Seattle,0.74,47.6,-122.3; Denver,0.72,39.7,-105.0; Washington,0.69,38.9,-77.0; Nashville,0.69,36.2,-86.8;
Oklahoma City,0.68,35.5,-97.5; El Paso,0.68,31.8,-106.5; Boston,0.68,42.4,-71.1; Portland,0.65,45.5,-122.7;
Las Vegas,0.64,36.2,-115.1; Detroit,0.64,42.3,-83.0; Memphis,0.63,35.1,-90.0; Baltimore,0.59,39.3,-76.6;
Milwaukee,0.58,43.0,-87.9; Albuquerque,0.56,35.1,-106.6; Tucson,0.54,32.2,-111.0; Sacramento,0.52,38.6,-121.5;
Kansas City,0.51,39.1,-94.6; Atlanta,0.50,33.7,-84.4; Omaha,0.49,41.3,-95.9; Miami,0.44,25.8,-80.2;
Minneapolis,0.43,45.0,-93.3; Tampa,0.38,27.9,-82.5; New Orleans,0.38,30.0,-90.1; Cleveland,0.37,41.5,-81.7;
Boise,0.24,43.6,-116.2; Salt Lake City,0.20,40.8,-111.9; Honolulu,0.35,21.3,-157.9; San Juan,0.34,18.5,-66.1;
Anchorage,0.29,61.2,-149.9
"""
# Borders and shores of the contiguous states, clockwise from Cape Flattery: degrees north, degrees west.
OUTLINE = """
48.4 124.7 48.2 123.1 47.2 122.7 49.0 122.8 49.0 95.2 49.4 95.1 48.6 93.4 48.0 89.6 46.7 92.1 46.8 90.8 47.4 88.0
46.5 87.4 46.5 84.5 46.0 84.0 45.9 84.8 45.8 86.6 44.5 88.0 45.3 86.9 43.0 87.9 41.7 87.5 41.8 86.7 43.2 86.3 44.0 86.5
45.1 85.6 45.8 84.8 45.0 83.4 43.7 83.9 44.0 83.0 43.0 82.4 42.1 83.1 41.7 83.5 41.4 82.6 41.5 81.7 42.2 80.1 42.9 78.9
43.3 79.0 43.3 77.6 43.5 76.4 44.1 76.4 45.0 74.8 45.0 71.5 45.3 70.9 46.4 70.1 47.4 69.2 47.3 68.3 47.1 67.8 45.7 67.8
44.8 67.0 44.4 68.2 43.7 70.2 42.7 70.6 42.3 71.0 41.8 70.5 42.1 70.2 41.7 69.9 41.5 71.2 41.3 72.0 41.0 73.6 41.1 71.9
40.6 73.9 39.4 74.4 38.9 74.9 39.5 75.5 38.7 75.1 37.1 76.0 39.3 76.2 37.0 76.4 36.9 76.0 35.2 75.5 34.6 76.5 33.9 78.0
33.2 79.2 32.0 80.9 30.7 81.4 28.5 80.5 26.8 80.0 25.2 80.4 25.1 81.1 26.1 81.8 27.8 82.8 29.0 82.8 30.1 84.0 29.7 85.3
30.4 86.5 30.3 89.5 29.0 89.3 29.2 90.8 29.6 92.2 29.7 93.8 28.4 96.4 27.6 97.2 25.9 97.2 26.4 99.1 27.5 99.5 29.8 101.5
29.7 102.5 29.0 103.2 29.6 104.4 30.6 105.0 31.8 106.5 31.8 108.2 31.3 108.2 31.3 111.1 32.5 114.8 32.5 117.1 33.7 118.3
34.0 118.5 34.4 120.5 36.6 121.9 37.8 122.5 38.9 123.7 40.4 124.4 42.8 124.5 46.2 124.0 48.4 124.7
"""
SOUTH, NORTH, WEST, EAST = 24.4, 49.4, -124.8, -66.9
RADIUS, PARALLELS, CENTRE = 6371.0, (29.5, 45.5), (37.5, -96.0)
KANSAS_CITY, PULL, STORES, PAIRED = (39.10, -94.58), 0.25, 10, 1000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, default=Path("stores.png"))
    parser.add_argument("--cities", type=Path, help="CSV file of cities")
    return parser.parse_args()


def read_cities(path: Path | None) -> pd.DataFrame:
    """Cities of the contiguous states from a file or from the list above: name, pop, lat, lon."""
    if path is None:
        rows = [city.strip().split(",") for city in LARGE_CITIES.split(";")]
        table = pd.DataFrame(rows, columns=["name", "pop", "lat", "lon"])
        table = table.astype({"pop": float, "lat": float, "lon": float}).assign(pop=lambda t: (1e6 * t["pop"]).round())
    else:
        table = pd.read_csv(path).rename(columns=str.lower).rename(columns={"city": "name", "population": "pop"})
    inside = table["lat"].between(SOUTH, NORTH) & table["lon"].between(WEST, EAST)
    dropped = ", ".join(table.loc[~inside, "name"]) or "none"
    print(f"{len(table)} places; {(~inside).sum()} outside the contiguous states are dropped: {dropped}")
    return table[inside]


def albers(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Kilometres east and north of the centre of the map (n, 2)."""
    (first, second), (lat_0, lon_0) = np.radians(PARALLELS), np.radians(CENTRE)
    n = (np.sin(first) + np.sin(second)) / 2
    c = np.cos(first) ** 2 + 2 * n * np.sin(first)
    rho, rho_0 = RADIUS * np.sqrt(c - 2 * n * np.sin([np.radians(lat), np.full_like(lat, lat_0)])) / n
    theta = n * (np.radians(lon) - lon_0)
    return np.stack([rho * np.sin(theta), rho_0 - rho * np.cos(theta)], axis=1)


def great_circles(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Great-circle distances of all pairs in kilometres, from chords through the sphere."""
    lat, lon = np.radians(lat), np.radians(lon)
    chords = pdist(np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1))
    return 2 * RADIUS * np.arcsin(chords / 2)


def squares(points: np.ndarray) -> float:
    """Σ_i c_i ‖x_i - point_i‖², 10¹² person·km²."""
    return float(people @ ((x - points) ** 2).sum(1)) / 1e12


def like(reference: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Match each store to the reference store with which it shares most people, one to one."""
    shared = np.zeros((STORES, STORES))
    np.add.at(shared, (labels, reference), people)
    return linear_sum_assignment(shared, maximize=True)[1]


def colouring(distance: np.ndarray) -> np.ndarray:
    """Six colours for ten stores: each store takes the colour whose other stores are farthest away."""
    chosen: list[int] = []
    for to_others in distance:
        room = [
            min((to_others[s] for s, c in enumerate(chosen) if c == k), default=np.inf) for k in range(len(COLOURS))
        ]
        chosen.append(int(np.argmax(room)))
    return np.array(COLOURS)[chosen]


given = arguments()
cities = read_cities(given.cities)
people, lat, lon = (cities[name].to_numpy(float) for name in ("pop", "lat", "lon"))
x, depot = albers(lat, lon), albers(*np.array(KANSAS_CITY)[:, None])[0]
copies = int(cities.duplicated(["name", "lat", "lon"]).sum())
if copies:
    print(f"{copies} places repeat the name and coordinates of an earlier one: check the file for duplicates")

some = np.random.default_rng(0).permutation(len(x))[:PAIRED]
sphere, flat = great_circles(lat[some], lon[some]), pdist(x[some])
apart = sphere > 1
ratio = flat[apart] / sphere[apart] - 1
print(
    f"distances on the map and on the sphere differ by {ratio.min():+.2%} to {ratio.max():+.2%}, "
    f"and by at most {np.abs(flat - sphere).max():.0f} km ({apart.sum()} pairs)"
)
assert np.abs(ratio).max() < 0.02

# Twenty starts each, so that the models differ by their rules and not by chance.
models = {
    name: KMeans(STORES, n_init=20, random_state=0, depot=rule).fit(x, sample_weight=people)
    for name, rule in {
        "depot ignored": None,
        "with depot, everybody goes to the nearest store": Depot(depot, PULL, "nearest"),
        "with depot, people are assigned to stores": Depot(depot, PULL, "assigned"),
    }.items()
}

# The supply costs also count where the fit ignored the depot.
costs, rms = {}, {}
millions = people.sum() / 1e6
print(f"{STORES} stores for {millions:.1f} million people; depot in Kansas City, λ = {PULL}")
print(f"{'10¹² person·km²':48s}{'customers':>10s}{'supply':>8s}{'total':>8s}{'rms, km':>9s}{'elsewhere':>11s}")
for name, model in models.items():
    way = ((model.cluster_centers_ - depot) ** 2).sum(1)
    customers, supply = model.inertia_ / 1e12, PULL * float(model.cluster_weights_ @ way) / 1e12
    costs[name], rms[name] = (customers, supply, customers + supply), np.sqrt(model.inertia_ / people.sum())
    elsewhere = people[model.labels_ != cdist(x, model.cluster_centers_).argmin(1)].sum() / people.sum()
    print(f"  {name:46s}{customers:10.2f}{supply:8.2f}{customers + supply:8.2f}{rms[name]:9.0f}{elsewhere:11.1%}")
    assert np.isclose(squares(model.cluster_centers_[model.labels_]), customers)
    assert model.depot is None or np.isclose(model.supply_cost_ / 1e12, supply)
print("rms: distance from customer to store; elsewhere: people whose store is not the nearest")

plain, _, assigned = models.values()
(*_, unplanned), (*_, to_nearest), (*_, to_assigned) = costs.values()
assert to_assigned < to_nearest < unplanned, "a depot in the objective lowers the cost, and so does assignment"
begin = (plain.cluster_centers_ + PULL * depot) / (1 + PULL)
drawn = KMeans(STORES, init=begin, depot=assigned.depot).fit(x, sample_weight=people)
expected = (plain.inertia_ / 1e12 + PULL * squares(depot)) / (1 + PULL)
assert np.isclose(drawn.cost_ / 1e12, expected, rtol=1e-3), (
    "plain k-means moved towards the depot; both stop within tol"
)

match = {name: like(plain.labels_, model.labels_) for name, model in models.items()}
placed = [model.cluster_centers_[np.argsort(match[name])] for name, model in models.items()]
colours = colouring(np.min([cdist(stores, stores) for stores in placed], axis=0))
north, west = np.array(OUTLINE.split(), dtype=float).reshape(-1, 2).T
# The 49th parallel is an arc on this map, so points are added between the corners.
corners, between = np.arange(len(north)), np.linspace(0, len(north) - 1, 40 * len(north))
outline = albers(np.interp(between, corners, north), -np.interp(between, corners, west))


def draw(ax: Axes, name: str) -> None:
    model, colour, (customers, supply, total) = models[name], colours[match[name]], costs[name]
    ax.fill(*outline.T, fc="#F4F2ED", ec="#C9C5BC", lw=0.8, zorder=0)
    large_first = np.argsort(-people)
    area = 450 * people[large_first] / people.max()
    ax.scatter(*x[large_first].T, s=area, color=colour[model.labels_[large_first]], alpha=0.65, lw=0)
    for store in model.cluster_centers_ if model.depot else ():
        ax.plot(*np.stack([store, depot]).T, color=INK, lw=0.7)
    ax.scatter(*model.cluster_centers_.T, marker="s", s=60, color=colour, ec=INK, lw=1.3, zorder=3)
    ax.plot(*depot, "*", color=INK if model.depot else GREY, mec="white", ms=17, mew=1, zorder=4)
    ax.plot([-2300, -1800], [-1300, -1300], color=INK, lw=1.5)
    ax.text(-2050, -1270, "500 km", ha="center", va="bottom", fontsize=8.5)
    ax.set_title(
        f"{name}\n{customers:.1f} customers + {supply:.1f} supply = {total:.1f};  rms distance {rms[name]:.0f} km",
        color=INK,
    )
    (left, low), (right, high) = outline.min(0) - 40, outline.max(0) + 40
    ax.set(aspect="equal", xlim=(left, right), ylim=(low, high))
    ax.set_axis_off()


fig = figure(15.5, 4.15)
fig.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
for ax, name in zip(fig.subplots(1, 3), models, strict=True):
    draw(ax, name)
marks = [
    Line2D([], [], ls="", marker="o", ms=7, color=GREY, mew=0, label="city, area by population"),
    Line2D([], [], ls="", marker="s", ms=7, color="white", mec=INK, mew=1.3, label="store"),
    Line2D([], [], ls="", marker="*", ms=13, color=INK, mew=0, label="depot"),
]
fig.legend(handles=marks, loc="upper right", ncols=3, handletextpad=0.2, columnspacing=1.2)
title(fig, f"A depot in Kansas City attracts the ten stores of {millions:.0f} million people; costs in 10¹² person·km²")
save(fig, given.picture)
