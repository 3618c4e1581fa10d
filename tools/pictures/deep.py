"""Pictures of the pages on networks. Their trainings are short, and each is of one thing."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.datasets import load_digits, make_moons

from drawing import COLOURS, GREY, INK, figure, image_rows
from jensen import MLP, VAE, Autoencoder, Diffusion, LatentDiffusion, ResidualMLP, Trainer

__all__ = ["autoencoder", "diffusion", "first_image_model", "latent_diffusion", "mean_and_draw", "vae"]


def plane_of_digits() -> VAE:
    """A VAE with two latent dimensions."""
    network = MLP((128,), "relu")
    return VAE(
        2, encoder=network, decoder=network, scaling="common", max_epochs=150, learning_rate=3e-3, random_state=0
    )


def autoencoder() -> Figure:
    """Digits, noisy copies, and what a denoising autoencoder makes of them."""
    X = load_digits().data
    rng = np.random.default_rng(0)
    network = MLP((256,), "relu")
    options = {"scaling": "common", "max_epochs": 60, "batch_size": 64, "learning_rate": 5e-3, "random_state": 0}
    model = Autoencoder(64, noise=1.0, encoder=network, decoder=network, **options).fit(X[300:])
    noisy = X[:10] + X.std(0).mean() * 1.3 * rng.normal(size=(10, 64))
    rows = {"digits": X[:10], "with noise": noisy, "reconstructed": model.reconstruct(noisy)}
    fig = figure(6, 1.65)
    image_rows(fig.subplots(), {name: images.reshape(-1, 8, 8) for name, images in rows.items()}, 16)
    return fig


def vae() -> Figure:
    """Where digits lie in the plane, and what each place of it decodes to."""
    digits = load_digits()
    model = plane_of_digits().fit(digits.data[300:])
    z, y = model.transform(digits.data[:300]), digits.target[:300]
    n, side = 11, norm.ppf(np.linspace(0.03, 0.97, 11))
    grid = np.stack(np.meshgrid(side, side[::-1]), -1).reshape(-1, 2)
    images = np.pad(model.inverse_transform(grid).reshape(n, n, 8, 8), [(0, 0), (0, 0), (1, 1), (0, 0)])
    fig = figure(6, 3.1)
    left, right = fig.subplots(1, 2)
    left.scatter(*z.T, s=1, alpha=0)
    colours = [*COLOURS, INK, GREY, "#8C510A", "#6A3D9A"]
    for place, digit in zip(z, y, strict=True):
        left.text(*place, str(digit), color=colours[digit], fontsize=8, ha="center")
    left.set(title="z of new images: a map", xticks=[], yticks=[], xlabel="z₁", ylabel="z₂")
    right.imshow(images.transpose(0, 2, 1, 3).reshape(10 * n, 8 * n), cmap="gray_r", vmin=0, vmax=16)
    right.set_aspect("auto")
    right.set(title="what each z decodes to", xticks=[], yticks=[], xlabel="z₁", ylabel="z₂")
    return fig


def diffusion() -> Figure:
    """Noise becomes data: the same points at five levels."""
    X, _ = make_moons(3000, noise=0.05, random_state=0)
    model = Diffusion(
        "cosine",
        60,
        network=ResidualMLP(width=64),
        max_epochs=180,
        batch_size=512,
        learning_rate=1e-2,
        random_state=0,
    ).fit(X)
    path = model.sample_path(2500, random_state=1)
    order = np.argsort(path[-1][:, 0])
    colour = np.empty(len(order))
    colour[order] = np.linspace(0, 1, len(order))
    fig = figure(6, 1.25)
    for ax, level in zip(fig.subplots(1, 5, sharex=True, sharey=True), (60, 30, 14, 5, 0), strict=True):
        ax.scatter(*path[60 - level].T, c=colour, cmap="turbo", s=2, lw=0)
        ax.set(xlim=(-2.2, 3.2), ylim=(-1.9, 2.4), xticks=[], yticks=[], aspect="equal")
        ax.set_title({60: "noise", 0: "new rows"}.get(level, f"t = {level}"), loc="center")
        ax.spines[:].set_visible(False)
    return fig


def latent_diffusion() -> Figure:
    """The z of digits, draws from N(0, I), and draws from the diffusion."""
    X = load_digits().data / 16
    model = LatentDiffusion(
        plane_of_digits(),
        Diffusion(n_steps=100, network=ResidualMLP(128, 3), max_epochs=900, batch_size=512, learning_rate=5e-3),
        random_state=0,
    ).fit(X)
    posterior = model.posterior(X)
    noise = np.random.default_rng(0).normal(size=(len(X), 2))
    panels = {
        "z of the digits": posterior.mean.numpy() + posterior.stddev.numpy() * noise,
        "a VAE draws from N(0, I)": noise,
        "the diffusion learns them": model.sample(len(X), random_state=1)[1],
    }
    fig = figure(6, 2.3)
    for ax, (name, z), colour in zip(
        fig.subplots(1, 3, sharex=True, sharey=True), panels.items(), (GREY, COLOURS[1], COLOURS[0]), strict=True
    ):
        ax.scatter(*np.asarray(z).T, s=2, color=colour, lw=0)
        ax.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), xticks=[], yticks=[], aspect="equal")
        ax.set_title(name, fontsize=9, loc="center")
    return fig


def mean_and_draw() -> Figure:
    """The mean of p(x|z), and draws from it, at the same z."""
    X = load_digits().images
    network = MLP((256,), "relu")
    options = {"scaling": "common", "max_epochs": 120, "learning_rate": 3e-3, "random_state": 0}
    model = VAE(8, likelihood="gaussian", encoder=network, decoder=network, **options).fit(X)
    draws, z = model.sample(10, random_state=1)
    fig = figure(6, 1.4)
    image_rows(fig.subplots(), {"mean": model.inverse_transform(z), "draw": draws}, 16)
    return fig


def first_image_model() -> Figure:
    """Samples of a diffusion of digits at four moments of its training, from the same noise."""
    X = load_digits().images
    train, test = X[:1497], X[1497:]
    trainer = Trainer(decay=None, validation_fraction=0.0)
    rows = {}
    for n_epochs in (1, 3, 9, 27):
        model = Diffusion(
            n_steps=100,
            network=ResidualMLP(256),
            max_epochs=n_epochs,
            batch_size=64,
            learning_rate=3e-3,
            trainer=trainer,
            random_state=0,
        ).fit(train)
        bits = model.bits_per_dimension(test, levels=50).mean()
        rows[f"{n_epochs * (len(train) // 64)} steps, {bits:.2f} bits"] = model.sample(10, random_state=1)[0]
    fig = figure(6, 2.5)
    image_rows(fig.subplots(), {**rows, "digits": X[:10]}, 16)
    return fig
