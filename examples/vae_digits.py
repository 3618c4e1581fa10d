"""A variational autoencoder of handwritten digits: reconstructions, samples and a latent plane.

    python examples/vae_digits.py [picture.png]
With two latent dimensions, every point of the plane decodes to a digit; a grid of points, spaced by quantiles of
N(0, 1), shows them. A model with eight dimensions reconstructs held-out digits better. The figure also shows its bound
and the two terms of the bound during training. All pixels share one learned noise variance. The importance-weighted
score is above the ELBO, as the theory requires.
"""

from __future__ import annotations

import numpy as np
from matplotlib.patheffects import withStroke
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from drawing import COLOURS, GREY, figure, image_rows, picture_path, save, title
from jensen import MLP, VAE

PICTURE = picture_path(__doc__)
SIDE, N_GRID = 8, 13

digits = load_digits()
X, X_test, y, y_test = train_test_split(digits.data / 16, digits.target, test_size=360, random_state=0)


def vae(n_components: int) -> VAE:
    networks = {"encoder": MLP((128,), "relu"), "decoder": MLP((128,), "relu")}
    return VAE(n_components, scaling="common", max_epochs=150, learning_rate=3e-3, random_state=0, **networks).fit(X)


plane, deep = vae(2), vae(8)
print("nats per held-out digit, a density of grey values from 0 to 1")
for name, model in (("2 dimensions", plane), ("8 dimensions", deep)):
    bound = model.bound(X_test)
    print(
        f"{name}: bound {bound.total.mean():.2f}: {bound.reconstruction.mean():.2f} - {bound.kl['latent'].mean():.2f}; "
        f"with 100 importance samples {model.score(X_test):.2f}"
    )
    assert model.score(X_test) > bound.total.mean(), "more draws give a tighter bound"
assert deep.score(X_test) > plane.score(X_test), "eight dimensions fit better than two"

fig = figure(16, 6.2)
left, latent_part, walk_part = fig.subfigures(1, 3, width_ratios=(1.15, 0.95, 1))
top, bottom = left.subfigures(2, 1, height_ratios=(1.25, 1))
pictures, curves = top.subplots(), bottom.subplots(1, 2)
latent, walk = latent_part.subplots(), walk_part.subplots()


def images(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, SIDE, SIDE)


ten = np.array([np.flatnonzero(y_test == digit)[0] for digit in range(10)])
rows = {
    "digits": images(X_test[ten]),
    "decoded from 2": images(plane.reconstruct(X_test[ten])),
    "decoded from 8": images(deep.reconstruct(X_test[ten])),
    "samples from 8": images(deep.inverse_transform(deep.sample(10, random_state=1)[1])),
    "from 3 to 8": images(deep.interpolate(X_test[ten[3]], X_test[ten[8]], 10)),
}
image_rows(pictures, rows, 1)
pictures.set_title("held-out digits, reconstructions, samples, interpolation")

history = deep.history_
curves[0].plot(history["epoch"], history["objective"], color=COLOURS[0], label="training rows")
curves[0].plot(history["epoch"], history["held_out"], color=COLOURS[1], label="held-out rows")
curves[0].set(xlabel="epoch", ylabel="nats per row", title="ELBO, 8 dimensions")
curves[1].plot(history["epoch"], -history["reconstruction"], color=COLOURS[2], label="-E ln p(x|z)")
curves[1].plot(history["epoch"], history["latent"], color=COLOURS[3], label="KL(q ‖ N(0, I))")
curves[1].set(xlabel="epoch", title="terms of the ELBO")
for ax in curves:
    ax.legend()

z = plane.transform(X)
shades = [*COLOURS, GREY, "#000000", "#8B4513", "#6A5ACD"]
for digit in range(10):
    latent.plot(*z[y == digit].T, ".", ms=3, color=shades[digit])
    middle = latent.text(*np.median(z[y == digit], 0), digit, color=shades[digit], fontsize=17, fontweight="bold")
    middle.set_path_effects([withStroke(linewidth=3, foreground="white")])
latent.set(aspect="equal", xlabel="z₁", ylabel="z₂", title="posterior means of training digits")

quantile = norm.ppf((np.arange(N_GRID) + 0.5) / N_GRID)
grid = np.stack(np.meshgrid(quantile, -quantile), -1).reshape(-1, 2)
walk.imshow(
    images(plane.inverse_transform(grid)).reshape(N_GRID, N_GRID, SIDE, SIDE).swapaxes(1, 2).reshape(N_GRID * SIDE, -1),
    cmap="gray_r",
)
walk.set(xticks=[], yticks=[], title="decoded grid of quantiles of N(0, I)")
title(fig, "A VAE of digits: two dimensions give a map, eight give better reconstructions")
save(fig, PICTURE)
