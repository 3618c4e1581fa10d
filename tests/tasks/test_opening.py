"""Every job opens a table, or the file that holds it, in one way."""

import sqlite3

import numpy as np
import pandas as pd
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
