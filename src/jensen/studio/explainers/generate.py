"""The reverse chain of a diffusion: from noise to a digit of a class."""

from __future__ import annotations

from typing import Any

import numpy as np

from jensen.studio.explainer import Choice, Explainer, Slider
from jensen.studio.trained import trained

SAMPLES, CHAINS = 14, 4
# Places along the chain that are shown, from noise to image.
SHOWN = 9


def values(digit: int, guidance: float, sampler: str, seed: int) -> dict[str, Any]:
    """Several chains to one class, and the images at the end of all."""
    model = trained("digits-diffusion")
    steps = None if sampler == "ancestral" else 25
    how = {"y": digit, "guidance": guidance, "sampler": sampler, "steps": steps}
    path = np.array(model.sample_path(SAMPLES, random_state=seed, **how), dtype=np.float64).reshape(-1, SAMPLES, 64)
    places = np.unique(np.linspace(0, len(path) - 1, SHOWN).round().astype(int))
    rows = path[-1]
    return {
        "chains": path[places, :CHAINS].transpose(1, 0, 2).round(1),
        "places": places,
        "n_steps": len(path) - 1,
        "rows": rows,
        "agreed": float((model.predict(rows.reshape(-1, 8, 8), budget=16) == digit).mean()),
        "spread": float(rows.std(0).mean()),
    }


EXPLAINER = Explainer(
    name="generate",
    title="From noise to a digit",
    group="Diffusion",
    lead="A small diffusion with classes was trained on 1437 images of digits. A chain starts with noise. At each "
    "level the network estimates the image behind the noise, a little of the noise is removed, and a little new noise "
    "is added.",
    formula="x_T ~ N(0, I)\n"
    "p_θ(x₀|xₜ, c): grey levels of the pixels, by the network\n"
    "x₍ₜ₋₁₎ ~ N(μₜ, σₜ²), with mean and variance of\n"
    "         q(x₍ₜ₋₁₎|xₜ, x₀) over x₀ ~ p_θ(x₀|xₜ, c)\n"
    "guidance w:  output = (1+w) f(xₜ, t, c) − w f(xₜ, t)",
    tries=(
        "Choose another digit: the same noise leads to another image.",
        "Increase the guidance: images become more typical of their class, and more alike.",
        "DDIM needs 25 steps in place of 100, because it adds no new noise.",
    ),
    controls=(
        Slider("digit", "class", 0, 9, 1, 3),
        Slider("guidance", "w, guidance", 0, 4, 0.5, 0.0, still=(0, 2)),
        Choice("sampler", "Sampler", {"ancestral": "ancestral, all steps", "ddim": "DDIM, 25 steps"}, "ancestral"),
        Slider("seed", "seed", 0, 20, 1, 0, still=(0,)),
    ),
    values=values,
    guide="diffusion.html",
    exercise="exercises/diffusion.html#small-steps-can-be-reversed-by-gaussians",
    needs=("digits-diffusion",),
)
