"""Latent diffusion: a diffusion as the prior of a VAE fits the latent vectors better than N(0, I).

    python examples/latent_diffusion.py [picture.png]
A VAE draws latent vectors from N(0, I), but the latent vectors of its training digits form clusters with few vectors
between them. A draw between clusters decodes to no clear digit. A diffusion fitted to the latent vectors follows the
clusters. Encoder and decoder are the same for both priors, so the two bounds differ by the prior alone, and the
difference can be computed digit by digit.
"""

from __future__ import annotations

import numpy as np
from matplotlib.lines import Line2D
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from drawing import COLOURS, GREY, figure, image_rows, picture_path, save, title
from jensen import MLP, VAE, Diffusion, LatentDiffusion, ResidualMLP

PICTURE = picture_path(__doc__)
digits = load_digits()
X, X_test, y, y_test = train_test_split(digits.data / 16, digits.target, test_size=600, random_state=0)
network = MLP((128,), "relu")
model = LatentDiffusion(
    VAE(2, scaling="common", encoder=network, decoder=network, max_epochs=80, learning_rate=3e-3),
    Diffusion(
        n_steps=500,
        schedule="cosine",
        network=ResidualMLP(64, 2),
        max_epochs=1200,
        batch_size=512,
        learning_rate=1e-2,
    ),
    random_state=0,
).fit(X)

bound, own = model.bound(X_test, levels="all"), model.vae_.bound(X_test)
gain = bound.total - own.total
error = gain.std() / np.sqrt(len(gain))
posterior = model.posterior(X)
mean, std = posterior.mean.numpy(), posterior.stddev.numpy()
islands = mean + std * np.random.default_rng(0).normal(size=mean.shape)
_, drawn = model.sample(len(X), random_state=1)
_, normal = model.vae_.sample(len(X), random_state=1)


def apart(z: np.ndarray) -> float:
    """Energy distance to the latent vectors of digits; 0 for equal distributions (Székely & Rizzo 2013)."""
    return float(2 * cdist(z, islands).mean() - cdist(z, z).mean() - cdist(islands, islands).mean())


print(f"nats per held-out digit: N(0, I) {own.total.mean():.2f}, diffusion {bound.total.mean():.2f}", end="; ")
print(f"paired difference {gain.mean():+.2f} ± {error:.2f}")
far = {name: apart(z) for name, z in (("N(0, I)", normal), ("diffusion", drawn))}
print(
    "energy distance to the latent vectors of digits: "
    + ", ".join(f"{name} {value:.4f}" for name, value in far.items())
)
assert gain.mean() > 2 * error, "the better prior has a higher bound on new digits"
assert far["diffusion"] < 0.5 * far["N(0, I)"], "and its draws are closer to the latent vectors of digits"

fig = figure(12, 5.9)
fig.get_layout_engine().set(hspace=0.06)
axes = fig.subplots(2, 3, height_ratios=(2.1, 1))
shades = [*COLOURS, GREY, "#000000", "#8B4513", "#6A5ACD"]
nearest = KNeighborsClassifier(5).fit(islands, y)
clouds = {
    "latent vectors of digits": islands,
    "draws of the VAE's prior, N(0, I)": normal,
    "draws of the diffusion": drawn,
}
for ax, (name, z) in zip(axes[0], clouds.items(), strict=True):
    ax.scatter(*z.T, c=np.array(shades)[y if z is islands else nearest.predict(z)], s=6, lw=0)
    ax.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), aspect="equal", title=name, xlabel="z₁", ylabel="z₂")
handles = [Line2D([], [], ls="", marker="o", ms=6, color=shade, label=str(digit)) for digit, shade in enumerate(shades)]
fig.legend(
    handles=handles,
    loc="outside right upper",
    title="digit; for a\ndraw, of the\n5 nearest\nlatent vectors",
    title_fontsize=9,
)
decoded = [model.inverse_transform(z[:24]) for z in clouds.values()]
for ax, name, images in zip(axes[1], ("decoded", "draws, decoded", "draws, decoded"), decoded, strict=True):
    image_rows(ax, {line * " ": images.reshape(-1, 8, 8)[8 * line : 8 * line + 8] for line in range(3)}, 1)
    ax.set(title=name)
title(fig, "A diffusion as prior follows the distribution of a VAE's latent vectors")
save(fig, PICTURE)
