"""What a class claims in its capabilities is true, and what it does not claim is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.utils import get_tags

import jensen
from jensen.contract.capabilities import Capabilities
from jensen.registry import MODELS, model_class

REFUSED = (ValueError, TypeError, AttributeError)


def works(call):
    """Whether a call is answered, rather than refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except REFUSED:
            return False
    return True


def labels_of(case):
    return np.arange(len(case.x)) % 2 if case.y is None else case.y


def test_scores_are_exact_bounds_or_none(case, model):
    claim = model.capabilities.score
    assert (claim is not None) == hasattr(model, "score_samples") == hasattr(model, "bound")
    if claim is not None:
        assert claim == ("exact" if model.bound(case.x[:5]).is_exact else "bound")
        assert model.describe_score().split(",")[0] == claim


def test_missing_values(case, model):
    can, partial = model.capabilities, case.x.copy()
    partial[::4, 0] = np.nan
    assert works(lambda: case.brief().fit(partial, case.y)) == can.missing_in_fit
    assert works(lambda: model.score_samples(partial[:5])) == can.missing_in_score
    assert can.scores_complete_rows_only == (can.score is not None and can.missing_in_fit and not can.missing_in_score)


@pytest.mark.asks("any")
def test_kinds_of_rows(case):
    model, x = case.brief(), case.x
    text = pd.DataFrame(x).assign(word=np.where(np.arange(len(x)) % 2, "yes", "no")).rename(columns=str)
    assert works(lambda: case.brief().fit(text, case.y)) == model.capabilities.text
    images = x[:, None, :]
    assert works(lambda: case.brief().fit(images, case.y)) == model.capabilities.images
    assert works(lambda: case.brief().fit(csr_array(x), case.y)) == model.capabilities.sparse
    documents = [f"word{i % 3} and word{i % 5}" for i in range(len(x))]
    assert works(lambda: case.brief().fit(documents, case.y)) == model.capabilities.texts


def test_labels_and_what_is_predicted(case):
    can = case.make().capabilities
    assert works(lambda: case.brief().fit(case.x)) == (can.labels != "needed")
    plain, labelled = case.brief().fit(case.x, case.required_y), case.brief().fit(case.x, labels_of(case))
    assert hasattr(labelled, "classes_") == bool(can.labels)
    assert {False: (False, False), "labels": (False, True), True: (True, True)}[can.predict] == tuple(
        works(lambda model=model: model.predict(case.x[:5])) for model in (plain, labelled)
    )


@pytest.mark.asks("any")
def test_values(case):
    """Negative numbers and fractions are refused by the models that say so, and by no other."""
    can, rows = case.make().capabilities, np.abs(case.x)
    if can.values == "counts":
        rows = np.rint(rows)
    for value, is_refused in ((-1.0, can.values != "real"), (0.5, can.values == "counts")):
        changed = rows.copy()
        changed[3, 1] = value
        if is_refused:
            with pytest.raises(ValueError, match=rf"X holds {value:g} in row 3, column 1, but it is for"):
                case.brief().fit(changed, case.y)
        else:
            case.brief().fit(changed, case.y)


def test_weights_batches_and_gradients(case, model):
    can, weight = model.capabilities, np.arange(len(case.x)) % 3.0
    assert works(lambda: case.brief().fit(case.learnt, case.y, sample_weight=weight)) == can.weights
    assert works(lambda: case.brief().partial_fit(case.learnt, case.y)) == can.batches
    assert hasattr(model, "module_") == can.gradients


def test_scikit_learns_tags_agree(case):
    model = case.make()
    tags, can = get_tags(model), model.capabilities
    assert tags.input_tags.allow_nan == can.missing_in_fit
    assert (tags.input_tags.sparse, tags.input_tags.three_d_array) == (can.sparse, can.images)
    assert tags.input_tags.string == can.text
    assert tags.input_tags.categorical == (can.text or can.values == "counts")
    assert tags.target_tags.required == (can.labels == "needed")


def test_a_regression_needs_labels():
    model, rng = jensen.RidgeRegression(), np.random.default_rng(0)
    can, x, y = model.capabilities, rng.normal(size=(30, 2)), rng.normal(size=30)
    assert can.labels == "needed"
    assert get_tags(model).target_tags.required
    assert not works(lambda: model.fit(x))
    assert works(lambda: model.fit(x, y, sample_weight=np.ones(30))) == can.weights
    assert works(lambda: model.predict(x)) == can.predict
    assert works(lambda: model.score_samples(x, y)) == (can.score == "exact")
    assert works(lambda: jensen.RidgeRegression().fit(np.where(x > 1, np.nan, x), y)) == can.missing_in_fit
    assert hasattr(model, "partial_fit") == can.batches


@pytest.mark.parametrize("name", MODELS)
def test_every_model_declares_what_it_can(name):
    assert model_class(name).capabilities != Capabilities()
