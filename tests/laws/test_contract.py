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
from cases import CASES


def model_for_checks(case):
    return (case.for_checks or case.make)()


# The checks bring rows and labels of their own, and so see one model in cases that differ by their data.
CHECKED = {repr(model_for_checks(case)): case for case in reversed(CASES)}


@pytest.mark.parametrize("checked", [*CHECKED.values()][::-1], ids=lambda case: case.name)
def test_scikit_learns_checks_pass(checked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(model_for_checks(checked), expected_failed_checks=checked.expected_failed_checks)


def test_a_file_keeps_everything(case, model, tmp_path):
    path = tmp_path / "model.jensen"
    model.save(path)
    loaded = jensen.load(path, case.classes)
    assert type(loaded) is type(model)
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert_array_equal(case.answer(loaded, case.x), case.answer(model, case.x))
    if case.offers("score_samples"):
        assert_array_equal(loaded.score_samples(case.x), model.score_samples(case.x))
    if case.offers("sample"):
        assert_array_equal(loaded.sample(3, random_state=0)[0], model.sample(3, random_state=0)[0])
    assert case.objective(loaded) == case.objective(model)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.jensen"]


def test_a_clone_is_unfitted_and_fits_the_same(case, model, parameters):
    copy = clone(model)
    assert not hasattr(copy, "theta_")
    assert_array_equal(parameters(copy.fit(case.learnt, case.y)), parameters(model))


def test_what_a_model_cannot_honour_does_not_exist_and_says_why(case, model):
    for name in ("score_samples", "bound", "sample", "impute", "impute_draws"):
        if not case.offers(name):
            with pytest.raises(AttributeError, match=name) as error:
                getattr(model, name)
            assert len(str(error.value.__cause__)) > 20


def test_every_column_has_a_measure_where_rows_have_scores(case, model):
    if not case.offers("score_samples"):
        assert not hasattr(model, "measure_")
        with pytest.raises(AttributeError, match="score_samples"):
            model.find_measure(case.x)
        return
    assert len(model.measure_) == case.x[0].size
    assert set(model.measure_) <= {"density", "probability"}
    assert model.measure_ == clone(model).find_measure(case.learnt)
    assert model.can_score(case.x).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(case, dtype):
    rows = case.x.astype(dtype)
    model = case.brief().fit(rows, case.y)
    for name in case.arrays:
        assert getattr(model, name).dtype == dtype
    for name in ("score_samples", "predict_proba", "transform", "impute"):
        if case.offers(name):
            assert getattr(model, name)(rows).dtype == dtype
    if case.offers("sample"):
        assert model.sample(2)[0].dtype == dtype


@pytest.mark.asks("impute")
def test_tables_come_back_in_kind(case, holes):
    names = [f"f{j}" for j in range(case.x.shape[1])]
    index = [f"row {i}" for i in range(len(holes))]
    reference = case.brief().fit(holes, case.y)
    scored = holes if case.offers("scores_holes") else case.x
    # Data frames get a value of the column where arrays get its probability, and none beyond its range.
    is_whole = (np.nan_to_num(holes) % 1 == 0).all(0) & (not case.offers("means"))
    low, high = np.nanmin(holes, 0), np.nanmax(holes, 0)
    # Between a bound and the end of the observed range the mean of what is cut off there is not the mean, cut off.
    has_bounds = np.isfinite(reference.columns_.support).any(1).numpy() if case.name == "mixture-bounds" else None

    def expected(rows):
        filled = reference.impute(rows)
        filled = filled.clip(low, high) if hasattr(reference, "columns_") else filled
        if has_bounds is not None:
            frame = pd.DataFrame(rows, columns=names)
            with_ends = case.brief().fit(pd.DataFrame(holes, columns=names)).impute(frame).to_numpy()
            assert ((low <= with_ends) & (with_ends <= high)).all()
            filled = np.where(has_bounds, with_ends, filled)
        return np.where(is_whole, np.rint(filled), filled)

    frame = pd.DataFrame(holes, columns=names, index=index)
    model = case.brief().fit(frame, case.y)
    filled = model.impute(frame)
    assert list(filled.columns) == names
    assert list(filled.index) == index
    assert_allclose(filled.to_numpy(), expected(holes))
    assert list(model.sample(2)[0].columns) == names
    assert isinstance(model.score_samples(pd.DataFrame(scored, columns=names)), np.ndarray)

    unnamed = pd.DataFrame(holes)
    assert list(case.brief().fit(unnamed, case.y).impute(unnamed).columns) == list(unnamed.columns)

    polars = pl.DataFrame(holes, schema=names, orient="row")
    model = case.brief().fit(polars, case.y)
    filled = model.impute(polars)
    assert filled.columns == names
    assert_allclose(filled.to_numpy(), expected(holes))
    # As many rows as columns, which polars could take for each other.
    square = slice(len(names))
    assert_allclose(model.impute(polars[square]).to_numpy(), expected(holes[square]))

    tensor = torch.tensor(holes)
    model = case.brief().fit(tensor, case.y)
    assert isinstance(model.impute(tensor), torch.Tensor)
    tensor = torch.tensor(scored)
    assert isinstance(model.score_samples(tensor), torch.Tensor)
    assert isinstance(model.bound(tensor).total, torch.Tensor)
    assert_allclose(model.score_samples(tensor).numpy(), reference.score_samples(scored))

    assert isinstance(model.score_samples(scored.tolist()), np.ndarray)


def test_nothing_given_is_changed(case, some_rows, scored_rows):
    for rows in some_rows:
        before = rows.copy()
        weight = np.ones(len(rows))
        weight[0] = 0
        model = case.brief().fit(rows, case.y, sample_weight=weight)
        # Where a row with holes has no score, there is nothing to ask of it but what is missing.
        is_scored = len(some_rows) == len(scored_rows) or not np.isnan(rows).any()
        for name in ("predict", "transform", "impute", "score_samples") if is_scored else ("impute",):
            if case.offers(name):
                getattr(model, name)(rows)
        assert_array_equal(rows, before)
        assert weight.sum() == len(rows) - 1
