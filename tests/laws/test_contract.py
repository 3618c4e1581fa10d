"""scikit-learn's habits, kinds of tables, files."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import jensen


def test_scikit_learns_checks_pass(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The number of components follows y there: the checks pass up to four classes.
        model = case.make().set_params(n_components=None, max_iter=20)
        check_estimator(model, expected_failed_checks=case.expected_failed_checks)


def test_a_file_keeps_everything(case, model, tmp_path):
    path = tmp_path / "model.jensen"
    model.save(path)
    loaded = jensen.load(path)
    assert type(loaded) is type(model)
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert_array_equal(loaded.score_samples(case.x), model.score_samples(case.x))
    assert_array_equal(loaded.predict(case.x), model.predict(case.x))
    assert_array_equal(loaded.sample(3, random_state=0)[0], model.sample(3, random_state=0)[0])
    assert loaded.lower_bound_ == model.lower_bound_
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.jensen"]


def test_a_clone_is_unfitted_and_fits_the_same(case, model):
    copy = clone(model)
    assert not hasattr(copy, "theta_")
    assert_array_equal(copy.fit(case.x, case.y).means_, model.means_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(case, dtype):
    rows = case.x.astype(dtype)
    model = case.make().fit(rows, case.y)
    for array in (model.means_, model.weights_, model.covariances_, model.precisions_, model.precisions_cholesky_):
        assert array.dtype == dtype
    assert model.score_samples(rows).dtype == dtype
    assert model.predict_proba(rows).dtype == dtype
    assert model.impute(rows).dtype == dtype
    assert model.sample(2)[0].dtype == dtype


def test_tables_come_back_in_kind(case, holes):
    names = [f"f{j}" for j in range(case.x.shape[1])]
    index = [f"row {i}" for i in range(len(holes))]
    reference = case.make().fit(holes, case.y)

    frame = pd.DataFrame(holes, columns=names, index=index)
    model = case.make().fit(frame, case.y)
    filled = model.impute(frame)
    assert list(filled.columns) == names
    assert list(filled.index) == index
    assert_allclose(filled.to_numpy(), reference.impute(holes))
    assert list(model.sample(2)[0].columns) == names
    assert isinstance(model.score_samples(frame), np.ndarray)

    polars = pl.DataFrame(holes, schema=names)
    model = case.make().fit(polars, case.y)
    assert model.impute(polars).columns == names
    assert_allclose(model.impute(polars).to_numpy(), reference.impute(holes))

    tensor = torch.tensor(holes)
    model = case.make().fit(tensor, case.y)
    assert isinstance(model.impute(tensor), torch.Tensor)
    assert isinstance(model.score_samples(tensor), torch.Tensor)
    assert isinstance(model.bound(tensor).total, torch.Tensor)
    assert_allclose(model.score_samples(tensor).numpy(), reference.score_samples(holes))

    assert isinstance(model.score_samples(holes.tolist()), np.ndarray)


def test_nothing_given_is_changed(case, holes):
    before = holes.copy()
    weight = np.ones(len(holes))
    weight[0] = 0
    model = case.make().fit(holes, case.y, sample_weight=weight)
    model.impute(holes)
    model.score_samples(holes)
    assert_array_equal(holes, before)
    assert weight.sum() == len(holes) - 1


def test_the_global_random_state_is_untouched(case):
    torch.manual_seed(0)
    np.random.seed(0)
    expected = torch.rand(1), np.random.random()
    torch.manual_seed(0)
    np.random.seed(0)
    case.fitted().sample(3)
    assert torch.rand(1) == expected[0]
    assert np.random.random() == expected[1]
