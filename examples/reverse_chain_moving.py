"""The reverse chain, moving: noise becomes two moons, a small step at a time.

    python examples/reverse_chain_moving.py [picture.gif]
A diffusion with 60 levels is trained on rows near two moons. Each frame is one array of `sample_path`: it starts with
draws from N(0, I) and ends with new rows. The colour of a point is its place at the end, so one can see how early
its place is settled: long before the moons can be seen, left and right have parted.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons
from sklearn.neighbors import NearestNeighbors

from drawing import figure, picture_path
from jensen import Diffusion, ResidualMLP
from moving import animate

PICTURE = picture_path(__doc__).with_suffix(".gif")
N_LEVELS, N_POINTS = 60, 700
X, _ = make_moons(3000, noise=0.05, random_state=0)
model = Diffusion(
    "cosine",
    N_LEVELS,
    network=ResidualMLP(width=64),
    max_epochs=180,
    batch_size=512,
    learning_rate=1e-2,
    random_state=0,
).fit(X)
path = model.sample_path(N_POINTS, random_state=1)
away = [float(NearestNeighbors(n_neighbors=1).fit(X).kneighbors(rows)[0].mean()) for rows in (path[0], path[-1])]
print(f"mean distance to the nearest row of the data: noise {away[0]:.3f}, new rows {away[1]:.3f}")
assert away[1] < away[0] / 3, "new rows lie where the rows lie"
colour = np.argsort(np.argsort(path[-1][:, 0])) / N_POINTS

fig = figure(5.6, 3.7)
ax = fig.subplots()


def draw(step: int) -> None:
    ax.clear()
    ax.scatter(*path[step].T, s=9, c=colour, cmap="turbo", lw=0)
    ax.set(xlim=(-2.4, 3.4), ylim=(-1.9, 2.4), xticks=[], yticks=[], aspect="equal", title=f"level {N_LEVELS - step}")
    ax.spines[:].set_visible(False)


animate(fig, draw, range(N_LEVELS + 1), PICTURE, per_second=12)
