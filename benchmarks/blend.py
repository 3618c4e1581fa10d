"""What a blend gains over its best model, in nats per held-out row.

    python benchmarks/blend.py [numbers.csv ...]

Six classical models with the settings of compare's effort "quick" are fitted to four fifths of the rows and scored on
the others, for three seeds of the split. The weights of the blend are fitted to a fifth of the training rows
(`compare(blend=True)`), so the rows of the table choose nothing. Tables: iris, wine, breast cancer and digits of
scikit-learn, and files with a row of names and numbers, of which the first 2000 rows are read. "best" is the model
that is best on the held-out rows themselves, which the blend does not know.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from jensen import compare

MODELS = ["kmeans", "gaussian-mixture", "probabilistic-pca", "factor-analysis", "mixture-of-ppca", "latent-curve"]
MOST_ROWS, SEEDS = 2000, 3


def tables(paths: list[str]) -> dict[str, np.ndarray]:
    found = {
        "iris": load_iris().data,
        "wine": load_wine().data,
        "breast cancer": load_breast_cancer().data,
        "digits": load_digits().data,
    }
    for path in paths:
        frame = pd.read_csv(path, nrows=MOST_ROWS)
        found[Path(path).stem] = frame.select_dtypes("number").to_numpy(dtype=float)
    return found


def main() -> None:
    print(f"{'table':<16} {'rows':>5} {'columns':>7}  {'best':>9} {'blend':>9} {'gain':>7}  best models")
    for name, rows in tables(sys.argv[1:]).items():
        best, blend, names = [], [], []
        for seed in range(SEEDS):
            board = compare(rows, MODELS, effort="quick", random_state=seed, blend=True)
            table = board.table.set_index("model")["nats"]
            single = table.drop("blend").dropna()
            best.append(single.max())
            blend.append(table["blend"])
            names.append(str(single.idxmax()))
        gain = np.mean(blend) - np.mean(best)
        sizes = f"{name:<16} {len(rows):>5} {rows.shape[1]:>7}"
        scores = f"{np.mean(best):>9.3f} {np.mean(blend):>9.3f} {gain:>+7.3f}"
        print(f"{sizes}  {scores}  {', '.join(dict.fromkeys(names))}", flush=True)


if __name__ == "__main__":
    main()
