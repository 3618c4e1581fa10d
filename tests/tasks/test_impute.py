"""`jensen.impute` and `Imputer`: tables in, complete tables out."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import jensen
from jensen import Imputer
from jensen.tasks.imputation.ensemble import Ensemble
from shell import fail, succeed


def flowers():
    iris = load_iris(as_frame=True)
    whole = iris.data.assign(
        species=pd.Categorical(iris.target_names[iris.target]),
        is_long=pd.array(iris.data["petal length (cm)"] > 4, dtype="boolean"),
        day=pd.Timestamp("2024-01-01") + pd.to_timedelta((iris.data["petal width (cm)"] * 10).round(), unit="D"),
        code=[f"flower {i}" for i in range(150)],
    )
    whole["length"] = (iris.data["sepal length (cm)"] * 10).round().astype("Int64")
    return whole


@pytest.fixture(scope="module")
def whole():
    return flowers()


@pytest.fixture(scope="module")
def gaps(whole):
    hidden = np.random.default_rng(0).random(whole.shape) < 0.15
    return whole.mask(hidden)


@pytest.fixture(scope="module")
def result(gaps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jensen.impute(gaps, "quick")


class TestImpute:
    def test_the_types_are_kept_and_observed_cells_are_untouched(self, result, gaps):
        assert_array_equal(result.table.dtypes, gaps.dtypes)
        for name in gaps:
            seen = gaps[name].notna()
            pd.testing.assert_series_equal(result.table[name][seen], gaps[name][seen], check_exact=True)
        assert result.table.drop(columns="code").notna().all().all()
        assert result.table["code"].isna().sum() == gaps["code"].isna().sum()

    def test_it_is_better_than_the_column_alone(self, result, whole, gaps):
        hidden = gaps["species"].isna()
        assert (result.table["species"] == whole["species"])[hidden].mean() > 0.85
        name = "petal length (cm)"
        hidden = gaps[name].isna()
        error = (result.table[name] - whole[name])[hidden]
        assert (error**2).mean() < 0.1 * whole[name].var()
        errors = result.columns.set_index("column")
        assert errors.loc[name, "explained"] > 0.85
        assert errors.loc["species", "accuracy"] > errors.loc["species", "most_frequent"] + 0.3

    def test_nothing_given_is_changed_and_a_job_repeats(self, result, gaps):
        before = gaps.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = jensen.impute(gaps, "quick")
        assert_frame_equal(gaps, before)
        assert_frame_equal(again.table, result.table)

    def test_the_held_out_error_promises_no_more_than_is_found(self, result, whole, gaps):
        """More is hidden in the comparison than is missing, so the error of a column with copies may be smaller."""
        for row in result.columns[result.columns["kind"] == "number"].to_dict("records"):
            hidden = gaps[row["column"]].isna()
            error = (result.table[row["column"]] - whole[row["column"]])[hidden].astype(float)
            # The relative standard error of a mean of n squares of Gaussians is √(2/n), twice for two of them.
            room = 4 * np.sqrt(2 / hidden.sum() + 2 / row["hidden"])
            assert np.log((error**2).mean() / row["rmse"] ** 2) < room

    def test_every_filled_cell_says_how_sure_it_is(self, result, whole, gaps):
        cells = result.cells
        assert len(cells) == gaps.drop(columns="code").isna().sum().sum()
        numbers = cells[cells["column"] == "petal length (cm)"].set_index("row")
        assert_allclose(numbers["value"].astype(float), result.table["petal length (cm)"][numbers.index].astype(float))
        z = (numbers["value"].astype(float) - whole["petal length (cm)"][numbers.index]) / numbers["std"]
        assert 0.5 < np.sqrt((z**2).mean()) < 2
        levels = cells[cells["column"] == "species"]
        assert levels["probability"].between(1 / 3, 1).all()
        assert levels["std"].isna().all()

    def test_draws_differ_only_in_missing_cells(self, result, gaps):
        one, two = result.draws(2)
        for table in (one, two):
            assert_array_equal(table.dtypes, gaps.dtypes)
            assert table.drop(columns="code").notna().all().all()
            assert_frame_equal(table.where(gaps.notna()), gaps.where(gaps.notna()), check_dtype=False)
        name = "petal length (cm)"
        assert (one[name] != two[name])[gaps[name].isna()].any()

    def test_every_draw_has_row_weights_of_its_own(self, result, monkeypatch):
        """n · Dirichlet(1, ..., 1): n in sum, with the variance (n - 1) / (n + 1)."""
        weights = []
        monkeypatch.setattr(Ensemble, "reweighted", lambda self, x, weight: weights.append(weight) or self)
        monkeypatch.setattr(Ensemble, "drawn", lambda self, x, n, seed: np.nan_to_num(x)[None])
        result.draws(40)
        assert_allclose(np.sum(weights, 1), 150)
        # Of 6000 exponential variables the variance has a standard error of √(8 / 6000) = 0.04.
        assert_allclose(np.var(weights), 149 / 151, atol=0.15)
        assert not np.allclose(weights[0], weights[1])

    def test_the_model_fills_other_rows_and_is_kept_in_a_file(self, result, gaps, tmp_path):
        result.model.save(tmp_path / "m.jensen")
        loaded = jensen.load(tmp_path / "m.jensen")
        assert_frame_equal(loaded.impute(gaps), result.table)
        assert_frame_equal(loaded.tried_, result.tried)
        drawn = loaded.impute_draws(gaps[:20], 1, random_state=1)[0]
        assert_frame_equal(drawn, result.model.impute_draws(gaps[:20], 1, random_state=1)[0])

    def test_the_report_and_the_plot(self, result, tmp_path):
        result.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "nearest rows" in page
        assert "petal length (cm)" in page
        assert len(result.plot().axes[0].patches) == len(result.columns)

    def test_the_summary(self, result):
        text = str(result)
        assert "values filled in 150 rows" in text
        assert "not imputed: code" in text

    def test_all_filled_cells_are_counted(self):
        """Also those of a constant, and of a column with too few values to hide one."""
        table = pd.DataFrame({"a": [5.0, 5.0, 5.0, None], "b": ["x", None, "y", "x"], "c": [1.0, 2.5, 4.0, 2.0]})
        with pytest.warns(UserWarning, match="columns with one value: 'a'"):
            result = jensen.impute(table, "quick")
        assert result.table.notna().all().all()
        assert str(result).splitlines() == [
            "2 values filled in 4 rows",
            "  a: 1 filled, the only value there is",
            "  b: 1 filled, too few values to measure an error",
        ]
        assert len(result.plot().axes[0].patches) == 0

    def test_files_arrays_and_polars(self, tmp_path):
        x = load_iris().data.copy()
        x[::9, 1] = np.nan
        pd.DataFrame(x, columns=list("abcd")).to_csv(tmp_path / "x.csv", index=False)
        from_file = jensen.impute(tmp_path / "x.csv", "quick").table
        from_array = jensen.impute(x, "quick").table
        assert isinstance(from_array, np.ndarray)
        assert_array_equal(from_array[~np.isnan(x)], x[~np.isnan(x)])
        assert_allclose(from_file, from_array.clip(np.nanmin(x, 0), np.nanmax(x, 0)))
        frame = pl.DataFrame(x, schema=list("abcd"), orient="row").fill_nan(None)
        filled = jensen.impute(frame, "quick").table
        assert isinstance(filled, pl.DataFrame)
        assert_allclose(filled.to_numpy(), from_file)

    def test_corrupted_cells_do_not_spread(self):
        """Filled values stay in the range of their column, and an unrelated column is no worse than its mean."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 3))
        x[:, 1] = 3 * x[:, 0] + 0.1 * rng.normal(size=200)
        x[rng.random(x.shape) < 0.1] = np.nan
        x[:4, 0], x[:4, 1] = 100.0, np.nan
        x[4:8, 2] = rng.uniform(50, 100, 4)
        result = jensen.impute(x, "quick")
        filled = np.where(np.isnan(x), result.table, np.nan)
        assert (np.nanmin(filled, 0) >= np.nanmin(x, 0)).all()
        assert (np.nanmax(filled, 0) <= np.nanmax(x, 0)).all()
        assert result.columns["explained"].iloc[2] >= 0
        assert result.columns["explained"].iloc[1] > 0.8

    def test_errors(self):
        with pytest.raises(ValueError, match="'effort' parameter of Imputer must be a str among"):
            jensen.impute(np.eye(3), "slow")
        with pytest.raises(ValueError, match="no observed value in any column"):
            jensen.impute(np.full((5, 2), np.nan))


