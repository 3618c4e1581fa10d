"""Semi-supervised EM: 5 % of the labels, and how much the unlabelled rows help.

    python examples/semi_supervised.py [picture.png]
For a labelled row z is known; an unlabelled row still shows where the clusters lie. EM maximises the semi-supervised
objective
    ℓ(θ) = Σ_unlabelled ln p(x_i) + α Σ_labelled ln π_y p_y(x_i),   α = label_weight.
The data are digits, reduced to 15 principal components, with ten random splits and choices of labels. With labels
alone, tied covariances are linear discriminant analysis and diagonal ones Gaussian naive Bayes; the script checks this.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
STRUCTURES = ("spherical", "diag", "tied", "full")
LABEL_WEIGHTS = (1.0, 3.0, 10.0, 30.0)
DRAWS = 10


def accuracies(seed: int) -> dict[object, float]:
    """Test accuracy of every method for one random split and choice of labels."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    pca = PCA(15, random_state=0).fit(X)
    X, X_test = pca.transform(X), pca.transform(X_test)
    labelled, _ = train_test_split(np.arange(len(y)), train_size=0.05, stratify=y, random_state=seed)
    partial = np.full(len(y), -1)
    partial[labelled] = y[labelled]

    guesses: dict[object, np.ndarray] = {}
    few = X[labelled], y[labelled]
    guesses["LDA"] = LinearDiscriminantAnalysis(solver="lsqr").fit(*few).predict(X_test)
    guesses["LDA, shrinkage"] = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(*few).predict(X_test)
    guesses["GaussianNB"] = GaussianNB().fit(*few).predict(X_test)
    guesses["LDA, all labels"] = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y).predict(X_test)
    for structure in STRUCTURES:
        guesses[structure, "labelled"] = GaussianMixture(covariance_type=structure).fit(*few).predict(X_test)
        for alpha in LABEL_WEIGHTS:
            model = GaussianMixture(covariance_type=structure, label_weight=alpha, max_iter=500).fit(X, partial)
            # The objective never falls; 1e-6 is rounding.
            assert np.diff(model.lower_bounds_).min(initial=0) > -1e-6
            guesses[structure, alpha] = model.predict(X_test)
    assert (guesses["tied", "labelled"] == guesses["LDA"]).all()
    assert (guesses["diag", "labelled"] == guesses["GaussianNB"]).all()
    return {name: float((guess == y_test).mean()) for name, guess in guesses.items()}


