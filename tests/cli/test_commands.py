"""The command line: what a user types, reads and pipes."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import jensen
from jensen.cli.arguments import convert, read_grid
from jensen.cli.signatures import arguments_of
from jensen.files.datasets import read_dataset
from jensen.files.places import header_of
from jensen.files.tables import write_dataset
from jensen.registry import MODELS, RECIPES
from shell import fail, run, succeed

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
COMMAND = [sys.executable, "-c", "from jensen.cli import main; main()"]


@pytest.fixture(scope="module")
def iris() -> pd.DataFrame:
    """Iris with holes, half of its labels, whole-number codes of them, an identifier and weights."""
    data = load_iris()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(data.data, columns=NAMES)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    labelled = rng.random(len(frame)) < 0.5
    frame.insert(1, "species", np.where(labelled, data.target_names[data.target], ""))
    frame["code"] = np.where(labelled, data.target.astype(str), "")
    frame["id"] = [f"{i:03d}" for i in range(len(frame))]
    frame["weight"] = rng.integers(1, 4, len(frame))
    return frame


@pytest.fixture(scope="module")
def folder(iris, tmp_path_factory) -> Path:
    """The table in every kind of file, and three models of it."""
    path = tmp_path_factory.mktemp("iris")
    write_dataset(path / "iris.csv", iris)
    write_dataset(path / "iris.tsv", iris)
    write_dataset(path / "iris.parquet", read_dataset(path / "iris.csv"))
    write_dataset(path / "x.npy", iris[NAMES].to_numpy())
    write_dataset(path / "bare.csv", iris[NAMES])
    fit = ("fit", "gaussian-mixture", "--quiet", "--n-components", 3)
    succeed(*fit, path / "bare.csv", "-o", path / "plain.jensen")
    others = ("--drop", "code", "--drop", "id", "--drop", "weight")
    succeed(*fit, path / "iris.csv", "--label", "species", *others, "-o", path / "labelled.jensen")
    succeed(*fit, path / "x.npy", "-o", path / "nameless.jensen")
    return path


def test_fit_prints_a_table_and_writes_the_model(folder, tmp_path):
    out = succeed("fit", "gaussian-mixture", folder / "bare.csv", "--n-components", 2, "-o", tmp_path / "m")
    for word in (
        "GaussianMixture",
        "rows",
        "150",
        "missing entries",
        "nats per row",
        "bits per dimension",
        "converged",
    ):
        assert word in out
    model = jensen.load(tmp_path / "m")
    assert model.n_components == 2
    assert model.random_state == 0
    assert model.verbose == 0


def test_fit_as_json_is_one_object_that_agrees_with_the_model(folder, iris, tmp_path):
    out = succeed("fit", "gaussian-mixture", folder / "bare.csv", "--json", "-o", tmp_path / "m")
    summary = json.loads(out)
    nats = jensen.load(tmp_path / "m").score_samples(iris[NAMES]).mean()
    assert summary["nats_per_row"] == pytest.approx(nats, rel=1e-12)
    # What is missing has no likelihood, and is no dimension either.
    n_observed = iris[NAMES].notna().to_numpy().sum(1).mean()
    assert summary["bits_per_dimension"] == pytest.approx(-nats / (n_observed * math.log(2)), rel=1e-12)
    assert summary["missing_entries"] == iris[NAMES].isna().sum().sum()
    assert (summary["rows"], summary["features"], summary["converged"]) == (150, 4, True)


def test_quiet_prints_nothing(folder, tmp_path):
    assert succeed("fit", "gaussian-mixture", folder / "bare.csv", "--quiet", "-o", tmp_path / "m") == ""


def test_options_may_stand_anywhere_and_take_every_form(folder, tmp_path):
    succeed(
        *("fit", "--n-components", "2", "gaussian-mixture", "--tol=1e-2", "--warm-start", folder / "bare.csv", "-q"),
        *("--means-init", "[[5, 3, 1, 0], [6, 3, 5, 2]]", "--weights-init", "[0.5, 0.5]", "--freeze", "weights,means"),
        *(
            "--acceleration",
            "none",
            "--seed",
            "3",
            "--prior",
            "ConjugatePrior(mean_precision=0.1)",
            "-o",
            tmp_path / "m",
        ),
    )
    params = jensen.load(tmp_path / "m").get_params()
    assert params["n_components"] == 2
    assert params["tol"] == 1e-2
    assert params["warm_start"] is True
    assert params["freeze"] == ("weights", "means")
    assert params["acceleration"] is None
    assert params["random_state"] == 3
    assert params["prior"].mean_precision == 0.1
    np.testing.assert_array_equal(params["means_init"], [[5, 3, 1, 0], [6, 3, 5, 2]])


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("3", int | None, 3),
        ("None", int | None, None),
        ("0.5", int | float, 0.5),
        ("3", str | int, 3),
        ("kmeans", str | int, "kmeans"),
        ("no", bool, False),
        ("64,32", tuple[int, ...], (64, 32)),
        ('["a", "b"]', list[str], ["a", "b"]),
        ("a,b", str | list[str] | None, ["a", "b"]),
        ("english", str | list[str] | None, "english"),
        ("", list[str], []),
        ("-1e-3", float, -1e-3),
        ("-1e-3", inspect.Parameter.empty, -1e-3),
    ],
)
def test_a_text_is_read_by_its_annotation(text, annotation, value):
    parameter = inspect.Parameter("size", inspect.Parameter.KEYWORD_ONLY, default=1.0, annotation=annotation)
    found = convert(text, parameter)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-componets", 3], "there is no option --n-componets; did you mean --n-components? There are --accel"),
        (["--n-components", "three"], "--n-components 'three' cannot be read as int | none; its default is none"),
        (["--n-components"], "--n-components needs a value: int | none"),
        (["--n-components", 0], "'n_components' parameter of GaussianMixture must be an int"),
        (["--means-init", "[[0, 0]"], "--means-init '[[0, 0]' cannot be read as number, word or Python literal"),
        (["--prior", "ConjugatePrior(strength=1)"], "as ConjugatePrior(weight_concentration, mean, mean_precision"),
        (["--prior", '{"strength": 1}'], "is JSON; write it as in Python: --prior 'ConjugatePrior(strength=1)'"),
        (["--seed", 1, "--random-state", 2], "--seed 1 and --random-state 2 are the same option; give one"),
        (["more.csv"], "give one data file, got"),
        (["--label", "kind"], "there is no column 'kind'; there are sepal length, sepal width"),
        (["-o", "nowhere/model"], "--output nowhere/model cannot be written: there is no folder nowhere; give one"),
    ],
)
def test_mistakes_in_the_options_of_fit(folder, tmp_path, arguments, message):
    assert message in fail("fit", "gaussian-mixture", folder / "bare.csv", "-o", tmp_path / "m", *arguments)


def test_mistakes_in_the_data_of_fit(folder, tmp_path):
    def failing(*arguments: Any) -> str:
        return fail("fit", *arguments, "-o", tmp_path / "m")

    assert "no model 'gaussian'; did you mean gaussian-mixture? There are autoencoder, bern" in failing(
        "gaussian", folder / "bare.csv"
    )
    assert "there is no file gone.csv" in failing("gaussian-mixture", "gone.csv")
    assert "columns that are not numbers: 'species'" in failing("gaussian-mixture", folder / "iris.csv")
    (tmp_path / "empty.csv").write_text("a,label,w\n1,,x\n2,,y\n")
    assert "column 'label' has no label" in failing("gaussian-mixture", tmp_path / "empty.csv", "--label", "label")
    assert "column 'w' does not hold weights" in failing("gaussian-mixture", tmp_path / "empty.csv", "--weight", "w")
    assert "there are 0, 1, 2, 3" in failing("gaussian-mixture", folder / "x.npy", "--label", "species")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit"], "missing argument 'model' (see jensen fit --help)"),
        (["score", "a.jensen", "b.csv", "--foo"], "no such option --foo (see jensen score --help)"),
        (["sampel"], "no such command 'sampel'. did you mean 'sample'? (see jensen --help)"),
    ],
)
def test_misspelt_commands_are_one_line(arguments, message):
    # Versions of typer and click differ in capitals, and in the signs around an option.
    assert re.sub(r"option:? '?(--\w+)'?", r"option \1", fail(*arguments).lower()) == f"error: {message}\n"


def test_no_command_prints_the_help():
    assert "jensen fit gaussian-mixture" in succeed()


def test_a_warning_is_one_line(folder, tmp_path):
    warnings.simplefilter("always", ConvergenceWarning)
    options = ("--n-components", 3, "--max-iter", 1, "--tol", 0, "--init-params", "random")
    result = run("fit", "gaussian-mixture", folder / "bare.csv", *options, "--json", "-o", tmp_path / "m")
    assert json.loads(result.stdout)["converged"] is False
    assert result.stderr.startswith("warning: GaussianMixture did not converge to --tol 0.0 in --max-iter 1 steps")
    assert result.stderr.count("\n") == 1


def test_labels_stay_whole_numbers_and_weights_count_rows(folder, iris, tmp_path):
    others = ("--drop", "species", "--drop", "id")
    fit = ("fit", "gaussian-mixture", folder / "iris.csv", "--json", *others, "-o", tmp_path / "m")
    summary = json.loads(succeed(*fit, "--label", "code", "--weight", "weight"))
    model = jensen.load(tmp_path / "m")
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.classes_.dtype.kind == "i"
    repeated = iris[NAMES].loc[iris.index.repeat(iris["weight"])]
    assert summary["nats_per_row"] == pytest.approx(model.score_samples(repeated).mean(), rel=1e-12)


def test_one_known_class_is_no_reason_to_warn(tmp_path):
    (tmp_path / "d.csv").write_text("a,seen\n" + "".join(f"{i % 7},{'1' if i < 5 else ''}\n" for i in range(20)))
    result = run("fit", "gaussian-mixture", tmp_path / "d.csv", "--label", "seen", "-o", tmp_path / "m")
    assert (result.exit_code, result.stderr) == (0, "")


def test_npy_columns_are_given_by_number(iris, tmp_path):
    table = np.column_stack([iris[NAMES], pd.to_numeric(iris["code"]), iris["weight"]])
    write_dataset(tmp_path / "d.npy", table)
    succeed("fit", "gaussian-mixture", tmp_path / "d.npy", "--label", 4, "--weight", 5, "-o", tmp_path / "m")
    model = jensen.load(tmp_path / "m")
    assert model.n_features_in_ == 4
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["iris.csv", "iris.tsv", "iris.parquet", "bare.csv", "x.npy"])
def test_score_finds_the_models_own_columns_in_every_file(folder, iris, name):
    summary = json.loads(succeed("score", folder / "plain.jensen", folder / name, "--json"))
    scores = jensen.load(folder / "plain.jensen").score_samples(iris[NAMES])
    assert summary["nats_per_row"] == pytest.approx(scores.mean(), rel=1e-12)
    assert summary["standard_error"] == pytest.approx(scores.std(ddof=1) / math.sqrt(150), rel=1e-12)
    assert [entry["row"] for entry in summary["least_likely"]] == np.argsort(scores)[:5].tolist()


def test_score_writes_a_value_per_row(folder, iris, tmp_path):
    result = run("score", folder / "plain.jensen", folder / "iris.csv", "--output", tmp_path / "s.csv")
    assert "least likely row" in result.stdout
    assert result.stderr == f"wrote 150 rows to {tmp_path / 's.csv'}\n"
    scores = jensen.load(folder / "plain.jensen").score_samples(iris[NAMES])
    assert read_dataset(tmp_path / "s.csv")["log_likelihood"].tolist() == scores.tolist()


def test_answers_stand_beside_columns_that_are_kept(folder, tmp_path):
    """As they are written, whatever the model makes of the others."""
    table = pd.read_csv(folder / "iris.csv", dtype=str, na_filter=False)
    for verb, model in (("score", "plain"), ("predict", "plain")):
        words = (verb, folder / f"{model}.jensen", folder / "iris.csv")
        succeed(*words, "--output", tmp_path / "bare.csv")
        succeed(*words, "--keep", "id,species", "--output", tmp_path / "kept.csv")
        bare, kept = (pd.read_csv(tmp_path / name, dtype=str, na_filter=False) for name in ("bare.csv", "kept.csv"))
        assert list(kept) == ["id", "species", *bare]
        pd.testing.assert_frame_equal(kept[["id", "species"]], table[["id", "species"]])
        pd.testing.assert_frame_equal(kept[list(bare)], bare)
    assert "there is no column 'none'" in fail(*words, "--keep", "none")


def test_columns_are_kept_in_a_file_only(folder):
    message = fail("score", folder / "plain.jensen", folder / "iris.csv", "--keep", "id")
    assert "--keep id needs --output, the file that gets these columns" in message


def test_a_score_of_one_row_has_no_standard_error(folder, tmp_path):
    (tmp_path / "one.csv").write_text(",".join(NAMES) + "\n5,3,,0.2\n")
    assert (
        json.loads(succeed("score", folder / "plain.jensen", tmp_path / "one.csv", "--json"))["standard_error"] is None
    )
    assert "standard error" in succeed("score", folder / "plain.jensen", tmp_path / "one.csv")


def test_mistakes_in_model_and_columns(folder, tmp_path):
    assert "bare.csv is not a jensen model" in fail("score", folder / "bare.csv", folder / "bare.csv")
    assert "gone.jensen" in fail("predict", "gone.jensen", folder / "bare.csv")
    (tmp_path / "three.csv").write_text("sepal length,sepal width,petal length\n1,2,3\n")
    message = fail("score", folder / "plain.jensen", tmp_path / "three.csv")
    assert "there is no column 'petal width', which the model was fitted on" in message
    message = fail("score", folder / "nameless.jensen", tmp_path / "three.csv")
    assert "there are 3 columns, but the model was fitted on 4" in message


def test_sample_prints_csv_with_the_names_of_the_fit_and_repeats_by_seed(folder, tmp_path):
    printed = succeed("sample", folder / "labelled.jensen", "-n", 20, "--y", "setosa", "--seed", 1)
    assert printed.splitlines()[0] == ",".join(NAMES)
    assert len(printed.splitlines()) == 21
    succeed("sample", folder / "labelled.jensen", "-n", 20, "--y", "setosa", "--seed", 1, "-o", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == printed
    # Setosa's petals are 1.0 to 1.9 long, the others' 3.0 and more.
    assert read_dataset(tmp_path / "s.csv")["petal length"].max() < 3
    assert "--y rose is not among ['setosa'" in fail("sample", folder / "labelled.jensen", "--y", "rose")
    assert "--n-samples 0 must be a whole number" in fail("sample", folder / "labelled.jensen", "-n", 0)


def test_what_a_nameless_model_samples_it_can_score(folder, tmp_path):
    succeed("sample", folder / "nameless.jensen", "-n", 9, "--y", 2, "-o", tmp_path / "s.csv")
    assert read_dataset(tmp_path / "s.csv").columns.tolist() == ["x0", "x1", "x2", "x3"]
    assert json.loads(succeed("score", folder / "nameless.jensen", tmp_path / "s.csv", "--json"))["rows"] == 9


def test_impute_changes_empty_cells_only(folder, iris, tmp_path):
    succeed("impute", folder / "labelled.jensen", folder / "iris.csv", "--output", tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_text() == succeed("impute", folder / "labelled.jensen", folder / "iris.csv")
    written = pd.read_csv(folder / "iris.csv", dtype=str, na_filter=False)
    filled = pd.read_csv(tmp_path / "f.csv", dtype=str, na_filter=False)
    holes = iris.isna()
    assert filled.columns.tolist() == iris.columns.tolist()
    assert filled.where(~holes, "").equals(written)
    mean = jensen.load(folder / "labelled.jensen").impute(iris[NAMES])
    # The file has one decimal throughout.
    np.testing.assert_allclose(filled[NAMES].astype(float), mean, atol=0.05 + 1e-9)
    assert filled[NAMES].apply(lambda column: column.str.fullmatch(r"\d+\.\d")).all().all()


def test_impute_keeps_the_types_of_a_parquet_file(folder, tmp_path):
    succeed("impute", folder / "labelled.jensen", folder / "iris.parquet", "-o", tmp_path / "f.parquet")
    before, after = read_dataset(folder / "iris.parquet"), read_dataset(tmp_path / "f.parquet")
    assert after.dtypes.equals(before.dtypes)
    assert not after[NAMES].isna().any(axis=None)
    assert after["species"].equals(before["species"])


def test_impute_draws_one_file_each(folder, iris, tmp_path):
    draws = ("impute", folder / "nameless.jensen", folder / "x.npy", "--draws", 2, "--seed", 0)
    succeed(*draws, "-o", tmp_path / "f.npy")
    first, second = (read_dataset(tmp_path / f"f-{i}.npy") for i in (1, 2))
    holes = iris[NAMES].isna().to_numpy()
    assert (first[~holes] == second[~holes]).all()
    assert (first[holes] != second[holes]).all()
    assert "--draws 2 makes 2 tables, and standard output takes one; give --output" in fail(*draws)


def test_predict_gives_classes_with_probabilities(folder, iris, tmp_path):
    model = jensen.load(folder / "labelled.jensen")
    succeed("predict", folder / "labelled.jensen", folder / "iris.csv", "--proba", "-o", tmp_path / "p.csv")
    table = read_dataset(tmp_path / "p.csv")
    assert table["prediction"].tolist() == model.predict(iris[NAMES]).tolist()
    assert table.columns.tolist()[1:] == [f"probability_{name}" for name in model.classes_]
    np.testing.assert_array_equal(table.iloc[:, 1:], model.predict_proba(iris[NAMES]))
    summary = json.loads(succeed("predict", folder / "labelled.jensen", folder / "iris.csv", "--json"))
    assert summary["prediction"] == table["prediction"].tolist()
    assert succeed("predict", folder / "plain.jensen", folder / "bare.csv").startswith("prediction\n")
    message = fail("predict", folder / "labelled.jensen", folder / "iris.csv", "-o", tmp_path / "p.npy")
    assert "p.npy cannot hold text" in message


def test_semicolons_separate_cells_where_there_are_no_commas(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1;2\n3;4\n5;7\n")
    assert "rows" in succeed("fit", "probabilistic-pca", tmp_path / "x.csv", "--n-components", 1, "-o", tmp_path / "m")


def test_a_cell_that_is_no_number_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,two\n5,7\n")
    message = fail("fit", "kmeans", tmp_path / "x.csv", "-o", tmp_path / "m")
    text_type = pd.Series(["two"]).dtype  # object before pandas 3
    assert f"'b' ({text_type}, first 'two' in row 1)" in message


def test_a_label_is_one_column(folder, tmp_path):
    message = fail("fit", "kmeans", folder / "iris.csv", "--label", "a", "--label", "b", "-o", tmp_path / "m")
    assert "--label was given 2 times: a, b; give one column" in message


def test_a_model_with_a_latent_vector_transforms_and_does_not_predict(folder):
    out = succeed("fit", "probabilistic-pca", folder / "bare.csv", "--n-components", 2, "-o", folder / "pca.jensen")
    assert "components" in out
    assert "ProbabilisticPCA has no predict; it has transform, " in fail(
        "predict", folder / "pca.jensen", folder / "bare.csv"
    )
    assert "GaussianMixture has no transform; it has predict, " in fail(
        "transform", folder / "plain.jensen", folder / "bare.csv"
    )
    succeed("transform", folder / "pca.jensen", folder / "bare.csv", "-o", folder / "z.csv")
    z = pd.read_csv(folder / "z.csv")
    assert list(z.columns) == ["probabilisticpca0", "probabilisticpca1"]
    expected = jensen.load(folder / "pca.jensen").transform(pd.read_csv(folder / "bare.csv"))
    np.testing.assert_allclose(z, expected)


def test_distances_are_an_option_of_clusters(tmp_path):
    table = pd.DataFrame({"age": [20.5, 22.0, 61.5, None], "town": ["Bonn", "Bonn", "Rome", "Rome"]})
    table.to_csv(tmp_path / "x.csv", index=False)
    succeed("fit", "kmedoids", tmp_path / "x.csv", "--n-clusters", 2, "--metric", "gower", "-o", tmp_path / "m")
    found = succeed("predict", tmp_path / "m", tmp_path / "x.csv").split()[1:]
    assert found[0] == found[1] != found[2] == found[3]
    write_dataset(tmp_path / "y.csv", load_iris().data)
    succeed("fit", "kmeans", tmp_path / "y.csv", "--n-clusters", 3, "--metric", "cosine", "-o", tmp_path / "c")
    assert "KMeans has no score_samples: metric='cosine'" in fail("score", tmp_path / "c", tmp_path / "y.csv")


def test_a_model_without_a_density_is_fitted_and_says_what_it_cannot(tmp_path):
    write_dataset(tmp_path / "x.csv", load_iris().data)
    out = succeed("fit", "kmedoids", tmp_path / "x.csv", "--n-clusters", 3, "-o", tmp_path / "m")
    assert "inertia" in out
    assert "iterations" in out
    assert "nats" not in out
    assert "converged" not in out
    both = (tmp_path / "m", tmp_path / "x.csv")
    assert "KMedoids has no score_samples: a dissimilarity has no density" in fail("score", *both)
    assert "KMedoids has no sample: a dissimilarity has no density" in fail("sample", tmp_path / "m")
    assert "KMedoids has no impute: a dissimilarity has no density" in fail("impute", *both)
    assert "KMedoids has no impute_draws: a dissimilarity" in fail("impute", *both, "--draws", 1)
    assert succeed("predict", tmp_path / "m", tmp_path / "x.csv").startswith("prediction\n")


def test_select_prints_a_table_and_writes_the_best_model(folder, iris, tmp_path):
    grid = ("--grid", "n-components=1:3", "--grid", "covariance_type=full,diag")
    result = run("select", "gaussian-mixture", folder / "bare.csv", *grid, "--tol", 1e-4, "-o", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert result.stderr == f"wrote the best model to {tmp_path / 'm'}\n"
    for word in ("n components", "covariance type", "bic", "behind", "n parameters"):
        assert word in result.stdout
    assert "failure" not in result.stdout
    chosen = jensen.select(
        jensen.GaussianMixture(tol=1e-4),
        iris[NAMES],
        {"n_components": [1, 2, 3], "covariance_type": ["full", "diag"]},
    )
    (marked,) = (line for line in result.stdout.splitlines() if "*" in line)
    assert f"{chosen.winner.bic(iris[NAMES]):.4f}" in marked
    model = jensen.load(tmp_path / "m")
    assert (model.n_components, model.tol, model.random_state) == (chosen.winner.n_components, 1e-4, 0)
    np.testing.assert_array_equal(model.means_, chosen.winner.means_)


def test_select_as_json_is_one_object(folder, iris):
    grid = ("--grid", "n-components=1,3,200", "--criterion", "cv", "--cv", 3, "--seed", 4)
    others = ("--label", "code", "--weight", "weight", "--drop", "species", "--drop", "id")
    found = json.loads(succeed("select", "gaussian-mixture", folder / "iris.csv", *grid, *others, "--json"))
    y = pd.to_numeric(iris["code"]).fillna(-1).to_numpy()
    chosen = jensen.select(
        jensen.GaussianMixture(),
        iris[NAMES],
        {"n_components": [1, 3, 200]},
        "cv",
        y=y,
        sample_weight=iris["weight"],
        cv=3,
        random_state=4,
    )
    assert (found["model"], found["rows"], found["criterion"]) == ("GaussianMixture", 150, "cv")
    assert found["best"] == chosen.best_params
    assert found["table"][1]["cv"] == pytest.approx(chosen.table["cv"][1], rel=1e-12)
    assert found["table"][0]["cv"] is found["table"][2]["cv"] is None
    assert found["table"][2]["n_components"] == 200
    assert "n_components=200" in found["table"][2]["failure"]


def test_select_shows_why_an_entry_failed(folder):
    select = ("select", "gaussian-mixture", folder / "bare.csv", "--grid", "n-components=1,200")
    out = succeed(*select)
    assert "failure" in out
    assert "distinct" in out
    assert succeed(*select, "--quiet") == ""


def test_select_by_the_gap(tmp_path):
    rng = np.random.default_rng(0)
    write_dataset(tmp_path / "x.npy", np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(20, 1, (50, 2))]))
    select = ("select", "kmeans", tmp_path / "x.npy", "--grid", "n-clusters=1:4", "--n-references", 5)
    assert json.loads(succeed(*select, "--criterion", "gap", "--json"))["best"] == {"n_clusters": 2}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n-components=1:4", {"n_components": [1, 2, 3, 4]}),
        ("--n-components=2:8:3", {"n_components": [2, 5, 8]}),
        ("n_components=none,1:2, 7", {"n_components": [None, 1, 2, 7]}),
        ("n-components=10:30:1e1", {"n_components": [10, 20, 30]}),
        ("tol=0.1:0.35:0.1", {"tol": [0.1, 0.2, 0.3]}),
        ("tol=1e-3,1e-4", {"tol": [1e-3, 1e-4]}),
        ("reg-covar=-1:0", {"reg_covar": [-1.0, 0.0]}),
        ("covariance-type=full,diag", {"covariance_type": ["full", "diag"]}),
        ("warm-start=yes,no", {"warm_start": [True, False]}),
    ],
)
def test_a_grid_is_read_by_the_models_annotations(text, values):
    parameters = inspect.signature(jensen.GaussianMixture, eval_str=True).parameters
    found = read_grid([text], parameters)
    assert found == values
    assert [[type(v) for v in f] for f in found.values()] == [[type(v) for v in e] for e in values.values()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grid", "n-components"], "--grid 'n-components' must be a name and values, such as n-clusters=1:10"),
        (["--grid", "n-components="], "--grid 'n-components=' must be a name and values"),
        (["--grid", "n-clusters=1:3"], "there is no option --n-clusters; There are --acceleration"),
        (["--grid", "n-componets=1:3"], "there is no option --n-componets; did you mean --n-components?"),
        (["--grid", "n-components=3:1"], "the range 3:1 has no values, or more than 10000; write from:to"),
        (["--grid", "n-components=1:3:0"], "the range 1:3:0 has no values"),
        (["--grid", "n-components=1:1e9"], "the range 1:1e9 has no values, or more than 10000"),
        (["--grid", "n-components=1:2:0.5"], "--n-components '1.5' cannot be read as int | none"),
        (["--grid", "n-components=1:2:1:1"], "--n-components '1:2:1:1' cannot be read as int | none"),
        (["--grid", "tol=1", "--grid", "tol=2"], "--grid 'tol=2' names tol twice"),
        (["--grid", "tol=1", "--tol", 2], "--tol is both an option and in --grid; give it once"),
        (["--grid", "tol=1", "--criterion", "best"], "--criterion best is unknown; choose among 'auto', 'bic',"),
        (
            ["--grid", "tol=1", "--criterion", "gap"],
            "which GaussianMixture does not have; use 'bic', 'icl', 'held_out'",
        ),
        (["--grid", "tol=1", "--criterion", "silhouette"], "X contains NaN, and --criterion silhouette needs complete"),
        (["--grid", "tol=1", "-o", "nowhere/model"], "--output nowhere/model cannot be written"),
        (["--grid", "tol=1", "--n-componets", 3], "there is no option --n-componets; did you mean --n-components?"),
    ],
)
def test_mistakes_in_the_options_of_select(folder, arguments, message):
    assert message in fail("select", "gaussian-mixture", folder / "bare.csv", *arguments)


def test_a_bug_keeps_its_traceback(folder, monkeypatch):
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(jensen.GaussianMixture, "score_samples", broken)
    assert isinstance(run("score", folder / "plain.jensen", folder / "bare.csv").exception, RuntimeError)


def test_parquet_without_pyarrow_names_the_extra(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = fail("score", folder / "plain.jensen", folder / "iris.parquet")
    assert "Parquet files need pyarrow: pip install 'jensen[scale]'" in message
    with pytest.raises(ImportError, match=r"jensen\[scale\]"):
        write_dataset(tmp_path / "new.parquet", np.eye(2))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.doc",
            b"a\n1\n",
            r"has the suffix '.doc'; give a file that ends in .csv, .tsv, .*packed, as in .csv.gz",
        ),
        ("x.csv", b"", "is empty: it has no header line"),
        ("x.csv", b"a,b\n", "is empty: it has 0 rows and 2 columns"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read as a table: .*Expected 2 fields in line 3, saw 3"),
        ("x.csv", b"a,b\n1,2,3\n4,5,6\n", "more cells in a row than names in its first line"),
        ("x.csv", "a\n1\n".encode("utf-16")[:-1], "cannot be read as a table: .*codec can't decode"),
        ("x.parquet", b"nonsense", "cannot be read as Parquet"),
        ("x.npy", b"nonsense", "cannot be read as an npy file of numbers"),
        ("x.npy", b"", "cannot be read as an npy file of numbers"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_dataset(tmp_path / name)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2, 2)), r"holds images of shape \(2, 2\), .* save rows and features, x.reshape\(2, 4\), or use"),
        (np.array(1.0), r"has shape \(\); save rows"),
        (np.array(["a"]), "holds text, and rows of an npy file are real numbers; save numbers, .* as .csv or .parquet"),
        (np.array([1j]), "holds complex128 values, and rows of an npy file are real numbers"),
        (np.array([{}]), "cannot be read as an npy file of numbers: Object arrays .* save numbers, such as"),
        (np.zeros((0, 2)), "is empty: it has 0 rows and 2 columns"),
    ],
)
def test_npy_files_hold_rows_of_numbers(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        read_dataset(tmp_path / "x.npy")


def test_one_column_keeps_its_missing_rows(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n\nNA\n4\n")
    np.testing.assert_array_equal(read_dataset(tmp_path / "x.csv"), [[1], [np.nan], [np.nan], [4]])
    write_dataset(tmp_path / "x.npy", np.array([1.0, np.nan]))
    np.testing.assert_array_equal(read_dataset(tmp_path / "x.npy"), [[1], [np.nan]])


def test_numbers_survive_a_text_file_bit_for_bit(tmp_path):
    values = np.random.default_rng(0).standard_normal((500, 2)) * 10.0 ** np.arange(-250, 250)[:, None]
    write_dataset(tmp_path / "x.csv", values)
    np.testing.assert_array_equal(read_dataset(tmp_path / "x.csv"), values)


def test_a_column_name_that_stands_twice_is_an_error(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(
        ValueError, match=r"x\.csv cannot be read as a table: its first line has the column name 'a' tw"
    ):
        read_dataset(tmp_path / "x.csv")
    (tmp_path / "x.tsv").write_text("a\ta.1\n1\t2\n")
    assert read_dataset(tmp_path / "x.tsv").columns.tolist() == ["a", "a.1"]
    # Columns without a name stay what they were.
    (tmp_path / "y.csv").write_text(",,a\n1,2,3\n")
    assert read_dataset(tmp_path / "y.csv").shape == (1, 3)


def test_a_first_line_of_numbers_in_steps_warns(tmp_path):
    (tmp_path / "x.csv").write_text("2020,2021,2022\n4.9,3.0,1\n")
    with pytest.warns(UserWarning, match=r"first line is taken as column names, but holds only numbers \(2020, 2021"):
        read_dataset(tmp_path / "x.csv")


def test_help_answers_at_once():
    code = """if True:
        import sys, time
        from jensen.cli.app import app
        app(["--help"], standalone_mode=False)
        assert not {"torch", "pandas", "numpy", "sklearn"} & set(sys.modules)
        # Processor time, because other tests may be running beside this one.
        assert time.process_time() < 0.6
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("given", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_sleep_while_they_wait_unless_told_otherwise(given, policy):
    code = """if True:
        import os, sys
        from jensen.cli import app as cli
        cli.app = lambda **_: print(os.environ["OMP_WAIT_POLICY"], "torch" in sys.modules)
        cli.main()
    """
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **given})
    assert done.stdout == f"{policy} False\n"


