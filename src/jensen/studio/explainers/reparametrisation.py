"""Two gradients of E_q f: by the score function, and through z = μ + σε."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from jensen.studio.explainer import Choice, Explainer, Slider

DRAWS = 400
AXIS = torch.linspace(-5, 5, 121, dtype=torch.float64)
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "likelihood": lambda z: -0.5 * (z - 2) ** 2 - 0.5 * math.log(2 * math.pi),
    "wave": lambda z: torch.sin(6 * z),
    "valley": lambda z: -((z**2 - 4) ** 2) / 8,
}
NODES = np.polynomial.hermite_e.hermegauss(80)


def gradient(f: Callable[[torch.Tensor], torch.Tensor], z: torch.Tensor) -> np.ndarray:
    """f'(z) by backpropagation."""
    z = z.clone().requires_grad_()
    (slope,) = torch.autograd.grad(f(z).sum(), z)
    return slope.numpy()


def values(function: str, mean: float, std: float, shift: float, seed: int) -> dict[str, Any]:
    """Draws, both estimates from each of them, and the gradient by quadrature."""
    chosen = FUNCTIONS[function]

    def f(z: torch.Tensor) -> torch.Tensor:
        return chosen(z) + shift

    noise = np.random.default_rng(seed).normal(size=DRAWS)
    z = torch.from_numpy(mean + std * noise)
    score, path = f(z).numpy() * noise / std, gradient(f, z)
    nodes, weights = NODES
    at_nodes = torch.from_numpy(mean + std * nodes)
    exact = float(weights @ gradient(f, at_nodes) / weights.sum())
    counts = np.unique(np.logspace(0, math.log10(DRAWS), 40).astype(int))
    running = {
        name: (np.cumsum(each) / np.arange(1, DRAWS + 1))[counts - 1]
        for name, each in (("score", score), ("path", path))
    }
    return {
        "axis": AXIS.numpy(),
        "f": f(AXIS).numpy(),
        "density": torch.distributions.Normal(mean, std).log_prob(AXIS).exp().numpy(),
        "z": z.numpy()[:60],
        "f_of_z": f(z).numpy()[:60],
        "score": score[:150],
        "path": path[:150],
        "counts": counts,
        "running": running,
        "exact": exact,
        "mean_score": score.mean(),
        "mean_path": path.mean(),
        "std_score": score.std(),
        "std_path": path.std(),
        "n_draws": DRAWS,
    }


EXPLAINER = Explainer(
    name="reparametrisation",
    title="Reparametrisation",
    group="Autoencoders",
    lead="A VAE climbs the gradient of E_q[f(z)] with respect to μ, where q = N(μ, σ²). Draws estimate it in two ways. "
    "Both are right on average, but the one that differentiates through z = μ + σε usually varies much less.",
    formula="z = μ + σ ε,   ε ~ N(0, 1)\n"
    "∂/∂μ E_q[f(z)] = E[f(z) ε / σ]      score function\n"
    "               = E[f′(μ + σε)]      reparametrised",
    tries=(
        "Add a constant to f: its gradient stays the same, but the score function's estimates vary more and more.",
        "Choose the wave and a large σ: here the reparametrised gradient is the worse one.",
        "Reduce σ: the score function divides by it.",
    ),
    controls=(
        Choice(
            "function",
            "f(z)",
            {"likelihood": "ln N(2; z, 1), a log-likelihood", "valley": "two hills", "wave": "sin 6z, a wave"},
            "likelihood",
        ),
        Slider("mean", "μ", -3, 3, 0.25, 0.0, still=(-1, 0, 1)),
        Slider("std", "σ", 0.1, 2, 0.1, 0.8, still=(0.2, 0.8, 1.6)),
        Slider("shift", "constant added to f", -10, 10, 1, 0, still=(0, 10)),
        Slider("seed", "seed of the draws", 0, 20, 1, 0, still=(0, 1)),
    ),
    values=values,
    guide="vae.html",
    exercise="exercises/variational-autoencoders.html#reparametrisation",
)