def check_one_step(alpha: float = 3.0) -> None:
    """One E-step and one M-step by their formulas, on two classes with 10 labelled rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 2 * (np.arange(60) % 2)[:, None]
    y = np.where(np.arange(60) < 10, np.arange(60) % 2, -1)
    start = {"weights_init": [0.4, 0.6], "means_init": [[0.0, 0.5], [1.5, 2.0]], "precisions_init": [np.eye(2)] * 2}
    before, after = (GaussianMixture(2, label_weight=alpha, max_iter=n, tol=0.0, **start).fit(X, y) for n in (0, 1))
    q = np.where(y[:, None] >= 0, np.eye(2)[y], before.predict_proba(X))
    r = np.where(y >= 0, alpha, 1.0)[:, None] * q
    N = r.sum(0)
    means = r.T @ X / N[:, None]
    assert np.allclose(after.weights_, N / N.sum())
    assert np.allclose(after.means_, means)
    for k in (0, 1):
        assert np.allclose(after.covariances_[k], (r[:, k] * (X - means[k]).T) @ (X - means[k]) / N[k])
    joint = after.bound(X, q=np.eye(2)[y]).total
    objective = np.where(y >= 0, alpha * joint, after.score_samples(X)).sum() / r.sum()
    # The floor on variances adds less than 1e-6 here.
    assert np.isclose(after.lower_bound_, objective, rtol=1e-5), "ℓ(θ), per unit of weight"


warnings.simplefilter("ignore", ConvergenceWarning)  # one step does not converge
check_one_step()
runs = [accuracies(seed) for seed in range(DRAWS)]
mean = {name: np.mean([run[name] for run in runs]) for name in runs[0]}
error = {name: np.std([run[name] for run in runs], ddof=1) / np.sqrt(DRAWS) for name in runs[0]}


def gain(structure: str, than: object = None, alpha: float = 1.0) -> tuple[float, float]:
    """Gain from unlabelled rows over labels alone or another method: mean and standard error, paired over draws."""
    each = np.array([run[structure, alpha] - run[than or (structure, "labelled")] for run in runs])
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(DRAWS))


print(f"test accuracy, mean ± standard error of {DRAWS} draws: 62 labelled and 1195 unlabelled rows, 540 to test")
for name in ("GaussianNB", "LDA", "LDA, shrinkage", "LDA, all labels"):
    print(f"  scikit-learn {name:15s} {mean[name]:.3f} ± {error[name]:.3f}")
print(
    "  jensen        labels only   + unlabelled, α ="
    + "".join(f"{alpha:7.0f}" for alpha in LABEL_WEIGHTS)
    + "   gain, α = 1"
)
for structure in STRUCTURES:
    few = f"{mean[structure, 'labelled']:.3f} ± {error[structure, 'labelled']:.3f}"
    both = "".join(f"{mean[structure, alpha]:7.3f}" for alpha in LABEL_WEIGHTS)
    print(f"  {structure:12s} {few:13s} {'':20s} {both}   {gain(structure)[0]:+.3f} ± {gain(structure)[1]:.3f}")

# Ten draws estimate the standard errors of the paired differences to about a quarter.
for more, error_of in (gain("full"), gain("tied"), gain("diag"), gain("full", "LDA, shrinkage")):
    assert more > 3 * error_of, "unlabelled rows help more than shrinkage"
assert abs(gain("full", "LDA, all labels")[0]) < 0.02, "close to LDA with all labels"
worse, error_of = gain("spherical")
assert worse < -1.5 * error_of, (
    "spherical components do not fit, and unlabelled rows hurt; significant at two errors only"
)
assert mean["full", 30.0] < 0.5 < 0.9 < mean["full", 1.0], "a full Σ collapses onto rows with too much weight"

fig = figure(12.5, 4.6)
left, right = fig.subplots(1, 2, width_ratios=(1.2, 1))
for line, (structure, colour) in enumerate(zip(STRUCTURES, COLOURS[:4], strict=True)):
    ends = {(structure, "labelled"): "white", (structure, 1.0): colour}
    left.plot([mean[name] for name in ends], [line, line], color=colour, lw=1, zorder=1)
    for name, fill in ends.items():
        left.errorbar(mean[name], line, xerr=error[name], color=colour, capsize=3, lw=1.5)
        left.plot(mean[name], line, "o", color=colour, mfc=fill, ms=8, mew=2)
    values, errors = ([of[structure, alpha] for alpha in LABEL_WEIGHTS] for of in (mean, error))
    right.errorbar(LABEL_WEIGHTS, values, errors, fmt="o-", color=colour, capsize=3, label=structure)
for name in ("GaussianNB", "LDA", "LDA, shrinkage", "LDA, all labels"):
    left.axvline(mean[name], color=GREY, ls=":", lw=1, zorder=0)
    side = "right" if name == "LDA" else "center"
    left.text(mean[name], -0.55, name.replace(", ", ",\n"), ha=side, va="bottom", fontsize=9)
left.set(xlabel="test accuracy", yticks=range(4), yticklabels=STRUCTURES, ylim=(3.5, -0.5), xlim=(0.73, 0.965))
left.text(mean["full", "labelled"], 3.15, "labels only", ha="center", va="top", fontsize=9)
left.text(mean["full", 1.0], 3.15, "with unlabelled rows, α = 1", ha="right", va="top", fontsize=9)
right.set(xscale="log", xlabel="label_weight α", ylabel="test accuracy", ylim=(0, 1))
right.set_xticks(LABEL_WEIGHTS, [f"{alpha:.0f}" for alpha in LABEL_WEIGHTS])
right.minorticks_off()
right.set_title("with a large label_weight, full Σ collapses onto the labelled rows")
right.legend(loc="lower left", title="covariances", alignment="left")
title(fig, "Unlabelled rows help a model that fits the data, and can hurt one that does not")
save(fig, PICTURE)
