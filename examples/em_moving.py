"""EM step by step: moving ellipses, and a likelihood that never falls.

    python examples/em_moving.py [picture.gif]
Three Gaussians start in poor places. The E-step gives each row its shares of the components, shown as colours. The
M-step moves each component to the weighted mean and covariance of the rows. After each pair of steps ln p has risen or
stayed, as the picture on the right shows. The first step gains most. Then two components share one group, and a small
difference between them grows from step to step, until each has its own.
"""

from __future__ import annotations

import warnings

import matplotlib
import numpy as np

from drawing import COLOURS, ellipses, figure, picture_path
from jensen import GaussianMixture
from moving import animate

PICTURE = picture_path(__doc__).with_suffix(".gif")
N_STEPS = 16
rng = np.random.default_rng(3)
X = np.concatenate(
    [
        rng.multivariate_normal([0, 0], [[1.2, 0.9], [0.9, 1.2]], 150),
        rng.multivariate_normal([4.5, 0.5], [[0.4, -0.2], [-0.2, 1.0]], 100),
        rng.multivariate_normal([2.5, 4.0], [[1.6, 0.0], [0.0, 0.25]], 100),
    ]
)
start = {
    "means_init": [[1.0, 1.0], [1.4, 1.0], [6.0, 5.0]],
    "weights_init": [1 / 3] * 3,
    "precisions_init": np.stack([np.eye(2) / 2] * 3),
}


def after(n_steps: int) -> GaussianMixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge is the point
        return GaussianMixture(3, **start, max_iter=n_steps, tol=0).fit(X)


models = [after(n_steps) for n_steps in range(N_STEPS + 1)]
scores = np.array([model.score(X) for model in models])
print(f"nats per row: {scores[0]:.3f} at the start, {scores[-1]:.3f} after {N_STEPS} steps")
assert (np.diff(scores) > -1e-9).all(), "ln p never falls"

fig = figure(7.6, 3.5)
left, right = fig.subplots(1, 2, width_ratios=(1.25, 1))
rgb = np.array([matplotlib.colors.to_rgb(colour) for colour in COLOURS[:3]])


def draw(step: int) -> None:
    model = models[step]
    left.clear()
    left.scatter(*X.T, s=9, c=np.clip(model.predict_proba(X) @ rgb, 0, 1))
    ellipses(left, model)
    left.set(xlim=(-4, 7.5), ylim=(-4, 6.5), xticks=[], yticks=[], title=f"step {step}")
    right.clear()
    right.plot(scores[: step + 1], color=COLOURS[0])
    right.plot(step, scores[step], "o", color=COLOURS[0])
    margin = 0.05 * np.ptp(scores)
    right.set(xlim=(0, N_STEPS), ylim=(scores[0] - margin, scores[-1] + margin))
    right.set(xlabel="steps", title="ln p, nats per row")


animate(fig, draw, range(N_STEPS + 1), PICTURE, per_second=3)
