"""A latent curve along a spiral, and the posterior of a row with a missing value.

    python examples/latent_curve.py [picture.png]
Rows lie along a spiral. A latent curve gives each row a position z in [0, 1] with a posterior. From a straight start,
EM cuts across the turns; from geodesic distances it follows them. The density of the rows is a ridge along the curve,
    z ~ Uniform[0, 1],   p(x) = ∫₀¹ N(x; f(z), σ²I) dz,   p(z|x) = N(x; f(z), σ²I) / p(x).
A complete row has one position. A row with only its height observed may lie wherever the spiral has this height: its
posterior has several peaks, and the posterior mean lies at none of them. Bishop, Svensén & Williams (1998).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import LatentCurve

PICTURE = picture_path(__doc__)
NOISE, HEIGHT, ACROSS = 0.04, -0.2, 0.4

rng = np.random.default_rng(0)
radius = np.sqrt(rng.uniform(0.05, 1, 500))
angle = 4 * np.pi * radius
X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1) + NOISE * rng.normal(size=(500, 2))

straight = LatentCurve(init="pca", max_iter=500).fit(X)
model = LatentCurve(max_iter=500).fit(X)
z = model.transform(X)[:, 0]
std = model.noise_variance_**0.5
print("start      nats per row   noise")
for name, fitted in (("pca", straight), ("geodesic", model)):
    print(f"{name:10s} {fitted.score(X):12.3f} {fitted.noise_variance_**0.5:7.3f}")
agreement = abs(np.corrcoef(np.argsort(np.argsort(z)), np.argsort(np.argsort(radius)))[0, 1])
print(f"rank correlation of z with the position on the spiral: {agreement:.4f}")

row = np.array([[np.nan, HEIGHT]])
posterior = model.posterior(row).probs[0].numpy()
of_complete = model.posterior(np.array([[ACROSS, HEIGHT]])).probs[0].numpy()
draws = np.array([drawn[0, 0] for drawn in model.impute_draws(row, 60, random_state=0)])

# p(x) and p(z|x) by the formulas above, on the model's grid of z; only rounding differs.
centres = model.inverse_transform(model.grid_)
log_joint = norm.logpdf(X[:, None], centres, std).sum(-1) - np.log(len(centres))
assert np.allclose(model.score_samples(X), logsumexp(log_joint, axis=1)), "p(x) = ∫ N(x; f(z), σ²I) dz"
by_bayes = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
assert np.allclose(model.posterior(X).probs.numpy(), by_bayes, atol=1e-9), "p(z|x) = p(x|z) p(z) / p(x)"
assert model.score(X) > straight.score(X) + 0.3, "the geodesic start finds a much better curve"
assert agreement > 0.99, "z is the position on the spiral"
assert abs(std - NOISE) < 0.01, "and σ is the noise of the data"
peaks = [np.sum((p[1:-1] > p[:-2]) & (p[1:-1] > p[2:]) & (p[1:-1] > 1e-3)) for p in (posterior, of_complete)]
assert peaks == [4, 1], "four positions for the height alone, one for the complete row"
side1, side2 = np.arange(-1.25, 1.45, 0.01), np.arange(-1.25, 1.05, 0.01)
plane = np.stack(np.meshgrid(side1, side2), -1)
density = np.exp(model.score_samples(plane.reshape(-1, 2))).reshape(plane.shape[:2])
# A sum over a grid four times as fine as σ is accurate for Gaussians, and the margins are 5 σ wide.
assert abs(density.sum() * 0.01**2 - 1) < 1e-5, "a density"

# The band of one standard deviation on both sides: the curve shifted along its normal.
curve = model.curve(600)
tangent = np.gradient(curve, axis=0)
normal = np.stack([-tangent[:, 1], tangent[:, 0]], 1) / np.linalg.norm(tangent, axis=1, keepdims=True)
band = np.concatenate([curve + std * normal, (curve - std * normal)[::-1]])

fig = figure(14.5, 6.2)
big, right = fig.subfigures(1, 2, width_ratios=(1, 1.1))
ax = big.subplots()
ax.fill(*band.T, color=GREY, alpha=0.25, lw=0, label="± σ")
shown = ax.scatter(*X.T, s=14, c=z, cmap="viridis", lw=0)
ax.plot(*curve.T, color=INK, label="f(z)")
ax.axhline(HEIGHT, color=COLOURS[1], lw=1, ls="--", zorder=0)
ax.scatter(draws, np.full(60, HEIGHT), s=22, facecolor="none", edgecolor=COLOURS[1], zorder=3, label="imputed draws")
ax.set(
    aspect="equal",
    xlabel="$x_1$",
    ylabel="$x_2$",
    title=f"rows coloured by the posterior mean of z; dashed: $x_2$ = {HEIGHT}",
)
ax.legend(loc="lower left")
big.colorbar(shown, ax=ax, label="E[z | x]", shrink=0.72, aspect=30, pad=0.02)

(one, several), (ridge, bottom) = right.subplots(2, 2, height_ratios=(1, 1.6))
grid, colours = model.grid_[:, 0], shown.cmap(model.grid_[:, 0])
for panel, p, text in (
    (one, of_complete, f"p(z | x), x = ({ACROSS}, {HEIGHT})"),
    (several, posterior, f"p(z | $x_2$ = {HEIGHT})"),
):
    panel.bar(grid, p, width=1 / len(grid), color=colours)
    panel.set(title=text, xlabel="z", xlim=(0, 1))
one.set_ylabel("probability per grid point")
ridge.pcolormesh(side1, side2, density, cmap="Greys", rasterized=True)
ridge.plot(ACROSS, HEIGHT, "*", color=COLOURS[1], ms=11)
ridge.set_title("p(x) and the complete row")
bottom.scatter(*X.T, s=6, color=GREY, alpha=0.5, lw=0)
bottom.plot(*straight.curve(600).T, color=COLOURS[0])
for panel in (ridge, bottom):
    panel.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$", xlim=(-1, 1.2), ylim=(-1.1, 0.85))
bottom.set_title(f"straight start: {straight.score(X):.2f} nats (left: {model.score(X):.2f})")
title(fig, "A latent curve: a complete row has one position on it, a row with a missing value several")
save(fig, PICTURE)
