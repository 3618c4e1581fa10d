"""A map of twelve measurements: a latent surface separates classes that overlap on a plane.

    python examples/oil_flow.py [picture.png] [--data folder]
The data are twelve gamma-ray measurements of a pipe with oil, water and gas in three flow regimes (Bishop & James
1993). The folder holds DataTrn.txt, DataTrnLbls.txt and the same for Tst, as distributed. Without it, the script uses
handwritten digits. The models are fitted without the classes. The quality of a map is the share of rows whose nearest
neighbour on the map belongs to another class: among training rows, leaving each one out, and from new rows to training
rows. The background of the first map shows the magnification: bright regions of the map cover much of the surface.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from drawing import COLOURS, INK, figure, save, title
from jensen import LatentCurve, ProbabilisticPCA

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("picture", nargs="?", type=Path, default=Path("oil_flow.png"))
parser.add_argument("--data", type=Path, help="folder with the oil flow files")
arguments = parser.parse_args()

if arguments.data is None:
    names = [str(digit) for digit in range(6)]
    images, digits = load_digits(n_class=6, return_X_y=True)
    (X, y), (X_new, y_new) = ((images[part], digits[part]) for part in (slice(0, 700), slice(700, None)))
else:
    # Order of the label columns: the rows of a homogeneous flow fill a plane, those of a stratified flow form clusters.
    names = ["homogeneous", "annular", "stratified"]

    def read(part: str) -> tuple[np.ndarray, np.ndarray]:
        labels = np.loadtxt(arguments.data / f"Data{part}Lbls.txt").argmax(1)
        return np.loadtxt(arguments.data / f"Data{part}.txt"), labels

    (X, y), (X_new, y_new) = read("Trn"), read("Tst")


def neighbour_errors(maps: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """Share of other classes among nearest training rows: leave-one-out for training rows, and for new rows."""
    old, new = maps
    search = NearestNeighbors(n_neighbors=1).fit(old)
    of_old, of_new = search.kneighbors(return_distance=False)[:, 0], search.kneighbors(new, return_distance=False)[:, 0]
    return float((y[of_old] != y).mean()), float((y[of_new] != y_new).mean())


surface, plane = LatentCurve(n_latent=2).fit(X), ProbabilisticPCA(2).fit(X)
maps = {"latent surface": surface, "plane (PPCA)": plane}
places = {name: (model.transform(X), model.transform(X_new)) for name, model in maps.items()}
errors = {name: neighbour_errors(pair) for name, pair in places.items()}
print(f"{len(X)} rows, {len(X_new)} new rows, {X.shape[1]} features, {len(names)} classes")
print("map               1-nearest-neighbour error, training    new   nats per new row")
for name, (old, new) in errors.items():
    print(f"{name:17s} {100 * old:35.1f} % {100 * new:6.1f} % {maps[name].score(X_new):16.3f}")
assert all(a < b for a, b in zip(*errors.values(), strict=True)), "the surface separates the classes better"

fig = figure(13, 6.6)
left, right = fig.subplots(1, 2, width_ratios=(1, 1.05))
n = 200
u = np.linspace(0, 1, n)
stretch = surface.magnification(np.stack(np.meshgrid(u, u, indexing="ij"), -1).reshape(-1, 2)).reshape(n, n)
low, high = np.quantile(stretch, (0.01, 0.99))
greys = LinearSegmentedColormap.from_list("greys", ["#9A9A9A", "#FFFFFF"])
shade = left.imshow(stretch.T / low, origin="lower", extent=(0, 1, 0, 1), cmap=greys, norm=LogNorm(1, high / low))
bar = fig.colorbar(shade, ax=left, label="magnification relative to its minimum", shrink=0.6, aspect=25, pad=0.02)
ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick <= high / low]
bar.set_ticks(ticks, labels=map(str, ticks))
bar.ax.minorticks_off()
for ax, (name, (old, _)) in zip((left, right), places.items(), strict=True):
    for k, label in enumerate(names):
        ax.scatter(*old[y == k].T, s=16, color=COLOURS[k], lw=0.4, edgecolor="white", label=label)
    ax.set_title(f"{name}: {100 * errors[name][0]:.1f} % of nearest neighbours in another class")
left.set(xlabel="$z_1$", ylabel="$z_2$", xlim=(0, 1), ylim=(0, 1), anchor="W")
right.set(xlabel="$z_1$", ylabel="$z_2$")
right.legend(title="class", loc="best", labelcolor=INK)
title(fig, f"{X.shape[1]} measurements on a map: a curved surface separates classes that overlap on a plane")
save(fig, arguments.picture)
