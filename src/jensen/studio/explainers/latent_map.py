"""The latent map of a VAE of digits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.studio.explainer import Explainer, Slider
from jensen.studio.trained import digits, trained

GRID = np.linspace(-2.4, 2.4, 13)
SHOWN = 250


@lru_cache(maxsize=1)
def constant() -> dict[str, Any]:
    """What no control changes: the map, and where held-out digits lie on it."""
    model, (_, _, X, y) = trained("digits-vae"), digits()
    places = np.stack(np.meshgrid(GRID, GRID[::-1]), -1).reshape(-1, 2)
    return {
        "map": np.asarray(model.inverse_transform(places)).clip(0, 1).round(2),
        "map_side": len(GRID),
        "rows": np.asarray(model.transform(X[:SHOWN])).round(3),
        "classes": y[:SHOWN],
        "score": float(model.bound(X[:SHOWN]).total.mean()),
    }


def values(z1: float, z2: float, digit: int, seed: int) -> dict[str, Any]:
    """The image at one place of the map, and the posterior of one held-out digit."""
    model, (_, _, X, y) = trained("digits-vae"), digits()
    row = X[np.flatnonzero(y == digit)[0]][None]
    q, bound = model.posterior(row), model.bound(row)
    draws = q.mean.numpy() + q.stddev.numpy() * np.random.default_rng(seed).normal(size=(6, 2))
    return constant() | {
        "z": [z1, z2],
        "decoded": np.asarray(model.inverse_transform([[z1, z2]]))[0],
        "row": row[0],
        "reconstructed": np.asarray(model.reconstruct(row))[0],
        "mean": q.mean.numpy()[0],
        "std": q.stddev.numpy()[0],
        "draws": np.asarray(model.inverse_transform(draws)),
        "reconstruction": float(bound.reconstruction[0]),
        "kl": float(sum(term[0] for term in bound.kl.values())),
        "bound": float(bound.total[0]),
        "many": float(model.score_samples(row)[0]),
    }


EXPLAINER = Explainer(
    name="latent_map",
    title="The latent map of a VAE",
    group="Autoencoders",
    lead="A variational autoencoder with two latent numbers was trained on 1437 images of digits. Every place on the "
    "map decodes to an image. The encoder gives each held-out digit a posterior: a small Gaussian on the map.",
    formula="z ~ N(0, I),   x | z ~ N(decoder(z), σ² I)\n"
    "q(z|x) = N(μ(x), diag σ²(x)),  by the encoder\n"
    "ln p(x) ≥ E_q[ln p(x|z)] − KL(q(z|x) ‖ N(0, I))\n"
    "KL = ½ Σⱼ (μⱼ² + σⱼ² − 1 − ln σⱼ²)",
    tries=(
        "Walk over the map with z₁ and z₂: digits change into each other, and some classes are neighbours.",
        "Choose a held-out digit: its posterior lies where digits like it are decoded.",
        "Compare the bound with the score of 100 importance samples: the difference is a part of the gap.",
    ),
    controls=(
        Slider("z1", "z₁", -2.4, 2.4, 0.1, 0.0, still=tuple(round(-2.4 + 0.6 * i, 1) for i in range(9))),
        Slider("z2", "z₂", -2.4, 2.4, 0.1, 0.0, still=tuple(round(-2.4 + 0.6 * i, 1) for i in range(9))),
        Slider("digit", "a held-out digit", 0, 9, 1, 3, still=(0, 3, 5)),
        Slider("seed", "seed of the draws from its posterior", 0, 20, 1, 0, still=(0,)),
    ),
    values=values,
    guide="vae.html",
    exercise="exercises/variational-autoencoders.html#the-bound-of-a-vae-in-full",
    needs=("digits-vae",),
)
