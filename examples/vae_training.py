"""Three ways to train a VAE: alternating, joint, and the decoder alone from pairs.

    python examples/vae_training.py [picture.png]
    ψ ← argmax ELBO(ψ, θ)   the encoder: an E-step that need not be exact
    θ ← argmax ELBO(ψ, θ)   the decoder: an M-step
Alternating training is variational EM. The E-step raises the bound by reducing the gap KL(q ‖ p(z|x)). The M-step
raises the bound and may increase the gap; ln p is guaranteed to rise only if q was exact. Joint training moves both
networks along one gradient. With linear networks and one σ² the largest ln p is known: it is that of probabilistic PCA,
-470.6695 nats in total for iris and one dimension, with σ² = 0.114139. The exact posterior is linear in x and diagonal,
so the gap can be 0. Joint training reaches this maximum; alternating training needs more steps. If the z_i of the rows
are known, training the decoder alone is a regression:
    argmax_θ Σ_i ln N(x_i; decoder(z_i), σ²I) = argmin_θ Σ_i ‖x_i - decoder(z_i)‖².
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import MLP, VAE, Gaussian, ProbabilisticPCA, Trainer

PICTURE = picture_path(__doc__)
N_TURNS, N_STEPS, LINE = 8, 40, MLP(())
# Every row is repeated four times: four draws of z per step, and the same maximum.
X = np.tile(load_iris().data, (4, 1))
best = ProbabilisticPCA(1).fit(X)
limit = best.score(X)
assert abs(150 * limit + 470.6695) < 1e-4
assert abs(best.noise_variance_ - 0.114139) < 1e-6


def linear_vae(training: str, n_epochs: int) -> VAE:
    return VAE(
        1,
        likelihood=Gaussian("learned"),
        encoder=LINE,
        decoder=LINE,
        scaling="common",
        training=training,
        max_epochs=n_epochs,
        batch_size=len(X),
        learning_rate=0.05,
        trainer=Trainer(validation_fraction=0.0, averaging=None),
        random_state=0,
    ).fit(X)


def exact(model: VAE) -> tuple[float, float]:
    """Mean bound and mean ln p of a model with linear networks, in closed form."""
    q, b = model.posterior(X), model.inverse_transform([[0.0]])[0]
    w, m, var = model.inverse_transform([[1.0]])[0] - b, q.mean.numpy().astype(float), model.noise_variance_[0]
    s2 = q.variance.numpy().astype(float)[:, 0]
    squares = ((X - b - m * w) ** 2).sum(1) + s2 * (w @ w)
    kl = 0.5 * (m[:, 0] ** 2 + s2 - 1 - np.log(s2))
    bound = -0.5 * X.shape[1] * np.log(2 * np.pi * var) - squares / (2 * var) - kl
    evidence = multivariate_normal.logpdf(X, b, np.outer(w, w) + var * np.eye(X.shape[1]))
    return float(bound.mean()), float(evidence.mean())


# Alternating training written out: the module returns the terms of the bound, and each network has its optimiser.
model = linear_vae("joint", 1)
module = model.module_
rows = torch.tensor((X - np.asarray(model.columns_.location)) / np.asarray(model.columns_.scale), dtype=torch.float32)
torch.manual_seed(0)
networks = {"E": module.inference_parameters(), "M": module.generative_parameters()}
optimisers = {name: torch.optim.Adam(parameters, 0.05) for name, parameters in networks.items()}
course = [("", *exact(model))]
for _ in range(N_TURNS):
    for name, optimiser in optimisers.items():
        for _ in range(N_STEPS):
            terms = module(rows)
            optimiser.zero_grad()
            (terms["latent"] - terms["reconstruction"]).mean().backward()
            optimiser.step()
        course.append((name, *exact(model)))
phase, bounds, evidence = zip(*course, strict=True)
gaps = np.array(evidence) - bounds
# Gradients from one draw of z per row are noisy; the numbers compared here are exact.
assert gaps.min() > -1e-6, "a bound; 1e-6 for single precision"
assert np.diff(bounds).min() > -0.02, "both steps raise the bound"
assert gaps[1::2].max() < gaps[0], "the encoder reduces the gap"
assert np.all(gaps[3::2] < gaps[2:-1:2]), "in every round"

fitted = {kind: linear_vae(kind, 800) for kind in ("joint", "alternating")}
reached = {kind: exact(vae) for kind, vae in fitted.items()}
print(f"nats per row: PPCA {limit:.4f}; alternating, after {N_TURNS} rounds {bounds[-1]:.4f}")
for kind, (bound, log_p) in reached.items():
    print(f"  {kind}: bound {bound:.4f}, ln p {log_p:.4f}, σ² {fitted[kind].noise_variance_[0]:.4f}")
    assert bound <= log_p <= limit + 1e-6, "no linear VAE exceeds PPCA"
# In alternating training steps are short along a ridge, where both networks must change together.
assert reached["joint"][0] > limit - 0.02 > limit - 0.2 < reached["alternating"][0], (
    "joint training reaches the maximum, alternating comes close"
)
short = limit - reached["alternating"][0]
assert short > 5 * (limit - reached["joint"][0]), "but does not reach it"

# The decoder alone: a linear one against least squares in closed form, and a curve.
rng = np.random.default_rng(0)
z = rng.normal(size=(400, 1))
curve = lambda z: np.concatenate([z, np.sin(2 * z)], 1)  # noqa: E731
pairs = curve(z) + 0.15 * rng.normal(size=(400, 2))
options = {"likelihood": Gaussian("feature"), "max_epochs": 500, "batch_size": 400, "learning_rate": 0.05}
options |= {"trainer": Trainer(validation_fraction=0.0, averaging=None), "random_state": 0}
straight = VAE(1, decoder=LINE, **options).fit_decoder(pairs, z)
design = np.column_stack([np.ones(len(z)), z])
least = design @ np.linalg.lstsq(design, pairs, rcond=None)[0]
assert np.abs(straight.inverse_transform(z) - least).max() < 0.01, "least squares, up to the precision of Adam"
bent = VAE(1, decoder=MLP((32,)), **options).fit_decoder(pairs, z)
grid = np.linspace(-2, 2, 200)[:, None]
off = np.sqrt(((bent.inverse_transform(grid) - curve(grid)) ** 2).sum(1).mean())
noise = np.sqrt(bent.noise_variance_)
print(f"decoder from pairs: error {off:.3f}; standard deviations {noise[0]:.3f} and {noise[1]:.3f}, true 0.15")
assert off < 0.1, "well below the noise"
# The standard error of a standard deviation is σ / √(2n) = 0.005; the rest allows for the error of the curve.
assert np.abs(noise - 0.15).max() < 0.03

fig = figure(13.5, 5)
turns, epochs, alone = fig.subplots(1, 3, width_ratios=(1.15, 1, 1))
steps = np.arange(len(course))
for k in steps[1:]:
    colour = COLOURS[2] if phase[k] == "E" else COLOURS[3]
    # The dot is the end of its own phase.
    turns.plot([k - 1, k], bounds[k - 1 : k + 1], "o-", color=colour, ms=5, markevery=[1])
turns.plot(0, bounds[0], "o", color=GREY, ms=5, label="start")
for colour, name in ((COLOURS[2], "E-step: encoder"), (COLOURS[3], "M-step: decoder")):
    turns.plot([], [], "o-", color=colour, label=name + ", raises the bound")
turns.plot(steps, evidence, "o--", color=INK, lw=1, ms=4, label="ln p(x), exact")
turns.fill_between(steps, bounds, evidence, color=GREY, alpha=0.2, lw=0, label="gap, KL(q ‖ p(z|x))")
turns.axhline(limit, color=COLOURS[1], lw=1.2, ls=":")
turns.text(0, limit + 0.05, f"probabilistic PCA, {limit:.3f}", color=COLOURS[1], va="bottom")
turns.set(xlabel=f"rounds of {N_STEPS} steps", ylabel="nats per row", ylim=(-9, -2.5), xticks=steps[::4])
turns.set_title("alternating: variational EM")
turns.legend(loc="lower right")
for (kind, vae), colour in zip(fitted.items(), (COLOURS[0], COLOURS[3]), strict=True):
    history = vae.history_
    epochs.plot(history["epoch"], history["objective"], "o-", color=colour, ms=4, label=kind)
epochs.axhline(limit, color=COLOURS[1], lw=1.2, ls=":")
epochs.set(xlabel="steps", ylabel="bound during training, nats per row", ylim=(-9, -2.5))
epochs.set_title("joint and alternating training")
epochs.legend(loc="lower right")
alone.scatter(*pairs.T, s=9, c=z[:, 0], cmap="viridis", lw=0, alpha=0.8)
alone.plot(*curve(grid).T, color=INK, lw=1.2, ls="--", label="true curve")
alone.plot(*bent.inverse_transform(grid).T, color=COLOURS[1], label="decoder, one hidden layer")
alone.plot(*straight.inverse_transform(grid).T, color=COLOURS[0], label="linear decoder = least squares")
alone.set(
    xlabel="$x_1$", ylabel="$x_2$", ylim=(-1.6, 2.5), xlim=(-3, 3), title="`fit_decoder`: trained on pairs; colour: z"
)
alone.legend(loc="upper left")
title(
    fig,
    f"Joint training reaches the maximum; alternating, in as many steps, stays {short:.2f} nats below",
)
save(fig, PICTURE)
