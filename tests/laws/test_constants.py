"""A column with one value: 0 nats at the value, one slot of 1 / (n + 1) elsewhere, and no part in the model.

With it a fit of numbers is the fit without it, but for rounding. Mixtures of any columns may start from elsewhere.
"""

import warnings

import numpy as np
import pytest

import jensen
from jensen.data.codes import UnseenValueWarning

pytestmark = pytest.mark.asks("score_samples", "untrained", "raises_bound", "constants")

# Counts, yes/no, levels and numbers can all have these values; positive numbers have no 0.
ONE, OTHER = 1.0, 2.0
PLACES = (0, 3)


@pytest.fixture(autouse=True)
def columns_have_no_numbers(case):
    if getattr(case.make(), "columns", None):
        pytest.skip("its columns are given by number, and these have others")


def wide(x, value=ONE):
    """Rows with a constant column in front, and another one before the last."""
    return np.insert(x, [0, 2], value, axis=1)


def narrow(array, d):
    """An attribute of d + 2 columns without those at PLACES."""
    for axis in reversed(range(np.ndim(array))):
        if array.shape[axis] == d + 2:
            array = np.delete(array, PLACES, axis)
    return array


@pytest.fixture
def both(case, fitted_to):
    """The model of the rows, and the same with two constant columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has columns with one value")
        return fitted_to(case.learnt, case.y), fitted_to(wide(case.learnt), case.y)


@pytest.mark.asks("numbers")
def test_it_changes_no_score(case, both, scored_rows):
    without, with_it = both
    for rows in scored_rows:
        # Rounding of the largest score, which is hundreds of nats.
        np.testing.assert_allclose(with_it.score_samples(wide(rows)), without.score_samples(rows), rtol=1e-10)
        np.testing.assert_allclose(with_it.bound(wide(rows)).total, without.bound(rows).total, rtol=1e-10)
    assert with_it.lower_bound_ == pytest.approx(without.lower_bound_, rel=1e-10)
    assert with_it.n_parameters_ == without.n_parameters_
    assert [with_it.measure_[j] for j in PLACES] == ["probability"] * 2
    assert with_it.measure_ == case.make().find_measure(wide(case.learnt))


@pytest.mark.asks("numbers")
def test_it_changes_no_parameter(case, both):
    without, with_it = both
    d = case.x.shape[1]
    for name in case.arrays:
        found, expected = getattr(with_it, name), getattr(without, name)
        np.testing.assert_allclose(narrow(found, d), expected, rtol=1e-8, atol=1e-10)
    for name in ("means_", "mean_", "cluster_centers_", "points_", "rates_", "probabilities_"):
        if name in case.arrays:
            found = getattr(with_it, name)[..., PLACES]
            assert (found == ONE).all() or np.isnan(found).all()


@pytest.mark.asks("numbers")
def test_it_changes_no_answer(case, both, scored_rows):
    without, with_it = both
    for rows in scored_rows:
        for name in ("predict", "predict_proba", "transform", "bic"):
            if case.offers(name):
                np.testing.assert_allclose(
                    getattr(with_it, name)(wide(rows)), getattr(without, name)(rows), rtol=1e-8, atol=1e-8
                )
    if case.offers("inverse_transform"):
        z = without.transform(case.x)
        np.testing.assert_allclose(with_it.inverse_transform(z), wide(without.inverse_transform(z)), atol=1e-8)


@pytest.mark.asks("numbers", "scores_holes")
def test_it_is_filled_by_its_value(case, both, holes):
    without, with_it = both
    rows = wide(holes)
    rows[::2, 0] = np.nan
    np.testing.assert_allclose(with_it.score_samples(rows), without.score_samples(holes), rtol=1e-10)
    np.testing.assert_allclose(with_it.impute(rows), wide(without.impute(holes)), rtol=1e-8)
    drawn = with_it.impute_draws(rows, 2, random_state=0)
    assert all((one[:, PLACES] == ONE).all() for one in drawn)


def test_it_is_sampled_as_its_value(both):
    assert (both[1].sample(50, random_state=0)[0][:, PLACES] == ONE).all()


@pytest.mark.asks("numbers")
def test_another_value_has_the_unseen_slot(case, both):
    """It costs ln(n + 1), and tells nothing about what is hidden."""
    without, with_it = both
    rows = wide(case.x)
    rows[4, 0] = OTHER
    n = (~np.isnan(case.learnt)).any(1).sum() if case.given is None else len(case.learnt)
    with pytest.warns(UnseenValueWarning, match=r"X holds 2.0 in row 4, column 0, which was not in the training data"):
        found = with_it.score_samples(rows)
    expected = without.score_samples(case.x)
    expected[4] -= np.log(n + 1)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenValueWarning)
        if case.offers("predict_proba"):
            np.testing.assert_allclose(with_it.predict_proba(rows), without.predict_proba(case.x), atol=1e-8)
        # What is observed comes back bit for bit.
        assert with_it.impute(rows)[4, 0] == OTHER


def test_one_warning_names_them(case):
    with pytest.warns(
        UserWarning, match=r"X has columns with one value: 0 \(1.0\), 3 \(1.0\); this value has"
    ) as heard:
        case.brief().fit(wide(case.learnt), case.y)
    assert sum("one value" in str(one.message) for one in heard) == 1


def test_files_have_them(case, both, tmp_path):
    model = both[1]
    model.save(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen", case.classes)
    rows = wide(case.x)
    rows[4, 0] = OTHER
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenValueWarning)
        np.testing.assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))
    for name in case.arrays:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))


@pytest.mark.filterwarnings("ignore:X has columns with one value")
def test_a_table_of_constants(case):
    rows = np.full((12, case.x.shape[1]), ONE)
    model = case.make()
    if "n_clusters" in model.get_params():
        model.set_params(n_clusters=1)
    labels = None if case.y is None else np.resize(np.unique(case.y), 12)
    model.fit(rows, labels)
    # Rows of a mixture of grid points are a sum over them.
    np.testing.assert_allclose(model.score_samples(rows), 0.0, atol=1e-12)
    assert (model.sample(3, random_state=0)[0] == ONE).all()
    assert (model.impute(rows) == ONE).all()
