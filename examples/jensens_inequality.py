"""Jensen's inequality: the evidence lower bound of one x, for every q.

    python examples/jensens_inequality.py [picture.png]
z is 1 with probability π = 0.8, x|z is N(0, 1) or N(1, 1), and x = 3 is observed. For any q(z),
    ln p(x) = ln E_q[p(x,z)/q(z)] ≥ E_q ln[p(x,z)/q(z)] = ELBO(q)        the logarithm of a mean, the mean of logarithms
    ELBO(q) = E_q ln p(x|z) - KL(q ‖ p(z)) = ln p(x) - KL(q ‖ p(z|x))
The weights p(x,z)/q(z) have the mean p(x) for every q, and a chord of the logarithm lies below its curve; the gap is
KL(q ‖ p(z|x)). If q is the posterior, all weights equal p(x) and the gap is 0; for every other q it is positive. z has
two values, so q is one number and can be plotted. The mean of k weights varies less, so the gap of its logarithm is
smaller:
    L_k = E ln (1/k) Σ_j w_j,    ln p(x) - L_k ≈ Var w / (2k p(x)²) for large k.
Here L_k is a finite sum over the number of draws with z = 1 (Burda et al. 2016). Jordan et al. (1999); Neal & Hinton
(1998).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import binom, norm

import jensen
from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
X, PRIOR, MEANS = 3.0, np.array([0.8, 0.2]), np.array([0.0, 1.0])
OTHERS, KS = (0.9, 0.5), 2 ** np.arange(11)
# Tolerance for rounding, where no other reason is given.
ROUNDING = 1e-12

model = GaussianMixture.from_parameters(PRIOR, MEANS[:, None], [[1.0], [1.0]], "diag")
joint = PRIOR * norm.pdf(X, MEANS, 1)
evidence = joint.sum()
posterior = joint / evidence
log_p = model.score_samples([[X]])[0]
assert abs(log_p - np.log(evidence)) < ROUNDING
# The posterior is a sigmoid: a = (μ₂-μ₁)/σ², b = (μ₁²-μ₂²)/(2σ²) + ln((1-π)/π).
assert abs(posterior[0] - 1 / (1 + np.exp(X - 0.5 + np.log(0.25)))) < ROUNDING

# All q on a grid, with both ends, where 0 ln 0 = 0.
q1 = np.linspace(0, 1, 1001)
q = np.stack([q1, 1 - q1], 1)
bound = model.bound(np.full((len(q), 1), X), q=q)
elbo, gap = bound.total, log_p - bound.total
reconstruction = q @ norm.logpdf(X, MEANS, 1)
to_prior, to_posterior = (np.array([jensen.kl(row, p) for row in q]) for p in (PRIOR, posterior))
assert np.abs(elbo - (reconstruction - to_prior)).max() < ROUNDING, "its two terms"
assert np.abs(gap - to_posterior).max() < ROUNDING, "and its gap"
assert np.abs(elbo[[-1, 0]] - np.log(joint)).max() < ROUNDING, "one-hot q: the complete log-likelihood ln p(x, z)"
off = np.abs(q1 - posterior[0])
# KL is at least twice the squared distance (Pinsker), so only q near the posterior have a gap near 0.
assert (gap >= 2 * off**2 - ROUNDING).all()
best = minimize_scalar(lambda p: -model.bound([[X]], q=[[p, 1 - p]]).total[0], bounds=(0, 1), method="bounded")
# Near the top of a parabola the position is accurate to the root of rounding; the search stops at 1e-5.
assert abs(best.x - posterior[0]) < 2e-5, "the best q is the posterior"
assert abs(best.fun + log_p) < 1e-9, "where the bound equals ln p(x)"


def weights(p: float) -> np.ndarray:
    return joint / np.array([p, 1 - p])


def of_many(p: float, k: int) -> float:
    """L_k, summed over the number of draws with z = 1."""
    first = np.arange(k + 1)
    w = weights(p)
    return float(binom.pmf(first, k, p) @ np.log((first * w[0] + (k - first) * w[1]) / k))


print(f"ln p(x) = {log_p:.4f}, P(z=1|x) = {posterior[0]:.4f}")
many = {p: np.array([of_many(p, k) for k in KS]) for p in OTHERS}
for p in OTHERS:
    w, share = weights(p), np.array([p, 1 - p])
    here = model.bound([[X]], q=[share]).total[0]
    spread = share @ (w - evidence) ** 2 / (2 * evidence**2)
    print(f"q(1) = {p}: weights {w[0]:.5f}, {w[1]:.5f}, mean {share @ w:.5f}; ELBO {here:.4f}, KL {log_p - here:.4f}")
    assert abs(share @ w - evidence) < ROUNDING, "the mean of the weights is p(x)"
    assert abs(share @ np.log(w) - here) < ROUNDING, "the mean of their logarithms is the bound"
    assert abs(many[p][0] - here) < ROUNDING
    assert (np.diff(many[p]) > 0).all(), "more draws give a tighter bound"
    # The next term is of order 1/k².
    assert abs((log_p - many[p][-1]) * KS[-1] / spread - 1) < 10 / KS[-1], "the gap falls like 1/k"

fig = figure(14, 5.2)
of_q, of_ln, of_k = fig.subplots(1, 3, width_ratios=(1.1, 1.2, 0.9))
of_q.fill_between(q1, elbo, log_p, color=GREY, alpha=0.25, lw=0, label="gap, KL(q ‖ p(z|x))")
of_q.plot(q1, reconstruction, color=COLOURS[2], lw=1.3, label="$E_q$ ln p(x|z)")
of_q.plot(q1, elbo, color=INK, label="ELBO(q), lower by KL(q ‖ p(z))")
of_q.axhline(log_p, color=INK, lw=1, ls="--")
of_q.text(1, log_p + 0.02, f"ln p(x) = {log_p:.3f}", ha="right", va="bottom")
arrow = {"arrowstyle": "<->", "color": COLOURS[4], "shrinkA": 0, "shrinkB": 0}
of_q.annotate("", (0.1, np.interp(0.1, q1, elbo)), (0.1, np.interp(0.1, q1, reconstruction)), arrowprops=arrow)
of_q.text(0.115, -3.95, "KL(q ‖ p(z))", color=COLOURS[4], va="center")
of_q.annotate("q = p(z)", (0.8, np.interp(0.8, q1, elbo)), (-6, -14), textcoords="offset points", ha="right")
of_q.plot(PRIOR[0], np.interp(PRIOR[0], q1, elbo), "|", color=INK, ms=12, mew=1.5)
of_q.plot(posterior[0], log_p, "*", color=COLOURS[0], ms=14, zorder=4)
for p, colour in zip(OTHERS, (COLOURS[1], COLOURS[3]), strict=True):
    of_q.plot(p, np.interp(p, q1, elbo), "o", color=colour, ms=8, zorder=4)
of_q.text(posterior[0], log_p - 0.08, "q = p(z|x)", ha="center", va="top", color=COLOURS[0])
of_q.set(xlabel="q(1), the probability of z = 1", ylabel="nats", xlim=(0, 1), ylim=(-5.8, -2.3))
of_q.set_title("the bound equals ln p(x) only at the posterior")
of_q.legend(loc="upper right")

t = np.linspace(0.0012, 0.115, 800)
of_ln.plot(t, np.log(t), color=INK, label="ln")
of_ln.axvline(evidence, color=GREY, lw=1, ls=":")
of_ln.text(evidence + 0.0007, -6.55, "p(x), the mean of the weights", color=GREY, va="bottom")
for p, colour in zip(OTHERS, (COLOURS[1], COLOURS[3]), strict=True):
    w = weights(p)
    here = log_p - jensen.kl([p, 1 - p], posterior)
    of_ln.plot(w, np.log(w), "o-", color=colour, ms=6, lw=1.3, label=f"q(1) = {p}: ELBO {here:.3f}")
    of_ln.plot([evidence] * 2, [here, log_p], color=colour, lw=2.5)
    of_ln.plot(evidence, here, "o", color=colour, ms=8)
    for z, place, side in ((0, (-6, 4), "right"), (1, (5, -12), "left")):
        of_ln.annotate(f"z = {z + 1}", (w[z], np.log(w[z])), place, textcoords="offset points", color=colour, ha=side)
of_ln.plot(evidence, log_p, "*", color=COLOURS[0], ms=14, zorder=4, label="q = posterior: equal weights, no gap")
of_ln.set(xlabel="weight p(x, z) / q(z)", ylabel="logarithm, nats", xlim=(-0.011, 0.118), ylim=(-6.6, -1.9))
of_ln.set_title("a chord lies below the curve: E ln w ≤ ln E w")
of_ln.legend(loc="lower right", bbox_to_anchor=(1, 0.08))

for (p, values), colour in zip(many.items(), (COLOURS[1], COLOURS[3]), strict=True):
    w = weights(p)
    spread = np.array([p, 1 - p]) @ (w - evidence) ** 2 / (2 * evidence**2)
    of_k.loglog(KS, log_p - values, "o-", color=colour, ms=5, label=f"q(1) = {p}")
    of_k.loglog(KS, spread / KS, color=colour, lw=1, ls="--")
of_k.set(xlabel="draws k", ylabel="ln p(x) − $L_k$, nats", title="k draws; dashed: Var w / (2k p(x)²)")
of_k.legend(loc="lower left")
title(fig, "Jensen's inequality: the bound is below ln p(x) by the KL from q to the posterior")
save(fig, PICTURE)