def test_a_mistake_in_a_word_or_a_name_does_not_wait_for_libraries(tmp_path):
    (tmp_path / "x.csv").write_text("id,a\n1,2\n")
    commands = [
        "fit kmeans x.csv --drop idd -o m",
        "fit kmeans x.csv --label kind -o m",
        "fit kmeans x.csv --weight gone.npy -o m",
        "fit kmeans x.csv --n-clusters three -o m",
        "fit kmeans x.csv --n-clusters --tol 1 -o m",
        "select kmeans x.csv --drop a,idd --grid n-clusters=1:2",
        "compare x.csv --drop idd",
        "predict x.csv x.csv --keep idd",
        "fit nosuch iris -o m",
        "fit kmeans gone.csv -o m",
        "fit kmeans iris --n-clustres 3 -o m",
        "fit latent-diffusion iris --n-components 3 -o m",
        "fit kmeans iris -o nowhere/m",
        "select kmeans gone.csv --grid n-clusters=1:3",
        "select kmeans iris --grid n-clustres=1:3",
        "compare gone.csv",
        "compare iris --models kmeans,nosuch",
        "score gone.jensen iris",
        "sample gone.jensen",
        "impute gone.jensen iris",
        "predict gone.jensen iris -o nowhere/y.csv",
        "transform gone.jensen iris",
        "report gone.jensen iris",
        "models nosuch",
    ]
    code = f"""if True:
        import sys
        from jensen.cli.app import app
        for words in {commands}:
            try:
                app(words.split())
            except SystemExit as end:
                assert end.code == 2, words
            assert not {{"torch", "pandas", "numpy", "sklearn"}} & set(sys.modules), words
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: ") == done.stderr.count("\n") == len(commands)


@pytest.mark.parametrize("name", [*MODELS.values(), *RECIPES])
def test_plain_arguments_read_from_the_source_have_the_types_and_defaults_of_the_class(name):
    parameters = inspect.signature(getattr(jensen, name), eval_str=True).parameters
    for argument, about in (arguments_of(name) or {}).items():
        if about.plain is not None:
            assert about.plain.annotation == parameters[argument].annotation
            assert about.plain.default == parameters[argument].default


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ("\ufeffa;b\n1;2\n", ["a", "b"]),
        ('"a, b",c\n1,2\n', ["a, b", "c"]),
        ("a,a\n1,2\n", None),
        (",a\n1,2\n", None),
        ("\na,b\n1,2\n", ["a", "b"]),
        ("1,2.5\n2,4\n", ["x0", "x1"]),
        ('"a\nb",c\n1,2\n', None),
        ("", None),
    ],
)
def test_a_header_that_is_read_without_pandas_is_that_of_pandas(content, names, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(content, encoding="utf-8")
    assert header_of(path) == names
    assert names is None or list(read_dataset(path).columns) == names


@pytest.mark.parametrize("name", [*MODELS.values(), *RECIPES])
def test_arguments_read_from_the_source_are_those_of_the_class(name):
    parameters = inspect.signature(getattr(jensen, name)).parameters
    found = arguments_of(name) or {}
    assert {argument: isinstance(p.default, bool) for argument, p in parameters.items()} == {
        argument: about.is_switch for argument, about in found.items()
    }


def test_an_output_is_refused_before_the_work(folder, monkeypatch):
    monkeypatch.setattr(jensen.GaussianMixture, "score_samples", None)
    score = ("score", folder / "plain.jensen", folder / "bare.csv", "-o")
    assert "has the suffix '.xyz'; give a file that ends in .csv" in fail(*score, folder / "scores.xyz")
    assert "--output nowhere/scores.csv cannot be written: there is no folder nowhere" in fail(
        *score, "nowhere/scores.csv"
    )
    assert "cannot be written: it is a folder" in fail(*score, folder)
    assert "did you mean gaussian-mixture?" in fail("fit", "gausian-mixture", "iris", "-o", folder / "m.jensen")
    monkeypatch.setattr("jensen.cli.sample.open_model", None)
    monkeypatch.setattr("jensen.cli.impute.open_rows", None)
    for verb in (("sample", folder / "plain.jensen"), ("impute", folder / "plain.jensen", folder / "bare.csv")):
        assert "--output nowhere/new.csv cannot be written" in fail(*verb, "-o", "nowhere/new.csv")


def test_single_precision_is_reported_like_double(folder, iris, tmp_path):
    write_dataset(tmp_path / "x.npy", iris[NAMES].to_numpy(dtype=np.float32))
    summary = json.loads(succeed("score", folder / "nameless.jensen", tmp_path / "x.npy", "--json"))
    double = json.loads(succeed("score", folder / "nameless.jensen", folder / "x.npy", "--json"))
    # Seven digits of the data, and a score of a few nats.
    assert summary["nats_per_row"] == pytest.approx(double["nats_per_row"], abs=1e-4)


def test_the_version():
    assert succeed("--version") == f"jensen {jensen.__version__}\n"


def test_an_error_from_a_shell_is_one_line_and_code_2(tmp_path):
    done = subprocess.run([*COMMAND, "score", "m.jensen", "gone.csv"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: there is no file gone.csv\n")


def test_a_closed_pipe_is_no_error(folder):
    sampling = subprocess.Popen(
        [*COMMAND, "sample", str(folder / "plain.jensen"), "-n", "20000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert sampling.stdout is not None
    assert sampling.stderr is not None
    assert sampling.stdout.readline().decode().strip() == ",".join(NAMES)
    sampling.stdout.close()
    assert sampling.stderr.read() == b""
    sampling.stderr.close()
    assert sampling.wait(timeout=60) != 2


def test_limits_and_depots_of_stores(folder, tmp_path):
    common = ("fit", "kmeans", folder / "bare.csv", "--n-clusters", 3, "-o", tmp_path / "m.jensen", "--json")
    succeed(*common, "--size-limits", "30,none")
    model = jensen.load(tmp_path / "m.jensen")
    assert model.size_limits == (30.0, None)
    assert model.cluster_weights_.min() >= 30
    out = json.loads(succeed(*common, "--depot", "Depot([5, 3, 3, 1], weight=0.5)"))
    assert out["cost"] == pytest.approx(out["inertia"] + out["supply_cost"])


def test_impute_says_what_the_model_does_not_know(tmp_path):
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [2.0, 1.0, 0.0, 3.0], "note": ["x", None, "y", None]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    fit = ("fit", "probabilistic-pca", tmp_path / "x.csv", "--drop", "note", "--n-components", 1, "--quiet")
    succeed(*fit, "-o", tmp_path / "m")
    result = run("impute", tmp_path / "m", tmp_path / "x.csv", "-o", tmp_path / "filled.csv")
    assert "not imputed, in columns that the model was not trained on: 2 cells of note\n" in result.stderr


def test_noise_is_a_prediction_of_minus_one_with_a_probability_of_its_own(tmp_path):
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(0, 1, (100, 2)), rng.uniform(-30, 30, (8, 2))])
    pd.DataFrame(x, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    succeed("fit", "gaussian-mixture", tmp_path / "x.csv", "--noise", "-o", tmp_path / "m.jensen")
    succeed("predict", tmp_path / "m.jensen", tmp_path / "x.csv", "--proba", "-o", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert table.columns.tolist() == ["prediction", "probability_component_0", "probability_noise"]
    np.testing.assert_array_equal(table["prediction"] == -1, table["probability_noise"] > 0.5)
    succeed("report", tmp_path / "m.jensen", tmp_path / "x.csv", "-o", tmp_path / "r.html")
    assert "<td>noise</td>" in (tmp_path / "r.html").read_text()
