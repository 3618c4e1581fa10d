"""Commands on files as people have them: what is found is said, what was observed is written back as it was."""

from __future__ import annotations

import gzip
import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import jensen
from jensen.cli.app import app
from shell import fail, run, succeed

RNG = np.random.default_rng(0)
N = 60
GROUP = np.arange(N) % 2
NUMBERS = np.round(RNG.normal(20 * GROUP[:, None] + 1000, 5, (N, 2)), 2)


def comma(value: float) -> str:
    """1000.5 as 1.000,50."""
    return f"{value:,.2f}".translate({ord(","): ".", ord("."): ","})


def german(missing: str = "") -> str:
    """A table with decimal commas, currency, dates and a column of codes, with some cells missing."""
    lines = ["preis;menge;tag;plz"]
    for i, (a, b) in enumerate(NUMBERS):
        price = missing if i == 3 else f"{comma(a)} €"
        amount = missing if i == 5 else comma(b).replace(".", "")
        lines.append(f"{price};{amount};{i % 28 + 1:02}.{i % 12 + 1:02}.2021;0{1 + GROUP[i]}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_was_found_is_printed_to_standard_error_in_a_few_lines(folder):
    (folder / "x.csv").write_text(german("?"), encoding="utf-8")
    result = run("fit", "mixture", "x.csv", "--n-components", 2, "-o", "m.jensen")
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    assert lines[0] == "x.csv: 60 rows, 4 columns (3 of numbers, 1 of dates)"
    assert lines[1:6] == [
        "  preis: numbers in € with decimal ',' and thousands '.'",
        "  menge: numbers with decimal ','",
        "  tag: dates written day/month/year",
        "  '?' is read as missing in preis (1), menge (1); --missing only,CODES for other codes",
        "  plz has zeros in front (01) and is read as a number; --types 'plz=text' to keep them",
    ]
    assert jensen.load("m.jensen").columns_.kinds[2] == "date"


def test_an_imputed_file_has_its_observed_cells_as_they_were_written(folder):
    (folder / "x.csv").write_text(german("?"), encoding="utf-8")
    succeed("fit", "mixture", "x.csv", "--n-components", 2, "--types", "plz=text", "-o", "m.jensen", "-q")
    for out in (succeed("impute", "m.jensen", "x.csv"), None):
        if out is None:
            succeed("impute", "m.jensen", "x.csv", "-o", "f.csv.gz")
            out = gzip.decompress((folder / "f.csv.gz").read_bytes()).decode()
        before, after = german("?").splitlines(), out.splitlines()
        assert before[0] == after[0]
        changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        assert changed == [4, 6]
        price, *rest = after[4].split(";")
        assert rest == before[4].split(";")[1:]
        # In the style of the column, and near the others of its group.
        assert price.endswith(" €")
        assert "," in price
        assert float(price.removesuffix(" €").replace(".", "").replace(",", ".")) == pytest.approx(1020, abs=20)
    table = json.loads(succeed("impute", "m.jensen", "x.csv", "--json"))["table"]
    assert table["preis"][0] == NUMBERS[0, 0]


def test_a_new_file_is_understood_as_that_of_the_fit(folder):
    """All towns of the new file are digits, and some of the old ones are not."""
    towns = np.array(["01", "02", "x3"])[RNG.integers(0, 3, N)]
    pd.DataFrame({"a": NUMBERS[:, 0], "town": towns}).to_csv("x.csv", index=False)
    succeed("fit", "mixture", "x.csv", "-o", "m.jensen", "-q")
    model = jensen.load("m.jensen")
    new = pd.DataFrame({"a": [1000.0, 1001.0], "town": ["01", "02"]})
    new.to_csv("new.csv", index=False)
    found = json.loads(succeed("score", "m.jensen", "new.csv", "--json"))["nats_per_row"]
    assert found == pytest.approx(model.score_samples(new).mean(), rel=1e-12)
    (folder / "other.csv").write_text('a;town\n"1.000,0";01\n"1.001,0";02\n')
    assert json.loads(succeed("score", "m.jensen", "other.csv", "--json"))["nats_per_row"] == pytest.approx(found)


def test_a_code_is_missing_in_a_new_file_unless_the_model_has_it_as_a_level(folder):
    kinds = np.array(["red", "blue", "?"])[RNG.integers(0, 3, N)]
    table = pd.DataFrame({"a": NUMBERS[:, 0], "kind": kinds})
    table.to_csv("x.csv", index=False)
    succeed("fit", "mixture", "x.csv", "-o", "m.jensen", "-q")
    assert jensen.load("m.jensen").columns_.levels[1] == ("blue", "red")
    filled = pd.read_csv(pd.io.common.StringIO(succeed("impute", "m.jensen", "x.csv")))
    assert set(filled["kind"][kinds == "?"]) <= {"blue", "red"}
    assert (filled["kind"] == kinds)[kinds != "?"].all()
    model = jensen.Mixture(random_state=0).fit(table)
    model.save("n.jensen")
    found = json.loads(succeed("score", "n.jensen", "x.csv", "--json"))["nats_per_row"]
    assert found == pytest.approx(model.score_samples(table).mean(), rel=1e-12)


def test_dates_of_another_form_are_those_of_the_fit(folder):
    days = pd.date_range("2021-01-01", periods=N)
    pd.DataFrame({"a": NUMBERS[:, 0], "day": days}).to_csv("x.csv", index=False)
    succeed("fit", "mixture", "x.csv", "-o", "m.jensen", "-q")
    pd.DataFrame({"a": NUMBERS[:, 0], "day": days.strftime("%d/%m/%Y")}).to_csv("y.csv", index=False)
    first, second = (json.loads(succeed("score", "m.jensen", file, "--json")) for file in ("x.csv", "y.csv"))
    assert first == second
    pd.DataFrame({"a": [1.0, 2.0], "day": ["01/02/2021", "soon"]}).to_csv("z.csv", index=False)
    assert "the column 'day' holds 'soon' in row 1, but the model was fitted on dates" in fail(
        "score", "m.jensen", "z.csv"
    )
    pd.DataFrame({"a": [1.0, 2.0], "day": ["01/02/2021", "2021-02-03"]}).to_csv("z.csv", index=False)
    assert "holds dates of different forms, such as '01/02/2021' and '2021-02-03'" in fail("score", "m.jensen", "z.csv")


def frame() -> pd.DataFrame:
    return pd.DataFrame(NUMBERS, columns=["a", "b"])


@pytest.mark.parametrize(
    "suffix", [".tsv", ".csv.gz", ".jsonl", ".json", ".parquet", ".feather", ".xlsx", ".db", ".csv.zst", "-"]
)
def test_every_command_reads_every_kind_of_file(folder, suffix):
    frame().to_csv("x.csv", index=False)
    succeed("fit", "gaussian-mixture", "x.csv", "-o", "m.jensen", "-q")
    expected = json.loads(succeed("score", "m.jensen", "x.csv", "--json"))
    writers = {
        ".json": lambda path: path.write_text(frame().to_json(orient="records", double_precision=15)),
        ".db": lambda path: frame().to_sql("t", sqlite3.connect(path), index=False),
    }
    path = folder / f"y{suffix}"
    if suffix == "-":
        words = ["score", "m.jensen", "-", "--json"]
        result = CliRunner().invoke(app, words, input=(folder / "x.csv").read_bytes(), prog_name="jensen")
        assert json.loads(result.stdout) == expected
        fit = ["fit", "gaussian-mixture", "-", "--n-components", "2", "-o", "n.jensen"]
        assert CliRunner().invoke(app, fit, input=(folder / "x.csv").read_bytes(), prog_name="jensen").exit_code == 0
        return
    from jensen.files.tables import write_dataset

    writers.get(suffix, lambda path: write_dataset(path, frame()))(path)
    assert json.loads(succeed("score", "m.jensen", path, "--json")) == expected
    succeed("fit", "gaussian-mixture", path, "-o", "n.jensen", "-q")
    for verb in ("predict", "transform", "impute"):
        if hasattr(jensen.load("n.jensen"), verb):
            assert succeed(verb, "n.jensen", path) == succeed(verb, "m.jensen", "x.csv")
    succeed("select", "gaussian-mixture", path, "--grid", "n-components=1:2", "-q")
    succeed("compare", path, "--models", "kmeans", "--effort", "quick", "-q")
    succeed("report", "m.jensen", path, "-q")


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv", ".jsonl", ".feather", ".parquet", ".xlsx"])
def test_results_are_written_in_every_format(folder, suffix):
    frame().to_csv("x.csv", index=False)
    succeed("fit", "gaussian-mixture", "x.csv", "-o", "m.jensen", "-q")
    succeed("predict", "m.jensen", "x.csv", "-o", f"p{suffix}")
    succeed("sample", "m.jensen", "-n", 3, "-o", f"s{suffix}")
    from jensen.files.tables import read_file

    assert read_file(f"p{suffix}")["prediction"].tolist() == jensen.load("m.jensen").predict(frame()).tolist()
    assert read_file(f"s{suffix}").shape == (3, 2)
    assert "ends in .csv" in fail("predict", "m.jensen", "x.csv", "-o", "p.db")


def test_draws_are_numbered_before_their_suffixes(folder):
    gaps = frame()
    gaps.iloc[2, 0] = np.nan
    gaps.to_csv("x.csv", index=False)
    succeed("fit", "gaussian-mixture", "x.csv", "-o", "m.jensen", "-q")
    succeed("impute", "m.jensen", "x.csv", "--draws", 2, "-o", "f.csv.gz")
    first, second = (pd.read_csv(f"f-{i}.csv.gz") for i in (1, 2))
    pd.testing.assert_frame_equal(first.drop(2), frame().drop(2))
    assert first.iloc[2, 0] != second.iloc[2, 0]


def test_options_overrule_what_is_found(folder):
    (folder / "x.csv").write_text("\n".join(f"{a},{b}" for a, b in NUMBERS) + "\n-999,1\n")
    result = run("fit", "gaussian-mixture", "x.csv", "-o", "m.jensen", "-q")
    assert "there is no line of column names, so they are x0, x1; --header" in result.stderr
    assert "-999 may stand for a missing value in x0 (1)" in result.stderr
    result = run("fit", "gaussian-mixture", "x.csv", "--missing=-999", "--no-header", "-o", "n.jensen", "--json")
    assert (result.stderr, json.loads(result.stdout)["missing_entries"]) == ("", 1)
    assert list(jensen.load("n.jensen").feature_names_in_) == ["x0", "x1"]
    # Names are checked before libraries are loaded.
    assert "there is no column 'a'; there are x0, x1" in fail("fit", "kmeans", "x.csv", "--drop", "a", "-o", "o.jensen")
    assert "there is no column 'x0'" in fail("fit", "kmeans", "x.csv", "--header", "--drop", "x0", "-o", "o.jensen")
    assert "--types 'x0' must be a column and what it is" in fail(
        "fit", "kmeans", "x.csv", "--types", "x0", "-o", "o.jensen"
    )


def test_a_plain_file_says_nothing(folder):
    frame().to_csv("x.csv", index=False)
    assert run("fit", "gaussian-mixture", "x.csv", "-o", "m.jensen").stderr == ""
    assert run("score", "m.jensen", "x.csv").stderr == ""


def test_columns_that_are_left_out_have_no_hints(folder):
    frame().assign(id=range(N), kind=np.array(["p", "q"])[GROUP]).to_csv("x.csv", index=False)
    assert "id counts rows" in run("fit", "gaussian-mixture", "x.csv", "--drop", "kind", "-o", "m.jensen").stderr
    assert run("fit", "gaussian-mixture", "x.csv", "--drop", "id", "--label", "kind", "-o", "m.jensen").stderr == ""
    assert run("predict", "m.jensen", "x.csv", "--keep", "id").stderr == ""


def test_labels_stay_what_they_are(folder):
    """Classes that look like dates or amounts are texts."""
    kinds = np.array(["2021-01-01", "2022-01-01"])[GROUP]
    frame().assign(kind=kinds).to_csv("x.csv", index=False)
    succeed("fit", "gaussian-mixture", "x.csv", "--label", "kind", "-o", "m.jensen", "-q")
    assert jensen.load("m.jensen").classes_.tolist() == ["2021-01-01", "2022-01-01"]


def test_standard_input_may_be_empty_and_has_one_reader(folder):
    assert "- is empty: it has no header line" in fail("compare", "-", "--models", "kmeans")
    message = fail("fit", "vae", "-", "--processes", 2, "-o", "m.jensen")
    assert "--processes 2 cannot share standard input; write the table to a file" in message


def test_filled_numbers_have_the_decimals_of_their_column(folder):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"height": rng.normal(170, 8, 60).round(1), "pay": rng.integers(0, 9000, 60).astype(float)})
    table["grams"] = [f"{value:g}" for value in (10 * table["height"] + rng.normal(size=60)).round(2)]
    table["exact"] = rng.normal(size=60)
    table.mask(rng.random(table.shape) < 0.2).to_csv("x.csv", index=False)
    succeed("fit", "gaussian-mixture", "x.csv", "-o", "m.jensen", "-q")
    for words in (("m.jensen", "x.csv"), ("x.csv", "--effort", "quick")):
        filled = pd.read_csv(pd.io.common.StringIO(succeed("impute", *words)), dtype=str)
        assert filled["height"].str.fullmatch(r"\d+\.\d").all()
        assert filled["pay"].str.fullmatch(r"\d+\.\d").all()
        assert filled["grams"].str.fullmatch(r"\d+\.\d[1-9]?").all()
        decimals = filled["exact"].str.partition(".")[2].str.len()
        assert decimals[pd.read_csv("x.csv")["exact"].isna()].max() > 6


def test_a_complete_file_is_written_as_it_is_without_a_fit(folder, monkeypatch):
    monkeypatch.setattr(jensen.Imputer, "fit", lambda *_: pytest.fail("a model was fitted"))
    (folder / "x.csv").write_text("a,b\n1.50,x\n2.0,y\n03,x\n")
    result = run("impute", "x.csv", "-o", "f.csv")
    assert "nothing is missing in x.csv" in result.stderr
    assert (folder / "f.csv").read_text() == (folder / "x.csv").read_text()
    assert json.loads(succeed("impute", "x.csv", "--json"))["filled_entries"] == 0
    assert "'effort' parameter" in fail("impute", "x.csv", "--effort", "slow")
