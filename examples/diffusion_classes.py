"""A diffusion with classes: samples by class, guidance, and the diffusion classifier.

    python examples/diffusion_classes.py [picture.png]
The data have three classes of two Gaussians each. Every fifth row has a label; the other rows train the model without a
class. Left: the regions of the diffusion classifier, p(y|x) ∝ p(y) exp(bound of ln p(x|y)), and the boundaries of
Bayes' rule for the true densities. Middle: samples by class, without and with guidance. Guided samples stay away from
the other classes and vary less than the class does. Right: agreement with Bayes' rule as the budget of evaluations
grows. All classes are compared at the same levels with the same noise and its negative, and classes that are far behind
are dropped early. With the simple loss in place of the bound, p(y|x) ∝ exp(-mean ‖ε - ε_θ‖²), the probabilities are
less extreme, but the predicted class is often the same (Li et al. 2023).
"""

from __future__ import annotations

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from scipy.special import logsumexp

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import Diffusion, ResidualMLP

PICTURE = picture_path(__doc__)
N_ROWS, STD, BUDGETS = 3000, 0.35, (16, 32, 64, 128)
angle = np.arange(6) * np.pi / 3
MEANS = 1.6 * np.stack([np.cos(angle), np.sin(angle)], 1) * np.where(np.arange(6) % 2, 1.0, 0.55)[:, None]
CLASS = np.arange(6) % 3

rng = np.random.default_rng(0)


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    component = rng.integers(0, 6, n)
    return MEANS[component] + STD * rng.normal(size=(n, 2)), CLASS[component]


def log_joint(x: np.ndarray) -> np.ndarray:
    """ln p(x, y) of the true densities (n, 3), up to a constant."""
    each = -((x[:, None] - MEANS) ** 2).sum(-1) / (2 * STD**2)
    return np.stack([logsumexp(each[:, y == CLASS], 1) for y in range(3)], 1)


X, y = rows(N_ROWS)
test, y_test = rows(400)
known = np.arange(N_ROWS) % 5 == 0
model = Diffusion(
    n_steps=100, network=ResidualMLP(64, 2), max_epochs=150, batch_size=512, learning_rate=5e-3, random_state=0
).fit(X, np.where(known, y, -1))

bayes = log_joint(test).argmax(1)
results = {budget: model.classify(test, budget=budget) for budget in BUDGETS}
agreed = {budget: np.mean(found.probabilities.argmax(1) == bayes) for budget, found in results.items()}
simple = {budget: model.predict_proba(test, budget=budget, weighting="simple") for budget in BUDGETS}
agreed_simple = {budget: np.mean(proba.argmax(1) == bayes) for budget, proba in simple.items()}
sure = {"bound": results[BUDGETS[-1]].probabilities.max(1).mean(), "simple": simple[BUDGETS[-1]].max(1).mean()}
work = {budget: found.n_evaluations.mean() for budget, found in results.items()}
drawn = {w: [model.sample(300, y=c, guidance=w, random_state=c)[0] for c in range(3)] for w in (0.0, 2.0)}
right = {w: np.mean([(log_joint(part).argmax(1) == c).mean() for c, part in enumerate(drawn[w])]) for w in drawn}
print(f"accuracy of Bayes' rule on test rows: {np.mean(bayes == y_test):.1%}")
for budget in BUDGETS:
    print(
        f"budget {budget}: {agreed[budget]:.1%} agree with Bayes' rule, {work[budget]:.0f} of {3 * budget} evaluations"
    )
