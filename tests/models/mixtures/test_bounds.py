"""Numbers with bounds: densities of x by scipy and quadrature, means by quadrature, and nothing outside the bounds."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logit
from scipy.stats import lognorm, norm
from sklearn.datasets import load_iris

import jensen
from jensen import Mixture, NaiveBayes
from jensen.data.codes import ImpossibleValueWarning

# Equal steps of u, and the width of each in x: such sums converge faster than any power of the step.
U, STEP = np.linspace(-20, 20, 1601, retstep=True)
BETWEEN, POSITIVE = 1 / (1 + np.exp(-U)), np.exp(U)
WIDTH_BETWEEN, WIDTH_POSITIVE = STEP * BETWEEN * (1 - BETWEEN), STEP * POSITIVE
SHARE = {"share": {"low": 0, "high": 1}}


def table(n=300, seed=0) -> pd.DataFrame:
    """A price above 0, a share and a size that depend on each other, in two groups, and a town."""
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.4
    common = rng.normal(size=n)
    return pd.DataFrame(
        {
            "price": np.exp(np.where(group, 1.0, 3.0) + 0.5 * common + 0.3 * rng.normal(size=n)),
            "share": 1 / (1 + np.exp(-np.where(group, 1.0, -1.5) - 0.8 * common - 0.5 * rng.normal(size=n))),
            "size": np.where(group, 5.0, -1.0) + common + rng.normal(size=n),
            "town": rng.choice(["Bonn", "Rome"], n),
        }
    )


BOUNDS = {"price": {"low": 0}, "share": {"low": 0, "high": 1}}


@pytest.fixture(scope="module")
def rows():
    frame = table()
    return frame.mask(np.random.default_rng(1).random(frame.shape) < 0.1)


@pytest.fixture(scope="module")
def model(rows):
    return Mixture(2, columns=BOUNDS, random_state=0, tol=1e-8).fit(rows)


def natural(n=600, seed=2) -> pd.DataFrame:
    """Shares with many zeros and ones, beside a number."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    share = 1 / (1 + np.exp(-z - 0.3 - 0.7 * rng.normal(size=n)))
    pick = rng.random(n) + 0.2 * (z > 0)
    return pd.DataFrame({"share": np.select([pick < 0.2, pick > 0.95], [0.0, 1.0], share), "size": z})


@pytest.fixture(scope="module")
def shares():
    return natural()


@pytest.fixture(scope="module")
def with_atoms(shares):
    return Mixture(2, random_state=0).fit(shares)


