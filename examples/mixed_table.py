"""Clusters of a mixed table: numbers, counts, categories and yes/no in one exact mixture.

    python examples/mixed_table.py [picture.png]
A made-up table of customers with three groups: students, families and retired people. No group is told to the model,
and 15 % of all entries are missing. A mixture of all columns has the likelihood
    p(x) = Σ_k π_k N(age, spending; μ_k, Σ_k) NB(visits; m_k, s_k) Cat(pays; p_k) Bern(member; b_k),
over the observed entries of each row. BIC chooses the number of components. The same model imputes the missing entries
and returns the types that came in.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import Mixture

PICTURE = picture_path(__doc__)
PAYS = ["app", "card", "cash"]
N = 900


def customers(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """The table without missing values, and the group of each row."""
    group = rng.choice(3, N, p=[0.3, 0.45, 0.25])
    age = rng.normal(np.array([23, 41, 70])[group], np.array([3, 7, 6])[group])
    spending = rng.normal(np.array([34, 80, 50])[group] + 0.5 * (age - np.array([23, 41, 70])[group]), 9)
    # Poisson with a rate that varies between people: a negative binomial.
    visits = rng.poisson(rng.gamma(4, np.array([1.2, 0.9, 4.0])[group] / 2))
    shares = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.02, 0.35, 0.63]])
    pays = np.array([rng.choice(PAYS, p=shares[k]) for k in group])
    member = rng.random(N) < np.array([0.15, 0.75, 0.55])[group]
    table = {"age": age.round(1), "spending": spending.round(2), "visits": visits, "pays": pays, "member": member}
    return pd.DataFrame(table), group


rng = np.random.default_rng(0)
full, group = customers(rng)
missing = rng.random(full.shape) < 0.15
X = full.astype({"visits": "Int64", "member": "boolean"}).mask(missing)

fits = {k: Mixture(k, n_init=2, random_state=0).fit(X) for k in range(1, 6)}
bic = {k: model.bic(X) for k, model in fits.items()}
best = min(bic, key=lambda k: bic[k])
model = fits[best]
print(model.columns_)
print("BIC:", ", ".join(f"{k}: {value:.0f}" for k, value in bic.items()))
assert best == 3, "BIC finds the three groups"

# Components in the order of age.
order = np.argsort(model.parameters_["age"]["mean"])
component = np.argsort(order)[model.predict(X)]
agreement = adjusted_rand_score(group, component)
print(f"adjusted Rand index with the groups: {agreement:.3f}")
assert agreement > 0.85

filled = model.impute(X)
assert (filled.dtypes == X.dtypes).all(), "types come back"
assert not filled.isna().any().any()
guessed = {name: (filled[name] == full[name])[missing[:, j]].mean() for j, name in enumerate(full) if j > 2}
usual = {name: (X[name].mode()[0] == full[name])[missing[:, j]].mean() for j, name in enumerate(full) if j > 2}
errors = {}
for j, name in enumerate(["age", "spending", "visits"]):
    at, truth = missing[:, j], full[name].to_numpy(float)
    errors[name] = [
        float(np.sqrt(np.mean((values - truth[at]) ** 2)) / truth.std())
        for values in (filled[name].to_numpy(float)[at], float(X[name].mean()))
    ]
for name, (own, mean) in errors.items():
    print(f"imputation of {name}: error {own:.2f} standard deviations, by the mean {mean:.2f}")
    assert own < mean
for name in guessed:
    print(f"imputation of {name}: {guessed[name]:.0%} right, by the most frequent value {usual[name]:.0%}")
    assert guessed[name] > usual[name]

fig = figure(12.5, 4.6)
left, middle, right = fig.subplots(1, 3, width_ratios=(1.5, 1, 1))
seen = X[["age", "visits"]].notna().all(axis=1).to_numpy()
jitter = rng.uniform(-0.3, 0.3, N)
for k in range(best):
    rows = seen & (component == k)
    left.plot(X["age"][rows], X["visits"][rows].astype(float) + jitter[rows], ".", ms=5, color=COLOURS[k], alpha=0.6)
    mean = model.parameters_["age"]["mean"][order[k]], model.parameters_["visits"]["mean"][order[k]]
    left.plot(*mean, "o", ms=11, mew=2, mec="white", color=COLOURS[k])
left.set(xlabel="age, a number", ylabel="visits, a count", title="rows by component, and the means of each")

names = [f"component {k + 1}\n{model.weights_[order[k]]:.0%} of the rows" for k in range(best)]
probabilities = model.parameters_["pays"]["probabilities"][order]
for level, name in enumerate(PAYS):
    start = probabilities[:, :level].sum(axis=1)
    bars = middle.bar(
        names, probabilities[:, level], bottom=start, color=["#444444", GREY, "#D0D0D0"][level], width=0.7
    )
    text = "black" if level == 2 else "white"
    labels = [f"{name} {p:.0%}" if p > 0.06 else "" for p in probabilities[:, level]]
    middle.bar_label(bars, labels, label_type="center", color=text, fontsize=8.5)
middle.set(yticks=[], title="pays, a level: probabilities")
middle.spines["left"].set_visible(False)

member = model.parameters_["member"]["probability"][order]
bars = right.bar(names, member, color=COLOURS[:best], width=0.7)
right.bar_label(bars, [f"{p:.0%}" for p in member], fontsize=9)
right.set(ylim=(0, 1), yticks=[0, 0.5, 1], title="member, yes/no: probability of yes")
for ax in (middle, right):
    ax.tick_params(axis="x", labelsize=8.5)
for k, label in enumerate(middle.get_xticklabels()):
    label.set_color(COLOURS[k])
for k, label in enumerate(right.get_xticklabels()):
    label.set_color(COLOURS[k])
title(
    fig,
    f"Three groups of customers, found from columns of four kinds; {missing.mean():.0%} of the entries are missing",
)
save(fig, PICTURE)
