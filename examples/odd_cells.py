"""Odd cells: which values of a table are wrong, and what they should have been.

    python examples/odd_cells.py [picture.png]
Ten values of scikit-learn's wine data are replaced by those of other rows, so that every value is an ordinary one for
its column and wrong for its row. `jensen.outliers` compares every cell with its distribution given the rest of the row:
    tail = P{p(X_j | x_-j) ≤ p(x_j | x_-j)}
Left: all cells with a tail of at most 0.2, the planted errors marked. Right: 90 % intervals of what was expected in
place of the planted errors, beside the true values.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine

from drawing import COLOURS, GREY, INK, figure, picture_path, save, title
from jensen import outliers

PICTURE = picture_path(__doc__)
N_WRONG = 10

true = load_wine(as_frame=True).data
wrong, planted, rng = true.copy(), [], np.random.default_rng(0)
for row in rng.choice(len(true), N_WRONG, replace=False).tolist():
    column = str(rng.choice(true.columns))
    # An ordinary value from the other end of the column.
    is_high = true.loc[row, column] > true[column].median()
    wrong.loc[row, column] = true[column].quantile(0.03 if is_high else 0.97, interpolation="nearest")
    planted.append((row, column))

found = outliers(wrong, level=0.2, effort="quick")
cells = found.cells
is_planted = np.array([cell in planted for cell in zip(cells["row"], cells["column"], strict=True)])
n_first = int(is_planted[:20].sum())
print(f"{n_first} of {N_WRONG} planted errors are among the first 20 of {true.size} cells")
assert n_first >= N_WRONG / 2

fig = figure(9.6, 4.4)
left, right = fig.subplots(1, 2)
rank = np.arange(1, len(cells) + 1)
left.scatter(rank[~is_planted], cells["tail"][~is_planted], s=8, color=GREY, label="other cells")
left.scatter(rank[is_planted], cells["tail"][is_planted], s=30, color=COLOURS[1], label="planted errors")
left.set(xscale="log", yscale="log", xlabel="rank of the cell", ylabel="tail probability", title="all cells, by tail")
left.legend(loc="lower right")

shown = list(cells[is_planted].itertuples())
for place, cell in enumerate(shown):
    centre, unit = true[cell.column].mean(), true[cell.column].std()
    right.plot([(end - centre) / unit for end in (cell.low, cell.high)], [place, place], color=COLOURS[0], lw=3)
    right.plot((cell.value - centre) / unit, place, "x", color=COLOURS[1], ms=8, mew=2)
    right.plot((true.loc[cell.row, cell.column] - centre) / unit, place, "o", color=INK, ms=5)
right.set_yticks(range(len(shown)), [cell.column.replace("_", " ") for cell in shown])
right.invert_yaxis()
right.set(xlabel="standard deviations of the column", title="planted ×, expected interval, true •")
title(fig, "Values that are ordinary for their column and wrong for their row")
save(fig, PICTURE)
