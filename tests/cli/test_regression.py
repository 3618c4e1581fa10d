"""The command line with regressions: a column to predict, error bars, and labels that a model does not read."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

import jensen
from jensen.files.datasets import read_dataset
from jensen.files.tables import write_dataset
from shell import fail, run, succeed

NAMES = ["age", "bmi", "pressure"]
# A product of matrices adds in another order where the rows lie differently in memory.
SUMS = 1e-12


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    data = load_diabetes(as_frame=True, scaled=False)
    frame = data.data[["age", "bmi", "bp"]].set_axis(NAMES, axis=1)
    frame.insert(1, "progress", data.target)
    frame["weight"] = np.arange(len(frame)) % 3
    frame["kind"] = "a"
    return frame


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("regression")
    write_dataset(path / "d.csv", table)
    write_dataset(path / "d.npy", table[["age", "progress", "bmi", "pressure"]].to_numpy())
    fit = ("fit", "ridge-regression", path / "d.csv", "--label", "progress", "--weight", "weight", "--drop", "kind")
    succeed(*fit, "--alpha", "evidence", "--quiet", "-o", path / "m")
    return path


def test_fit_learns_the_column_of_the_label(folder, table, tmp_path):
    fit = ("fit", "ridge-regression", folder / "d.csv", "--label", "progress", "--weight", "weight", "--drop", "kind")
    summary = json.loads(succeed(*fit, "--alpha", "evidence", "--json", "-o", tmp_path / "m"))
    expected = jensen.RidgeRegression("evidence").fit(table[NAMES], table["progress"], table["weight"])
    assert summary["alpha"] == expected.alpha_
    assert summary["log_evidence"] == expected.log_evidence_
    assert summary["noise_variance"] == expected.noise_variance_
    assert summary["r2"] == expected.score(table[NAMES], table["progress"], table["weight"])
    assert jensen.load(tmp_path / "m").coef_.tolist() == expected.coef_.tolist()
    out = succeed(*fit, "--alpha", 0, "-o", tmp_path / "m")
    assert "r2" in out
    assert "noise variance" in out
    assert "evidence" not in out
    assert "nats" not in out
    assert jensen.load(tmp_path / "m").alpha == 0.0


def test_a_row_of_weight_0_may_be_incomplete(tmp_path):
    (tmp_path / "d.csv").write_text("a,y,w\n1,1,1\n2,3,1\n3,4,2\n,5,0\n4,,0\n")
    fit = ("fit", "ridge-regression", tmp_path / "d.csv", "--label", "y", "--weight", "w", "-o", tmp_path / "m")
    expected = jensen.RidgeRegression().fit([[1.0], [2.0], [3.0]], [1, 3, 4], [1, 1, 2])
    assert json.loads(succeed(*fit, "--json"))["r2"] == expected.score([[1.0], [2.0], [3.0]], [1, 3, 4], [1, 1, 2])


def test_predict_gives_numbers_and_their_deviation(folder, table, tmp_path):
    model = jensen.load(folder / "m")
    assert succeed("predict", folder / "m", folder / "d.csv").startswith("prediction\n")
    succeed("predict", folder / "m", folder / "d.csv", "--std", "-o", tmp_path / "p.csv")
    found = read_dataset(tmp_path / "p.csv")
    mean, std = model.predict(table[NAMES], return_std=True)
    assert found["prediction"].tolist() == pytest.approx(mean.tolist(), rel=SUMS)
    assert found["standard_deviation"].tolist() == pytest.approx(std.tolist(), rel=SUMS)
    summary = json.loads(succeed("predict", folder / "m", folder / "d.csv", "--std", "--json"))
    assert summary["standard_deviation"] == pytest.approx(std.tolist(), rel=SUMS)


def test_a_prediction_that_is_missing_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(
        jensen.RidgeRegression, "predict", lambda self, X: np.where(np.arange(len(X)) == 2, np.nan, 0.0)
    )
    assert "predict returned no value for 1 of" in fail("predict", folder / "m", folder / "d.csv")


def test_several_targets_are_several_columns(table, tmp_path, folder):
    jensen.RidgeRegression().fit(table[NAMES], table[["progress", "weight"]]).save(tmp_path / "m")
    header = succeed("predict", tmp_path / "m", folder / "d.csv", "--std").splitlines()[0]
    assert header == "prediction_0,prediction_1,standard_deviation_0,standard_deviation_1"


def test_score_is_of_the_label_given_the_rest(folder, table, tmp_path):
    model = jensen.load(folder / "m")
    score = ("score", folder / "m", folder / "d.csv", "--label", "progress")
    summary = json.loads(succeed(*score, "--json"))
    scores = model.score_samples(table[NAMES], table["progress"])
    assert summary["r2"] == model.score(table[NAMES], table["progress"])
    assert summary["nats_per_row"] == pytest.approx(scores.mean())
    assert "bits_per_dimension" not in summary
    assert [entry["row"] for entry in summary["least_likely"]] == scores.argsort()[:5].tolist()
    succeed(*score, "-o", tmp_path / "s.csv")
    assert read_dataset(tmp_path / "s.csv")["log_likelihood"].tolist() == pytest.approx(scores.tolist(), rel=SUMS)
    message = fail("score", folder / "m", folder / "d.csv")
    assert "RidgeRegression predicts one column from the others; name it with --label" in message


def test_npy_columns_are_given_by_number(folder, table, tmp_path):
    succeed("fit", "ridge-regression", folder / "d.npy", "--label", 1, "-o", tmp_path / "m")
    expected = jensen.RidgeRegression().fit(table[NAMES].to_numpy(), table["progress"])
    assert jensen.load(tmp_path / "m").coef_.tolist() == expected.coef_.tolist()
    summary = json.loads(succeed("score", tmp_path / "m", folder / "d.npy", "--label", 1, "--json"))
    assert summary["r2"] == expected.score(table[NAMES].to_numpy(), table["progress"])


def test_mistakes(folder, tmp_path):
    fit = ("fit", "ridge-regression", folder / "d.csv", "-o", tmp_path / "m")
    assert "RidgeRegression predicts one column from the others; name it with --label" in fail(*fit)
    assert "column 'kind' does not hold numbers to predict: could not convert string" in fail(*fit, "--label", "kind")
    message = fail(*fit, "--label", "progress", "--drop", "kind", "--alpha", "bayes")
    assert "The 'alpha' parameter of RidgeRegression must be a float in the range [0.0, inf)" in message
    (tmp_path / "holes.csv").write_text("a,y\n1,2\n2,\n3,4\n")
    assert "--label contains NaN, first in row 1; drop the row" in fail(
        *fit[:2], tmp_path / "holes.csv", *fit[3:], "--label", "y"
    )
    assert "X contains NaN, first in row 1, column 'y'" in fail(
        *fit[:2], tmp_path / "holes.csv", *fit[3:], "--label", "a"
    )
    select = ("select", "ridge-regression", folder / "d.csv", "--grid", "alpha=1,2", "--label", "progress")
    assert "select does not support regressions" in fail(*select)
    assert "RidgeRegression has no impute" in fail("impute", folder / "m", folder / "d.csv")


@pytest.mark.parametrize(("name", "cls"), [("kmeans", "KMeans"), ("kmedoids", "KMedoids")])
def test_a_model_that_reads_no_labels_says_so(folder, tmp_path, name, cls):
    drop = ("--drop", "kind", "--drop", "weight")
    fit = ("fit", name, folder / "d.csv", "--label", "progress", "--n-clusters", 2, *drop, "-q", "-o", tmp_path / "m")
    result = run(*fit)
    assert result.exit_code == 0
    assert result.stderr == f"warning: {cls} ignores --label; the column 'progress' is left out\n"
    assert jensen.load(tmp_path / "m").feature_names_in_.tolist() == NAMES
    assert "--std is for regressions" in fail("predict", tmp_path / "m", folder / "d.csv", "--std")


def test_a_mixture_reads_labels_and_scores_without_them(folder, tmp_path):
    drop = ("--drop", "progress", "--drop", "weight")
    result = run("fit", "gaussian-mixture", folder / "d.csv", "--label", "kind", *drop, "-q", "-o", tmp_path / "m")
    assert (result.exit_code, result.stderr) == (0, "")
    result = run("score", tmp_path / "m", folder / "d.csv", "--label", "kind", "--json")
    assert result.stderr == "warning: GaussianMixture scores rows without their label; the column 'kind' is left out\n"
    assert json.loads(result.stdout)["rows"] == 442
