"""Latent diffusion: a diffusion as the prior of a VAE fits the latent vectors better than N(0, I).

    python examples/latent_diffusion.py [picture.png]
A VAE draws latent vectors from N(0, I), but the latent vectors of its training digits form clusters with few vectors
between them. A draw between clusters decodes to no clear digit. A diffusion fitted to the latent vectors follows the
clusters. Encoder and decoder are the same for both priors, so the two bounds differ by the prior alone, and the
difference can be computed digit by digit.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from drawing import COLOURS, GREY, figure, image_rows, picture_path, save, title
from jensen import MLP, VAE, Diffusion, LatentDiffusion, ResidualMLP

PICTURE = picture_path(__doc__)
N_DRAWS = 1437

digits = load_digits()
X, X_test, y, y_test = train_test_split(digits.data / 16, digits.target, test_size=360, random_state=0)
network = MLP((128,), "relu")
model = LatentDiffusion(
    VAE(2, scaling="common", encoder=network, decoder=network, max_epochs=80, learning_rate=3e-3),
    Diffusion(n_steps=200, network=ResidualMLP(64, 2), max_epochs=400, batch_size=512, learning_rate=1e-2),
    random_state=0,
).fit(X)

bound, own = model.bound(X_test, levels="all"), model.vae_.bound(X_test)
gain = bound.total - own.total
error = gain.std() / np.sqrt(len(gain))
posterior = model.posterior(X)
mean, std = posterior.mean.numpy(), posterior.stddev.numpy()
islands = mean + std * np.random.default_rng(0).normal(size=mean.shape)
_, drawn = model.sample(N_DRAWS, random_state=1)
_, normal = model.vae_.sample(N_DRAWS, random_state=1)


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

fig = figure(14, 4.4)
planes, pictures = fig.subfigures(1, 2, width_ratios=(2.6, 1))
axes = planes.subplots(1, 3, sharex=True, sharey=True)
shades = [*COLOURS, GREY, "#000000", "#8B4513", "#6A5ACD"]
nearest = KNeighborsClassifier(5).fit(islands, y)
clouds = {"latent vectors of digits": islands, "the VAE's prior, N(0, I)": normal, "the diffusion": drawn}
for ax, (name, z) in zip(axes, clouds.items(), strict=True):
    ax.scatter(*z.T, c=np.array(shades)[y if z is islands else nearest.predict(z)], s=6, lw=0)
    ax.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), aspect="equal", title=name, xlabel="z₁")
axes[0].set_ylabel("z₂")
decoded = {"N(0, I)": model.inverse_transform(normal[:40]), "diffusion": model.inverse_transform(drawn[:40])}
rows = {
    # Later lines of each kind get distinct labels made of spaces.
    name if line == 0 else (1 + line + 4 * k) * " ": images.reshape(-1, 8, 8)[10 * line : 10 * line + 10]
    for k, (name, images) in enumerate(decoded.items())
    for line in range(4)
}
ax = pictures.subplots()
image_rows(ax, rows, 1)
ax.set_title("decoded draws")
title(fig, "A diffusion as prior follows the distribution of a VAE's latent vectors")
save(fig, PICTURE)