class TestDensity:
    def test_one_component_above_a_bound_is_a_log_normal(self):
        x = np.random.default_rng(0).lognormal(1.0, 0.6, (200, 1)) + 3
        model = Mixture(1, columns={0: {"low": 3}}, random_state=0).fit(x)
        logs = np.log(x[:, 0] - 3)
        expected = lognorm.logpdf(x[:, 0], logs.std(), loc=3, scale=np.exp(logs.mean()))
        assert_allclose(model.score_samples(x), expected, rtol=1e-9)
        assert model.parameters_[0]["location"] == pytest.approx(logs.mean())
        assert model.parameters_[0]["variance"] == pytest.approx(logs.var())

    def test_below_a_bound_is_its_mirror_image(self):
        x = np.random.default_rng(0).lognormal(1.0, 0.6, (200, 1))
        above = Mixture(1, columns={0: {"low": 0}}).fit(x).score_samples(x)
        assert_allclose(Mixture(1, columns={0: {"high": 0}}).fit(-x).score_samples(-x), above, rtol=1e-9)

    def test_between_bounds_it_is_a_logit_normal(self):
        x = 1 / (1 + np.exp(-np.random.default_rng(0).normal(0.5, 0.8, (200, 1))))
        model = Mixture(1, columns={0: {"low": 0, "high": 1}}).fit(x)
        z = logit(x[:, 0])
        expected = norm.logpdf(z, z.mean(), z.std()) - np.log(x[:, 0] * (1 - x[:, 0]))
        assert_allclose(model.score_samples(x), expected, rtol=1e-9)

    def test_it_is_that_of_transformed_columns_and_their_jacobian(self, model, rows):
        """Of the same fit to ln x and logit x, missing values included; bounds are in the user's units."""
        by_hand = rows.assign(price=np.log(rows["price"]), share=logit(rows["share"]))
        plain = Mixture(2, random_state=0, tol=1e-8).fit(by_hand)
        jacobian = -np.log(rows["price"]).fillna(0) - np.log(rows["share"] * (1 - rows["share"])).fillna(0)
        assert_allclose(model.score_samples(rows), plain.score_samples(by_hand) + jacobian, rtol=1e-9)
        assert_allclose(model.predict_proba(rows), plain.predict_proba(by_hand), atol=1e-9)
        assert_allclose(model.bound(rows).total, model.score_samples(rows), rtol=1e-9)
        assert model.lower_bound_ == pytest.approx(model.score(rows), rel=1e-9)
        assert model.lower_bounds_[-1] == pytest.approx(model.lower_bound_, rel=1e-6)
        assert model.bic(rows) == pytest.approx(plain.bic(by_hand) - 2 * jacobian.sum(), rel=1e-9)

    def test_weighted_rows_and_labels_have_it_too(self, rows):
        weight = np.random.default_rng(0).integers(0, 3, len(rows))
        y = np.where(rows["size"] > 2, 1, 0)
        model = Mixture(2, columns=BOUNDS, random_state=0).fit(rows, y, sample_weight=weight)
        labelled = model.bound(rows, q=np.eye(2)[y]).total
        assert model.lower_bound_ == pytest.approx(np.average(labelled, weights=weight), rel=1e-9)

    def test_atoms_and_density_sum_to_one(self, with_atoms):
        alone = with_atoms.marginal(["share"])
        assert with_atoms.columns_.atoms[0] == (0.0, 1.0)
        assert with_atoms.columns_.support[0].tolist() == [0, 1]
        assert with_atoms.measure_ == ("both", "density")
        inside = np.exp(alone.score_samples(pd.DataFrame({"share": BETWEEN}))) @ WIDTH_BETWEEN
        at_atoms = np.exp(alone.score_samples(pd.DataFrame({"share": [0.0, 1.0]})))
        assert at_atoms.sum() + inside == pytest.approx(1, abs=1e-9)

    def test_naive_bayes_has_it(self, rows):
        y = np.where(rows["size"] > 2, "a", "b")
        bounded = NaiveBayes(columns=BOUNDS, alpha=0).fit(rows, y)
        by_hand = rows.assign(price=np.log(rows["price"]), share=logit(rows["share"]))
        assert_allclose(
            bounded.predict_proba(rows), NaiveBayes(alpha=0).fit(by_hand, y).predict_proba(by_hand), atol=1e-9
        )

    def test_iris_and_named_gaussians_have_no_bounds(self, shares):
        iris = load_iris(as_frame=True).data
        assert not Mixture(3, random_state=0, max_iter=2, tol=0.0).fit(iris).columns_.support.isfinite().any()
        assert not Mixture(1, families={"share": "gaussian"}).fit(shares).columns_.support.isfinite().any()
        assert not Mixture(1, families="gaussian").fit(shares).columns_.support.isfinite().any()


def mean_by_quadrature(model, row, column, points, widths, end=np.inf):
    """E[min(x_j, end) | the rest] = ∫ min(x, end) p(x, rest) dx / ∫ p(x, rest) dx, from scores alone; an atom is a
    point of width 1.
    """
    every = pd.concat([row] * len(points), ignore_index=True).assign(**{column: points})
    score = model.score_samples(every.astype(row.dtypes))
    mass = np.exp(score - score.max()) * widths
    return mass @ np.minimum(points, end) / mass.sum()


