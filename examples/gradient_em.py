"""Gradient EM and EM: both maximise the same bound, one by small gradient steps, one exactly.

    python examples/gradient_em.py [picture.png]
With q fixed at the posterior of the old means, the ELBO, E_q ln p(x, z) + H(q), is a concave parabola in each mean. At
the old means it touches ln p and has the same slope (Fisher's identity); everywhere else it is lower:
    ∂ ln p(x)/∂θ = Σ_k q(k) ∂ ln(π_k p_k(x))/∂θ        when q is the posterior.
EM moves to the top of the parabola. Gradient EM moves by η times the slope, and halves the step until ln p does not
fall. So ln p never falls with either. The expected complete log-likelihood alone, without the entropy H(q), is also a
bound because z is discrete, but it is lower by H(q) and does not touch ln p.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import GaussianMixture, entropy

PICTURE = picture_path(__doc__)
START, SIGMA, RATE, N_STEPS = (-1.9, -1.1), 0.75, 0.25, 60
# A few steps do not converge.
warnings.simplefilter("ignore", ConvergenceWarning)

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-1, SIGMA, 120), rng.normal(0.9, SIGMA, 80)])[:, None]
# The engine works in standardised units; here they equal the units of the figure.
SIGMA, X = SIGMA / X.std(), (X - X.mean()) / X.std()


def mixture(means: tuple[float, float], odds: float = 1.5, extra: float = 0.0) -> GaussianMixture:
    """Weights (0.6, 0.4) unless odds π₁/π₂ are given; variances σ², plus `extra` in the second component."""
    weights, variances = [odds / (1 + odds), 1 / (1 + odds)], [SIGMA**2, SIGMA**2 + extra]
    return GaussianMixture.from_parameters(weights, np.reshape(means, (2, 1)), variances, "spherical")


def climb(n_steps: int, **how: object) -> GaussianMixture:
    """Run steps from the start with weights and variances fixed."""
    given = {"weights_init": [0.6, 0.4], "precisions_init": [SIGMA**-2] * 2, "means_init": np.reshape(START, (2, 1))}
    frozen = {"covariance_type": "spherical", "freeze": ("weights", "covariances"), **given}
    return GaussianMixture(2, tol=0.0, max_iter=n_steps, **frozen, **how).fit(X)


start = mixture(START)
q = start.posterior(X)
axis = np.linspace(-2, 2, 161)
others = [mixture((START[0], value)) for value in axis]
log_p = np.array([model.score(X) for model in others])
bound = np.array([model.bound(X, q=q.probs).total.mean() for model in others])
spread = float(entropy(q).mean())
assert (bound <= log_p + 1e-12).all(), "a bound for every mean"
# A parabola has a constant second difference, here -q_k / σ² times the squared step, up to rounding.
curvature = np.diff(bound, 2) / (axis[1] - axis[0]) ** 2
assert np.allclose(curvature, -float(q.probs[:, 1].mean()) / SIGMA**2, rtol=1e-6), "concave in the mean"

# Fisher's identity by central differences, with an error of order 1e-10.
nudge = 1e-5
slope = [
    (mixture((START[0] + a, START[1] + b)).score(X) - mixture((START[0] - a, START[1] - b)).score(X)) / (2 * nudge)
    for a, b in ((nudge, 0), (0, nudge))
]
fisher = [float((q.probs[:, k].numpy() * (X[:, 0] - START[k])).mean()) / SIGMA**2 for k in (0, 1)]
assert np.allclose(slope, fisher, atol=1e-8)
# The same for the logit of π₁, whose slope is mean q₁ - π₁, and for the second variance.
share, squares = q.probs.numpy().mean(0), (X[:, 0] - START[1]) ** 2
ends = [[mixture(START, 1.5 * np.exp(sign * nudge)).score(X) for sign in (1, -1)]]
ends += [[mixture(START, extra=sign * nudge).score(X) for sign in (1, -1)]]
slope = [(up - down) / (2 * nudge) for up, down in ends]
fisher_of_others = [share[0] - 0.6, (q.probs[:, 1].numpy() * (squares / SIGMA**4 - SIGMA**-2)).mean() / 2]
assert np.allclose(slope, fisher_of_others, atol=1e-8)

one_em, one_gradient = climb(1), climb(1, algorithm="gradient", learning_rate=RATE)
top = axis[bound.argmax()], bound.max()
weights = q.probs.numpy()
assert np.allclose(one_em.means_.ravel(), (weights * X).sum(0) / weights.sum(0)), "EM moves to the weighted means"
assert abs(one_em.means_[1, 0] - top[0]) < axis[1] - axis[0], "which are the top of the parabola"
assert np.allclose(one_gradient.means_.ravel(), np.array(START) + RATE * np.array(fisher)), "η times the gradient"

ways = {
    "EM": {},
    f"gradient EM, η = {RATE:g}": {"algorithm": "gradient", "learning_rate": RATE},
    "EM with SQUAREM": {"acceleration": "squarem"},
}
best = climb(500).score(X)
histories = {name: [start.score(X), *climb(N_STEPS, **how).lower_bounds_] for name, how in ways.items()}
near = {}
for name, history in histories.items():
    assert np.diff(history).min() > -1e-12, "ln p never falls; 1e-12 is rounding"
    near[name] = int(np.argmax(best - np.array(history) < 1e-6))
    print(f"{name:28s} within a millionth of a nat after {near[name]} steps")
    assert best - history[-1] < 1e-6, "all reach the same maximum"
of_em, of_gradient, of_squarem = near.values()
assert of_squarem < of_em < of_gradient / 3, "EM needs fewer steps, with SQUAREM the fewest"
paths = {name: np.array([START, *(climb(n, **how).means_.ravel() for n in range(1, 16))]) for name, how in ways.items()}

fig = figure(13.5, 5)
cut, plane, speed = fig.subplots(1, 3)
cut.plot(axis, log_p, color=INK, label="ln p")
cut.plot(axis, bound, color=COLOURS[3], label="ELBO, q fixed")
cut.plot(axis, bound - spread, color=COLOURS[3], lw=1.2, ls=":", label="ELBO − H(q)")
reach = np.array([START[1] - 0.5, START[1] + 0.9])
cut.plot(reach, log_p[np.abs(axis - START[1]).argmin()] + fisher[1] * (reach - START[1]), color=GREY, lw=1, ls="--")
height = bound[np.abs(axis - START[1]).argmin()]
cut.plot(START[1], height, "o", color=INK, ms=7, zorder=4)
cut.annotate("equal here", (START[1], height), (-8, 12), textcoords="offset points", ha="right")
for model, colour, name, offset in (
    (one_em, COLOURS[0], "EM", (6, 8)),
    (one_gradient, COLOURS[1], "gradient", (-62, 4)),
):
    x = model.means_[1, 0]
    value = np.interp(x, axis, bound)
    cut.plot(x, value, "o", color=colour, ms=7, zorder=4)
    cut.annotate(name, (x, value), offset, textcoords="offset points", color=colour)
cut.set(xlim=(-2, 1.6), ylim=(-4.2, -1.1), xlabel="$μ_2$, with $μ_1$ fixed", ylabel="nats per row")
cut.set_title("the bound of the first step")
cut.legend(loc="lower center", bbox_to_anchor=(0.52, 0.0))

side1, side2 = np.linspace(-2.2, 0.3, 80), np.linspace(-1.5, 1.6, 80)
each = [np.log(w) + norm.logpdf(X, side, SIGMA) for w, side in ((0.6, side1), (0.4, side2))]
levels = np.logaddexp(each[0][:, None, :], each[1][:, :, None]).mean(0)
plane.contour(
    side1, side2, levels, best - np.geomspace(0.005, 2.5, 12)[::-1], colors=GREY, linewidths=0.8, linestyles="-"
)
for (name, path), colour in zip(list(paths.items())[:2], COLOURS, strict=False):
    plane.plot(*path.T, "o-", color=colour, ms=4, lw=1.3, label=name)
plane.plot(*START, "o", color=INK, ms=7)
plane.plot(*climb(500).means_.ravel(), "*", color=INK, ms=13)
plane.set(xlabel="$μ_1$", ylabel="$μ_2$", title="15 steps of each on contours of ln p")
plane.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")

for (name, history), colour in zip(histories.items(), (*COLOURS[:2], COLOURS[2]), strict=True):
    speed.semilogy(np.maximum(best - np.array(history), 1e-14), "o-", color=colour, ms=3.5, lw=1.2, label=name)
speed.set(xlabel="steps", ylabel="best − ln p, nats per row", ylim=(1e-12, 3), xlim=(-1, N_STEPS))
speed.set_title("distance to the maximum")
speed.legend(loc="upper right")
title(fig, "EM moves to the top of a lower bound of ln p; gradient EM follows its slope")
save(fig, PICTURE)
