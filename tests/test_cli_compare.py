"""`jensen compare` as a person meets it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

from shell import fail, succeed


def test_data_that_come_with_scikit_learn():
    out = succeed("compare", "iris", "--models", "kmeans,probabilistic-pca", "--effort", "quick", "--quiet", "--json")
    found = json.loads(out)
    assert {row["model"] for row in found["table"]} == {"kmeans", "probabilistic-pca"}
    assert found["best"] == found["table"][0]["model"]
    assert "30 of 150 rows held out" in found["caption"]


def test_a_file_with_labels_and_columns_to_leave_out(tmp_path):
    frame = load_iris(as_frame=True).frame
    frame["number"] = np.arange(len(frame))
    frame.to_csv(tmp_path / "iris.csv", index=False)
    words = ("compare", tmp_path / "iris.csv", "--label", "target", "--drop", "number", "--models", "gaussian-mixture")
    succeed(*words, "--cv", 2, "--quiet", "-o", tmp_path / "board.csv")
    board = pd.read_csv(tmp_path / "board.csv")
    assert board["model"].tolist() == ["gaussian-mixture"]
    assert np.isfinite(board["nats"]).all()


def test_images(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3, 3)))
    out = succeed("compare", tmp_path / "x.npy", "--models", "factor-analysis,kmeans", "--cv", 2)
    assert "dequantised" in out
    assert "at most 2 levels" in " ".join(out.split())


def test_mistakes_are_one_line(tmp_path):
    assert "there is no model 'none'" in fail("compare", "iris", "--models", "none")
    assert "effort='slow' is not known" in fail("compare", "iris", "--effort", "slow")
    assert "--discrete maybe is not known" in fail("compare", "iris", "--discrete", "maybe")
    assert "iris has no columns to name" in fail("compare", "iris", "--label", "target")
    assert "no-such.csv" in fail("compare", tmp_path / "no-such.csv")
