"""Every job opens a table, or the file that holds it, in one way."""

import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pytest

import jensen
from jensen.tasks.opening import opened

JOBS = [jensen.impute, jensen.cluster, jensen.outliers, lambda path: jensen.synthesize(path, 3)]


@pytest.mark.parametrize("job", JOBS)
def test_a_file_that_is_not_there_is_named(job, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.csv"):
        job(tmp_path / "nothing.csv")


def test_a_part_of_a_file_is_a_table(tmp_path):
    table = pd.DataFrame({"a": [1.5, 2.5, np.nan], "b": ["x", "y", "x"]})
    with sqlite3.connect(tmp_path / "shop.db") as base:
        table.to_sql("orders", base, index=False)
        table.assign(a=0.0).to_sql("others", base, index=False)
    found = opened(f"{tmp_path / 'shop.db'}::orders")
    np.testing.assert_array_equal(found["a"], table["a"])
    assert opened(table) is table


def with_an_empty_column():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60) + 6 * (np.arange(60) % 2)
    return pd.DataFrame({"size": x, "nothing": [None] * 60, "other": 2 * x + rng.normal(size=60)})


@pytest.mark.parametrize("job", ["impute", "cluster", "synthesize", "outliers"])
def test_every_job_leaves_out_a_column_without_any_value_and_says_so(job):
    table = with_an_empty_column()
    table.loc[3, "other"] = np.nan
    found = getattr(jensen, job)(table, *([10] if job == "synthesize" else []), effort="quick")
    assert list(found.table.columns)[:3] == ["size", "nothing", "other"]
    assert found.table["nothing"].isna().all()
    if job != "synthesize":
        pd.testing.assert_series_equal(found.table["size"], table["size"])
    said = {"impute": "not imputed: nothing", "synthesize": "no value in any row, and in no new one: 'nothing'"}
    line = next(line for line in str(found).splitlines() if said.get(job, "left out: nothing") in line)
    # A column with some missing values is not left out.
    assert "other" not in line
    assert found.table["other"].notna().any()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_synthetic_rows_keep_the_place_and_the_type_of_an_empty_column(place):
    table = with_an_empty_column()[["size", "other"]]
    table.insert(place, "when", pd.Series([pd.NaT] * 60, dtype="datetime64[ns]"))
    table.index = table.index + 100
    made = jensen.synthesize(table, 7, effort="quick").table
    assert list(made.columns) == list(table.columns)
    assert made.index.tolist() == list(range(7))
    assert made["when"].isna().all()
    assert made["when"].dtype == "datetime64[ns]"
    assert made["size"].notna().all()


def test_synthetic_rows_of_polars_and_of_arrays_have_their_empty_column():
    table = with_an_empty_column()
    made = jensen.synthesize(pl.from_pandas(table).with_columns(pl.col("nothing").cast(pl.String)), 5, effort="quick")
    assert made.table.columns == ["size", "nothing", "other"]
    assert made.table["nothing"].to_list() == [None] * 5
    assert made.table["nothing"].dtype == pl.String
    array = jensen.synthesize(table.astype(float).to_numpy(), 5, effort="quick").table
    np.testing.assert_array_equal(np.isnan(array), np.tile([False, True, False], (5, 1)))


@pytest.mark.parametrize("job", JOBS)
def test_a_table_without_any_value_is_an_error(job):
    with pytest.raises(ValueError, match="no observed value in any column"):
        job(pd.DataFrame({"a": [np.nan] * 30, "b": [None] * 30}))
