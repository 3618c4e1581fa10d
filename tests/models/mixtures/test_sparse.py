"""Sparse counts: equal to the dense fit and to scikit-learn's, and never written out."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.naive_bayes import MultinomialNB

from jensen import BernoulliMixture, GaussianMixture, Mixture, NaiveBayes, load, scan

RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(40, 0.2), 3)
Y = RNG.integers(0, 3, 400)
WORDS = np.stack([RNG.multinomial(RNG.integers(5, 30), TOPICS[y]) for y in Y])
# A word that no text has, and one that every text has once.
WORDS[:, 7], WORDS[:, 8] = 0, 1
CSR = sparse.csr_array(WORDS)
WEIGHT = RNG.integers(1, 4, 400)
# Sums in another order.
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def probabilities(model: Mixture) -> np.ndarray:
    return np.stack([found["probability"] for found in model.parameters_.values()], 1)


def length(model: Mixture) -> int:
    """Of the texts that are drawn."""
    return model.theta_.components.parts[0].length


@pytest.mark.parametrize("weight", [None, WEIGHT, np.arange(400) % 2], ids=["rows", "weights", "half of the rows"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_naive_bayes_is_scikit_learns(alpha, weight):
    ours = NaiveBayes(families="multinomial", alpha=alpha).fit(CSR, Y, sample_weight=weight)
    theirs = MultinomialNB(alpha=alpha).fit(CSR, Y, weight)
    assert ours.n_iter_ == 2  # the second step gains nothing
    assert_allclose(ours.class_prior_, np.exp(theirs.class_log_prior_), **EXACT)
    assert_allclose(probabilities(ours), np.exp(theirs.feature_log_prob_), **EXACT)
    assert_allclose(ours.predict_proba(CSR), theirs.predict_proba(CSR), **EXACT)
    assert_array_equal(ours.predict(CSR), theirs.predict(CSR))
    assert ours.score(CSR, Y) == theirs.score(CSR, Y)


@pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.lil_array])
def test_every_format_is_the_dense_table(convert):
    few = np.where(np.arange(400) < 30, Y, -1)
    dense = Mixture(3, families="multinomial", alpha=0.1, tol=1e-9, random_state=0).fit(WORDS, few)
    model = Mixture(3, families="multinomial", alpha=0.1, tol=1e-9, random_state=0).fit(convert(WORDS), few)
    X = convert(WORDS)
    assert model.n_iter_ == dense.n_iter_ > 2
    assert_allclose(model.lower_bounds_, dense.lower_bounds_, **EXACT)
    assert_allclose(probabilities(model), probabilities(dense), **EXACT)
    assert_allclose(model.score_samples(X), dense.score_samples(WORDS), **EXACT)
    assert_allclose(model.bound(X).total, model.score_samples(X), **EXACT)
    assert_allclose(model.bound(X, np.eye(3)[Y]).total, dense.bound(WORDS, np.eye(3)[Y]).total, **EXACT)
    assert_allclose(model.predict_proba(X), dense.predict_proba(WORDS), **EXACT)
    # The rows of a new table may be dense.
    assert_array_equal(model.predict(WORDS), dense.predict(X))
    assert_allclose([model.bic(X), model.icl(X)], [dense.bic(WORDS), dense.icl(WORDS)], rtol=1e-10)


@pytest.mark.parametrize("init_params", ["portfolio", "kmeans", "random", "random_from_data"])
def test_starts_are_those_of_the_dense_table(init_params):
    model = Mixture(3, families="multinomial", alpha=0.1, init_params=init_params, random_state=0)
    found, wanted = model.fit(CSR).score_samples(CSR), model.fit(WORDS).score_samples(WORDS)
    assert_allclose(found, wanted, rtol=1e-8)


def test_clusters_of_texts_are_found_without_labels():
    model = Mixture(3, families="multinomial", alpha=0.1, random_state=0).fit(CSR)
    shares = pd.crosstab(model.predict(CSR), Y).to_numpy()
    assert shares.max(1).sum() > 390


def test_batches_are_the_dense_ones():
    dense, model = NaiveBayes(families="multinomial"), NaiveBayes(families="multinomial")
    for part in (slice(0, 150), slice(150, 400)):
        dense.partial_fit(WORDS[part], Y[part])
        model.partial_fit(CSR[part], Y[part])
    assert_allclose(probabilities(model), probabilities(dense), **EXACT)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weights"])
@pytest.mark.parametrize("kind", [Mixture, NaiveBayes])
def test_a_scan_is_the_whole(kind, weight, tmp_path):
    """In npz files, in sparse blocks of a function, and dense."""
    options = {"families": "multinomial", "alpha": 0.1}
    few = np.where(np.arange(400) < 250, Y, -1)
    frame = pd.DataFrame(WORDS, columns=[f"w{j}" for j in range(40)]).assign(y=few, n=WEIGHT)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=90)
    columns = {"label": "y"} | ({} if weight is None else {"weight": "n"})
    dense = scan(tmp_path / "t.parquet", block_rows=40, drop=() if columns.get("weight") else ["n"], **columns)
    scans = {dense: few}
    if kind is Mixture and weight is None:
        options |= {"n_components": 3, "tol": 1e-9, "random_state": 0}
        for i in range(0, 400, 90):
            sparse.save_npz(tmp_path / f"{i:03d}.npz", CSR[i : i + 90])
        scans[scan(tmp_path / "*.npz", block_rows=40)] = None
        scans[scan(lambda: (CSR[i : i + 70] for i in range(0, 400, 70)))] = None
    for rows, y in scans.items():
        whole, model = kind(**options).fit(CSR, y, sample_weight=weight), kind(**options).fit(rows)
        assert model.n_iter_ == whole.n_iter_
        assert_allclose(probabilities(model), probabilities(whole), **EXACT)
        assert_allclose(model.score_samples(rows).collect(), whole.score_samples(CSR), **EXACT)
        assert_array_equal(model.predict(rows).collect(), whole.predict(CSR))
        assert length(model) == length(whole) == round(np.average(WORDS.sum(1), weights=weight))
        assert_allclose(np.array(model.columns_.ranges), np.array(whole.columns_.ranges))


def test_a_scan_of_what_is_no_count_is_refused():
    wrong = WORDS.astype(float)
    wrong[333, 5] = 0.5
    for convert in (np.asarray, sparse.csr_array):
        rows = scan(lambda convert=convert: (convert(wrong[i : i + 100]) for i in range(0, 400, 100)))
        with pytest.raises(ValueError, match=r"the function \(rows 300 to 399 of it\): .* holds 0\.5"):
            Mixture(2, families="multinomial").fit(rows)


def test_is_saved_and_sampled(tmp_path):
    model = NaiveBayes(families="multinomial").fit(CSR, Y)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert_array_equal(again.predict_proba(CSR), model.predict_proba(CSR))
    drawn, label = again.sample(2000, y=1, random_state=0)
    assert (label == 1).all()
    assert (drawn.sum(1) == round(WORDS.sum(1).mean())).all()
    assert_allclose(drawn.mean(0) / drawn.sum(1).mean(), probabilities(model)[1], atol=0.01)


def test_a_frame_of_sparse_columns_is_a_sparse_table():
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(WORDS))
    model = NaiveBayes(families="multinomial").fit(frame, Y)
    assert_allclose(model.predict_proba(frame), NaiveBayes(families="multinomial").fit(CSR, Y).predict_proba(CSR))


def test_entries_that_stand_twice_add():
    twice = sparse.coo_array((np.array([1, 1, 2, 1]), (np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]))), shape=(2, 2))
    model = NaiveBayes(families="multinomial").fit(twice, [0, 1])
    assert_allclose(probabilities(model), [[0.5, 0.5], [1 / 3, 2 / 3]], **EXACT)


def test_many_words_fit_without_a_dense_table(monkeypatch):
    """Written out, these rows take 8 GB; no array or tensor of more than a fiftieth of that is made."""
    n, d, k, n_entries = 20_000, 50_000, 4, 1_000_000
    topic = RNG.integers(0, k, n)
    row = RNG.integers(0, n, n_entries)
    # Half of the words of a text are from its own part of the vocabulary; their frequencies are as Zipf's law has them.
    own = np.where(RNG.random(n_entries) < 0.5, topic[row] * (d // k), 0)
    word = own + ((d // k) ** RNG.random(n_entries)).astype(int)
    X = sparse.coo_array((np.ones(n_entries), (row, word)), shape=(n, d)).tocsr()
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                    largest = max(largest, tensor.numel())
            return out

    for kind in ("csr_array", "csr_matrix", "csc_array"):
        monkeypatch.setattr(getattr(sparse, kind), "toarray", refuse_if_large(getattr(sparse, kind).toarray))
    with Watch():
        model = NaiveBayes(families="multinomial").fit(X, topic)
        mixture = Mixture(k, families="multinomial", alpha=0.1, init_params="kmeans", max_iter=3, tol=0, random_state=0)
        with pytest.warns(UserWarning, match="did not converge"):
            mixture.fit(X)
        model.predict(X), mixture.bound(X), mixture.document_completion(X)
    assert largest <= n * d / 50
    expected = MultinomialNB().fit(X, topic).predict_log_proba(X[:100])
    assert_allclose(np.log(model.predict_proba(X[:100])), expected, rtol=1e-8, atol=1e-8)
    assert pd.crosstab(mixture.predict(X), topic).to_numpy().max(1).sum() > 0.95 * n


def refuse_if_large(toarray):
    def checked(self, *arguments, **options):
        assert np.prod(self.shape) <= 2e7
        return toarray(self, *arguments, **options)

    return checked


class TestRefuses:
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (np.nan, r"X is sparse and holds nan in row 3, column 5; sparse counts have no missing values: give dense"),
            (-1.0, r"X is sparse and holds -1 in row 3, column 5, but it is for counts: 0, 1, 2, \.\.\.; correct"),
            (0.5, r"X is sparse and holds 0\.5 in row 3, column 5, but it is for counts"),
            (np.inf, r"X contains infinity, first in row 3, column 5"),
        ],
    )
    def test_what_is_no_count(self, value, message):
        wrong = WORDS.astype(float)
        wrong[3, 5] = value
        with pytest.raises(ValueError, match=message):
            NaiveBayes(families="multinomial").fit(sparse.csr_array(wrong), Y)
        with pytest.raises(ValueError, match=message):
            NaiveBayes(families="multinomial").fit(CSR, Y).predict(sparse.csr_array(wrong))

    @pytest.mark.parametrize("model", [Mixture(2), NaiveBayes(), GaussianMixture(2), BernoulliMixture(2)])
    def test_sparse_rows_of_other_families(self, model):
        assert not model.__sklearn_tags__().input_tags.sparse
        with pytest.raises(TypeError, match="toarray"):
            model.fit(CSR, Y)

    def test_to_impute_sparse_rows(self):
        model = NaiveBayes(families="multinomial").fit(CSR, Y)
        assert model.__sklearn_tags__().input_tags.sparse
        with pytest.raises(TypeError, match="toarray"):
            model.impute(CSR)

    def test_kinds_beside_one_family_for_all(self):
        with pytest.raises(ValueError, match=r"families='multinomial' is for all columns, and columns=.* names the k"):
            Mixture(2, families="multinomial", columns={0: "level"}).fit(CSR)

    def test_the_families_that_take_them_are_named(self):
        for model in (Mixture(2), NaiveBayes()):
            with pytest.raises(TypeError, match=r'X is sparse, .* choose families="multinomial" .* X\.toarray\(\)'):
                model.fit(CSR, np.arange(CSR.shape[0]) % 2)

    def test_text_among_counts(self):
        frame = pd.DataFrame({"the": [1, 0, 2, 1], "town": list("abab")})
        with pytest.raises(ValueError, match="X has columns that are not numbers: 'town'"):
            Mixture(2, families="multinomial").fit(frame)


def test_the_starts_of_many_documents_are_compared_on_some_of_them():
    """More than 10 000 numbers, and more rows than a short run takes."""
    X = sparse.vstack([CSR] * (2500 // len(WORDS) + 1)).tocsr()
    noisy = X + sparse.csr_array(np.random.default_rng(0).poisson(0.5, X.shape).astype(float))
    model = Mixture(3, families="multinomial", alpha=0.1, random_state=0)
    dense = Mixture(3, families="multinomial", alpha=0.1, random_state=0).fit(noisy.toarray())
    assert_allclose(model.fit(noisy).lower_bound_, dense.lower_bound_, rtol=1e-3)
