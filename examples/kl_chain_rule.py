"""The chain rule of KL, maximum likelihood as minimum KL, and naive Bayes as 2d + 1 problems.

    python examples/kl_chain_rule.py [picture.png]
KL is not symmetric: KL(P ‖ Q) and KL(Q ‖ P) are two numbers. The divergence of a joint table is the sum of the
divergence of one margin and that of the conditional distribution, in either order:
    KL(P(X,Y) ‖ Q(X,Y)) = KL(P(X) ‖ Q(X)) + KL(P(Y|X) ‖ Q(Y|X)).
With P̂ the frequencies of the rows, mean ln P_θ(x) = -H(P̂) - KL(P̂ ‖ P_θ), so the maximum-likelihood θ minimises the
divergence from P̂. For naive Bayes, p(y) Π_j p(x_j|y), the chain rule splits KL(P̂ ‖ P_θ) into a term of p(y), one term
of each p(x_j|y), and the total correlation of the features within a class,
    TC = Σ_y P̂(y) KL(P̂(x|y) ‖ Π_j P̂(x_j|y)).
TC does not depend on θ, so each of the other terms can be minimised separately.
"""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.naive_bayes import BernoulliNB

import jensen
from drawing import COLOURS, GREY, INK, figure, picture_path, save, title

PICTURE = picture_path(__doc__)
# Tolerance for rounding: sums of at most a few thousand terms of size 1.
ROUNDING = 1e-12
rng = np.random.default_rng(0)


