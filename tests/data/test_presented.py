"""What comes back: tables with the types that came in, dates included, and cells that were there bit for bit."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal

from jensen.data.cells import read_frame, read_matrix
from jensen.data.columns import Columns
from jensen.data.dates import seconds_of
from jensen.data.infer import learn_columns
from jensen.files.records import read_record, write_record

RNG = np.random.default_rng(0)
N = 60
NAN = float("nan")
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=3 * i) for i in range(7)]
MOMENTS = [datetime.datetime(2020, 1, 1, 3, 4, 5, 678901) + datetime.timedelta(hours=31 * i) for i in range(7)]


def cycle(values, n=N):
    return [values[i % len(values)] for i in range(n)]


PANDAS = {
    "float": pd.Series(RNG.normal(size=N)).mask(RNG.random(N) < 0.2),
    "float32": pd.Series(RNG.normal(size=N), dtype="float32"),
    "int": pd.Series(RNG.integers(20, 80, N)),
    "Int64": pd.Series(cycle([20, None, 43, 77, 31, 66]), dtype="Int64"),
    "uint8": pd.Series(RNG.integers(20, 80, N), dtype="uint8"),
    "count": pd.Series(RNG.negative_binomial(1, 0.1, N)),
    "code": pd.Series(cycle([1, 2, 3])),
    "code with gaps": pd.Series(cycle([1.0, 2.0, NAN, 4.0])),
    "bool": pd.Series(cycle([True, False, False])),
    "boolean": pd.Series(cycle([True, None, False]), dtype="boolean"),
    "str": pd.Series(cycle(["b", None, "a", "c"]), dtype="str"),
    "object": pd.Series(cycle(["b", None, "a"]), dtype=object),
    "category": pd.Series(pd.Categorical(cycle(["low", None, "high"]), ["low", "mid", "high"])),
    "ordered": pd.Series(pd.Categorical(cycle(["low", "high"]), ["low", "mid", "high"], ordered=True)),
    "day": pd.Series(pd.to_datetime(cycle([*DAYS, None]))).astype("datetime64[ns]"),
    "moment": pd.Series(pd.to_datetime(cycle([*MOMENTS, None]))),
    "zone": pd.Series(pd.to_datetime(cycle([*MOMENTS, None])).tz_localize("Europe/Rome")),
    "duration": pd.Series(pd.to_timedelta(cycle([1.5, None, 3, 7.25]), unit="h")),
    "python date": pd.Series(cycle([*DAYS, None]), dtype=object),
    "python time": pd.Series(cycle([datetime.time(3), None, datetime.time(4, 5, 6)]), dtype=object),
    "month": pd.Series(pd.PeriodIndex(cycle(["2020-01", "2020-03", "2021-01"]), freq="M")),
    "one": pd.Series(cycle(["x", "x", None]), dtype=object),
    "one day": pd.Series(pd.to_datetime(["2020-01-01"] * N)),
}
POLARS = {
    "float": pl.Series(RNG.normal(size=N)),
    "int": pl.Series(cycle([20, None, 43, 77, 31, 66])),
    "int8": pl.Series(cycle([20, None, 43, 77, 31, 66]), dtype=pl.Int8),
    "bool": pl.Series(cycle([True, None, False])),
    "string": pl.Series(cycle(["b", None, "a", "c"])),
    "enum": pl.Series(cycle(["low", None, "high"]), dtype=pl.Enum(["low", "mid", "high"])),
    "categorical": pl.Series(cycle(["b", None, "a", "c"]), dtype=pl.Categorical),
    "day": pl.Series(cycle([*DAYS, None])),
    "moment": pl.Series(cycle([*MOMENTS, None])),
    "zone": pl.Series(cycle([*MOMENTS, None])).dt.replace_time_zone("Europe/Rome"),
    "milliseconds": pl.Series(cycle([*MOMENTS, None])).cast(pl.Datetime("ms")),
    "duration": pl.Series(cycle([datetime.timedelta(hours=1.5), None, datetime.timedelta(3)])),
    "time": pl.Series(cycle([datetime.time(3), None, datetime.time(4, 5, 6)])),
}
pytestmark = pytest.mark.filterwarnings("ignore:X has columns with one value")


def pandas_table():
    return pd.DataFrame(PANDAS).set_axis([f"r{i}" for i in range(N)])


def polars_table():
    return pl.DataFrame({name: series.alias(name) for name, series in POLARS.items()})


def test_a_pandas_table_comes_back_with_its_types():
    x = pandas_table()
    columns = learn_columns(x, kinds="all")
    assert not columns.left_out
    back = columns.table(columns.codes(x).x, read_frame(x).kind)
    assert_frame_equal(back, x)


def test_a_polars_table_comes_back_with_its_types():
    x = polars_table()
    columns = learn_columns(x, kinds="all")
    back = columns.table(columns.codes(x).x, read_frame(x).kind)
    assert back.schema == x.schema
    for name in x.columns:
        assert (
            back[name].to_list() == pytest.approx(x[name].to_list()) if name == "float" else back[name].equals(x[name])
        )


def test_a_pyarrow_table_comes_back_with_its_values():
    x = polars_table().drop("enum", "categorical").to_arrow()
    columns = learn_columns(x, kinds="all")
    back = columns.table(columns.codes(x).x, read_frame(x).kind)
    assert isinstance(back, pa.Table)
    assert back.to_pydict() == x.to_pydict()


@pytest.mark.parametrize(("make", "other"), [(pandas_table, "polars"), (polars_table, "pandas")])
def test_a_table_in_another_library(make, other):
    x = make()
    columns = learn_columns(x, kinds="all")
    codes = columns.codes(x).x
    back = columns.frame(codes, container=other)
    assert_array_equal(columns.codes(back).x, codes)


@pytest.mark.parametrize("make", [pandas_table, polars_table])
def test_missing_cells_alone_are_filled_and_types_stay(make):
    x = make()
    columns = learn_columns(x, kinds="all")
    codes = columns.codes(x).x
    middle = torch.stack([row[~row.isnan()].median() for row in codes.T])
    filled = columns.restore(x, torch.where(codes.isnan(), middle + 0.1, codes), codes.isnan())
    assert filled.equals(columns.restore(x, torch.where(codes.isnan(), middle + 0.1, codes)))
    frame, given = read_frame(filled), read_frame(x)
    assert not np.isnan(frame.numbers).any()
    assert frame.dtypes == given.dtypes
    seen = ~np.isnan(given.numbers)
    assert_array_equal(frame.numbers[seen], given.numbers[seen])
    assert_array_equal(columns.codes(filled).x[~codes.isnan()], codes[~codes.isnan()])
    moment = columns.names.index("zone")
    new = codes[:, moment].isnan()
    assert_allclose(columns.codes(filled).x[new, moment], (middle + 0.1)[moment], rtol=0, atol=1e-6)


def test_data_frames_get_whole_numbers_in_the_observed_range_and_arrays_do_not():
    x = pd.DataFrame({"age": RNG.integers(20, 80, N), "height": RNG.normal(size=N), "visits": RNG.poisson(3, N) * 4})
    columns = learn_columns(x, {"visits": "count"}, kinds="all")
    rows = torch.tensor([[33.4, 99.0, 2.0], [-5.0, 0.25, 1e6]], dtype=torch.float64)
    frame = columns.table(rows, replace(read_frame(x).kind, index=None))
    assert frame["age"].tolist() == [33, x["age"].min()]
    assert frame["height"].tolist() == [x["height"].max(), 0.25]
    assert frame["visits"].tolist() == [2, x["visits"].max()]
    assert frame.dtypes.tolist() == x.dtypes.tolist()
    array = columns.table(rows, read_matrix(x.to_numpy()).kind)
    assert_array_equal(array, rows)
    assert isinstance(columns.table(rows, read_matrix(torch.eye(3)).kind), torch.Tensor)


def test_an_array_has_its_columns_that_were_left_out():
    x = np.column_stack([np.arange(N), RNG.normal(size=N), cycle([1, 2])])
    with pytest.warns(UserWarning, match="left out: 0;"):
        columns = learn_columns(x, kinds="all")
    codes = columns.codes(x).x
    assert_array_equal(codes[:, 1], cycle([0, 1]))
    back = columns.table(codes, read_matrix(x).kind)
    assert_array_equal(back, np.column_stack([np.full(N, NAN), x[:, 1:]]))
    x[3, 1] = x[4, 0] = NAN
    restored = columns.restore(x, codes)
    assert restored[3, 1] == codes[3, 0]
    assert np.isnan(restored[4, 0])


def test_an_unseen_value_is_not_missing_and_stays():
    x = pd.DataFrame({"x": RNG.normal(size=N), "town": cycle(["Bonn", "Rome", "Oslo"])})
    columns = learn_columns(x, kinds="all")
    new = pd.DataFrame({"x": [0.5, None], "town": ["Paris", None]})
    with pytest.warns(UserWarning, match="'Paris' in row 0"):
        codes = columns.codes(new)
    filled = columns.restore(new, codes.x.nan_to_num(nan=0.0), codes.missing)
    assert filled["town"].tolist() == ["Paris", "Bonn"]


def test_samples_have_the_names_of_the_table_and_an_index_of_their_own():
    x = pd.DataFrame(RNG.normal(size=(5, 2)), columns=[("a", 1.5), ("b", 2.5)], index=list("uvwxy"))
    columns, kind = learn_columns(x, kinds="all"), read_frame(x).kind
    sample = columns.table(torch.zeros(3, 2), kind)
    assert sample.columns.tolist() == x.columns.tolist()
    assert sample.index.tolist() == [0, 1, 2]
    assert columns.table(torch.zeros(5, 2), kind).index.tolist() == list("uvwxy")


class TestDates:
    def test_days_or_seconds_since_1970(self):
        columns = learn_columns(pandas_table(), kinds="all")
        units = dict(zip(columns.names, columns.units, strict=True))
        assert {name for name, unit in units.items() if unit == "days"} == {"day", "python date", "month"}
        assert {name for name, unit in units.items() if unit == "seconds"} == {
            *("moment", "zone", "duration", "python time", "one day")
        }
        first = columns.codes(pandas_table()).x[0]
        assert first[columns.names.index("day")] == (DAYS[0] - datetime.date(1970, 1, 1)).days
        assert first[columns.names.index("moment")] == pytest.approx(
            MOMENTS[0].replace(tzinfo=datetime.UTC).timestamp()
        )
        assert first[columns.names.index("duration")] == 5400
        assert first[columns.names.index("python time")] == 3 * 3600

    @pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
    def test_every_unit_of_numpy(self, unit):
        times = np.array(["1969-12-31", "NaT", "2020-02-29"], dtype=f"M8[{unit}]")
        assert_allclose(seconds_of(times), [-86_400, NAN, 18_321 * 86_400])
        assert_allclose(seconds_of(times - times[0]), [0, NAN, 18_322 * 86_400])

    def test_a_sampled_date_is_a_date(self):
        x = pd.DataFrame({"day": pd.to_datetime(DAYS), "x": RNG.normal(size=7)})
        columns = learn_columns(x, kinds="all")
        codes = columns.codes(x).x[:1] + 0.4
        assert columns.frame(codes)["day"].tolist() == [pd.Timestamp(DAYS[0])]

    def test_dates_must_stay_dates(self):
        columns = learn_columns(pd.DataFrame({"day": pd.to_datetime(DAYS)}), kinds="all")
        with pytest.raises(
            ValueError, match=r"X holds no dates or times in column 'day' \(int64\), but the model was fit"
        ):
            columns.codes(pd.DataFrame({"day": [1, 2]}))
        assert columns.codes(pd.DataFrame({"day": [None, None]})).x.isnan().all()


@pytest.mark.parametrize("make", [pandas_table, polars_table])
def test_columns_survive_a_file(make, tmp_path):
    x = make()
    columns = learn_columns(x, {"float": {"low": -9, "atoms": [0.5]}}, kinds="all")
    write_record(tmp_path / "columns.jensen", {"columns": columns.record()})
    back = Columns.from_record(read_record(tmp_path / "columns.jensen")["columns"])
    assert str(back) == str(columns)
    assert repr(back.record()) == repr(columns.record())
    assert_array_equal(back.codes(x).x, columns.codes(x).x)
    assert back.support[columns.names.index("float")].tolist() == [-9, np.inf]
    before = {name: value for name, value in columns.record().items() if name != "support"}
    assert not Columns.from_record(before).support.isfinite().any()  # a file without it has no transform


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("bounds", torch.zeros(3, 2)),
        ("bounds", torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64)),
        ("ranges", None),
        ("support", torch.zeros(3, 2, dtype=torch.float64)),
        ("support", torch.tensor([[0.0, torch.inf]] * 3, dtype=torch.float64)),
        ("atoms", ((0.0,), (0.0,), ())),
        ("atoms", ((1,), (), ())),
        ("units", ("days", "", "")),
        ("units", ("", "", "years")),
        ("whole", (1, 0, 0)),
        ("categories", ((), ("a", "a"), ())),
        ("n_rows", -1),
        ("n_observed", torch.zeros(3)),
        ("n_observed", torch.full((3,), 99)),
        ("left_out", ("x",)),
        ("left_out", "id"),
        ("kept", (0, 2, 1)),
        ("kept", (0, 1, 9)),
        ("levels", ((), ("u", "v", "w"), ())),
    ],
)
def test_a_record_that_describes_no_columns_is_refused(what, value):
    x = pd.DataFrame({"x": RNG.normal(size=7), "t": cycle(["u", "v"], 7), "day": DAYS, "id": RNG.normal(size=7)})
    columns = learn_columns(x, {"id": "left out"}, kinds="all")
    with pytest.raises(ValueError, match=f"(?s)^{what}=.* does not describe columns; the file is damaged"):
        Columns.from_record(columns.record() | {what: value})
