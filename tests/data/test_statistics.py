"""Statistics of columns add: chunks in any order give what the whole table gives."""

import dataclasses
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jensen.data import statistics
from jensen.data.cells import read_cells
from jensen.data.edits import asked_columns, with_asked_numbers
from jensen.data.infer import columns_from, learn_columns
from jensen.data.statistics import chunks, statistics_of, statistics_of_chunk

RNG = np.random.default_rng(0)
N = 500


def table():
    frame = pd.DataFrame(
        {
            "number": RNG.normal(size=N),
            "gain": np.where(RNG.random(N) < 0.5, 0.0, RNG.gamma(2, size=N)),
            "count": RNG.negative_binomial(2, 0.1, N),
            "code": RNG.integers(1, 6, N),
            "flag": RNG.random(N) < 0.3,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
            "town": RNG.choice(["Bonn", "Rome", "Oslo"], N),
            "grade": pd.Categorical(RNG.choice(["low", "high"], N), ["low", "mid", "high"], ordered=True),
            "zip": RNG.choice([f"{i:05}" for i in range(40)], N),
            "one": 7,
            "id": [f"row {i}" for i in range(N)],
        }
    ).astype({"flag": "boolean", "count": "Int64"})
    return frame.mask(RNG.random(frame.shape) < 0.05)


@pytest.mark.filterwarnings("ignore:X has columns")
@pytest.mark.parametrize("size", [1, 7, 100, 499])
@pytest.mark.parametrize("make", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_chunks_give_what_the_whole_table_gives(size, make):
    frame = make(table())
    columns = {"zip": "number", "gain": {"low": 0}}
    whole = learn_columns(frame, columns, kinds="all", atoms=True)
    cells = read_cells(frame, dates=True)
    asked = asked_columns(columns, cells.names)
    parts = [statistics_of_chunk(with_asked_numbers(chunk, asked)) for chunk in chunks(cells, size)]
    for ordered in (parts, parts[::-1]):
        found = columns_from(reduce(add, ordered), asked, atoms=True)
        assert str(found) == str(whole)
        for field in dataclasses.fields(found):
            mine, theirs = getattr(found, field.name), getattr(whole, field.name)
            assert repr(mine) == repr(theirs), field.name
    assert whole.kinds == (
        *("number", "number", "count", "level", "yes/no", "date", "level", "yes/no", "number", "constant"),
    )
    assert whole.left_out == ("id",)


def test_sums_and_counts_are_those_of_numpy():
    x = RNG.integers(0, 9, (1000, 1)) / 4
    x[RNG.random(x.shape) < 0.1] = np.nan
    (found,) = reduce(add, map(statistics_of_chunk, chunks(read_cells(x), 64))).columns
    seen = x[~np.isnan(x)]
    values, counts = np.unique(seen, return_counts=True)
    assert (found.n_rows, found.n_observed, found.low, found.high) == (1000, len(seen), 0, 2)
    assert_array_equal(found.values, values)
    assert_array_equal(found.counts, counts)
    assert_allclose([found.mean, found.std], [seen.mean(), seen.std()])
    assert not found.is_whole


def test_beyond_the_limit_frequent_values_are_kept(monkeypatch):
    """An atom of a long column is found, and so is a running number, though not all values are kept."""
    monkeypatch.setattr(statistics, "MOST_KEPT", 100)
    monkeypatch.setattr(statistics, "CHUNK", 1000)
    n = 20_000
    frame = pd.DataFrame(
        {
            "gain": np.where(RNG.random(n) < 0.2, 5.0, RNG.normal(size=n)),
            "id": RNG.permutation(n),
            "amount": RNG.integers(0, 10**6, n),
            "name": [f"row {i}" for i in range(n)],
        }
    )
    with pytest.warns(UserWarning, match="left out: 'id', 'name'"):
        columns = learn_columns(frame, kinds="all", atoms=True)
    assert columns.kinds == ("number", "number")
    assert columns.atoms == ((5.0,), ())
    assert statistics_of(read_cells(frame)).columns[0].is_full
    # Names that all occur three times are too many levels, but name no rows.
    with pytest.raises(ValueError, match="more than 100 distinct values in column 'b'"):
        learn_columns(pd.DataFrame({"a": RNG.normal(size=900), "b": [f"{i}" for i in range(300)] * 3}), kinds="all")


def test_one_time_that_is_no_day_makes_all_seconds():
    texts = (["2020-01-01"], ["2020-01-01 01:00"])
    days = [statistics_of(read_cells(pd.DataFrame({"t": pd.to_datetime(t)}), dates=True)) for t in texts]
    sums = (*days, days[0] + days[1], days[0] + days[0])
    assert [part.columns[0].are_days for part in sums] == [True, False, False, True]


def test_chunks_must_agree():
    one, text = (statistics_of(read_cells(pd.DataFrame({"a": values}))) for values in ([1, 2], ["u", "v"]))
    with pytest.raises(ValueError, match="column 'a' holds int in some rows and text in others; give values of one"):
        one + text
    empty = statistics_of(read_cells(pd.DataFrame({"a": [None, None]})))
    assert (empty + text).head.sorts == (text + empty).head.sorts == ("text",)
    assert (one + statistics_of(read_cells(pd.DataFrame({"a": [0.5]})))).head.sorts == ("float",)
    with pytest.raises(ValueError, match=r"the chunks have the columns \('a',\) and \('b',\)"):
        one + statistics_of(read_cells(pd.DataFrame({"b": [1]})))


@pytest.mark.parametrize("values", [[0.0, 1.0], [1.0], [0.0], [3.0, 255.0, 0.0], [-0.0, 2.0]])
def test_small_whole_numbers_are_counted_as_sorting_counts_them(values):
    x = RNG.choice(values, 200)
    expected, counts = np.unique(x, return_counts=True)
    found = statistics.counted_bytes(x)
    assert_array_equal(found[0], expected)
    assert_array_equal(found[1], counts)


@pytest.mark.parametrize("value", [-1.0, 0.5, 256.0, 1e300, np.nan, np.inf])
def test_other_numbers_are_sorted(value):
    assert statistics.counted_bytes(np.array([0.0, 1.0, value])) is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_are_copied_in_blocks(order):
    x = np.asarray(RNG.normal(size=(2 * statistics.BLOCK + 3, 4)), order=order)
    assert_array_equal(statistics.column_major(x), x.T)
    assert statistics.column_major(x).flags.c_contiguous


def test_codes_of_learnt_columns_are_not_copied_and_the_table_stays():
    x = RNG.integers(0, 2, (100, 3)).astype(float)
    cells = read_cells(x)
    columns = learn_columns(cells, kinds="all")
    assert np.shares_memory(columns.codes(cells, is_learnt=True).x.numpy(), x)
    frame = pd.DataFrame({"a": np.arange(50.0) % 2 + 3, "b": ["x", "y"] * 25})
    before, own = frame.copy(), read_cells(frame)
    columns = learn_columns(own, kinds="all")
    expected = columns.codes(read_cells(frame)).x
    found = columns.codes(own, is_learnt=True).x
    assert_array_equal(found, expected)
    assert np.shares_memory(found.numpy(), own.numbers)
    pd.testing.assert_frame_equal(frame, before)