print("with the simple loss:", ", ".join(f"{share:.1%}" for share in agreed_simple.values()), end="; ")
print(f"mean of the largest class probability {sure['simple']:.2f} instead of {sure['bound']:.2f}")
print("samples that Bayes' rule assigns to their class: ", end="")
print(", ".join(f"{share:.1%} with guidance {w:g}" for w, share in right.items()))
assert agreed[BUDGETS[-1]] > 0.93, "the classifier nearly equals Bayes' rule"
assert agreed_simple[BUDGETS[-1]] > 0.8, "with the simple loss it agrees on most rows"
assert sure["simple"] < sure["bound"]
# Budgets below 48 levels are not split into stages.
assert all(work[budget] < 3 * budget for budget in BUDGETS if budget >= 48), "some classes are dropped early"
assert right[2.0] > right[0.0] > 0.85, "guidance moves samples away from other classes"

fig = figure(14.5, 4)
axes = fig.subplots(1, 4, width_ratios=(1, 1, 1, 0.95))
side = np.linspace(-2.6, 2.6, 45)
grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
predicted = model.predict(grid, budget=32).reshape(len(side), -1)
axes[0].pcolormesh(side, side, predicted, cmap=ListedColormap(COLOURS[:3]), alpha=0.25, lw=0, rasterized=True)
fine = np.linspace(-2.6, 2.6, 300)
exact = log_joint(np.stack(np.meshgrid(fine, fine), -1).reshape(-1, 2))
for c in range(3):
    margin = exact[:, c] - np.delete(exact, c, 1).max(1)
    axes[0].contour(fine, fine, margin.reshape(len(fine), -1), [0], colors=INK, linewidths=1)
    own = known & (y == c)
    axes[0].plot(*X[own][:60].T, ".", color=COLOURS[c], ms=4)
axes[0].plot(*X[~known][:250].T, ".", color=GREY, ms=1.5)
axes[0].set_title("predicted regions; Bayes' boundaries (lines)")
for ax, (w, parts) in zip(axes[1:3], drawn.items(), strict=True):
    for c, part in enumerate(parts):
        ax.plot(*part.T, ".", color=COLOURS[c], ms=2.5)
    ax.set_title(f"samples by class, guidance {w:g}")
for ax in axes[:3]:
    ax.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), aspect="equal", xticks=(-2, 0, 2), yticks=(-2, 0, 2), xlabel="$x_1$")
axes[0].set_ylabel("$x_2$")
marks = [*((COLOURS[c], f"class {c + 1}") for c in range(3)), (GREY, "unlabelled")]
handles = [Line2D([], [], ls="", marker=".", ms=9, color=colour, label=name) for colour, name in marks]
fig.legend(handles=handles, loc="outside lower left", ncols=4, handletextpad=0.2)
for share, by, colour, name in (
    (agreed, 0.98, COLOURS[0], "by the bound"),
    (agreed_simple, 1.02, COLOURS[3], "simple loss"),
):
    shares = np.array([*share.values()])
    errors = 100 * np.sqrt(shares * (1 - shares) / len(test))
    axes[3].errorbar(by * np.array(BUDGETS), 100 * shares, errors, fmt="o-", color=colour, capsize=3, label=name)
axes[3].legend(loc="lower right", bbox_to_anchor=(1.0, 0.08))
for budget in BUDGETS:
    axes[3].annotate(
        f"{work[budget]:.0f} of {3 * budget}",
        (budget, 100 * (agreed[budget] + np.sqrt(agreed[budget] * (1 - agreed[budget]) / len(test)))),
        (0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color=GREY,
    )
axes[3].set_xscale("log", base=2)
axes[3].set(
    xlabel="budget, evaluations per class", title="agreement with Bayes' rule, %", xticks=BUDGETS, xlim=(12, 170)
)
axes[3].set_xticklabels(BUDGETS)
low, high = axes[3].get_ylim()
axes[3].set_ylim(low - 0.35 * (high - low), high + 0.08 * (high - low))
axes[3].text(
    0.98,
    0.02,
    "bars: one standard error; grey:\nevaluations of the network",
    ha="right",
    transform=axes[3].transAxes,
    fontsize=8.5,
    color=GREY,
)
title(fig, "A diffusion with classes samples them, exaggerates them by guidance, and classifies rows")
save(fig, PICTURE)
