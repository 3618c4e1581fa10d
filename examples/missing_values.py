"""Iris with 30 % of its values missing: a mixture fitted to the observed values, then imputation.

    python examples/missing_values.py [picture.png]
The observed part o of a row has the density Σ_k π_k N(x_o; μ_o, Σ_oo), and the E-step adds the conditional mean and
covariance of the missing part to the statistics (Ghahramani & Jordan 1994). This is exact for values missing at random;
nothing is imputed before the fit. After the fit, missing values are imputed by the posterior mean, or by draws whose
spread measures the uncertainty.
"""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (without it IterativeImputer is not importable)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import GaussianMixture

PICTURE = picture_path(__doc__)
# From IterativeImputer, which rarely reaches its tolerance here.
warnings.simplefilter("ignore", ConvergenceWarning)
N_MASKS, SHARE = 5, 0.3
# The true value is equally likely in each of the 100 gaps between 99 draws: the 5th to the 95th cover exactly 90 %.
N_DRAWS, LOW, HIGH = 99, 4, 94
OTHERS = {"mean": SimpleImputer(), "5 neighbours": KNNImputer(), "iterative": IterativeImputer()}
iris = load_iris()
X, spread = iris.data, iris.data.std(0)


def mixture(rows: np.ndarray) -> GaussianMixture:
    return GaussianMixture(3, covariance_type="tied", tol=1e-5, max_iter=500, random_state=0).fit(rows)


def interval(model: GaussianMixture, rows: np.ndarray) -> np.ndarray:
    """The ends of 90 % intervals, (2, n, d)."""
    return np.sort(model.impute_draws(rows, N_DRAWS, random_state=0), axis=0)[[LOW, HIGH]]


def shift(model: GaussianMixture) -> float:
    """RMS distance from the means of the complete data to the nearest of the model, in standard deviations."""
    distance = (((model.means_[:, None] - complete.means_) / spread) ** 2).mean(-1)
    return float(np.sqrt(distance.min(0).mean()))


complete = mixture(X)
print(f"all values: adjusted Rand index with the species {adjusted_rand_score(iris.target, complete.predict(X)):.3f}")

# On rows drawn from the model the intervals are correct. One entry per row is hidden, so the tests are independent.
simulated, _ = complete.sample(2000, random_state=0)
hidden = np.arange(4) == np.random.default_rng(0).integers(4, size=(2000, 1))
low, high = interval(complete, np.where(hidden, np.nan, simulated))
coverage, error = ((low < simulated) & (simulated < high))[hidden].mean(), np.sqrt(0.9 * 0.1 / 2000)
print(f"simulated rows: 90 % intervals cover {coverage:.1%} ± {error:.1%}")
assert abs(coverage - 0.9) < 4 * error

results = defaultdict(list)
for seed in range(N_MASKS):
    missing = np.random.default_rng(seed).random(X.shape) < SHARE
    given = np.where(missing, np.nan, X)
    scaler, model = StandardScaler().fit(given), mixture(given)
    imputed, (low, high) = model.impute(given), interval(model, given)
    filled = {n: scaler.inverse_transform(i.fit_transform(scaler.transform(given))) for n, i in OTHERS.items()}
    for name, rows in {**filled, "mixture": imputed}.items():
        results[name].append(np.sqrt((((rows - X) / spread)[missing] ** 2).mean()))
    inside = (low < X) & (high > X)
    results["covered by 90 % intervals"].append(inside[missing].mean())
    results["shift of the means (s.d.)"].append(shift(model))
    results["... fitted to complete rows only"].append(shift(mixture(X[~missing.any(1)])))
    results["Rand index with species"].append(adjusted_rand_score(iris.target, model.predict(given)))

    assert np.array_equal(imputed[~missing], X[~missing]), "observed entries are returned bit for bit"
    assert np.diff(model.lower_bounds_).min(initial=0) > -1e-7, "the objective never falls; 1e-7 is rounding"
    first = ~missing[0]
    marginal = model.marginal(np.flatnonzero(first).tolist()).score_samples(X[:1, first])
    assert np.allclose(model.score_samples(given[:1]), marginal), "a row with missing values has its marginal density"

mean = {name: np.mean(values) for name, values in results.items()}
error = {name: np.std(values, ddof=1) / np.sqrt(N_MASKS) for name, values in results.items()}
methods = [*OTHERS, "mixture"]
for name in OTHERS:
    behind = np.subtract(results[name], results["mixture"])
    assert behind.min() > 0, "the mixture has the smaller error for every mask"
    assert behind.mean() > 3 * behind.std(ddof=1) / np.sqrt(N_MASKS), "and significantly so on average"
print(f"{SHARE:.0%} missing, {N_MASKS} masks, mean ± standard error:")
for name in results:
    print(f"  {name + ', error (s.d.)' if name in methods else name:28s} {mean[name]:.3f} ± {error[name]:.3f}")

fig = figure(12.5, 6)
left, right = fig.subfigures(1, 2, width_ratios=(1.7, 1))
for j, ax in enumerate(left.subplots(2, 2).flat):
    for chosen, colour, name in ((inside, COLOURS[0], "covers"), (~inside, COLOURS[1], "misses")):
        rows = missing[:, j] & chosen[:, j]
        reach = np.maximum([imputed - low, high - imputed], 0)[:, rows, j]
        ax.errorbar(X[rows, j], imputed[rows, j], reach, fmt="o", ms=4, lw=0.8, color=colour, alpha=0.8, label=name)
    ax.axline((X[:, j].mean(),) * 2, slope=1, color=GREY, lw=1, ls=":", zorder=0)
    ax.set(title=iris.feature_names[j].replace(" (cm)", ""), xlabel="original (cm)", ylabel="imputed (cm)")
left.axes[2].legend(loc="upper left", title="90 % interval", alignment="left")
dots = right.subplots()
for line, name in enumerate(methods):
    dots.errorbar(mean[name], line, xerr=error[name], fmt="o", ms=8, capsize=3, color=GREY if line < 3 else COLOURS[0])
    dots.text(mean[name], line - 0.12, f"{mean[name]:.2f}", ha="center", va="bottom")
dots.set(yticks=range(4), yticklabels=methods, ylim=(3.5, -0.5), xlim=(0, 1.1), xlabel="error (standard deviations)")
dots.set_title(f"root mean square error over {N_MASKS} masks")
title(fig, "Iris with 30 % missing: imputations from a mixture fitted to the observed values")
save(fig, PICTURE)
