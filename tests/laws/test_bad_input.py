"""One clear error each: the argument, the value, the way out."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import ClassifierMixin, RegressorMixin


def test_infinite_values(case, model):
    rows = case.x.copy()
    rows[3, 1] = np.inf
    answers = [
        getattr(model, name) for name in ("predict", "transform", "score_samples", "impute") if case.offers(name)
    ]
    for call in (case.make().fit, *answers):
        with pytest.raises(ValueError, match="X contains infinity, first in row 3, column 1; replace it by NaN"):
            call(rows)


@pytest.mark.asks("holes")
def test_a_column_without_values_is_named(case):
    rows = pd.DataFrame(case.x, columns=list("abc")[: case.x.shape[1]])
    rows["b"] = np.nan
    with pytest.raises(ValueError, match="no observed value in column 'b'; drop it"):
        case.make().fit(rows)


def test_the_wrong_number_of_features(case, model):
    d = case.x.shape[1]
    with pytest.raises(ValueError, match=rf"X has {d - 1} features, but .* is expecting {d} features"):
        case.answer(model, case.x[:, :-1])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (lambda n: -np.ones(n), "sample_weight has a negative entry, -1.0"),
        (lambda n: np.zeros(n), "sample_weight is zero for all rows"),
        (lambda n: np.full(n, np.nan), "sample_weight holds NaN or infinity"),
        (lambda n: ["much"] * n, "sample_weight must hold numbers, one per row"),
        (lambda n: np.full(n, 1e300), r"sample_weight reaches 1e\+300; .* between 1e-30 and 1e\+30: rescale them"),
        (lambda n: np.full(n, 1e-300), "sample_weight reaches 1e-300; .*: rescale them"),
        (lambda n: np.ones(n - 1), r"sample_weight has shape \(89,\), but X has 90 rows"),
    ],
)
def test_bad_weights(case, weight, message):
    with pytest.raises(ValueError, match=message):
        case.make().fit(case.x, case.required_y, sample_weight=weight(len(case.x)))


@pytest.mark.asks("numbers")
def test_columns_that_are_not_numbers_are_named(case):
    rows = pd.DataFrame(case.x, columns=["a", "b", "c"])
    rows["city"] = "Paris"
    with pytest.raises(ValueError, match="columns that are not numbers: 'city'") as caught:
        case.make().fit(rows)
    other = {ClassifierMixin: "NaiveBayes", RegressorMixin: None}
    model = next((name for mixin, name in other.items() if isinstance(case.make(), mixin)), "Mixture")
    assert (f"or fit a {model}, whose columns may hold text" in str(caught.value)) == (model is not None)


@pytest.mark.asks("score_samples", "raises_bound", "untrained")
def test_values_too_large_to_square(case):
    with pytest.raises(ValueError, match="too large to square; rescale it"):
        case.make().fit(case.x * 1e200)


@pytest.mark.asks("score_samples", "untrained", "units")
def test_values_too_small_to_square(case):
    """Variances would be 0 or less exact than other numbers, and scores wrong without a word."""
    with pytest.raises(ValueError, match=r"X varies by .*e-15\d in column 0, too small to square; rescale it"):
        case.make().fit(case.x * 1e-155)


@pytest.mark.asks("score_samples", "untrained")
def test_a_cell_too_large_to_square_is_named(case, model):
    rows = case.x.copy()
    rows[3, 1] = -1e300
    names = ("predict", "predict_proba", "transform", "score_samples", "bound", "impute")
    for call in (case.make().fit, *(getattr(model, name) for name in names if case.offers(name))):
        with pytest.raises(
            ValueError, match=r"X contains -1e\+300 in row 3, column 1, too large to square; rescale it"
        ):
            call(rows)


def test_frames_must_have_columns_with_names_of_their_own(case):
    with pytest.raises(ValueError, match="X has 5 rows and 0 columns; give at least one of each"):
        case.make().fit(pd.DataFrame(index=range(5)))
    with pytest.raises(ValueError, match="X has more than one column of the name 'b'; rename them"):
        case.make().fit(pd.DataFrame(case.x, columns=list("bbc")[: case.x.shape[1]]))


@pytest.mark.asks("untrained")
@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 1, 2, 3)])
def test_images_are_to_be_reshaped(case, model, shape):
    for rows in (np.zeros(shape), np.zeros(shape).tolist(), torch.zeros(shape)):
        for call in (case.make().fit, model.predict if case.offers("predict") else model.transform):
            with pytest.raises(
                ValueError, match=r"X has shape \(4, .*; images become rows by X.reshape\(len\(X\), -1\)"
            ):
                call(rows)


def test_text_is_not_a_number(case):
    with pytest.raises(ValueError, match="X holds text, such as 'a', and no numbers; encode it as numbers"):
        case.make().fit(np.array([["a", "b", "c"]] * 5))


@pytest.mark.asks("numbers")
def test_dates_are_not_numbers(case):
    rows = pd.DataFrame(case.x, columns=["a", "b", "c"])
    rows["day"] = pd.date_range("2020", periods=len(rows))
    with pytest.raises(ValueError, match="columns that are not numbers: 'day'"):
        case.make().fit(rows)


@pytest.mark.asks("holes")
def test_masked_arrays_have_holes(case, parameters):
    masked = np.ma.masked_greater(case.x, np.quantile(case.x, 0.9))
    expected = case.brief().fit(masked.filled(np.nan), case.required_y)
    np.testing.assert_array_equal(parameters(case.brief().fit(masked, case.required_y)), parameters(expected))


def test_sparse_input_is_taken_or_has_a_way_out(case, request):
    if case.offers("sparse"):
        found, model = case.make().fit(scipy.sparse.csr_array(case.x)), request.getfixturevalue("model")
        np.testing.assert_allclose(case.objective(found), case.objective(model), rtol=1e-9)
        return
    with pytest.raises(TypeError, match="toarray"):
        case.make().fit(scipy.sparse.csr_array(case.x))


def test_a_tensor_of_the_wrong_shape(case):
    with pytest.raises(ValueError, match=r"X has shape \(3,\); expected rows and features"):
        case.make().fit(torch.zeros(3))


@pytest.mark.asks("needs_distinct")
def test_too_few_distinct_rows(case):
    rows = np.repeat(np.unique(case.x, axis=0)[:2], 10, axis=0)
    with pytest.raises(ValueError, match=r"(n_\w+)=3 needs at least 3 distinct rows, got 2; lower \1"):
        case.make().fit(rows)
