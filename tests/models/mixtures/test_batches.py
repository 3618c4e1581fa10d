"""Batches whose columns grow: new levels are added exactly, and a change of kind is an error."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from jensen import Mixture, NaiveBayes, load

RNG = np.random.default_rng(0)
N = 400
Y = RNG.integers(0, 2, N)
TABLE = pd.DataFrame(
    {
        "size": RNG.normal(size=N) + 2 * Y,
        "town": np.array(["Bonn", "Oslo", "Paris", "Rome"])[(RNG.random(N) * (2 + 2 * Y)).astype(int)],
        "answer": np.array(["no", "yes"])[(RNG.random(N) < 0.3 + 0.4 * Y).astype(int)],
        "grade": RNG.integers(1, 4, N) + Y,
    }
)
TABLE.loc[RNG.random(N) < 0.1, "town"] = None
# No row of the first batch has these.
IS_LATE = TABLE["town"].isin(["Oslo", "Rome"]).to_numpy() | (TABLE["grade"] == 4).to_numpy()
FIRST, LATER = TABLE[~IS_LATE], TABLE[IS_LATE]
MODELS = {
    "mixture": Mixture(2, columns={"town": "level", "grade": "level"}, alpha=0.5, random_state=0),
    "classes": NaiveBayes(columns={"town": "level", "grade": "level"}),
}


def ordered(model, column):
    """Probabilities (K, L), the levels sorted."""
    levels = dict(zip(model.columns_.names, model.columns_.levels, strict=True))[column]
    return model.parameters_[column]["probabilities"][:, np.argsort(levels)]


@pytest.mark.parametrize("name", MODELS)
def test_a_new_level_is_as_one_that_was_always_known(name):
    """The same batches, but rows of hardly any weight tell the first one of all levels."""
    model, knows = MODELS[name].__class__(**MODELS[name].get_params()), MODELS[name]
    batches = [(FIRST, Y[~IS_LATE]), (LATER, Y[IS_LATE]), (TABLE, Y)]
    weight = np.where(IS_LATE, 1e-13, 1.0)
    knows.fit(TABLE, Y, sample_weight=weight)
    model.fit(FIRST, Y[~IS_LATE])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X, y in batches[1:]:
            knows.partial_fit(X, y)
            model.partial_fit(X, y)
    for column in ("town", "grade"):
        assert_allclose(ordered(model, column), ordered(knows, column), atol=1e-9)
    assert_allclose(model.parameters_["size"]["mean"], knows.parameters_["size"]["mean"], atol=1e-9)
    assert_allclose(model.predict_proba(TABLE), knows.predict_proba(TABLE), atol=1e-8)
    assert_allclose(ordered(model, "town").sum(1), 1)
    # Scores of levels differ by nothing but rounding, and none of these values is unseen.
    assert_allclose(model.score_samples(TABLE), knows.score_samples(TABLE), atol=1e-7)


def test_columns_say_what_all_batches_held():
    model = Mixture(2, columns={"town": "level"}, random_state=0).fit(FIRST)
    model.partial_fit(LATER)
    assert model.columns_.levels[1] == ("Bonn", "Paris", "Oslo", "Rome")
    assert model.columns_.n_rows == N
    assert model.columns_.n_observed.tolist() == TABLE.notna().sum().tolist()
    assert model.columns_.ranges[0].tolist() == [TABLE["size"].min(), TABLE["size"].max()]
    assert set(model.sample(500, random_state=0)[0]["town"]) == {"Bonn", "Oslo", "Paris", "Rome"}


def test_a_loaded_model_gets_new_levels(tmp_path):
    Mixture(2, columns={"town": "level"}, random_state=0).fit(FIRST).save(tmp_path / "model.jensen")
    model = load(tmp_path / "model.jensen").partial_fit(LATER)
    model.save(tmp_path / "again.jensen")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = load(tmp_path / "again.jensen").score_samples(TABLE)
    assert_allclose(scores, model.score_samples(TABLE))


def test_a_constant_text_becomes_a_level():
    with pytest.warns(UserWarning, match="columns with one value"):
        model = Mixture(1).fit(FIRST.assign(country="DE"))
    model.partial_fit(LATER.assign(town="Bonn", grade=1, country="FR"))
    assert model.columns_.kinds[-1] == "level"
    assert model.parameters_["country"]["probabilities"].shape == (1, 2)


def test_a_category_keeps_the_values_that_its_type_lists():
    towns = pd.CategoricalDtype(["Rome", "Oslo", "Bonn", "Paris", "Turin"], ordered=True)
    typed = TABLE.astype({"town": towns})
    model = Mixture(2, columns={"town": "level"}, random_state=0).fit(typed[~IS_LATE])
    drawn = model.partial_fit(typed[IS_LATE]).sample(50, random_state=0)[0]
    assert drawn["town"].dtype == towns


@pytest.mark.parametrize(
    ("column", "first", "later", "message"),
    [
        ("answer", "no", "maybe", r"X holds 'maybe' in row 0, column 'answer', a third value beside 'no' and 'yes', .* "
         r"give columns=\{'answer': 'level'\} to the model"),
        ("one", 5, 7, r"X holds 7 in row 0, column 'one', and the first batch held 5 alone, .* begin with a batch"),
        ("town", "Bonn", 3, r"X holds 3\.?0? in row 0, column 'town', and earlier batches held values of another type, "
         "such as 'Bonn'; give values of one type"),
    ],
)  # fmt: skip
def test_a_change_of_kind_is_an_error(column, first, later, message):
    start = FIRST if column in FIRST and column != "one" else FIRST.assign(**{column: first})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Mixture(1, columns={"town": "level"}).fit(start)
    before = model.score_samples(start)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(LATER.assign(**{column: later}))
    # The model is as it was.
    assert_allclose(model.score_samples(start), before)


def test_too_many_levels_are_an_error():
    model = Mixture(1, columns={"town": "level"}).fit(FIRST)
    many = pd.concat([LATER] * 6).iloc[:1100].assign(town=[f"town {i}" for i in range(1100)])
    with pytest.raises(ValueError, match="a new level beside 2 others, and a column of levels has at most 1000; merge"):
        model.partial_fit(many)


def test_scores_of_unseen_values_still_warn():
    model = Mixture(1, columns={"town": "level"}).fit(FIRST)
    with pytest.warns(UserWarning, match="which was not in the training data"):
        model.score_samples(LATER)
