"""`jensen.outliers` beside the nine detectors of PyOD's table, on data sets of ODDS.

    python benchmarks/outliers.py --data DIR [--splits 10] [--sets cardio,glass] [--only jensen] [--effort quick]
                                  [--json FILE]

DIR holds the .mat files of ODDS, each with X (n, d) and y (1 for an outlier). Protocol of PyOD's benchmark: 60 % of the
rows train, 40 % are scored, both standardised by the training rows; area under the ROC curve, mean over the splits.
Detectors know no labels. Those of PyOD have its benchmark's arguments, with the true share of outliers where it gives
that to them; it changes thresholds, not scores, but for the covariance and the centres that use it.
"one + noise" and "five + noise" are `GaussianMixture(K, noise=True)` scored without their noise.
Seconds are those of the processor. --json keeps every result in a file, so that an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.io import loadmat
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import jensen

Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]


def by_jensen(effort: str) -> Scorer:
    return lambda train, test: jensen.outliers(train, effort=effort).score(test)


def with_noise(k: int) -> Scorer:
    def scored(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        model = jensen.GaussianMixture(k, noise=True, random_state=0).fit(train)
        return np.asarray(jensen.outlier_scores(model.without_noise(), test))

    return scored


def of_pyod(share: float, seed: int) -> dict[str, Scorer]:
    """PyOD's detectors; without PyOD those of scikit-learn."""
    try:
        from pyod.models.abod import ABOD
        from pyod.models.cblof import CBLOF
        from pyod.models.hbos import HBOS
        from pyod.models.iforest import IForest
        from pyod.models.knn import KNN
        from pyod.models.lof import LOF
        from pyod.models.mcd import MCD
        from pyod.models.ocsvm import OCSVM
        from pyod.models.pca import PCA
    except ImportError:
        return of_sklearn(seed)
    makers: dict[str, Callable[[], Any]] = {
        "ABOD": lambda: ABOD(contamination=share),
        "CBLOF": lambda: CBLOF(n_clusters=10, contamination=share, check_estimator=False, random_state=seed),
        "HBOS": lambda: HBOS(contamination=share),
        "IForest": lambda: IForest(contamination=share, random_state=seed),
        "KNN": lambda: KNN(contamination=share),
        "LOF": lambda: LOF(n_neighbors=35, contamination=share),
        "MCD": lambda: MCD(contamination=share, random_state=seed),
        "OCSVM": lambda: OCSVM(contamination=share),
        "PCA": lambda: PCA(contamination=share, random_state=seed),
    }
    return {
        name: lambda train, test, make=make: make().fit(train).decision_function(test) for name, make in makers.items()
    }


def of_sklearn(seed: int) -> dict[str, Scorer]:
    from sklearn.covariance import EllipticEnvelope
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor
    from sklearn.svm import OneClassSVM

    makers: dict[str, Callable[[], Any]] = {
        "IForest": lambda: IsolationForest(random_state=seed),
        "LOF": lambda: LocalOutlierFactor(n_neighbors=35, novelty=True),
        "MCD": lambda: EllipticEnvelope(random_state=seed),
        "OCSVM": lambda: OneClassSVM(),
    }
    return {
        name: lambda train, test, make=make: -make().fit(train).score_samples(test) for name, make in makers.items()
    }


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, std = train.mean(0), train.std(0)
    std = np.where(std > 0, std, 1.0)
    return (train - mean) / std, (test - mean) / std


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", default="")
    parser.add_argument("--only", default="", help="names of detectors, with commas")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--json", type=Path, help="file of results; those in it are not run again")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    files = sorted(args.data.glob("*.mat"), key=lambda file: file.stat().st_size)
    wanted = set(args.sets.split(",")) - {""}
    only = set(args.only.split(",")) - {""}
    lines = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    known = {(line["set"], line["split"], line["detector"]) for line in lines}
    for file in files:
        if wanted and file.stem not in wanted:
            continue
        data = loadmat(file)
        X, y = data["X"].astype(float), data["y"].ravel().astype(int)
        for split in range(args.splits):
            train, test, _, truth = train_test_split(X, y, test_size=0.4, random_state=split)
            train, test = standardised(train, test)
            ours = {"jensen": by_jensen(args.effort), "one + noise": with_noise(1), "five + noise": with_noise(5)}
            detectors = {**ours, **of_pyod(float(y.mean()), split)}
            for name, score in detectors.items():
                if (only and name not in only) or (file.stem, split, name) in known:
                    continue
                began = time.process_time()
                area = roc_auc_score(truth, np.nan_to_num(score(train, test), posinf=1e300))
                seconds = time.process_time() - began
                lines.append({"set": file.stem, "split": split, "detector": name, "auc": area, "seconds": seconds})
            if args.json:
                args.json.write_text(json.dumps(lines))
        own = pd.DataFrame([line for line in lines if line["set"] == file.stem])
        print(f"{file.stem}: {own.groupby('detector', sort=False)['auc'].mean().round(3).to_dict()}", flush=True)
    table = pd.DataFrame(lines).pivot_table(index="set", columns="detector", values="auc", sort=False)
    table.loc["mean"] = table.mean()
    took = pd.DataFrame(lines).pivot_table(index="set", columns="detector", values="seconds", sort=False)
    print(table.round(3).to_string(), "\n\nseconds per split\n", took.round(1).to_string(), sep="")


if __name__ == "__main__":
    main()
