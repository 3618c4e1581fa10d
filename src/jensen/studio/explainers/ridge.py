"""Ridge regression: the penalty against bias and variance."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.models.regression.ridge_regression import RidgeRegression
from jensen.studio.explainer import Explainer, Slider

AXIS = np.linspace(-2, 3, 101)
FEATURES = 8


@lru_cache(maxsize=32)
def problem(rows: int, common: float, noise: float) -> tuple[RidgeRegression, RidgeRegression, np.ndarray]:
    """A design with a common part in all features, true coefficients, and one draw of y."""
    rng = np.random.default_rng(1)
    beta = 0.8 * rng.normal(size=FEATURES)
    own, shared = rng.normal(size=(rows, FEATURES)), rng.normal(size=(rows, 1))
    # Every feature has variance 1, so that λ means the same however alike they are.
    X = (own + common * shared) / np.sqrt(1 + common**2)
    y = X @ beta + noise * rng.normal(size=rows)
    return RidgeRegression().fit(X, y), RidgeRegression("evidence").fit(X, y), beta


def values(power: float, rows: int, common: float, noise: float) -> dict[str, Any]:
    """Bias, variance and risk over all penalties, and the coefficients at one."""
    model, by_evidence, beta = problem(rows, common, noise)
    lambdas, here = 10.0**AXIS, np.array([10.0**power])
    risk = model.risk(beta, noise**2, lambdas)
    best = risk.argmin()
    return {
        "axis": AXIS,
        "bias2": np.square(model.bias(beta, lambdas)).sum(1),
        "variance": model.variance(noise**2, lambdas),
        "risk": risk,
        "least_squares": model.risk(beta, noise**2, 0.0),
        "power": power,
        "lambda": here[0],
        "bias2_here": np.square(model.bias(beta, here)).sum(),
        "variance_here": model.variance(noise**2, here)[0],
        "risk_here": model.risk(beta, noise**2, here)[0],
        "best": lambdas[best],
        "best_risk": risk[best],
        "chosen": by_evidence.alpha_,
        "beta": beta,
        "coefficients": model.path(here)[0][0],
        "unpenalised": model.path(np.array([0.0]))[0][0],
    }


EXPLAINER = Explainer(
    name="ridge",
    title="λ against bias and variance",
    group="Regression",
    lead="Ridge regression shrinks the coefficients by a penalty λ. More penalty means more bias and less variance. A "
    "small penalty always lowers the risk, the expected squared error of the coefficients.",
    formula="β̂ = (XᵀX + λI)⁻¹ Xᵀy,   X = U diag(s) Vᵀ\n"
    "bias²    = Σⱼ (λ/(sⱼ²+λ))² (vⱼ·β)²\n"
    "variance = σ² Σⱼ sⱼ²/(sⱼ²+λ)²\n"
    "risk     = bias² + variance\n"
    "d risk/dλ at 0 = −2σ² Σⱼ sⱼ⁻⁴ < 0",
    tries=(
        "Find the λ with the smallest risk; the dashed line is the λ that the evidence chose from one sample of y.",
        "Make the features more alike: least squares becomes poor, and a penalty helps more.",
        "With many rows and little noise the best λ is small.",
    ),
    controls=(
        Slider("power", "log₁₀ λ", -2, 3, 0.1, 0.0, still=tuple(i / 4 for i in range(-8, 13))),
        Slider("rows", "n, rows", 10, 100, 5, 30, still=(15, 30, 100)),
        Slider("common", "how alike the features are", 0, 4, 0.5, 2.0, still=(0, 2, 4)),
        Slider("noise", "σ, noise of y", 0.5, 4, 0.5, 2.0, still=(1, 2, 4)),
    ),
    values=values,
    guide="ridge-regression.html",
    exercise="exercises/regression.html#bias-and-variance-of-ridge",
)
