"""Bias and variance of ridge regression: a small penalty always reduces the risk.

    python examples/bias_variance.py [picture.png]
Ridge regression with penalty λ estimates the coefficients β of y = Xβ + ε, ε ~ N(0, σ²I), X = U diag(s) Vᵀ, with
    bias² = Σ (λ/(s_j²+λ))² (v_j·β)²,    variance = σ² Σ s_j²/(s_j²+λ)²,    risk = E‖β̂ - β‖² = bias² + variance.
Curves show these formulas (`bias`, `variance`, `risk`), dots show means over draws of the noise. At λ = 0 the slope of
the risk is -2σ² Σ s_j⁻⁴ < 0 for every β, so a small penalty always helps. The best λ depends on the unknown β; the
evidence of y chooses λ from the data alone, separately for each draw.
"""

from __future__ import annotations

import numpy as np

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import RidgeRegression

PICTURE = picture_path(__doc__)
ROWS, FEATURES, DRAWS, SIGMA2 = 40, 12, 10_000, 4.0
rng = np.random.default_rng(0)
# Features with a common part are nearly collinear: small singular values cause the variance of least squares.
X = rng.normal(size=(ROWS, FEATURES)) + 2 * rng.normal(size=(ROWS, 1))
beta = 0.7 * rng.normal(size=FEATURES)
# Every draw of the noise is a target: one fit and one decomposition serve all of them.
y = (X @ beta)[:, None] + np.sqrt(SIGMA2) * rng.normal(size=(ROWS, DRAWS))
one, all_draws = RidgeRegression().fit(X, y[:, 0]), RidgeRegression("evidence").fit(X, y)

lambdas, dots = np.logspace(-1.5, 2.5, 200), np.logspace(-1.3, 2.3, 13)
bias2, variance = np.square(one.bias(beta, lambdas)).sum(1), one.variance(SIGMA2, lambdas)
risk, ols = one.risk(beta, SIGMA2, lambdas), one.risk(beta, SIGMA2, 0.0)
fits = all_draws.path(dots)[0]
simulated = {
    "bias²": np.square(fits.mean(1) - beta).sum(1),
    "variance": fits.var(1).sum(1),
    "risk": np.square(fits - beta).sum(2).mean(1),
}
chosen, losses = all_draws.alpha_, np.square(all_draws.coef_ - beta).sum(1)
low, middle, high = np.quantile(chosen, [0.05, 0.5, 0.95])
best = lambdas[risk.argmin()]
print(f"risk of least squares {ols:.3f}; smallest risk {risk.min():.3f}, at λ = {best:.2f}")
print(f"λ by evidence: {middle:.2f}, in 90 % of {DRAWS} draws {low:.2f} to {high:.2f}; risk {losses.mean():.3f}")
error = losses.std() / np.sqrt(DRAWS)
assert losses.mean() + 4 * error < ols, "λ chosen by the evidence has a smaller risk than least squares"
# Simulation against formulas, within 4.5 standard errors: a chance failure among 182 numbers is unlikely.
average, squares = fits.mean(1), np.square(fits - fits.mean(1, keepdims=True)).sum(2)
assert (np.abs(average - beta - one.bias(beta, dots)) < 4.5 * fits.std(1) / np.sqrt(DRAWS)).all(), "the bias vector"
for each, formula in (
    (squares, one.variance(SIGMA2, dots)),
    (np.square(fits - beta).sum(2), one.risk(beta, SIGMA2, dots)),
):
    assert (np.abs(each.mean(1) - formula) < 4.5 * each.std(1) / np.sqrt(DRAWS)).all(), (
        "the formula equals the mean over draws"
    )

# The same formulas with the matrix (XᵀX + λI)⁻¹, the columns of X centred as in the fit; only rounding differs.
centred = X - X.mean(0)
gram = centred.T @ centred
for lam in (0.0, 0.7, 30.0):
    inverse = np.linalg.inv(gram + lam * np.eye(FEATURES))
    assert np.allclose(one.bias(beta, lam), inverse @ gram @ beta - beta)
    assert np.isclose(one.variance(SIGMA2, lam), SIGMA2 * np.trace(inverse @ gram @ inverse))
slope = -2 * SIGMA2 * np.sum(one.singular_**-4.0)
# The error of a one-sided difference is half the step times the curvature, here 1e-4 of the slope.
assert abs((one.risk(beta, SIGMA2, 1e-5) - ols) / 1e-5 / slope - 1) < 1e-3, "the slope at λ = 0"
# Gauss-Markov: other linear unbiased estimators, A = (XᵀX)⁻¹Xᵀ + D with DX = 0, have no smaller covariance.
least = np.linalg.solve(gram, centred.T)
residual = np.eye(ROWS) - centred @ least
for _ in range(20):
    other = least + 0.05 * rng.normal(size=(FEATURES, ROWS)) @ residual
    assert np.allclose(other @ centred, np.eye(FEATURES)), "unbiased"
    assert np.linalg.eigvalsh(other @ other.T - least @ least.T).min() > -1e-12

fig = figure(12.5, 5)
left, right = fig.subplots(1, 2, width_ratios=(1.5, 1))
left.axvspan(low, high, color=COLOURS[3], alpha=0.15, lw=0)
left.axhline(ols, color=GREY, lw=1, ls="--")
left.text(lambdas[0] * 1.2, ols * 1.02, "risk of least squares, λ = 0", va="bottom", color=GREY)
for name, curve, colour in (("bias²", bias2, COLOURS[1]), ("variance", variance, COLOURS[0]), ("risk", risk, INK)):
    left.plot(lambdas, curve, color=colour, label=name)
    left.plot(dots, simulated[name], "o", color=colour, ms=5)
left.errorbar(
    middle, losses.mean(), xerr=[[middle - low], [high - middle]], fmt="D", color=COLOURS[3], ms=8, capsize=4, zorder=5
)
above = losses.mean() / risk.min() - 1
note = f"λ by evidence: median and\n90 % interval over draws;\nrisk {above:.0%} above the smallest"
left.annotate(
    note, (middle, losses.mean()), (lambdas[0] * 1.2, 0.35 * ols), arrowprops={"arrowstyle": "-", "color": GREY}
)
left.set(xscale="log", xlabel="penalty λ", ylabel="squared error of β̂", xlim=(lambdas[0], lambdas[-1]))
left.set_ylim(0, 1.6 * ols)
left.set_title(f"curves: formulas; dots: means of {DRAWS:,} draws")
left.legend(loc="upper left", ncols=3)

near = np.linspace(0, 2, 100)
right.plot(near, ols + slope * near, color=COLOURS[2], ls="--", label="slope $-2σ^2\\, Σ\\, s_j^{-4}$ at 0")
right.plot(near, one.risk(beta, SIGMA2, near), color=INK, label="risk")
few = np.linspace(0, 2, 6)
distances = np.square(all_draws.path(few)[0] - beta).sum(2)
right.errorbar(few, distances.mean(1), distances.std(1) / np.sqrt(DRAWS), fmt="o", color=INK, ms=5, capsize=3)
right.set(xlabel="penalty λ", ylim=(0.75 * ols, 1.05 * ols), xlim=(-0.05, 2.05))
right.set_title("risk near λ = 0: it falls for every β; bars: standard errors")
right.legend(loc="upper right")
title(fig, "Ridge regression: a small bias removes much variance, and the evidence chooses a good λ")
save(fig, PICTURE)
