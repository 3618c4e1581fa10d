"""What naive Bayes loses: KL from the data to the model, term by term.

    python examples/naive_bayes_kl.py [picture.png]
With P̂ the frequencies of the rows, the mean of ln p(x, y) is -H(P̂) - KL(P̂ ‖ p). For naive Bayes the divergence is
    KL(P̂ ‖ p) = KL(P̂(y) ‖ p(y)) + Σ_j KL(P̂(x_j|y) ‖ p(x_j|y)) + TC,
    TC = Σ_y P̂(y) KL(P̂(x|y) ‖ Π_j P̂(x_j|y)).
The first terms are separate problems, 2d + 1 of them for two classes and d yes/no columns. Maximum likelihood
(alpha=0) makes each of them 0. What is left is the total correlation TC of the columns within a class, which no choice
of the parameters changes: it is the price of assuming that they are independent. A class with several components pays
less of it. The rows are images of 3 and 8, described by whether some pixels are dark.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import jensen
from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import BernoulliMixture, NaiveBayes

PICTURE = picture_path(__doc__)
ALPHAS = (0.0, 1.0, 10.0, 40.0)
PIXELS = [(2, 2), (2, 5), (5, 2), (5, 5), (3, 2), (1, 2), (6, 5), (4, 5)]
digits = load_digits()
chosen = np.isin(digits.target, (3, 8))
dark = digits.images[chosen][:, *zip(*PIXELS, strict=True)] > 8
y = digits.target[chosen]
classes = np.array([(y == 3).mean(), (y == 8).mean()])


def entropy_of_rows(rows: np.ndarray) -> float:
    _, counts = np.unique(rows, axis=0, return_counts=True)
    return jensen.entropy(counts / len(rows))


def bernoulli_kl(p: float, q: float) -> float:
    return jensen.kl([1 - p, p], [1 - q, q])


def total_correlation(X: np.ndarray) -> float:
    """TC = Σ_y P̂(y) [Σ_j H(P̂(x_j|y)) - H(P̂(x|y))]."""
    within = [X[y == c] for c in (3, 8)]
    return sum(
        share * (sum(entropy_of_rows(column[:, None]) for column in rows.T) - entropy_of_rows(rows))
        for share, rows in zip(classes, within, strict=True)
    )


def divergence(model: NaiveBayes, X: np.ndarray) -> float:
    """KL(P̂ ‖ p) from the mean of ln p(x, y), which is the bound with the class as q."""
    joint = model.bound(X, q=np.eye(2)[(y == 8).astype(int)]).total.mean()
    return -entropy_of_rows(np.column_stack([X, y])) - joint


def terms(model: NaiveBayes, X: np.ndarray) -> np.ndarray:
    """The term of p(y), and one for every pixel, from the fitted parameters."""
    found = np.stack([X[y == c].mean(0) for c in (3, 8)])
    assumed = np.stack([parameters["probability"] for parameters in model.parameters_.values()], 1)
    pixels = [[bernoulli_kl(p, q) for p, q in zip(*rows, strict=True)] for rows in zip(found, assumed, strict=True)]
    return np.array([jensen.kl(classes, model.class_prior_), *(classes @ pixels)])


few = dark[:, :4].astype(float)
split = {alpha: terms(NaiveBayes(alpha=alpha).fit(few, y), few) for alpha in ALPHAS}
tc = total_correlation(few)
print(f"four pixels of {len(y)} images, nats: TC = {tc:.4f}")
for alpha, parts in split.items():
    whole = divergence(NaiveBayes(alpha=alpha).fit(few, y), few)
    print(f"  alpha = {alpha:4.0f}   KL = {whole:.4f}   p(y) {parts[0]:.4f}   pixels {parts[1:].round(4)}")
    # Sums of some hundred terms of size 1.
    assert abs(parts.sum() + tc - whole) < 1e-10, "the chain rule"
    assert parts.min() > -1e-12
assert split[0.0].max() < 1e-10, "maximum likelihood leaves TC alone"


def of_mixtures(X: np.ndarray, k: int) -> float:
    """KL(P̂ ‖ p) where every class is a mixture of K products; K = 1 is naive Bayes."""
    joint = 0.0
    for share, c in zip(classes, (3, 8), strict=True):
        rows = X[y == c]
        fitted = BernoulliMixture(k, n_init=3, max_iter=2000, tol=1e-6, random_state=0).fit(rows)
        joint += share * (np.log(share) + fitted.score(rows))
    return -entropy_of_rows(np.column_stack([X, y])) - joint


sizes, numbers = range(3, len(PIXELS) + 1), (1, 2, 4)
curves = {k: [of_mixtures(dark[:, :d].astype(float), k) for d in sizes] for k in numbers}
assert np.allclose(curves[1], [total_correlation(dark[:, :d].astype(float)) for d in sizes], atol=1e-8)
assert curves[4][-1] < curves[2][-1] < curves[1][-1], "more components per class pay less"
print("with eight pixels: " + ", ".join(f"{k} per class {curves[k][-1]:.3f}" for k in numbers))

fig = figure(12, 4.6)
left, right = fig.subplots(1, 2, width_ratios=(1.15, 1))
bottom = np.full(len(ALPHAS), tc)
left.bar(range(len(ALPHAS)), bottom, 0.6, color=GREY, alpha=0.6, label="TC, the same for all")
for j, part in enumerate(np.transpose(list(split.values()))):
    name = "p(y)" if j == 0 else f"pixel {j} | y"
    left.bar(range(len(ALPHAS)), part, 0.6, bottom=bottom, color=COLOURS[[1, 0, 5, 2, 3][j]], alpha=0.85, label=name)
    bottom = bottom + part
for k, height in enumerate(bottom):
    left.text(k, height + 0.004, f"{height:.3f}", ha="center")
left.set_xticks(range(len(ALPHAS)), [f"alpha = {alpha:.0f}" for alpha in ALPHAS])
left.set(ylabel="KL(P̂ ‖ p), nats", ylim=(0, 1.45 * bottom.max()), title="NaiveBayes(alpha) of four pixels")
left.legend(ncols=3, loc="upper left")
for k, colour in zip(numbers, COLOURS, strict=False):
    name = "1 per class: naive Bayes, KL = TC" if k == 1 else f"{k} per class"
    right.plot(sizes, curves[k], "o-", color=colour, label=name)
right.set(
    xlabel="pixels", ylabel="KL(P̂ ‖ p), nats", ylim=(0, None), title="the price of independence within a component"
)
right.legend(loc="upper left", title="components")
title(fig, "Naive Bayes fits each column exactly and pays for what the columns share")
save(fig, PICTURE)
