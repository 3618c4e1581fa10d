"""The command line on a mixture of all columns: text, counts, yes/no, dates, identifiers, and gaps in all of them."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import jensen
from jensen.files.reading import Reading
from jensen.files.tables import write_dataset
from jensen.files.understand import understand
from shell import fail, run, succeed

TWO = ("--n-components", 2, "--quiet")


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Two groups of people that differ in all columns but one; a tenth of the cells is missing."""
    rng = np.random.default_rng(0)
    n = 120
    group = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "age": rng.normal(30 + 30 * group, 4).round(1),
            "visits": rng.poisson(1 + 8 * group),
            "town": rng.choice(["Bonn", "Oslo", "Rome"], n),
            "smokes": rng.random(n) < 0.1 + 0.8 * group,
            "since": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%Y-%m-%d"),
            "zip": rng.choice([1187, 10115, 53111], n),
        }
    )
    frame = frame.astype(object).mask(rng.random(frame.shape) < 0.1)
    frame.insert(0, "name", [f"Person {i}" for i in range(n)])
    frame["group"] = np.where(rng.random(n) < 0.5, np.array(["young", "old"])[group], None)
    return frame


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    path = tmp_path_factory.mktemp("people")
    write_dataset(path / "people.csv", people)
    fit = ("fit", "mixture", path / "people.csv", "--drop", "group", "--columns", '{"zip": "level"}', *TWO)
    result = run(*fit, "-o", path / "people.jensen")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("warning") == 1
    assert "left out: 'name'" in result.stderr
    return path


def test_columns_are_what_they_look_like_or_what_is_asked(folder):
    model = jensen.load(folder / "people.jensen")
    kinds = dict(zip(model.columns_.names, model.columns_.kinds, strict=True))
    expected = {
        "age": "number",
        "visits": "count",
        "town": "level",
        "smokes": "yes/no",
        "since": "date",
        "zip": "level",
    }
    assert kinds == expected
    assert model.columns_.left_out == ("name",)
    assert model.columns_.levels[5] == (1187, 10115, 53111)


