"""Outliers by noise level: the parts of a diffusion's bound reveal what their sum hides.

    python examples/outlier_levels.py [picture.png]
    -ln p(x) ≤ L_T + Σ_{t=2}^T L_{t-1} + L_0
Usual signals are a slow wave plus noise. There are three kinds of outliers: noise without a wave, signals that are too
rough, and flat signals that hardly vary. Flat signals are close to all usual ones and cost fewer nats than most of
them, so the bound does not detect them. The profile takes the logarithm of the nats in ten bands of levels and measures
its distance from the profiles of usual signals. For flat signals, the coarse levels, which determine the wave, cost too
little.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import Diffusion, ResidualMLP, outlier_scores

PICTURE = picture_path(__doc__)
N_POINTS, NOISE = 24, 0.3
rng = np.random.default_rng(0)


def signals(n: int, height: float = 1.0, noise: float = NOISE) -> np.ndarray:
    """Waves of one or two periods with random phases, plus noise (n, N_POINTS)."""
    time = np.linspace(0, 2 * np.pi, N_POINTS, endpoint=False)
    wave = np.sin(rng.uniform(1, 2, (n, 1)) * time + rng.uniform(0, 2 * np.pi, (n, 1)))
    return height * rng.uniform(0.8, 1.2, (n, 1)) * wave + noise * rng.normal(size=(n, N_POINTS))


usual, new = signals(500), signals(300)
strange = {
    "rough": signals(100, noise=0.5),
    "no wave": signals(100, height=0.0, noise=0.75),
    "flat": signals(100, height=0.15, noise=0.25),
}
model = Diffusion(n_steps=200, network=ResidualMLP(width=128), max_epochs=30, random_state=0).fit(signals(2000))

by_bound = {name: outlier_scores(model, X) for name, X in {"usual": new, **strange}.items()}
by_profile = {name: outlier_scores(model, X, usual, by="profile") for name, X in {"usual": new, **strange}.items()}
areas = {}
print("area under the ROC curve    bound  profile")
for name in strange:
    truth = np.repeat([0, 1], [len(new), len(strange[name])])
    areas[name] = [
        roc_auc_score(truth, np.concatenate([scores["usual"], scores[name]])) for scores in (by_bound, by_profile)
    ]
    print(f"{name:24s} {areas[name][0]:8.3f} {areas[name][1]:8.3f}")
assert areas["flat"][0] < 0.5 < 0.9 < areas["flat"][1], (
    "flat signals cost less than usual ones, but have another profile"
)
assert min(area[1] for area in areas.values()) > 0.85

fig = figure(12.6, 5.2)
shown, bands, both = fig.subplots(1, 3, width_ratios=(0.8, 1, 1))
COLOUR = {"usual": GREY, **dict(zip(strange, COLOURS, strict=False))}
for line, (name, X) in enumerate({"usual": new, **strange}.items()):
    for k in range(2):
        shown.plot(np.arange(N_POINTS) + 28 * k, X[k] - 4 * line, color=COLOUR[name], lw=1.4)
shown.set_yticks([-4 * line for line in range(len(COLOUR))], list(COLOUR))
shown.set(xticks=[], title="two signals of each kind")
shown.spines[:].set_visible(False)
shown.tick_params(length=0)

# Ten bands of levels from 2 to T, equal parts of the distribution from which scores draw their levels.
share = model.schedule_.beta / model.schedule_.noise_variance
share = (1 / len(share) + share / share.sum())[1:]
ends = np.searchsorted(np.cumsum(share) / share.sum(), np.arange(10) / 10)
nats = {
    name: np.add.reduceat(model.bound_by_level(X)[:, 1:], ends, axis=1) for name, X in {"usual": new, **strange}.items()
}
middle = np.median(nats["usual"], 0)
place = np.arange(1, len(middle) + 1)
bands.fill_between(
    place, *(np.quantile(nats["usual"] / middle, q, 0) for q in (0.05, 0.95)), color=GREY, alpha=0.25, lw=0
)
for name in strange:
    bands.plot(place, np.median(nats[name], 0) / middle, "o-", color=COLOUR[name], label=name)
bands.axhline(1, color=INK, lw=0.8, ls="--")
bands.set(yscale="log", xlabel="band of levels, from fine to coarse", ylabel="median nats relative to usual signals")
bands.set_xticks(place)
bands.set_yticks([0.2, 0.5, 1, 2, 3], ["0.2", "0.5", "1", "2", "3"])
bands.minorticks_off()
bands.set_title("cost by level; grey: 90 % of usual signals")
bands.legend()

for name in COLOUR:
    both.plot(by_bound[name], by_profile[name], "o", color=COLOUR[name], ms=4, alpha=0.6, mew=0, label=name)
both.set(yscale="log", xlabel="by bound: -ln p, nats", ylabel="by profile: squared distance")
both.set_title("scores of all signals")
both.legend(loc="lower right")
title(fig, "Signals that are too simple are outliers, too: the bound by level detects them, its sum does not")
save(fig, PICTURE)
