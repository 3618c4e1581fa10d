"""`jensen synthesize` as a person meets it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from jensen.cli.synthesize import read_given
from shell import fail, succeed


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    town = rng.integers(0, 3, 300)
    table = pd.DataFrame(
        {
            "town": np.array(["Bonn", "Oslo, Norway", "a|b"])[town],
            "age": rng.integers(18, 60, 300),
            "income": np.array(["<=50K", ">50K"])[rng.integers(0, 2, 300)],
            "since": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 300), "D")).strftime("%Y-%m-%d"),
        }
    )
    table.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_rows_under_conditions_and_a_page(file, tmp_path):
    new, page = tmp_path / "new.csv", tmp_path / "page.html"
    given = "income=>50K,age=30:40,since=2024-02-01:"
    words = ("synthesize", file, "-n", 50, "-o", new, "--given", given, "--report", page, "--label", "income")
    found = json.loads(succeed(*words, "--effort", "quick", "--json"))
    rows = pd.read_csv(new)
    assert len(rows) == found["n"] == 50
    assert set(rows["income"]) == {">50K"}
    assert rows["age"].between(30, 40).all()
    assert (rows["since"] >= "2024-02-01").all()
    assert set(found["quality"]) == {"Shape", "Trend", "C2ST", "Utility", "Nearest"}
    assert "Synthetic rows of data.csv" in page.read_text()


def test_what_is_given_is_read_by_the_types_of_columns(file):
    table = pd.read_csv(file, parse_dates=["since"])
    words = ["town=Oslo, Norway,age=30|31", "income=<=50K", "since=2024-01-05:2024-02-01"]
    assert read_given(words, table) == {
        "town": "Oslo, Norway",
        "age": [30, 31],
        "income": "<=50K",
        "since": (pd.Timestamp("2024-01-05"), pd.Timestamp("2024-02-01")),
    }
    assert read_given(["age=:40"], table) == {"age": (None, 40)}
    assert read_given(["town=a|b"], table) == {"town": "a|b"}
    assert read_given(["town=Bonn|x"], table) == {"town": ["Bonn", "x"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--given", "salary=3"), "--given salary=3 must be COLUMN=VALUE with a column of"),
        (("--given", "age=old"), "--given age=old: 'old' is no number"),
        (("--given", "age=3", "--given", "age=4"), "--given names the column age twice"),
        (("--given", "town=Paris"), "'Paris' is not a level of column 'town'"),
        (("--report", "page.txt"), "--report page.txt must end in .html"),
        (("--effort", "much"), "--effort much is unknown"),
    ],
)
def test_mistakes_are_one_line(file, tmp_path, words, message):
    assert message in fail("synthesize", file, "-n", 5, "-o", tmp_path / "new.csv", *words)
