"""A blend of two models: each describes the rows on which it is better.

    python examples/blend.py [picture.png]
    p(x) = Σ_a w_a p_a(x),   p(a|x) = w_a p_a(x) / p(x)
Some rows lie on a bent line and others in two round clouds. A latent curve describes the first well, a mixture of
Gaussians the second. The weights of the blend are fitted by EM to rows that neither model was trained on, and its score
of new rows is above that of both. Colours show which of the two a row probably comes from.
"""

from __future__ import annotations

import numpy as np

from drawing import GREY, figure, picture_path, save, title
from jensen import Blend, GaussianMixture, LatentCurve

PICTURE = picture_path(__doc__)
rng = np.random.default_rng(0)
t = rng.uniform(-1, 1, size=400)
line = np.stack([3 * t, 2 * np.sin(2.5 * t)], 1) + 0.05 * rng.normal(size=(400, 2))
clouds = np.array([[-2.0, 3.5], [2.5, -3.5]])[rng.integers(2, size=300)] + 0.6 * rng.normal(size=(300, 2))
rows = rng.permutation(np.concatenate([line, clouds]))
train, test = rows[:500], rows[500:]

models = {"latent curve": LatentCurve(random_state=0), "Gaussian mixture": GaussianMixture(3, random_state=0)}
blend = Blend(models, random_state=0).fit(train)
scores = {name: model.score(test) for name, model in blend.models_.items()} | {"blend": blend.score(test)}
for name, score in scores.items():
    print(f"{name:>16}: {score:.3f} nats per new row")
print(f"weights {blend.weights_.round(2)}, at most {blend.gap_:.1e} nats per held-out row below the best ones")
assert scores["blend"] > max(scores["latent curve"], scores["Gaussian mixture"])

fig = figure(11, 4.5)
title(fig, "A blend uses each model where it is better")
left, right = fig.subplots(1, 2, width_ratios=(3, 2))
shown = left.scatter(*test.T, c=blend.predict_proba(test)[:, 0], cmap="cividis", vmin=0, vmax=1, s=14)
left.set(title="new rows", xlabel="first column", ylabel="second column")
fig.colorbar(shown, label="p(latent curve | x)")
right.barh([*scores], [score - min(scores.values()) for score in scores.values()], color=GREY)
right.set(xlabel=f"nats per new row above {min(scores.values()):.2f}")
save(fig, PICTURE)
