"""EM step by step: the ellipses move, the bound rises, and its gap to ln p is a KL divergence.

    python examples/em_steps.py [picture.png]
For any q,  ln p(x) = ELBO(q, θ) + KL(q ‖ p(z|x, θ)).  The E-step sets q to the posterior, so the KL is 0. The M-step
maximises the expected complete log-likelihood over θ for this q: the bound rises. Then q is no longer the posterior,
and the next E-step closes the gap.
"""

from __future__ import annotations

import warnings
from copy import copy

import numpy as np
from matplotlib.colors import to_rgb
from sklearn.exceptions import ConvergenceWarning

from drawing import COLOURS, INK, ellipses, figure, picture_path, save, title
from jensen import GaussianMixture, kl

PICTURE = picture_path(__doc__)
SHOWN = (0, 1, 2, 5, 20)
# The tolerance of the EM engine: the order of sums and the expanded square change results by about 1e-8 nats.
ROUNDING = 1e-7
# Single steps do not converge.
warnings.simplefilter("ignore", ConvergenceWarning)

rng = np.random.default_rng(0)
near = rng.multivariate_normal([-1.2, 0.0], [[1.0, 0.7], [0.7, 1.0]], size=150)
far = rng.multivariate_normal([1.6, 0.6], [[0.5, -0.35], [-0.35, 0.9]], size=100)
X = np.concatenate([near, far])

model = GaussianMixture(
    n_components=2,
    weights_init=[0.5, 0.5],
    means_init=[[-0.5, 1.0], [0.5, -1.0]],
    precisions_init=[np.eye(2) / 3, np.eye(2) / 3],
    max_iter=0,
    tol=0.0,
).fit(X)

q = model.posterior(X)
drawn = {0: (copy(model), q)}
log_likelihood, bounds_with_old_q, gaps = [model.score(X)], [], []
for step in range(1, SHOWN[-1] + 1):
    bound_before = model.bound(X, q=q.probs).total.mean()
    model.set_params(max_iter=1, warm_start=True).fit(X)
    bound_after = model.bound(X, q=q.probs).total.mean()
    posterior = model.posterior(X)
    gap = model.score(X) - bound_after

    assert abs(bound_before - log_likelihood[-1]) < ROUNDING, "after the E-step the bound equals ln p"
    assert bound_after >= bound_before - ROUNDING, "the M-step raises the bound"
    assert gap >= -ROUNDING, "the bound is below ln p"
    assert abs(gap - kl(q, posterior).mean()) < ROUNDING, "and the gap is KL(q ‖ posterior)"
    joint = [model.bound(X, q=np.eye(2)[[k] * len(X)]).total for k in (0, 1)]
    expected = (q.probs.numpy() * np.transpose(joint)).sum(1).mean()
    assert abs(expected + q.entropy().mean() - bound_after) < ROUNDING, "E_q ln p(x, z) + H(q)"
    assert model.score(X) >= log_likelihood[-1] - ROUNDING, "so ln p never falls"

    log_likelihood.append(model.score(X))
    bounds_with_old_q.append(bound_after)
    gaps.append(gap)
    q = posterior
    if step in SHOWN:
        drawn[step] = (copy(model), q)

print("step   bound, old q   ln p(x)   gap = KL   (nats per row)")
print(f"{0:4d} {'':14s} {log_likelihood[0]:9.4f}")
for step, (old, new, gap) in enumerate(zip(bounds_with_old_q, log_likelihood[1:], gaps, strict=True), start=1):
    if step in (*SHOWN, 3, 10):
        print(f"{step:4d} {old:14.4f} {new:9.4f} {gap:10.6f}")

fig = figure(13, 6.3)
top, bottom = fig.subfigures(2, 1, height_ratios=(1, 1.2))
shades = np.array([to_rgb(colour) for colour in COLOURS[:2]])
panels = top.subplots(1, len(SHOWN), sharey=True)
for ax, (step, (mixture, posterior)) in zip(panels, drawn.items(), strict=True):
    ax.scatter(*X.T, s=9, c=posterior.probs.numpy() @ shades, alpha=0.6, lw=0)
    ellipses(ax, mixture)
    ax.set(title="1 step" if step == 1 else f"{step} steps", xlabel="$x_1$", aspect="equal")
    ax.set(xlim=(-4.4, 4.4), ylim=(-3.6, 3.6), xticks=(-4, 0, 4), yticks=(-3, 0, 3))
panels[0].set_ylabel("$x_2$")

rise, fall = bottom.subplots(1, 2, width_ratios=(1.6, 1))
steps = np.arange(SHOWN[-1] + 1)
for t in steps[1:]:
    rise.plot([t - 1, t], [log_likelihood[t - 1], bounds_with_old_q[t - 1]], color=COLOURS[3])
    rise.plot([t, t], [bounds_with_old_q[t - 1], log_likelihood[t]], color=COLOURS[2], lw=3)
rise.plot([], [], color=COLOURS[3], label="M-step: θ changes, q is fixed, the bound rises")
rise.plot([], [], color=COLOURS[2], lw=3, label="E-step: q becomes the posterior, the gap KL(q ‖ posterior) closes")
rise.plot(steps, log_likelihood, "o", color=INK, ms=4, label="ln p(x)")
rise.set(ylim=(log_likelihood[1] - 0.03, log_likelihood[-1] + 0.015), xticks=(1, 5, 10, 15, 20))
rise.set(title=f"the bound, from {log_likelihood[0]:.2f}", xlim=(0.5, 20.5), xlabel="EM steps", ylabel="nats per row")
rise.legend(loc="lower right")
fall.semilogy(steps[1:], gaps, "o-", color=COLOURS[2], ms=4)
fall.set(title="gap closed by the E-step", xlabel="EM steps", ylabel="KL (nats per row)", xticks=(1, 5, 10, 15, 20))
title(fig, "EM: the M-step raises the bound, the E-step closes its gap to ln p")
save(fig, PICTURE)
