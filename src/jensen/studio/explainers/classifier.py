"""The diffusion classifier: the class under which an image has the largest bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from jensen.studio.explainer import Choice, Explainer, Slider
from jensen.studio.trained import digits, trained

LEVELS = 30


def values(image: int, budget: int, weighting: str) -> dict[str, Any]:
    """Probabilities of the classes for one held-out image, and its bound under each."""
    model, (_, _, X, y) = trained("digits-diffusion"), digits()
    row = (16 * X[image - 1]).reshape(1, 8, 8)
    found = model.classify(row, budget=budget, weighting=weighting)
    bounds = [float(model.bound(row, levels=LEVELS, y=[c]).total[0]) for c in range(10)]
    return {
        "row": row.reshape(-1),
        "truth": int(y[image - 1]),
        "predicted": int(np.argmax(found.probabilities[0])),
        "probabilities": found.probabilities[0],
        "log_odds": found.log_odds[0],
        "standard_error": found.standard_error[0],
        "evaluations": float(found.n_evaluations[0]),
        "most_evaluations": 10 * budget,
        "bounds": bounds,
    }


EXPLAINER = Explainer(
    name="classifier",
    title="The diffusion classifier",
    group="Diffusion",
    lead="A diffusion with classes also classifies. Noise is added to the image, and the network removes it once for "
    "each class. The right class makes this easiest: it has the largest bound on ln p(x | class), and Bayes' rule does "
    "the rest.",
    formula="p(c|x) ∝ p(c) exp(bound of ln p(x|c))\n"
    "all classes see the same levels and the same noise, once with each sign;\n"
    "classes far behind are dropped early",
    tries=(
        "Go through the images: mistakes are among digits that look alike.",
        "Raise the budget: most classes are dropped long before it, so the network is evaluated less often than "
        "it allows.",
        "Compare by the simple loss, which weights all levels alike: the class is mostly the same, but its probability "
        "is no longer that of a bound.",
    ),
    controls=(
        Slider("image", "held-out image", 1, 40, 1, 1, still=tuple(range(1, 13))),
        Slider("budget", "evaluations per class, at most", 16, 100, 4, 48, still=(16, 48, 100)),
        Choice("weighting", "Compared by", {"variational": "the bound", "simple": "the simple loss"}, "variational"),
    ),
    values=values,
    guide="diffusion.html",
    exercise="exercises/diffusion.html#a-diffusion-as-a-classifier",
    needs=("digits-diffusion",),
)
