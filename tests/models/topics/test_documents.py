"""What people bring: texts, tables, sparse counts, empty documents; and what they read: words, coherence."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix, issparse, random_array

import jensen
from jensen import LatentDirichletAllocation
from jensen.models.topics.describe import npmi, u_mass

TEXTS = [
    "The rain and the wind, rain again",
    "wind, sun and rain",
    "bread and milk and butter",
    "milk for the bread",
    "sun and wind",
    "butter, bread",
]


def fitted(X=TEXTS, **arguments):
    return LatentDirichletAllocation(2, random_state=0, **arguments).fit(X)


def test_texts_are_counted_and_their_words_kept(tmp_path):
    model = fitted(stop_words="english")
    assert_array_equal(model.vocabulary_, ["bread", "butter", "milk", "rain", "sun", "wind"])
    weather = model.transform(["rain, rain", "milk and unheard-of words"])
    assert weather[0].argmax() != weather[1].argmax()
    counts = csr_matrix(np.array([[0, 0, 0, 2, 0, 0]]))
    assert_allclose(model.transform(counts), weather[:1])
    model.save(tmp_path / "topics.jensen")
    loaded = jensen.load(tmp_path / "topics.jensen")
    assert_array_equal(loaded.vocabulary_, model.vocabulary_)
    assert_allclose(loaded.transform(TEXTS), model.transform(TEXTS))
    assert set(loaded.topics_["word"]) == set(model.vocabulary_)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pl.Series])
def test_texts_come_in_any_row(kind):
    assert_allclose(fitted(kind(TEXTS)).components_, fitted().components_)


def test_a_text_that_is_missing_has_no_words():
    model = fitted([*TEXTS, None])
    assert_allclose(model.transform([None, "rain"])[0], 0.5)


def test_options_of_counting():
    assert list(fitted(min_df=3).vocabulary_) == ["and", "bread", "wind"]
    assert len(fitted(max_features=2).vocabulary_) == 2
    with pytest.warns(UserWarning, match="min_df=3 is not used: X holds counts and no texts"):
        fitted(np.ones((4, 3)), min_df=3)


def test_texts_that_do_not_fit():
    model = fitted()
    with pytest.raises(ValueError, match=r"no word of X is in the vocabulary of the model, \d+ words such as 'again'"):
        model.transform(["zzz qqq"])
    with pytest.raises(ValueError, match=r"fitted to counts whose words have no names; give counts \(n, 3\)"):
        fitted(np.ones((4, 3))).transform(["rain"])
    with pytest.raises(ValueError, match="X is one text, 'rain'; give a list"):
        fitted("rain")
    with pytest.raises(ValueError, match="X holds 3 in row 1, which is no text"):
        fitted(np.array(["rain", 3], dtype=object))


def test_a_data_frame_names_the_words():
    frame = pd.DataFrame({"rain": [2, 0, 1], "milk": [0, 3, 0], "sun": [1, 0, 1]})
    model = fitted(frame)
    assert list(model.words_) == ["rain", "milk", "sun"]
    assert list(model.sample(2)[0].columns) == list(frame.columns)
    assert_allclose(model.transform(["rain sun"]), model.transform(pd.DataFrame([[1, 0, 1]], columns=frame.columns)))


def test_a_model_of_texts_reads_named_counts_by_their_names():
    model = fitted()
    counts = pd.DataFrame([[1.0, 0, 2, 0, 1, 0, 0, 0, 0, 3]], columns=model.vocabulary_)
    expected = model.transform(counts.to_numpy())
    assert_allclose(model.transform(counts[counts.columns[::-1]]), expected)
    with pytest.raises(ValueError, match="X has no column of counts of 'again', which is among the 10 words"):
        model.transform(counts.drop(columns="again"))


def test_texts_in_other_forms_have_a_way_out():
    with pytest.raises(
        ValueError, match=r"X is a table with 6 texts in its column 'body'; give the column, X\['body'\]"
    ):
        fitted(pd.DataFrame({"body": TEXTS}))
    with pytest.raises(ValueError, match=r"X is lists of words; give one text per document, such as ' '.join\(words\)"):
        fitted([["rain", "sun"], ["milk"]])
    with pytest.raises(ValueError, match="X is empty; give one text per document"):
        fitted([])
    assert_allclose(fitted([*TEXTS, float("nan")]).components_, fitted([*TEXTS, None]).components_)


def test_sparse_counts_are_never_dense():
    """A dense table of these documents would have 40 gigabytes."""
    counts = random_array((50_000, 100_000), density=2e-5, rng=np.random.default_rng(0), format="csr")
    counts.data = np.ceil(3 * counts.data)
    model = LatentDirichletAllocation(2, random_state=0, max_iter=2, tol=0).fit(counts)
    assert model.transform(counts).shape == (50_000, 2)
    assert np.isfinite(model.score_samples(counts)).all()
    drawn, _ = model.sample(10_000)
    assert issparse(drawn)
    assert drawn.shape == (10_000, 100_000)
    assert drawn.sum() == pytest.approx(counts.sum() / 5, rel=0.1)


def test_empty_documents_have_the_prior():
    model = fitted(np.array([[2.0, 0, 1], [0, 0, 0], [0, 3, 0]]), doc_topic_prior=[0.5, 1.5])
    empty = np.zeros((1, 3))
    assert_allclose(model.transform(empty), [[0.25, 0.75]])
    assert model.score_samples(empty) == 0
    assert_allclose(model.posterior(empty).concentration, [[0.5, 1.5]])


def test_fractions_of_words_count():
    counts = np.array([[2.0, 0, 1], [0, 4, 2], [1, 3, 0]])
    half, whole = fitted(counts / 2, tol=0, max_iter=5), fitted(counts, tol=0, max_iter=5)
    assert half.components_.sum() < whole.components_.sum()
    assert np.isfinite(half.score_samples(counts / 3)).all()


def test_bad_counts():
    counts = np.ones((4, 3))
    counts[2, 1] = -2
    with pytest.raises(ValueError, match=r"Negative values in data passed to \w+: X holds -2 in row 2, column 1"):
        fitted(csr_array(counts))
    counts[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN .* row 2, column 1, .* write 0 where a word does not occur"):
        fitted(counts)
    model = fitted(np.ones((4, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but LatentDirichletAllocation is expecting 3"):
        model.transform(csr_array(np.ones((1, 2))))


def test_bad_arguments():
    counts = np.ones((4, 3))
    for options, message in (
        (
            {"doc_topic_prior": [1.0, 2.0, 3.0]},
            r"doc_topic_prior has shape \(3,\); give one number, or one for each of n_comp",
        ),
        ({"doc_topic_prior": [1.0, -2.0]}, "doc_topic_prior holds -2.0; give positive numbers"),
        (
            {"learn_priors": "symmetric", "learning_method": "collapsed"},
            "learn_priors='symmetric' needs the variational",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(counts, **options)
    with pytest.raises(ValueError, match="n_components=2 is less than the 3 classes in y"):
        LatentDirichletAllocation(2).fit(counts, [0, 1, 2, 1])
    with pytest.raises(ValueError, match="measure='cv' must be 'npmi' or 'u_mass'"):
        fitted(counts).coherence(counts, measure="cv")


def test_words_of_topics_have_probability_and_lift():
    counts = np.array([[8.0, 1, 0, 3], [9, 0, 0, 2], [0, 0, 7, 3], [0, 1, 9, 3]])
    model = LatentDirichletAllocation(2, random_state=0, doc_topic_prior=0.1, topic_word_prior=0.01).fit(counts)
    table = model.top_words(2)
    assert list(table.columns) == ["topic", "share", "rank", "word", "probability", "lift"]
    assert list(table["rank"]) == [1, 2, 1, 2]
    beta = model.components_ / model.components_.sum(1, keepdims=True)
    assert_allclose(table["probability"], -np.sort(-beta, axis=1)[:, :2].ravel())
    assert set(table.loc[table["rank"] == 1, "word"]) == {0, 2}
    # A word of one topic only has the lift 1 / share, and a common word about 1.
    first = table[table["rank"] == 1]
    assert_allclose(first["lift"], 1 / first["share"], rtol=0.01)
    assert_allclose(table.loc[table["word"] == 3, "lift"], 1, atol=0.3)
    assert table["share"].groupby(table["topic"]).first().sum() == pytest.approx(1)


def test_coherence_by_hand():
    counts = np.array([[1.0, 1, 0], [2, 1, 0], [0, 0, 1], [0, 1, 1]])
    # Words 0 and 1 occur in 2 and 3 of 4 documents, together in 2.
    assert npmi(2, 2, 3, 4) == pytest.approx(np.log(0.5 / (0.5 * 0.75)) / -np.log(0.5))
    assert npmi(0, 2, 2, 4) == -1
    assert npmi(4, 4, 4, 4) == 1
    assert u_mass(2, 3, 2, 4) == pytest.approx(np.log(3 / 2))
    model = LatentDirichletAllocation(1, random_state=0, topic_word_prior=1e-6).fit(counts)
    # The words by probability: 1 (3 of 8), 0 (3 of 8), 2 (2 of 8); of equal ones the first comes first: 0, 1, 2.
    pairs = [(2, 3, 2), (0, 2, 2), (1, 2, 3)]
    assert_allclose(model.coherence(counts, 3), np.mean([npmi(both, i, j, 4) for both, i, j in pairs]))
    ordered = [(2, 3, 2), (0, 2, 2), (1, 2, 3)]
    assert_allclose(model.coherence(counts, 3, "u_mass"), np.mean([u_mass(b, i, j, 4) for b, i, j in ordered]))


def test_a_stream_learns_and_a_loaded_model_resumes(tmp_path):
    rng = np.random.default_rng(0)
    topics = np.array([[5.0, 4, 1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 5, 4, 1]])
    topics /= topics.sum(1, keepdims=True)

    def batch(n):
        return csr_array(np.array([rng.multinomial(20, p) for p in rng.dirichlet([0.2, 0.2], n) @ topics]))

    model = LatentDirichletAllocation(2, total_samples=2000, random_state=0, learning_offset=1)
    for _ in range(10):
        model.partial_fit(batch(100))
    model.save(tmp_path / "a.jensen")
    loaded, more = jensen.load(tmp_path / "a.jensen"), batch(100)
    assert_allclose(loaded.partial_fit(more).components_, model.partial_fit(more).components_)
    assert model.total_weight_ == 1100
    found = model.components_ / model.components_.sum(1, keepdims=True)
    assert min(np.abs(found - topics).sum(), np.abs(found[::-1] - topics).sum()) / 2 < 0.15


def test_what_it_cannot_do_has_a_reason():
    model = fitted()
    for name, reason in (
        ("impute", "bag of the words"),
        ("bic", "document_completion"),
        ("predict", "fit it with labels"),
    ):
        with pytest.raises(AttributeError) as error:
            getattr(model, name)
        assert reason in str(error.value.__cause__)
