"""A small diffusion of handwritten digits: noising, the reverse chain, and new digits.

    python examples/diffusion_digits.py [picture.png]
Pixels have 17 grey levels. The network predicts the probability of each level of every pixel, and the negative bound is
a code length for held-out digits in bits per pixel. A uniform distribution over the levels needs log2 17 = 4.09 bits,
and independent pixels with the frequencies of the training rows need 2.44. The strips show x_t while noise is added
(`q_sample`) and while it is removed (`sample_path`). An independent measure of quality is the distance to the nearest
training digit: it is largest for noise, then for images with independently drawn pixels, then for samples, and smallest
for digits. A few seconds of training give shapes, many of them digits; `UNet` and more epochs give better ones.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from drawing import figure, image_rows, picture_path, save, title
from jensen import Diffusion, ResidualMLP

PICTURE = picture_path(__doc__)
N_LEVELS, SHOWN = 100, (0, 3, 10, 20, 30, 40, 50, 65, 80, 100)
N_GRID, KINDS = (8, 8), (0, 3, 5, 8)

digits = load_digits()
X, X_test, _, y_test = train_test_split(digits.images, digits.target, test_size=360, random_state=0)

model = Diffusion(
    "cosine", N_LEVELS, network=ResidualMLP(256), max_epochs=22, batch_size=64, learning_rate=5e-3, random_state=0
).fit(X)
bits = model.bits_per_dimension(X_test, levels=40)
error = bits.std(ddof=1) / math.sqrt(len(bits))
# The code length of independent pixels, from the level frequencies of the training rows plus one count each.
counts = 1 + np.stack([(level == X).sum(0) for level in range(17)])
share = np.take_along_axis(counts / counts.sum(0), X_test.astype(int), 0)
alone = float(-np.log2(share).mean())
print(
    f"bits per pixel of held-out digits: {bits.mean():.3f} ± {error:.3f} (upper bound); independent pixels {alone:.3f}"
)

assert bits.mean() + 3 * error < alone < math.log2(17), "neighbouring pixels are dependent"

samples, _ = model.sample(math.prod(N_GRID), random_state=1)
path = model.sample_path(len(KINDS), random_state=2)
shown = X_test[[np.flatnonzero(y_test == kind)[0] for kind in KINDS]]
forward = np.stack([model.q_sample(shown, level, random_state=3) if level else shown for level in SHOWN], 1)
back = np.stack([path[N_LEVELS - level] for level in reversed(SHOWN)], 1)
assert set(np.unique(samples)) <= set(range(17)), "samples have the levels of the data"
print(f"mean grey level: digits {X.mean():.2f}, samples {samples.mean():.2f}")
assert abs(samples.mean() - X.mean()) < 0.6

# The model maps grey levels 0..16 to -1..1, so noise is N(8, 8²) in them; 4 standard errors of mean and variance.
noise = model.q_sample(X_test, N_LEVELS, random_state=3)
assert abs(noise.mean() - 8) < 4 * 8 / math.sqrt(noise.size)
assert abs(noise.var() - 64) < 4 * 64 * math.sqrt(2 / noise.size), "the last level is noise"
judge = NearestNeighbors(n_neighbors=1).fit(X.reshape(len(X), -1))
mixed = np.random.default_rng(0).permuted(X, axis=0)[:360]
seen = {"digits": X_test, "samples": samples, "independent pixels": mixed, "noise": noise}
away = {name: judge.kneighbors(rows.reshape(len(rows), -1))[0] for name, rows in seen.items()}
print(
    "distance to the nearest training digit:", ", ".join(f"{name} {found.mean():.1f}" for name, found in away.items())
)
for nearer, farther in itertools.pairwise(away.values()):
    unsure = math.hypot(*(found.std(ddof=1) / math.sqrt(len(found)) for found in (nearer, farther)))
    assert farther.mean() - nearer.mean() > 4 * unsure

fig = figure(12.6, 6.0)
left, right = fig.subfigures(1, 2, width_ratios=(1.2, 1))
strips, grid = left.subplots(2, 1), right.subplots()
for ax, images, levels in zip(strips, (forward, back), (SHOWN, SHOWN[::-1]), strict=True):
    image_rows(ax, {" " * line: row for line, row in enumerate(images)}, 16)
    ax.set_xticks(np.arange(len(levels)) + 0.5, [f"{level}" for level in levels])
    ax.set_xlabel("level t")
strips[0].set_title("noising: held-out digits become noise")
strips[1].set_title("reverse chain: noise becomes new digits")
image_rows(grid, {" " * line: row for line, row in enumerate(samples.reshape(*N_GRID, 8, 8))}, 16)
grid.set_title(f"{len(samples)} samples")
title(fig, f"A diffusion of digits needs at most {bits.mean():.2f} bits per pixel; independent pixels need {alone:.2f}")
save(fig, PICTURE)
