"""The shapeless latent of an autoencoder beside a VAE's: digits in two dimensions, and back from N(0, I).

    python examples/shapeless_latent.py [picture.png]
An autoencoder lowers Σ‖x - decoder(encoder(x))‖² and nothing else, so its codes may lie anywhere, with gaps between
them, and where to draw a z for a new digit is anybody's guess. A VAE pays KL(q(z|x) ‖ N(0, I)) for every row (Kingma &
Welling 2014): its codes fill N(0, I), at the price of a worse reconstruction of what it has seen, and draws from there
are digits.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import jensen
from drawing import COLOURS, GREY, INK, figure, image_rows, picture_path, save, title
from jensen import MLP, VAE, Autoencoder

PICTURE = picture_path(__doc__)
N_TRAIN, N_DRAWS, LINES, PER_LINE = 1400, 1000, 4, 12
# Half of N(0, I) in two dimensions lies within the first radius, 95 % within the second.
RADII = np.sqrt(-2 * np.log([0.5, 0.05]))
FITTED = "autoencoder, from a Gaussian fitted to its codes"
SHADES = [*COLOURS, INK, "#999933", "#882255", "#8A6D5B"]

rng = np.random.default_rng(0)
digits = load_digits()
order = rng.permutation(len(digits.images))
images, kinds = digits.images[order] / 16, digits.target[order]
train, test, seen = images[:N_TRAIN], images[N_TRAIN:], kinds[:N_TRAIN]

options = {"encoder": MLP((128, 128)), "decoder": MLP((128, 128)), "max_epochs": 100, "learning_rate": 2e-3}
models = {"autoencoder": Autoencoder(2, **options, random_state=0), "VAE": VAE(2, **options, random_state=0)}
codes = {name: model.fit(train).transform(train) for name, model in models.items()}

# Does a drawn image look like a digit, and do all ten come? The nearest training digit tells.
nearest = KNeighborsClassifier(1).fit(train.reshape(N_TRAIN, -1), seen)
z = rng.normal(size=(N_DRAWS, 2))
drawn = {name: model.inverse_transform(z) for name, model in models.items()}
anywhere = rng.multivariate_normal(codes["autoencoder"].mean(0), np.cov(codes["autoencoder"].T), N_DRAWS)
drawn[FITTED] = models["autoencoder"].inverse_transform(anywhere)
drawn["held-out digits themselves"] = test


def distance(rows: np.ndarray) -> float:
    return float(nearest.kneighbors(rows.reshape(len(rows), -1))[0].mean())


def variety(rows: np.ndarray) -> float:
    """Entropy of the nearest digit's kind, in bits."""
    counts = np.bincount(nearest.predict(rows.reshape(len(rows), -1)), minlength=10)
    return float(jensen.entropy(counts / counts.sum(), unit="bits"))


def error(name: str, rows: np.ndarray) -> float:
    return float(((models[name].reconstruct(rows) - rows) ** 2).mean())


inside = {name: float((np.linalg.norm(codes[name], axis=1) < RADII[1]).mean()) for name in models}
for name in models:
    mean, spread = codes[name].mean(0), codes[name].std(0)
    print(f"{name}: codes {mean[0]:.2f} ± {spread[0]:.2f} and {mean[1]:.2f} ± {spread[1]:.2f}; N(0, I) has 0 ± 1")
    print(f"  {100 * inside[name]:.0f} % of them within the circle that holds 95 % of N(0, I)")
    print(f"  squared error per pixel: {error(name, train):.4f}, of held-out digits {error(name, test):.4f}")
print("draws, by distance to the nearest training digit, and variety of its kind in bits:")
for name, rows in drawn.items():
    print(f"  {name}: {distance(rows):.2f}, {variety(rows):.2f} of {np.log2(10):.2f}")
assert error("autoencoder", train) < error("VAE", train), "an autoencoder reconstructs best: it learns nothing else"
assert inside["VAE"] > 0.85 > 0.5 > inside["autoencoder"], "only the VAE's codes are near N(0, I)"
assert variety(drawn["VAE"]) > variety(drawn["autoencoder"]) + 1, "only the VAE draws all digits"
assert distance(drawn["VAE"]) < distance(drawn[FITTED]) < distance(drawn["autoencoder"]), "and they look like digits"


def draw_map(ax: Axes, latent: np.ndarray) -> None:
    for kind, shade in enumerate(SHADES):
        rows = latent[seen == kind]
        ax.scatter(*rows.T, s=7, color=shade, alpha=0.55, lw=0)
        ax.text(*np.median(rows, 0), str(kind), size=17, weight="bold", color=shade, ha="center", va="center").set(
            path_effects=[withStroke(linewidth=3.5, foreground="white")], zorder=5
        )
    for radius in RADII:
        ax.add_patch(Circle((0, 0), radius, fill=False, color=INK, lw=1.6, zorder=4))
    ax.plot(0, 0, "+", color=INK, ms=7, zorder=4)
    centre, half = (latent.min(0) + latent.max(0)) / 2, 0.53 * np.ptp(latent, 0).max()
    ax.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half))
    ax.set(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")


fig = figure(12.5, 8.9)
maps, pictures = fig.subplots(2, 2, height_ratios=(2.6, 1))
for name, above, below in zip(models, maps, pictures, strict=True):
    draw_map(above, codes[name])
    above.set_title(f"{name}: {100 * inside[name]:.0f} % of the codes lie where N(0, I) has 95 %")
    lines = drawn[name][: LINES * PER_LINE].reshape(LINES, PER_LINE, 8, 8)
    image_rows(below, {" " * line: row for line, row in enumerate(lines)}, 1.0)
    text = f"{variety(drawn[name]):.1f} of {np.log2(10):.1f} bits of variety"
    below.set_title(f"draws from N(0, I), the same in both, decoded: {text}")
line = {"arrowstyle": "-", "color": GREY, "shrinkB": 0}
places = {"xycoords": "data", "textcoords": "axes fraction"}
maps[0].annotate("50 % and 95 % of N(0, I)", (0, -RADII[1]), (0.97, 0.04), ha="right", arrowprops=line, **places)
title(fig, "An autoencoder's codes have no shape to draw from; a VAE's are pulled to N(0, I), and draws are digits")
save(fig, PICTURE)
