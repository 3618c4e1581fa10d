"""The latent space of an autoencoder and of a VAE: digits in two dimensions, and decoded draws from N(0, I).

    python examples/shapeless_latent.py [picture.png]
An autoencoder minimises only Σ‖x - decoder(encoder(x))‖², so its codes may lie anywhere, with gaps between them, and
there is no distribution from which to draw a z for a new digit. A VAE also pays KL(q(z|x) ‖ N(0, I)) for every row
(Kingma & Welling 2014). Its codes fill N(0, I), at the price of a larger reconstruction error on training rows, and
draws from N(0, I) decode to digits.
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
FITTED = "autoencoder, draws from a Gaussian fitted to its codes"
SHADES = [*COLOURS, INK, "#999933", "#882255", "#8A6D5B"]

rng = np.random.default_rng(0)
digits = load_digits()
order = rng.permutation(len(digits.images))
images, kinds = digits.images[order] / 16, digits.target[order]
train, test, seen = images[:N_TRAIN], images[N_TRAIN:], kinds[:N_TRAIN]

options = {"encoder": MLP((128, 128)), "decoder": MLP((128, 128)), "max_epochs": 100, "learning_rate": 2e-3}
models = {"autoencoder": Autoencoder(2, **options, random_state=0), "VAE": VAE(2, **options, random_state=0)}
codes = {name: model.fit(train).transform(train) for name, model in models.items()}

# The nearest training digit shows whether a decoded draw looks like a digit, and whether all ten occur.
nearest = KNeighborsClassifier(1).fit(train.reshape(N_TRAIN, -1), seen)
z = rng.normal(size=(N_DRAWS, 2))
drawn = {name: model.inverse_transform(z) for name, model in models.items()}
anywhere = rng.multivariate_normal(codes["autoencoder"].mean(0), np.cov(codes["autoencoder"].T), N_DRAWS)
drawn[FITTED] = models["autoencoder"].inverse_transform(anywhere)
drawn["held-out digits"] = test


def distance(rows: np.ndarray) -> float:
    return float(nearest.kneighbors(rows.reshape(len(rows), -1))[0].mean())


def variety(rows: np.ndarray) -> float:
    """Entropy of the class of the nearest training digit, in bits."""
    counts = np.bincount(nearest.predict(rows.reshape(len(rows), -1)), minlength=10)
    return float(jensen.entropy(counts / counts.sum(), unit="bits"))


def error(name: str, rows: np.ndarray) -> float:
    return float(((models[name].reconstruct(rows) - rows) ** 2).mean())


inside = {name: float((np.linalg.norm(codes[name], axis=1) < RADII[1]).mean()) for name in models}
for name in models:
    mean, spread = codes[name].mean(0), codes[name].std(0)
    print(f"{name}: codes {mean[0]:.2f} ± {spread[0]:.2f} and {mean[1]:.2f} ± {spread[1]:.2f}; N(0, I) has 0 ± 1")
    print(f"  {100 * inside[name]:.0f} % of the codes lie in the circle that holds 95 % of N(0, I)")
    print(f"  squared error per pixel: training {error(name, train):.4f}, held-out {error(name, test):.4f}")
print("decoded draws: distance to the nearest training digit, and entropy of its class in bits:")
for name, rows in drawn.items():
    print(f"  {name}: {distance(rows):.2f}, {variety(rows):.2f} of {np.log2(10):.2f}")
assert error("autoencoder", train) < error("VAE", train), "the autoencoder has the smaller training error"
assert inside["VAE"] > 0.85 > 0.5 > inside["autoencoder"], "only the VAE's codes are near N(0, I)"
assert variety(drawn["VAE"]) > variety(drawn["autoencoder"]) + 1, "only the VAE draws all digits"
assert distance(drawn["VAE"]) < distance(drawn[FITTED]) < distance(drawn["autoencoder"]), "which look like digits"


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
    above.set_title(f"{name}: {100 * inside[name]:.0f} % of the codes are in the 95 % circle of N(0, I)")
    lines = drawn[name][: LINES * PER_LINE].reshape(LINES, PER_LINE, 8, 8)
    image_rows(below, {" " * line: row for line, row in enumerate(lines)}, 1.0)
    text = f"{variety(drawn[name]):.1f} of {np.log2(10):.1f} bits of class entropy"
    below.set_title(f"decoded draws from N(0, I): {text}")
line = {"arrowstyle": "-", "color": GREY, "shrinkB": 0}
places = {"xycoords": "data", "textcoords": "axes fraction"}
maps[0].annotate("50 % and 95 % of N(0, I)", (0, -RADII[1]), (0.97, 0.04), ha="right", arrowprops=line, **places)
title(fig, "The codes of an autoencoder have no known distribution; those of a VAE follow N(0, I)")
save(fig, PICTURE)