class TestImpute:
    def test_the_mean_of_one_column_given_the_others(self, model, rows):
        """In a data frame numbers end at the largest observed one; the sum over a kink is less exact."""
        complete, end = rows.dropna().head(4), rows["price"].max()
        cases = (("price", POSITIVE, WIDTH_POSITIVE, end, 1e-4), ("share", BETWEEN, WIDTH_BETWEEN, np.inf, 1e-9))
        for column, *grid, rtol in cases:
            filled = model.impute(complete.assign(**{column: np.nan}).astype(complete.dtypes))[column]
            expected = [mean_by_quadrature(model, complete.iloc[[i]], column, *grid) for i in range(len(complete))]
            assert_allclose(filled, expected, rtol=rtol)

    def test_an_array_gets_the_mean_itself(self, rows):
        x = rows[["price", "share", "size"]].to_numpy()
        model = Mixture(2, columns={0: {"low": 0}, 1: {"low": 0, "high": 1}}, random_state=0).fit(x)
        complete = x[~np.isnan(x).any(1)][:4]
        holes = complete.copy()
        holes[:, 0] = np.nan
        for row, filled in zip(complete, model.impute(holes)[:, 0], strict=True):
            score = model.score_samples(np.column_stack([POSITIVE, np.tile(row[1:], (len(POSITIVE), 1))]))
            mass = np.exp(score - score.max()) * WIDTH_POSITIVE
            assert filled == pytest.approx(mass @ POSITIVE / mass.sum(), rel=1e-9)
        drawn = np.stack(model.impute_draws(holes, 4000, random_state=0))[..., 0]
        assert (np.abs(drawn.mean(0) - model.impute(holes)[:, 0]) < 4.5 * drawn.std(0) / np.sqrt(4000)).all()

    def test_a_component_that_hardly_has_the_number_does_not_run_away(self):
        """In the first group all numbers but two are 0: its log-normal is anything, and weighs little."""
        rng = np.random.default_rng(0)
        first = np.arange(400) < 200
        gain = np.where(first, 0.0, rng.lognormal(8, 1, 400))
        gain[[0, 1]] = 1.0, 9e4
        frame = pd.DataFrame({"gain": gain, "size": np.where(first, 0.0, 9.0) + rng.normal(size=400)})
        model = Mixture(2, random_state=0).fit(frame, first)
        filled = model.impute(pd.DataFrame({"gain": [np.nan], "size": [0.0]}))["gain"][0]
        assert filled <= 2 / 200 * gain.max()

    def test_the_mean_with_atoms(self, with_atoms, shares):
        few = shares.head(5)
        filled = with_atoms.impute(few.assign(share=np.nan))["share"]
        grid = np.r_[BETWEEN, 0.0, 1.0], np.r_[WIDTH_BETWEEN, 1.0, 1.0]
        expected = [mean_by_quadrature(with_atoms, few.iloc[[i]], "share", *grid) for i in range(len(few))]
        assert_allclose(filled, expected, rtol=1e-9)

    def test_draws_have_this_mean_and_stay_inside(self, model, rows):
        holes = rows.dropna().head(3).assign(price=np.nan, share=np.nan)
        draws = [drawn[["price", "share"]].to_numpy() for drawn in model.impute_draws(holes, 4000, random_state=0)]
        x = np.stack(draws)
        assert ((x > 0) & (x[..., [1, 1]] < 1)).all()
        error = x.std(0) / np.sqrt(len(x))
        assert (np.abs(x.mean(0) - model.impute(holes)[["price", "share"]]) < 4.5 * error).all(axis=None)

    def test_observed_entries_stay_bit_for_bit(self, model, rows):
        filled = model.impute(rows)
        assert not filled.isna().any(axis=None)
        pd.testing.assert_frame_equal(filled.where(rows.notna()), rows)


