"""Training, moving: the plane of a variational autoencoder, from the first epochs to the last.

    python examples/training_moving.py [picture.gif]
Each frame is a fit with more epochs from the same start, so the frames are moments of one training. Left: new digits at
the mean of their q(z|x), coloured by their class, which the model never sees. Middle: the images that a grid of places
decodes to. First everything decodes to the mean image, then light and dark part, then shapes. Right: the bound of
held-out digits over the epochs on a logarithmic scale: each doubling adds less.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_digits

from drawing import COLOURS, figure, picture_path
from jensen import MLP, VAE, Trainer
from moving import animate

PICTURE = picture_path(__doc__).with_suffix(".gif")
EPOCHS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 28, 38, 52, 72, 100)
N_GRID = 9
digits = load_digits()
X, test, y = digits.images[400:], digits.images[:400], digits.target[:400]
network = MLP((128,), "relu")
options = {"likelihood": "gaussian", "encoder": network, "decoder": network, "scaling": "common"}
options |= {"learning_rate": 2e-3, "trainer": Trainer(decay=None, validation_fraction=0), "random_state": 0}
models = [VAE(2, max_epochs=n_epochs, **options).fit(X) for n_epochs in EPOCHS]
bounds = np.array([float(model.bound(test).total.mean()) for model in models])
for n_epochs, bound in zip(EPOCHS, bounds, strict=True):
    print(f"{n_epochs:4d} epochs: {bound:8.2f} nats per held-out digit")
assert bounds[-1] > bounds[3] > bounds[0], "training raises the bound of digits it has not seen"

side = norm.ppf(np.linspace(0.04, 0.96, N_GRID))
grid = np.stack(np.meshgrid(side, side[::-1]), -1).reshape(-1, 2)
fig = figure(9.6, 3.4)
left, middle, right = fig.subplots(1, 3)


def draw(frame: int) -> None:
    model = models[frame]
    for ax in (left, middle, right):
        ax.clear()
    left.scatter(*model.transform(test).T, s=8, c=y, cmap="tab10", lw=0)
    left.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), xticks=[], yticks=[], title=f"{EPOCHS[frame]} epochs: z of new digits")
    images = np.pad(model.inverse_transform(grid).reshape(N_GRID, N_GRID, 8, 8), [(0, 0), (0, 0), (1, 1), (0, 0)])
    middle.imshow(images.transpose(0, 2, 1, 3).reshape(10 * N_GRID, -1), cmap="gray_r", vmin=0, vmax=16)
    middle.set(xticks=[], yticks=[], title="what each z decodes to")
    right.plot(EPOCHS[: frame + 1], bounds[: frame + 1], "o-", color=COLOURS[0], ms=4)
    right.set(xscale="log", xlim=(0.9, 130), ylim=(bounds.min() - 2, bounds.max() + 2))
    right.set(xlabel="epochs", title="bound, nats per held-out digit")


animate(fig, draw, range(len(EPOCHS)), PICTURE, per_second=2)
