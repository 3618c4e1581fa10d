"""Synthetic rows: a mixture of normal scores beside a mixture of the numbers themselves.

    python examples/synthetic_rows.py [picture.png]
The table has hours of work per week, which most people round to tens, and a wage per hour in steps of ½, which depends
on the hours and on the job. A Gaussian mixture of the numbers blurs heaps and steps, and a classifier sees it. In
`synthesize` every number is replaced by its normal score z = Φ⁻¹(F(x)), the mixture is one of the scores, and the way
back through the observed quantiles restores each column, whatever its shape:
    C2ST = 1 - (2 max(½, AUC) - 1),  AUC of gradient boosting that tells real rows from synthetic ones
1 means that it cannot tell them apart. The rows that it sees were held out from both fits.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import Mixture, synthesize

PICTURE = picture_path(__doc__)
ROWS = 2000


def workers(n: int, seed: int) -> pd.DataFrame:
    """A table of jobs, hours and wages."""
    rng = np.random.default_rng(seed)
    job = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    usual = np.round(rng.normal(np.array([36, 42, 48])[job], 9)).clip(5, 80)
    hours = np.where(rng.random(n) < 0.7, 10 * np.round(usual / 10), usual).astype(int)
    wage = np.round(2 * np.exp(rng.normal(2.2 + 0.4 * job + 0.005 * hours, 0.3))) / 2
    return pd.DataFrame({"job": np.array(["clerk", "nurse", "chef"])[job], "hours": hours, "wage": wage})


def c2st(real: pd.DataFrame, new: pd.DataFrame) -> float:
    """1 if gradient boosting cannot tell both tables apart, 0 if it always can."""
    both = pd.concat([real, new], ignore_index=True).astype({"job": "category"})
    y = np.repeat([0, 1], [len(real), len(new)])
    model = HistGradientBoostingClassifier(random_state=0)
    areas = cross_val_score(model, both, y, cv=3, scoring="roc_auc")
    return 1 - float(np.mean(2 * np.maximum(0.5, areas) - 1))


train, held_out = workers(ROWS, 0), workers(ROWS, 1)
made = synthesize(train, ROWS, effort="quick")
plain = Mixture(10, families="auto", columns={"hours": "number", "wage": "number"}, random_state=0).fit(train)
tables = {"numbers": plain.sample(ROWS, random_state=0)[0], "normal scores": made.table}
found = {name: c2st(held_out, table) for name, table in tables.items()}
ceiling = c2st(held_out, train)
print(made)
for name, value in (found | {"real rows": ceiling}).items():
    print(f"C2ST of {name:14s} {value:.2f}")
assert found["normal scores"] > 0.8 > found["numbers"] + 0.1, "the mixture of scores is hard to tell from real rows"

fig = figure(12.5, 4.8)
axes = fig.subplots(1, 3)
bins = np.arange(4.5, 81)
axes[0].hist(held_out["hours"], bins, color=GREY, alpha=0.5, density=True, label="real")
for colour, (name, table) in zip(COLOURS[1::-1], tables.items(), strict=True):
    axes[0].hist(table["hours"], bins, histtype="step", color=colour, lw=1.5, density=True, label=name)
axes[0].set(xlabel="hours per week", yticks=[])
axes[0].set_title("one column: most people round to tens")
axes[0].legend(loc="upper right")
for ax, colour, (name, table) in zip(axes[1:], COLOURS[1::-1], tables.items(), strict=True):
    ax.plot(held_out["hours"], held_out["wage"], "o", ms=2, color=GREY, alpha=0.4, mew=0)
    ax.plot(table["hours"], table["wage"], "o", ms=2, color=colour, alpha=0.6, mew=0)
    ax.set(xlabel="hours per week", ylabel="wage per hour", xlim=(0, 85), ylim=(0, 70))
    ax.set_title(f"a mixture of {name}: C2ST {found[name]:.2f}")
title(
    fig, f"Normal scores keep columns as they are; the rows are hard to tell from real ones (real rows: {ceiling:.2f})"
)
save(fig, PICTURE)