class TestOtherMethods:
    def test_samples_stay_inside_as_arrays_too(self):
        rng = np.random.default_rng(0)
        # Nearly all of a very wide logit-normal lies at its bounds.
        x = np.column_stack([1 / (1 + np.exp(-12 * rng.normal(size=200))), np.exp(20 * rng.normal(size=200))])
        x[:, 0] = x[:, 0].clip(1e-14, 1 - 1e-14)
        model = Mixture(1, columns={0: {"low": 0, "high": 1}, 1: {"low": 0}}, random_state=0).fit(x)
        new = model.sample(2000, random_state=0)[0]
        assert (new > 0).all()
        assert (new[:, 0] < 1).all()
        assert np.isfinite(model.score_samples(new)).all()

    def test_samples_have_the_moments_of_the_fit(self, model):
        new = model.sample(20_000, random_state=0)[0]
        empty = new.head(1).assign(price=np.nan, share=np.nan, size=np.nan, town=None)
        error = new[["price", "share"]].std() / np.sqrt(len(new))
        gap = new[["price", "share"]].mean() - model.impute(empty)[["price", "share"]].iloc[0]
        assert (gap.abs() < 4.5 * error).all()

    def test_a_gain_is_never_negative(self):
        rng = np.random.default_rng(0)
        gain = np.where(rng.random(500) < 0.9, 0.0, rng.lognormal(8, 1, 500))
        model = Mixture(2, random_state=0).fit(pd.DataFrame({"gain": gain, "age": rng.normal(40, 9, 500)}))
        new = model.sample(2000, random_state=0)[0]["gain"]
        assert new.min() == 0
        assert (new == 0).mean() == pytest.approx(0.9, abs=0.05)

    def test_conditionals_and_marginals(self, model, rows):
        """p(x_a | x_b) = p(x_a, x_b) / p(x_b) with bounds on both sides; the marginal keeps its own."""
        some = rows.dropna().head(5)
        given = {"price": 7.5, "town": "Rome"}
        both = some.assign(**given)
        alone = both.assign(share=np.nan, size=np.nan)
        left = model.condition(given)
        expected = model.score_samples(both) - model.score_samples(alone)
        assert_allclose(left.score_samples(some[["share", "size"]]), expected, rtol=1e-8)
        part = model.marginal(["size", "share"])
        rest = some.assign(price=np.nan, town=None)
        assert_allclose(part.score_samples(some[["size", "share"]]), model.score_samples(rest), rtol=1e-9)
        assert part.columns_.support.tolist() == [[-np.inf, np.inf], [0, 1]]

    def test_an_atom_can_be_given(self, with_atoms, shares):
        few = shares.head(4)
        alone = few.assign(share=0.0, size=np.nan)
        expected = with_atoms.score_samples(few.assign(share=0.0)) - with_atoms.score_samples(alone)
        assert_allclose(with_atoms.condition({"share": 0.0}).score_samples(few[["size"]]), expected, rtol=1e-8)


class TestFiles:
    def test_they_keep_bounds(self, model, rows, tmp_path):
        model.save(tmp_path / "m")
        loaded = jensen.load(tmp_path / "m")
        assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))
        assert "above 0" in repr(loaded.columns_)
        pd.testing.assert_frame_equal(loaded.sample(5, random_state=0)[0], model.sample(5, random_state=0)[0])

    def test_a_file_that_was_written_before_has_no_transform(self, shares):
        """Its bounds were only checked: numbers are Gaussian as they are."""
        old = Mixture(1, families="gaussian", columns={"size": {"low": None}}).fit(shares)
        record = old._theta_record()
        columns = {name: value for name, value in record["columns"].items() if name != "support"}
        columns["bounds"] = torch.tensor([[-9.0, 9.0]] * 2, dtype=torch.float64)
        loaded = Mixture(1, families="gaussian")
        loaded.theta_ = loaded._theta_from(record | {"columns": columns})
        loaded._kind, loaded.n_features_in_ = old._kind, 2
        loaded.feature_names_in_ = old.feature_names_in_
        assert_array_equal(loaded.score_samples(shares), old.score_samples(shares))


