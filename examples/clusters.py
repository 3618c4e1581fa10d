"""From a table to its clusters.

    python examples/clusters.py [picture.png]
Customers in three groups: two numbers, a town and a membership, some values missing, and a few rows that fit nowhere.
One of the groups is bent, so that the mixture needs several components for it; `jensen.cluster` merges those that
overlap. Beside the clusters, how far every column sets each of them apart.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from drawing import COLOURS, GREY, figure, picture_path, save, title
from jensen import cluster

PICTURE = picture_path(__doc__)

rng = np.random.default_rng(0)
group = np.repeat([0, 1, 2], [180, 120, 100])
bend = rng.uniform(0.15, 0.85, 180) * np.pi
visits = np.concatenate([10 + 6 * np.cos(bend), rng.normal(10, 1.2, 120), rng.normal(22, 1.5, 100)])
spent = np.concatenate([50 + 25 * np.sin(bend), rng.normal(25, 5, 120), rng.normal(70, 9, 100)])
visits[:180], spent[:180] = visits[:180] + rng.normal(0, 1, 180), spent[:180] + rng.normal(0, 5, 180)
towns = np.array(["Rome", "Bonn", "Oslo"])[np.where(rng.random(400) < 0.8, group, rng.integers(0, 3, 400))]
table = pd.DataFrame({"visits": visits, "spent": spent, "town": towns, "member": rng.random(400) < 0.2 + 0.3 * group})
odd = rng.choice(400, 12, replace=False)
table.loc[odd, ["visits", "spent"]] = np.column_stack([rng.uniform(0, 30, 12), rng.uniform(0, 110, 12)])
table.loc[rng.choice(400, 30, replace=False), "spent"] = np.nan

found = cluster(table, effort="quick")
print(found)
clean = np.setdiff1d(np.arange(400), odd)
agreement = adjusted_rand_score(group[clean], found.labels[clean])
print(f"agreement with the groups that the rows were drawn from: {agreement:.2f}")

fig = figure(10, 4)
left, right = fig.subplots(1, 2, width_ratios=(3, 2))
for k in range(-1, len(found.names)):
    rows = table[found.labels == k]
    colour, mark = (GREY, "x") if k < 0 else (COLOURS[k % len(COLOURS)], "o")
    left.scatter(rows["visits"], rows["spent"], s=14, color=colour, marker=mark, label="noise" if k < 0 else f"{k}")
left.set(xlabel="visits", ylabel="spent")
left.legend(title="cluster")
for k in range(len(found.names)):
    apart = {one.column: one.distance for one in found.differences(k)}
    places = np.arange(table.shape[1]) + 0.25 * (k - (len(found.names) - 1) / 2)
    right.barh(places, [apart[name] for name in table], 0.22, color=COLOURS[k % len(COLOURS)])
right.set_yticks(range(table.shape[1]), table.columns)
right.set(xlim=(0, 1), xlabel="distance to the other rows")
title(fig, "Clusters, and what sets them apart")
save(fig, PICTURE)