class TestImputer:
    def test_scikit_learns_checks_pass(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_estimator(Imputer("quick", random_state=0))

    def test_in_a_pipeline_and_a_column_transformer(self):
        X, y = load_iris(return_X_y=True, as_frame=True)
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
        model = make_pipeline(Imputer("quick", random_state=0), LinearRegression()).fit(X, y)
        assert model.score(X, y) > 0.85
        names = list(X.columns[:2])
        some = ColumnTransformer([("fill", Imputer("quick", random_state=0), names)], remainder="passthrough")
        out = some.set_output(transform="pandas").fit_transform(X)
        assert list(out.columns) == [f"fill__{name}" for name in names] + [f"remainder__{n}" for n in X.columns[2:]]
        assert out.iloc[:, :2].notna().all().all()

    @pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
    def test_indicators_and_empty_columns(self, kind):
        rng = np.random.default_rng(0)
        x = np.c_[rng.normal(size=(40, 2)), np.full(40, np.nan)]
        x[:5, 1] = np.nan
        names = ["a", "b", "empty"]
        given = {
            "numpy": lambda: x,
            "pandas": lambda: pd.DataFrame(x, columns=names, index=range(7, 47)),
            "polars": lambda: pl.DataFrame(x, schema=names, orient="row"),
        }[kind]()
        dropped = Imputer("quick", add_indicator=True, random_state=0).fit(given)
        out = dropped.transform(given)
        assert out.shape == (40, 4)
        values = np.asarray(out)
        assert_array_equal(values[:, 2], np.arange(40) < 5)
        assert values[:, 3].all()
        kept = clone(dropped).set_params(keep_empty_features=True, add_indicator=False).fit(given)
        assert_array_equal(np.asarray(kept.transform(given))[:, 2], 0)
        own = [*names] if kind != "numpy" else ["x0", "x1", "x2"]
        assert list(kept.get_feature_names_out()) == own
        marks = [f"missingindicator_{name}" for name in own[1:]]
        assert list(dropped.get_feature_names_out()) == [*own[:2], *marks]
        if kind == "pandas":
            assert list(out.index) == list(given.index)
            assert list(out.columns) == list(dropped.get_feature_names_out())

    def test_a_column_that_had_no_gaps_is_filled_in_new_rows(self):
        X = load_iris().data.copy()
        X[::5, 0] = np.nan
        model = Imputer("quick", random_state=0).fit(X)
        new = load_iris().data.copy()
        new[:, 2] = np.nan
        error = model.transform(new)[:, 2] - load_iris().data[:, 2]
        assert np.sqrt((error**2).mean()) < 0.5  # its standard deviation is 1.76

    def test_an_unseen_level_stays(self, result, gaps):
        new = gaps[:3].copy()
        new["species"] = new["species"].astype(object)
        new.loc[new.index[0], "species"] = "rosa"
        with pytest.warns(UserWarning, match="rosa"):
            assert result.model.impute(new)["species"].iloc[0] == "rosa"


class TestCommand:
    @pytest.fixture
    def table(self, tmp_path):
        X = load_iris(as_frame=True).data.set_axis(list("abcd"), axis=1)
        X["kind"] = load_iris().target_names[load_iris().target]
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
        X.insert(0, "id", [f"row{i}" for i in range(150)])
        X.to_csv(tmp_path / "x.csv", index=False)
        return X

    def test_one_file_is_the_job(self, table, tmp_path):
        out, page = tmp_path / "filled.csv", tmp_path / "page.html"
        text = succeed("impute", tmp_path / "x.csv", "--effort", "quick", "-o", out, "--report", page)
        assert text == ""
        filled = pd.read_csv(out)
        assert filled.notna().all().all()
        assert_frame_equal(filled.where(table.notna()), table, check_dtype=False)
        assert "Filled cells" in page.read_text()

    def test_dropped_columns_stay_as_they_are(self, table, tmp_path):
        succeed("impute", tmp_path / "x.csv", "--effort", "quick", "--drop", "id,kind", "-o", tmp_path / "f.csv")
        filled = pd.read_csv(tmp_path / "f.csv")
        assert_array_equal(filled["kind"].isna(), table["kind"].isna())
        assert filled["a"].notna().all()

    def test_draws_are_files(self, table, tmp_path):
        succeed("impute", tmp_path / "x.csv", "--effort", "quick", "--draws", 2, "-o", tmp_path / "f.csv")
        one, two = (pd.read_csv(tmp_path / f"f-{i}.csv") for i in (1, 2))
        assert one.notna().all().all()
        assert not one.equals(two)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["m.jensen", "x.csv", "--effort", "quick"], "--effort is for imputation without a model"),
            (["m.jensen", "x.csv", "--report", "p.html"], "--report is for imputation without a model"),
            (["x.csv", "--steps", 3], "--steps is for a fitted diffusion"),
            (["m.jensen"], "m.jensen is a model file; give the table after it"),
            (["x.csv", "x.csv", "x.csv"], "3 files were given"),
            (["x.csv", "--effort", "slow"], "'effort' parameter"),
            (["x.csv", "--draws", 2], "standard output takes one"),
        ],
    )
    def test_errors(self, table, tmp_path, monkeypatch, words, message):
        monkeypatch.chdir(tmp_path)
        assert message in fail("impute", *words)


@pytest.mark.parametrize(("step", "unit", "word"), [("D", "days", " days"), ("min", "seconds", " hours")])
def test_errors_of_dates_have_a_unit(step, unit, word):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 900, 120)
    frame = pd.DataFrame({"when": pd.Timestamp("2020-01-01") + pd.to_timedelta(x, step), "x": rng.normal(size=120)})
    frame.loc[::10, "when"] = pd.NaT
    found = jensen.impute(frame, "quick")
    errors = found.columns.set_index("column")
    assert errors["unit"].to_dict() == {"when": unit}
    line = next(line for line in str(found).splitlines() if "when" in line)
    # 900 equally likely values have a standard deviation of 260: days, or 4.3 hours.
    assert line.count(word) >= 2
    number = float(line.split("error ")[1].split(" ")[0])
    assert 0.7 < number / (260 if unit == "days" else 260 / 60) < 1.4


def test_the_report_names_the_loss_by_which_models_are_judged(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_t(1, size=80), "z": rng.normal(size=80)})
    frame.loc[::9, "x"] = np.nan
    jensen.impute(frame, "quick").report(tmp_path / "p.html")
    assert "Huber's loss" in (tmp_path / "p.html").read_text().replace("&#x27;", "'")
