"""Reparametrisation and importance sampling: two gradients of E_q f, and two estimates of ln p(x).

    python examples/reparametrisation.py [picture.png]
With draws of z, the gradient of E_q[f(z)], q = N(μ, σ²I), can be estimated in two ways:
    score function    f(z) ∂ ln q(z)/∂μ = f(z) ε / σ        uses only values of f
    z = μ + σ ε       ∂f(μ + σε)/∂μ                         differentiates f by backpropagation
Both are unbiased, but the variance of the first also depends on any constant in f. For f = ln p(x|z) of a smooth
decoder, as here, its variance is larger even after E f is subtracted (Kingma & Welling 2014); for an f that oscillates
within σ the order can be reversed. Draws of z from the prior estimate p(x) = E p(x|z) badly, because p(x|z) is almost 0
for most of them. Draws from q, weighted by p(x, z)/q(z|x), fall where p(x|z) is large. The expected logarithm of the
mean of k weights is the importance-weighted bound
    L_k = E ln (1/k) Σ_j p(x, z_j)/q(z_j|x),
which rises with k to ln p(x) (Burda et al. 2016). For probabilistic PCA all these numbers are known exactly.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.datasets import load_digits

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import ProbabilisticPCA

PICTURE = picture_path(__doc__)
N_DRAWS, N_WEIGHTS, DIMENSIONS, MOST = 10_000, 2**16, (1, 2, 4, 8, 16, 32), 1024
SHOWN, BATCH = 8, 20
WAYS = {"score function": COLOURS[1], "score function, E f subtracted": COLOURS[3], "z = μ + σε": COLOURS[0]}
X = load_digits().data + np.random.default_rng(0).uniform(size=(1797, 64))
rng = np.random.default_rng(1)


def problem(m: int, row: int = 7) -> tuple[ProbabilisticPCA, np.ndarray, np.ndarray, float]:
    """A model, a row, and a spherical q near the posterior: shifted by half its width, and too wide."""
    model = ProbabilisticPCA(m).fit(X)
    posterior = model.posterior(X[row : row + 1])
    width = 1.2 * float(posterior.variance.mean()) ** 0.5
    return model, X[row], posterior.mean[0].numpy() + 0.5 * width, width


def log_likelihood(model: ProbabilisticPCA, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """ln p(x|z) of draws (k, m)."""
    return norm.logpdf(x, model.mean_ + z @ model.loadings_.T, model.noise_variance_**0.5).sum(-1)


def mean_log_likelihood(model: ProbabilisticPCA, x: np.ndarray, mean: np.ndarray, width: float) -> float:
    """E_q ln p(x|z) in closed form."""
    trace = width**2 * np.square(model.loadings_).sum() / model.noise_variance_
    return float(log_likelihood(model, x, mean[None])[0] - 0.5 * trace)


variances = {}
for m in DIMENSIONS:
    model, x, mean, width = problem(m)
    W, noise = model.loadings_, rng.normal(size=(N_DRAWS, m))
    z = mean + width * noise
    f, score = log_likelihood(model, x, z)[:, None], noise / width
    by_path = (x - model.mean_ - z @ W.T) @ W / model.noise_variance_
    estimates = f * score, (f - mean_log_likelihood(model, x, mean, width)) * score, by_path
    exact = W.T @ (x - model.mean_ - W @ mean) / model.noise_variance_
    for estimate in estimates:
        error = estimate.std(0, ddof=1) / np.sqrt(N_DRAWS)
        # 4.5 standard errors for each of 189 coordinates: a chance failure has a probability of about 0.001.
        assert (np.abs(estimate.mean(0) - exact) < 4.5 * error).all(), "unbiased"
    variances[m] = [estimate.var(0).sum() for estimate in estimates]
    # Σ over coordinates of Var[∂f/∂μ] = ‖WᵀW‖² width²/σ⁴, exactly; 10 % is many standard errors here.
    assert abs(variances[m][2] * model.noise_variance_**2 / (width**2 * np.square(W.T @ W).sum()) - 1) < 0.1
    print(f"m = {m:2d}, variance of the gradient:", ", ".join(f"{v:.0f}" for v in variances[m]))
    if m == SHOWN:
        shown = {name: e[:, 0].reshape(-1, BATCH).mean(1) for name, e in zip(WAYS, estimates, strict=True)}
        target = exact[0]
assert all(raw > centred > path for raw, centred, path in variances.values()), (
    "reparametrisation has the smallest variance"
)

# ln p(x) with k draws, from the prior and from q.
model, x, centre, width = problem(SHOWN)
log_p = model.score_samples(x[None])[0]
ks = 2 ** np.arange(0, int(np.log2(MOST)) + 1)


def log_weights(mean: np.ndarray, spread: float) -> np.ndarray:
    """ln p(x, z) - ln q(z) for new draws from q = N(mean, spread² I)."""
    noise = rng.normal(size=(N_WEIGHTS, SHOWN))
    z = mean + spread * noise
    ratio = np.square(noise).sum(1) / 2 - np.square(z).sum(1) / 2 + SHOWN * np.log(spread)
    return log_likelihood(model, x, z) + ratio


level, error = {}, {}
for name, *where in (("the prior", np.zeros(SHOWN), 1.0), ("q", centre, width)):
    # New draws for every k: with shared draws the estimates would always rise, by Jensen's inequality.
    groups = [logsumexp(log_weights(*where).reshape(-1, k), axis=1) - np.log(k) for k in ks]
    level[name] = np.array([group.mean() for group in groups])
    error[name] = np.array([group.std(ddof=1) / np.sqrt(len(group)) for group in groups])
elbo = mean_log_likelihood(model, x, centre, width)
elbo -= 0.5 * (np.square(centre).sum() + SHOWN * (width**2 - 1 - 2 * np.log(width)))
print(f"ln p(x) = {log_p:.3f}; ELBO of q {elbo:.3f}; with {MOST} draws from q {level['q'][-1]:.3f}", end=", ")
print(f"from the prior {level['the prior'][-1]:.1f}")
assert abs(level["q"][0] - elbo) < 4 * error["q"][0], "L_1 is the ELBO"
for name in level:
    steps, unsure = np.diff(level[name]), np.hypot(error[name][1:], error[name][:-1])
    assert (steps[:5] > 4 * unsure[:5]).all(), "L_k rises with k, significantly up to 32"
    assert (steps > -4 * unsure).all()
    assert (level[name] < log_p + 4 * error[name]).all(), "and stays below ln p(x)"
assert log_p - level["q"][-1] < 0.05 < 5 < log_p - level["the prior"][-1], "draws from the prior are far below"

fig = figure(13.5, 4.8)
spread_of, grows, evidence = fig.subplots(1, 3)
reach = 3.5 * shown["score function, E f subtracted"].std()
edges = np.linspace(target - reach, target + reach, 31)
for name, colour in list(WAYS.items())[1:]:
    spread_of.hist(shown[name], edges, color=colour, alpha=0.7, density=True)
    spread_of.plot([], [], lw=7, color=colour, alpha=0.7, label=f"{name}: standard deviation {shown[name].std():.1f}")
raw = shown["score function"].std()
spread_of.plot([], [], lw=7, color=COLOURS[1], alpha=0.7, label=f"score function: {raw:.0f}, not shown")
spread_of.plot([target] * 2, (0, spread_of.get_ylim()[1]), color=INK, lw=1.2, ls="--", label="exact value")
spread_of.set(xlabel=f"∂/∂μ₁ from {BATCH} draws of z, m = {SHOWN}", ylabel="density of the estimate")
spread_of.set_title("estimates with equal mean")
spread_of.set_ylim(0, 1.5 * spread_of.get_ylim()[1])
spread_of.legend(loc="upper left")
for k, (name, colour) in enumerate(WAYS.items()):
    grows.loglog(DIMENSIONS, [found[k] for found in variances.values()], "o-", color=colour, label=name)
grows.set_xticks(DIMENSIONS, DIMENSIONS)
grows.minorticks_off()
grows.set(xlabel="latent dimensions m", ylabel="variance, summed over coordinates")
grows.set_title("variance of the gradient estimate")
grows.legend(loc="upper left")
grows.set_ylim(top=1e9)
evidence.axhline(log_p, color=INK, lw=1.2, ls="--")
evidence.text(MOST, log_p + 1.5, f"ln p(x) = {log_p:.1f}", ha="right", va="bottom")
for (name, values), colour in zip(level.items(), (COLOURS[3], COLOURS[2]), strict=True):
    evidence.errorbar(ks, values, 4 * error[name], fmt="o-", color=colour, ms=5, label=f"draws from {name}")
evidence.axhline(elbo, color=GREY, lw=1, ls=":")
evidence.text(1.2, elbo - 1.5, f"ELBO of q = {elbo:.1f}", va="top", color=GREY)
evidence.set(xscale="log", xlabel="draws k", ylabel="$L_k$ = E ln (1/k) Σ p(x, z)/q(z), nats")
evidence.set_ylim(log_p - 120, log_p + 12)
evidence.set_title(f"importance-weighted bound, m = {SHOWN}")
evidence.legend(loc="lower right")
title(fig, "z = μ + σε gives gradients with small variance, and draws from q a tight bound")
save(fig, PICTURE)