def chain(p: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """KL of the margin X (rows), and of Y given X; `conditional_kl` conditions on the columns."""
    return jensen.kl(p.sum(1), q.sum(1)), jensen.conditional_kl(p.T, q.T)


for _ in range(500):
    p, q = rng.dirichlet(np.full(12, 0.5), 2).reshape(2, 3, 4)
    whole = jensen.kl(p, q)
    assert whole > 0, "the tables differ"
    assert abs(sum(chain(p, q)) - whole) < ROUNDING * max(1, whole)
    assert abs(sum(chain(p.T, q.T)) - whole) < ROUNDING * max(1, whole), "in either order"
assert jensen.kl(p, p) == 0
# By hand: ½ ln (½/0.9) + ½ ln (½/0.1), and 0.9 ln (0.9/½) + 0.1 ln (0.1/½).
there, back = jensen.kl([0.5, 0.5], [0.9, 0.1]), jensen.kl([0.9, 0.1], [0.5, 0.5])
print(f"coins with P(heads) = 0.5 and 0.9: KL(P ‖ Q) = {there:.4f}, KL(Q ‖ P) = {back:.4f}")
assert abs(there - np.log(5 / 3)) < ROUNDING
assert abs(back - 0.9 * np.log(1.8) - 0.1 * np.log(0.2)) < ROUNDING

# Counts from 0 to 4, modelled by a binomial distribution with one parameter.
counts = np.bincount(rng.choice(5, 60, p=[0.1, 0.2, 0.15, 0.35, 0.2]), minlength=5)
frequencies, thetas = counts / counts.sum(), np.linspace(0.02, 0.98, 193)
family = [binom.pmf(np.arange(5), 4, theta) for theta in thetas]
log_likelihood = np.array([frequencies @ np.log(p) for p in family])
divergence = np.array([jensen.kl(frequencies, p) for p in family])
assert np.abs(log_likelihood + jensen.entropy(frequencies) + divergence).max() < ROUNDING
likeliest = frequencies @ np.arange(5) / 4
assert thetas[divergence.argmin()] == thetas[log_likelihood.argmax()]
assert abs(thetas[divergence.argmin()] - likeliest) <= 0.5 * (thetas[1] - thetas[0]), (
    "the minimum is at the maximum-likelihood estimate, up to the grid"
)

# Threes and eights, described by whether four of their pixels are dark.
digits = load_digits()
chosen = np.isin(digits.target, (3, 8))
X, y = digits.images[chosen][:, [2, 2, 5, 5], [2, 5, 2, 5]] > 8, (digits.target[chosen] == 8).astype(int)
N_PIXELS = X.shape[1]
table = np.zeros((2,) * (1 + N_PIXELS))
np.add.at(table, (y, *X.T.astype(int)), 1 / len(y))


def model(p_eight: float, p_dark: np.ndarray) -> np.ndarray:
    """P_θ of all classes and images, from P(y=8) and the probabilities (2, 4) that a pixel is dark."""
    joint = np.empty_like(table)
    for at in product((0, 1), repeat=1 + N_PIXELS):
        each = np.where(at[1:], p_dark[at[0]], 1 - p_dark[at[0]])
        joint[at] = (p_eight if at[0] else 1 - p_eight) * each.prod()
    return joint


best = y.mean(), np.stack([X[y == c].mean(0) for c in (0, 1)])
classes = np.array([1 - best[0], best[0]])


def parts(p_eight: float, p_dark: np.ndarray) -> np.ndarray:
    """The term of p(y), then those of p(x_j|y), summed over both classes: (1 + 4,)."""
    each = [
        [jensen.kl([1 - f, f], [1 - p, p]) for f, p in zip(found, assumed, strict=True)]
        for found, assumed in zip(best[1], p_dark, strict=True)
    ]
    return np.array([jensen.kl(classes, [1 - p_eight, p_eight]), *(classes @ each)])


fitted = BernoulliNB(alpha=0, force_alpha=True).fit(X, y)
np.testing.assert_allclose(np.exp(fitted.feature_log_prob_), best[1], rtol=1e-6)
total_correlation = 0.0
for share, together in zip(classes, table, strict=True):
    given = together / share
    margins = [given.sum(tuple(set(range(N_PIXELS)) - {j})) for j in range(N_PIXELS)]
    total_correlation += share * jensen.kl(given, reduce(np.multiply.outer, margins))
lopsided = best[1].copy()
lopsided[:, 0] = 0.5
models = {
    "maximum\nlikelihood": best,
    "p(y) = 0.9\ninstead": (0.9, best[1]),
    "pixel 1 at ½\nin both classes": (best[0], lopsided),
    "everything\nat ½": (0.5, np.full((2, N_PIXELS), 0.5)),
}
split = {name: parts(*theta) for name, theta in models.items()}
for name, theta in models.items():
    assert abs(jensen.kl(table, model(*theta)) - split[name].sum() - total_correlation) < ROUNDING
    print(
        f"{' '.join(name.split()):28s} KL = {split[name].sum() + total_correlation:.4f}, parts {split[name].round(4)}"
    )
    assert split[name].min() >= 0, "so KL is at least TC"
print(f"TC = {total_correlation:.4f} nats for every θ; 2d + 1 = {2 * N_PIXELS + 1} separate problems")

fig = figure(13.5, 5.2)
of_rule, of_likelihood, of_bayes = fig.subplots(1, 3, width_ratios=(1, 1, 1.25))
pairs = rng.dirichlet(np.full(12, 0.8), (5, 2)).reshape(5, 2, 3, 4)
for k, (p, q) in enumerate(pairs):
    for shift, order in ((-0.2, 1), (0.2, -1)):
        margin, given = chain(p, q) if order == 1 else chain(p.T, q.T)
        of_rule.bar(k + shift, margin, 0.36, color=COLOURS[0 if order == 1 else 2], alpha=0.85)
        of_rule.bar(k + shift, given, 0.36, bottom=margin, color=COLOURS[3 if order == 1 else 4], alpha=0.75)
    of_rule.plot(k, jensen.kl(q, p), "D", color=INK, ms=6, mfc="white", label=None if k else "KL(Q ‖ P)")
names = {0: "KL of X", 3: "KL of Y | X", 2: "KL of Y", 4: "KL of X | Y"}
for colour, name in names.items():
    of_rule.bar(0, 0, color=COLOURS[colour], label=name)
of_rule.set(xlabel="pair of 3 × 4 tables", ylabel="nats", xticks=range(5), xticklabels=range(1, 6))
of_rule.set(
    ylim=(0, 1.3 * max(jensen.kl(*pq) for p, q in pairs for pq in ((p, q), (q, p)))),
    title="KL(P ‖ Q): the same sum in either order",
)
of_rule.legend(ncols=2, loc="upper left")

of_likelihood.plot(thetas, log_likelihood, color=COLOURS[0], label="mean ln $P_θ(x)$")
of_likelihood.plot(
    thetas[::8], -jensen.entropy(frequencies) - divergence[::8], "o", color=INK, ms=4, label="−H(P̂) − KL(P̂ ‖ $P_θ$)"
)
of_likelihood.axhline(-jensen.entropy(frequencies), color=GREY, lw=1, ls="--")
of_likelihood.text(0.01, -jensen.entropy(frequencies) + 0.03, "−H(P̂), the upper limit", color=GREY, va="bottom")
of_likelihood.axvline(likeliest, color=COLOURS[1], lw=1, ls=":")
of_likelihood.text(likeliest + 0.015, -2.3, f"θ = {likeliest:.3f}", color=COLOURS[1])
of_likelihood.set(xlabel="θ of a binomial", ylabel="nats per row", ylim=(-4.6, -1.2), xlim=(0, 1))
of_likelihood.set_title("maximum likelihood is minimum KL")
of_likelihood.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)

bottom = np.full(len(models), total_correlation)
of_bayes.bar(range(len(models)), bottom, 0.6, color=GREY, alpha=0.6, label="TC, the same for all θ")
for j, part in enumerate(np.transpose(list(split.values()))):
    name = "p(y)" if j == 0 else f"pixel {j} | y"
    of_bayes.bar(
        range(len(models)), part, 0.6, bottom=bottom, color=COLOURS[[1, 0, 5, 2, 3][j]], alpha=0.85, label=name
    )
    bottom = bottom + part
for k, height in enumerate(bottom):
    of_bayes.text(k, height + 0.02, f"{height:.3f}", ha="center")
of_bayes.set_xticks(range(len(models)), models)
of_bayes.set(ylabel="KL(P̂ ‖ $P_θ$), nats", ylim=(0, 1.12 * bottom.max()))
of_bayes.set_title("naive Bayes for 3s and 8s, four pixels")
of_bayes.legend(loc="upper left")
title(fig, "The chain rule of KL splits maximum likelihood into separate problems")
save(fig, PICTURE)
