"""What people hand over: dictionaries and text in arrays have a way out, and types come back as they came."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

from jensen import (
    VAE,
    BernoulliMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    LatentCurve,
    Mixture,
    MixtureOfPPCA,
    NaiveBayes,
    PoissonMixture,
    ProbabilisticPCA,
    compare,
)

RNG = np.random.default_rng(0)
N = 60
TOWN = RNG.choice(["Bonn", "Oslo", "Rome"], N)
ROWS = [[float(x), str(town)] for x, town in zip(RNG.normal(size=N), TOWN, strict=True)]
OBJECTS = np.array(ROWS, dtype=object)
Y = RNG.integers(0, 2, N)
FIELDS = np.array([(0.5, 1), (1.5, 2), (2.5, 4)], dtype=[("x", float), ("n", int)])
LAZY = pl.LazyFrame({"x": [0.5, 1.5, 2.5], "n": [1, 2, 4]})
GAPS = np.array([[0.5, 1.5], [pd.NA, 2.5], [1.5, 4.5], [2.5, 3.0]], dtype=object)

TEXT = r"X holds text, such as '\w+' in row 0, column 1, and arrays and lists are read as numbers; encode it as numbers"
NO_TABLES = {
    "dictionary": ({"x": [1.0], "town": ["a"]}, TypeError, r"X is a dictionary \(dict\), .*; give pd\.DataFrame\(X\)"),
    "records": ([{"x": 1.0}], TypeError, r"X is a list of dictionaries \(dict\), .*; give pd\.DataFrame\(X\)"),
    "lists": (ROWS, ValueError, TEXT),
    "objects": (OBJECTS, ValueError, TEXT),
    "fields": (FIELDS, TypeError, r"X is an array of records with the fields 'x', 'n'; give pd\.DataFrame\(X\)"),
    "lazy": (LAZY, TypeError, r"X is a LazyFrame, whose rows are not computed yet; give X\.collect\(\)"),
    "missing": (
        GAPS,
        ValueError,
        r"X holds pd\.NA in row 1, column 0, .* write np\.nan .*DataFrame\(X\)\.convert_dtypes",
    ),
}


@pytest.mark.parametrize("name", NO_TABLES)
@pytest.mark.parametrize(
    "call",
    [
        lambda X: Mixture(2).fit(X),
        lambda X: NaiveBayes().fit(X, Y[:4]),
        lambda X: GaussianMixture(2).fit(X),
        lambda X: KMeans(2).fit(X),
        lambda X: VAE(max_epochs=1).fit(X),
        lambda X: compare(X, models=["mixture"]),
    ],
    ids=["Mixture", "NaiveBayes", "GaussianMixture", "KMeans", "VAE", "compare"],
)
def test_what_is_no_table_has_a_way_out(name, call):
    X, error, message = NO_TABLES[name]
    with pytest.raises(error, match=message):
        call(X)


def test_the_way_out_is_one():
    assert Mixture(2, random_state=0).fit(pd.DataFrame(OBJECTS)).columns_.kinds == ("number", "level")
    for model, tells in ((Mixture(2), True), (GaussianMixture(2), False)):
        with pytest.raises(ValueError, match="encode it as numbers") as caught:
            model.fit(OBJECTS)
        assert ("pd.DataFrame(X)" in str(caught.value)) == tells


def test_records_lazy_frames_and_missing_values_have_one_too():
    for table in (pd.DataFrame(FIELDS), LAZY.collect(), pd.DataFrame(GAPS).convert_dtypes()):
        for model in (Mixture(1), GaussianMixture(1)):
            assert np.isfinite(model.fit(table).score_samples(table)).all()


def test_objects_that_are_numbers_are_numbers():
    x = np.array([[1, 2.5], [None, 3.5], [3, 4.0], [5, 1.0]], dtype=object)
    expected = GaussianMixture(1).fit(x.astype(float)).score_samples(x.astype(float))
    np.testing.assert_allclose(GaussianMixture(1).fit(x).score_samples(x), expected)


NUMBERS = pd.DataFrame(
    {"age": RNG.integers(20, 90, N), "x": RNG.normal(size=N), "visits": RNG.poisson(2, N), "y": RNG.normal(size=N)}
)
NUMBERS["x"] = NUMBERS["x"].mask(RNG.random(N) < 0.3)
FRAMES = {
    "pandas": NUMBERS,
    "single precision": NUMBERS.astype({"x": "float32", "visits": "uint8"}),
    "nullable": NUMBERS.astype({"age": "Int64", "x": "Float64", "visits": "Int32"}),
    "pyarrow types": NUMBERS.astype({"age": "int64[pyarrow]", "x": "double[pyarrow]", "visits": "int32[pyarrow]"}),
    "polars": pl.from_pandas(NUMBERS),
    "pyarrow": pa.Table.from_pandas(NUMBERS),
}
MODELS = {
    "GaussianMixture": lambda: GaussianMixture(2, random_state=0),
    "KMeans": lambda: KMeans(2, random_state=0),
    "ProbabilisticPCA": lambda: ProbabilisticPCA(1),
    "FactorAnalysis": lambda: FactorAnalysis(1),
    "MixtureOfPPCA": lambda: MixtureOfPPCA(2, 1, random_state=0),
    "LatentCurve": lambda: LatentCurve(random_state=0),
    "VAE": lambda: VAE(max_epochs=1, random_state=0),
    "Mixture": lambda: Mixture(2, random_state=0),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_columns_without_missing_values_come_back_untouched(make, name):
    X = FRAMES[name]
    model = make().fit(X)
    for filled in (model.impute(X), model.impute_draws(X, 1, random_state=0)[0]):
        assert type(filled) is type(X)
        if isinstance(X, pd.DataFrame):
            assert filled.dtypes.tolist() == X.dtypes.tolist()
            assert_frame_equal(filled.drop(columns="x"), X.drop(columns="x"))
            seen = X["x"].notna()
            assert_series_equal(filled["x"][seen], X["x"][seen])
            assert filled["x"].notna().all()
        else:
            assert (filled.schema == X.schema) or str(filled.schema) == str(X.schema.remove_metadata())
            assert filled.drop(["x"]).equals(X.drop(["x"]))


def test_a_missing_whole_number_is_a_mean_where_the_model_is_of_numbers():
    X = NUMBERS.astype({"age": "Int64"})
    X.loc[3, "age"] = pd.NA
    filled = GaussianMixture(2, random_state=0).fit(X).impute(X)
    assert filled["age"].dtype == "Float64"
    assert filled["visits"].dtype == X["visits"].dtype
    counts = X[["age", "visits"]]
    assert PoissonMixture(1).fit(counts).impute(counts)["visits"].dtype == X["visits"].dtype


def arrow_table():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D")
    table = pd.DataFrame(
        {
            "int": pd.Series(RNG.integers(20, 90, N), dtype="int64[pyarrow]"),
            "count": pd.Series(RNG.poisson(2, N), dtype="uint8[pyarrow]"),
            "double": pd.Series(RNG.normal(size=N), dtype="double[pyarrow]"),
            "float": pd.Series(RNG.normal(size=N), dtype="float[pyarrow]"),
            "bool": pd.Series(RNG.random(N) < 0.4, dtype="bool[pyarrow]"),
            "string": pd.Series(TOWN.astype(object), dtype="string[pyarrow]"),
            "text": pd.Series(TOWN.astype(object), dtype=pd.ArrowDtype(pa.string())),
            "day": pd.Series(days).astype("date32[pyarrow]"),
            "moment": pd.Series(days).astype("timestamp[us][pyarrow]"),
            "duration": pd.Series(pd.to_timedelta(RNG.random(N), unit="h")).astype("duration[us][pyarrow]"),
            "boolean": pd.Series(RNG.random(N) < 0.4, dtype="boolean"),
            "Int16": pd.Series(RNG.integers(20, 90, N), dtype="Int16"),
        }
    )
    return table


@pytest.mark.parametrize("holes", [False, True])
def test_types_of_pyarrow_in_pandas_come_back(holes):
    X = arrow_table()
    if holes:
        X = X.mask(pd.DataFrame(RNG.random(X.shape) < 0.2, columns=X.columns))
    model = Mixture(1, random_state=0).fit(X)
    filled, drawn = model.impute(X), model.sample(20, random_state=0)[0]
    assert filled.dtypes.tolist() == X.dtypes.tolist()
    # By name, which for the type "string" of pandas does not say where the letters are stored: pandas 2 and 3 choose.
    assert drawn.dtypes.astype(str).tolist() == X.dtypes.astype(str).tolist()
    assert filled.notna().all(axis=None)
    for name in X:
        seen = X[name].notna()
        assert_series_equal(filled[name][seen], X[name][seen])


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", object])
def test_truth_values_filled_with_means_are_numbers(dtype):
    """No column mixes truth values and probabilities; a mixture of columns of any kind fills truth values."""
    gaps = pd.DataFrame(RNG.random((N, 3)) < 0.4, columns=list("abc")).astype(object)
    gaps = gaps.mask(np.arange(3 * N).reshape(N, 3) % 5 == 0, None).astype("boolean").astype(dtype)
    filled = BernoulliMixture(2, random_state=0).fit(gaps).impute(gaps)
    assert all(pd.api.types.is_float_dtype(found) for found in filled.dtypes)
    assert filled.ge(0).all(axis=None)
    assert filled.le(1).all(axis=None)
    given = gaps.notna().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy(dtype=float)[given], gaps.to_numpy()[given].astype(float))
    drawn = BernoulliMixture(2, random_state=0).fit(gaps).sample(5)[0]
    assert set(drawn.dtypes.astype(str)) == {"float64"}
    whole = Mixture(2, random_state=0).fit(gaps).impute(gaps)
    assert whole.isin([False, True]).all(axis=None)
    assert whole.dtypes.equals(gaps.dtypes)