def test_scores_are_those_of_the_library(folder, people, tmp_path):
    succeed("score", folder / "people.jensen", folder / "people.csv", "--keep", "name", "-o", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert scores["name"].tolist() == people["name"].tolist()
    rows = pd.read_csv(folder / "people.csv", parse_dates=["since"]).drop(columns="group")
    model = jensen.load(folder / "people.jensen")
    # CSV holds 17 digits.
    np.testing.assert_allclose(scores["log_likelihood"], model.score_samples(rows), rtol=1e-12)


@pytest.mark.parametrize("model", [("mixture", "--n-components", 2), ("vae", "--max-epochs", 1)])
def test_columns_left_out_are_not_counted(model, people, tmp_path):
    write_dataset(tmp_path / "people.csv", people.assign(name=people["name"].where(people.index % 2 == 0)))
    # With identifiers that the model leaves out, and without them in the file.
    for name, drop in (("all", "group"), ("fewer", "group,name")):
        found = succeed("fit", *model, tmp_path / "people.csv", "--drop", drop, "--json", "-o", tmp_path / name)
        scored = succeed("score", tmp_path / name, tmp_path / "people.csv", "--seed", 0, "--json")
        if name == "all":
            fitted, scores = json.loads(found), json.loads(scored)
    without = json.loads(found)
    assert fitted["features"] == without["features"] == 6
    assert fitted["missing_entries"] == without["missing_entries"]
    assert fitted["bits_per_dimension"] == pytest.approx(without["bits_per_dimension"], rel=1e-9)
    assert scores["bits_per_dimension"] == pytest.approx(json.loads(scored)["bits_per_dimension"], rel=1e-9)


def test_files_need_no_columns_that_the_model_leaves_out(folder, people, tmp_path):
    model = folder / "people.jensen"
    succeed("sample", model, "-n", 20, "--seed", 1, "-o", tmp_path / "drawn.csv")
    for verb in ("score", "predict"):
        succeed(verb, model, tmp_path / "drawn.csv")
    write_dataset(tmp_path / "gaps.csv", people.drop(columns=["name", "group"]))
    without = pd.read_csv(io.StringIO(succeed("impute", model, tmp_path / "gaps.csv")))
    filled = pd.read_csv(io.StringIO(succeed("impute", model, folder / "people.csv")))
    pd.testing.assert_frame_equal(without, filled.drop(columns=["name", "group"]))
    assert not without.isna().any(axis=None)
    scores = [
        json.loads(succeed("score", model, file, "--json")) for file in (tmp_path / "gaps.csv", folder / "people.csv")
    ]
    assert scores[0] == scores[1]
    write_dataset(tmp_path / "few.csv", people.drop(columns=["name", "age"]))
    assert "there is no column 'age'" in fail("score", model, tmp_path / "few.csv")


def test_an_empty_cell_of_a_column_left_out_stays_empty(folder, people, tmp_path):
    write_dataset(tmp_path / "people.csv", people.assign(name=people["name"].where(people.index > 0)))
    result = run("impute", folder / "people.jensen", tmp_path / "people.csv")
    assert result.stdout.splitlines()[1].startswith(",")
    assert "1 cells of name" in result.stderr


def test_samples_have_the_types_of_the_file_and_no_identifiers(folder):
    drawn = pd.read_csv(io.StringIO(succeed("sample", folder / "people.jensen", "-n", 50, "--seed", 1)))
    assert drawn.columns.tolist() == ["age", "visits", "town", "smokes", "since", "zip"]
    assert drawn["visits"].dtype == np.int64
    assert drawn["smokes"].dtype == bool
    assert drawn["since"].str.fullmatch(r"202\d-\d\d-\d\d").all()
    assert set(drawn["town"]) <= {"Bonn", "Oslo", "Rome"}
    assert set(drawn["zip"]) <= {1187, 10115, 53111}


def test_missing_cells_are_filled_and_all_others_stay_as_they_are_written(folder):
    filled = succeed("impute", folder / "people.jensen", folder / "people.csv")
    before = pd.read_csv(folder / "people.csv", dtype=str, keep_default_na=False)
    after = pd.read_csv(io.StringIO(filled), dtype=str, keep_default_na=False)
    was_there = before != ""
    pd.testing.assert_frame_equal(after.where(was_there, ""), before)
    filled_columns = after.drop(columns="group")
    assert (filled_columns != "").all(axis=None)
    assert filled_columns["visits"].str.fullmatch(r"\d+").all()
    assert filled_columns["since"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert set(filled_columns["smokes"]) == {"True", "False"}


def test_missing_identifiers_are_named_and_stay_missing(folder, tmp_path):
    rows = pd.read_csv(folder / "people.csv")
    rows.loc[3, "name"] = None
    rows.to_csv(tmp_path / "rows.csv", index=False)
    result = run("impute", folder / "people.jensen", tmp_path / "rows.csv")
    assert result.exit_code == 0, result.output
    assert "1 cells of name" in result.stderr


def test_draws_differ(folder, tmp_path):
    succeed("impute", folder / "people.jensen", folder / "people.csv", "--draws", 2, "-o", tmp_path / "filled.csv")
    first, second = ((tmp_path / f"filled-{i}.csv").read_text() for i in (1, 2))
    assert first != second


def test_labels_of_some_rows_give_classes(folder, people, tmp_path):
    model = tmp_path / "m.jensen"
    succeed("fit", "mixture", folder / "people.csv", "--label", "group", "--drop", "name,zip", "-q", "-o", model)
    command = ("predict", model, folder / "people.csv", "--proba", "--keep", "group")
    found = pd.read_csv(io.StringIO(succeed(*command)))
    known = found["group"].notna()
    assert (found["prediction"] == found["group"])[known].mean() > 0.95
    np.testing.assert_allclose(found.filter(like="probab").sum(axis=1), 1)


def test_families_of_some_columns(folder, tmp_path):
    wanted = ("--families", '{"visits": "poisson", "age": "gamma"}', "--drop", "name,group")
    found = json.loads(
        succeed("fit", "mixture", folder / "people.csv", *wanted, "--n-components", 2, "--json", "-o", tmp_path / "m")
    )
    assert found["converged"]
    model = jensen.load(tmp_path / "m")
    assert model.families_["visits"] == "poisson"
    assert model.families_["age"] == "gamma"
    assert model.families_["town"] == "categorical"


def test_the_number_of_components_is_selected(folder, tmp_path):
    grid = ("--grid", "n-components=1:3", "--drop", "name,group,zip")
    found = json.loads(
        succeed("select", "mixture", folder / "people.csv", *grid, "--json", "-o", tmp_path / "best.jensen")
    )
    assert found["criterion"] == "bic"
    assert found["best"] == {"n_components": 2}
    assert len(jensen.load(tmp_path / "best.jensen").weights_) == 2


def test_unseen_levels_are_a_warning(folder, tmp_path):
    rows = pd.read_csv(folder / "people.csv").head(2).assign(town="Paris")
    rows.to_csv(tmp_path / "new.csv", index=False)
    result = run("score", folder / "people.jensen", tmp_path / "new.csv", "--json")
    assert result.exit_code == 0, result.output
    assert "'Paris'" in result.stderr


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("visits", -3, "-3.*'visits'.*counts"), ("since", "May", "'since' holds 'May'.*2024-05-31")],
)
def test_new_rows_that_cannot_be_read(folder, tmp_path, column, value, message):
    rows = pd.read_csv(folder / "people.csv").head(2).astype({column: object})
    rows.loc[0, column] = value
    rows.to_csv(tmp_path / "new.csv", index=False)
    assert re.search(message, fail("score", folder / "people.jensen", tmp_path / "new.csv"))


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--columns", "zip=level", "dictionary by column"),
        ("--columns", '{"zip" "level"}', "dictionary by column"),
        ("--columns", '{"zipp": "level"}', "'zipp', which X does not have"),
        ("--columns", '{"zip": "levels"}', "choose one of"),
        ("--families", '{"visits": "poissn"}', "'poissn'"),
        ("--families", '{"age": "poisson"}', "a count is 0, 1, 2"),
    ],
)
def test_options_that_cannot_be_read(folder, tmp_path, option, text, message):
    assert message in fail(
        "fit", "mixture", folder / "people.csv", "--drop", "name", "-o", tmp_path / "m", option, text
    )


def test_a_comparison_reads_dates(folder):
    options = ("--models", "mixture", "--drop", "name,group,zip,town,smokes", "--effort", "quick", "--json")
    found = json.loads(succeed("compare", folder / "people.csv", *options))
    assert found["best"] == "mixture"
    assert "dates a density" in found["caption"]


@pytest.mark.parametrize(
    ("texts", "are_dates"),
    [
        (["2024-05-31", None], True),
        (["2024-05-31 12:30", "2024-05-31T12:30:59.5"], True),
        (["2024-05-31", "2024-02-31"], False),
        (["2024-05-31", "May"], False),
        (["31.5.2024"], True),
        (["20240531"], False),
        ([None, None], False),
        ([1.0, 2.0], False),
    ],
)
def test_text_that_writes_out_dates_is_dates(texts, are_dates):
    read, _ = understand(pd.DataFrame({"a": texts}), Reading())
    assert (read["a"].dtype.kind == "M") == are_dates
    kept, _ = understand(pd.DataFrame({"a": texts}), Reading(types={"a": "plain"}))
    assert kept["a"].dtype.kind != "M"
