"""Two Gaussians with a common σ: the posterior of the component is a sigmoid.

    python examples/posterior_sigmoid.py [picture.png]
With π = P(z=1):  P(z=1|x) = 1 / (1 + exp(ax + b)),  a = (μ₂-μ₁)/σ²,  b = (μ₁²-μ₂²)/(2σ²) + ln((1-π)/π).
The quadratic terms of the two exponents cancel because σ is common, which gives the curve of logistic regression. The
ticks below the sum are 80 rows, each sampled by drawing z first.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)


def two_gaussians(mu1: float, mu2: float, sigma: float, pi: float) -> GaussianMixture:
    return GaussianMixture.from_parameters([pi, 1 - pi], [[mu1], [mu2]], [[sigma**2]], covariance_type="tied")


def sigmoid_coefficients(mu1: float, mu2: float, sigma: float, pi: float) -> tuple[float, float]:
    return (mu2 - mu1) / sigma**2, (mu1**2 - mu2**2) / (2 * sigma**2) + np.log((1 - pi) / pi)


x = np.linspace(-8, 10, 3601)
X = x[:, None]
rng = np.random.default_rng(0)
for parameters in [(0.0, 1.0, 1.0, 0.8), *rng.uniform([-3, -3, 0.5, 0.05], [3, 3, 3, 0.95], (50, 4))]:
    a, b = sigmoid_coefficients(*parameters)
    posterior = two_gaussians(*parameters).predict_proba(X)[:, 0]
    # Rounding: ln(q / (1-q)) is a difference of squares of size 10³ at the ends.
    assert np.allclose(posterior, expit(-(a * x + b)), rtol=0, atol=1e-10)

model = two_gaussians(0.0, 1.0, 1.0, 0.8)
a, b = sigmoid_coefficients(0.0, 1.0, 1.0, 0.8)
assert a == 1
assert abs(b - (-0.5 - np.log(4))) < 1e-15
assert abs(b + 1.886294) < 5e-7
assert abs(model.predict_proba([[-b / a]])[0, 0] - 0.5) < 1e-12, "the two components are equally probable at -b/a"
print(f"μ = (0, 1), σ = 1, π = 0.8:  a = {a:.6f}, b = {b:.6f}, P(z=1|x) = ½ at x = {-b / a:.6f}")

# With one-hot q the reconstruction is ln p(x|z), and the total is the complete log-likelihood ln p(x, z).
chosen = [model.bound(X, q=np.eye(2)[[k] * len(x)]) for k in (0, 1)]
conditional = np.exp([bound.reconstruction for bound in chosen])
joint = np.exp([bound.total for bound in chosen])
evidence = np.exp(model.score_samples(X))
assert np.allclose(joint.sum(0), evidence, rtol=1e-10, atol=0), "p(x) = Σ_k p(x, z=k)"
areas = np.trapezoid([*conditional, *joint, evidence], x)
# The interval leaves out less than 1e-14 of each density, and the trapezium rule is as accurate for Gaussians.
assert np.allclose(areas, [1, 1, 0.8, 0.2, 1], rtol=0, atol=1e-12)
print("areas: p(x|z) {:.6f} {:.6f}, p(x,z) {:.6f} {:.6f}, p(x) {:.6f}".format(*areas))

fig = figure(10, 6.4)
(top_left, top_right), (bottom_left, bottom_right) = axes = fig.subplots(2, 2, sharex=True)
for k, colour in enumerate(COLOURS[:2]):
    top_left.plot(x, conditional[k], color=colour, label=f"$p(x \\mid z={k + 1})$")
    top_right.plot(x, joint[k], color=colour, label=f"$p(x, z={k + 1})$")
    bottom_left.plot(x, joint[k], color=colour, lw=1, ls="--")
    bottom_right.plot(x, model.predict_proba(X)[:, k], color=colour, label=f"$P(z={k + 1} \\mid x)$")
bottom_left.plot(x, evidence, color=INK, label="$p(x)$")
rows, components = model.sample(80, random_state=0)
for k, colour in enumerate(COLOURS[:2]):
    bottom_left.plot(rows[components == k], np.full((components == k).sum(), 0.012), "|", color=colour, ms=9, mew=1.2)
bottom_right.plot(-b / a, 0.5, "o", color=INK, ms=5)
bottom_right.text(-b / a + 0.4, 0.5, f"−b/a = {-b / a:.3f}", va="center", color=INK)
for ax in (top_right, bottom_left, bottom_right):
    ax.axvline(-b / a, color=GREY, lw=1, ls=":", zorder=0)
top_left.set(title="the components", ylabel="density (per unit of x)")
top_right.set(title="components times weights, π = 0.8 and 0.2")
bottom_left.set(title="their sum", ylabel="density (per unit of x)", xlabel="x")
bottom_right.set(title=f"the posterior: P(z=1 | x) = 1 / (1 + exp(x − {-b:.3f}))", ylabel="probability", xlabel="x")
for ax in axes.flat:
    ax.set(xlim=(-4, 6), ylim=(0, 1.03 if ax is bottom_right else 0.42))
    ax.legend(loc="center left" if ax is bottom_right else "upper right")
title(fig, "Two Gaussians with a common σ have a sigmoid posterior")
save(fig, PICTURE)