class TestImpossibleValues:
    def test_at_a_bound_that_is_no_atom_there_is_no_density(self, model, rows):
        some = rows.dropna().head(3).assign(share=[0.5, 1.0, 0.0])
        message = r"X holds 1\.0 in row 1, column 'share', which has probability 0 in every component, and 1 more cell"
        with pytest.warns(ImpossibleValueWarning, match=message):
            scores = model.score_samples(some)
        assert np.isneginf(scores).tolist() == [False, True, True]
        assert model.can_score(some).tolist() == [True, False, False]

    def test_beyond_a_natural_bound_there_is_none_either(self, with_atoms, shares):
        some = shares.head(3).assign(share=[0.0, -0.5, 1.5])
        with pytest.warns(ImpossibleValueWarning, match=r"X holds -0\.5 in row 1, column 'share'"):
            assert np.isneginf(with_atoms.score_samples(some)).tolist() == [False, True, True]
        with pytest.warns(ImpossibleValueWarning):  # the component follows from the other columns
            found = with_atoms.predict_proba(some)
        assert_allclose(found[1:], with_atoms.predict_proba(some.assign(share=np.nan))[1:])

    def test_beyond_a_given_bound_is_an_error(self, model, rows):
        with pytest.raises(ValueError, match=r"X holds 1\.5 in row .*, column 'share', which is between 0 and 1"):
            model.score_samples(rows.dropna().head(1).assign(share=1.5))

    def test_a_batch_keeps_to_the_bounds_of_the_first(self, shares):
        model = Mixture(1, random_state=0).partial_fit(shares)
        with pytest.raises(ValueError, match=r"X holds -0\.5 in column 'share', whose numbers are between 0 and 1 "):
            model.partial_fit(shares.assign(share=-0.5))
        model = Mixture(1, random_state=0, warm_start=True).fit(shares)
        with pytest.raises(ValueError, match=r"warm_start: column 'share' has other"):
            model.fit(shares.assign(share=2 * shares["share"]))

    @pytest.mark.parametrize("family", ["gamma", "log-normal", "exponential"])
    def test_families_of_positive_numbers(self, family, rows, recwarn):
        model = Mixture(1, families={"price": family}, random_state=0).fit(rows)
        some = rows.dropna().head(2).assign(price=[2.5, -1.0])
        assert model.can_score(some).tolist() == [True, False]
        assert not recwarn
        with pytest.warns(ImpossibleValueWarning, match=r"X holds -1\.0 in row 1, column 'price', which has probab"):
            assert np.isneginf(model.score_samples(some)).tolist() == [False, True]

    def test_their_only_bound_is_zero(self, rows):
        families = {"price": "gamma"}
        assert Mixture(1, families=families, columns={"price": {"low": 0}}).fit(rows).families_["price"] == "gamma"
        for ends, shown in (({"low": -2}, "-2 and inf"), ({"low": 0, "high": 1e9}, r"0 and 1e\+09")):
            message = rf"families asks for 'gamma' in column 'price', which has no bound but 0, .* the bounds {shown}; "
            with pytest.raises(ValueError, match=message):
                Mixture(1, families=families, columns={"price": ends}).fit(rows)


@pytest.fixture(scope="module")
def mixed(rows):
    frame = rows.assign(visits=np.random.default_rng(0).poisson(2, len(rows)) * 3)
    return Mixture(2, families={"price": "gamma"}, columns={"visits": "count", **SHARE}, random_state=0).fit(frame)


class TestGiven:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({}, r"given=\{\} names no column; give the value of at least one, such as \{'price': "),
            (["size"], r"given=\['size'\] must be a dictionary of values by column, such as \{'price': "),
            ({"visits": -1}, r"given holds -1 for column 'visits', which has probability 0 in every component; give a"),
            ({"visits": 2.5}, r"given holds 2\.5 for column 'visits', which has probability 0"),
            ({"price": 0}, r"given holds 0 for column 'price', which has probability 0"),
            ({"size": 1.0, "share": 1.0}, r"given holds 1\.0 for column 'share', which has probability 0"),
            ({"share": np.nan}, r"nan is not a value of column 'share', which holds numbers"),
            ({"town": None}, r"None is not a level of column 'town'; its levels are 'Bonn', 'Rome'"),
            ({"nose": 1}, r"column 'nose' is not among 'price'"),
            (
                {"price": 1, "share": 0.5, "size": 1, "town": "Rome", "visits": 0},
                "given names all 5 columns; leave at least one",
            ),
        ],
    )
    def test_what_no_row_can_have_is_an_error(self, mixed, given, message):
        with pytest.raises(ValueError, match=message):
            mixed.condition(given)

    def test_what_no_row_can_have_together_is_an_error(self):
        frame = pd.DataFrame({"a": ["x", "y"] * 40, "b": ["u", "v"] * 40, "c": np.arange(80) * 1.5})
        model = Mixture(2, random_state=0).fit(frame, frame["a"])
        with pytest.raises(ValueError, match=r"given=\{'a': 'x', 'b': 'v'\} has probability 0: no component has all"):
            model.condition({"a": "x", "b": "v"})


def test_a_sampled_frame_has_the_modelled_columns(rows):
    frame = rows.assign(name=[f"row {i}" for i in range(len(rows))])
    with pytest.warns(UserWarning, match="left out: 'name'"):
        model = Mixture(1, random_state=0).fit(frame)
    assert list(model.sample(3, random_state=0)[0].columns) == list(rows.columns)
    assert model.impute(frame)["name"].tolist() == frame["name"].tolist()
