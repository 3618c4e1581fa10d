"""Topics of a scan are those of the same documents in memory."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array, save_npz

import jensen
from jensen import LatentDirichletAllocation
from jensen.models.topics import scanning

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
METHODS = ("batch", "collapsed", "online")


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.2), 3)
    shares = rng.dirichlet(np.full(3, 0.3), 200)
    return np.array([rng.multinomial(n, p) for n, p in zip(rng.poisson(20, 200), shares @ topics, strict=True)])


@pytest.fixture(scope="module")
def texts(counts):
    words = [f"w{j:02d}" for j in range(30)]
    return [" ".join(np.repeat(words, row)) for row in counts]


def model(method="batch", **options):
    given = {"max_doc_update_iter": 20, "random_state": 0, "max_iter": 4, "tol": 0, "batch_size": 32} | options
    return LatentDirichletAllocation(3, learning_method=method, **given)


def in_blocks(rows, size=45, **options):
    return jensen.scan(lambda: (rows[i : i + size] for i in range(0, rows.shape[0], size)), **options)


def assert_same(found, whole):
    # Sums of the same numbers in other blocks.
    assert_allclose(found.components_, whole.components_, rtol=1e-7)
    assert_allclose(found.lower_bounds_, whole.lower_bounds_, rtol=1e-9)
    assert found.bound_ == pytest.approx(whole.bound_, rel=1e-9)
    assert (found.n_iter_, found.n_batch_iter_) == (whole.n_iter_, whole.n_batch_iter_)


@pytest.mark.parametrize("method", METHODS)
def test_sparse_blocks(counts, method):
    whole, found = model(method).fit(csr_array(counts)), model(method).fit(in_blocks(csr_array(counts)))
    assert_same(found, whole)
    assert found.is_sparse_
    assert found.sample(3)[0].shape == (3, 30)


@pytest.mark.parametrize("method", METHODS)
def test_labels_and_weights_are_columns(counts, method):
    rng = np.random.default_rng(1)
    # No document of the first block has a label.
    y = np.where((rng.random(200) < 0.5) & (np.arange(200) >= 45), counts[:, :15].sum(1) > counts[:, 15:].sum(1), -1)
    weight = rng.integers(0, 3, 200)
    weight[:45], weight[45:90] = 0, 1  # one block counts for nothing, and one has no weights to speak of
    frame = pd.DataFrame(counts, columns=[f"w{j}" for j in range(30)])
    whole = model(method).fit(frame, y, sample_weight=weight)
    rows = in_blocks(frame.assign(y=y, n=weight), label="y", weight="n")
    found = model(method).fit(rows)
    assert_same(found, whole)
    assert list(found.classes_) == [0, 1]
    assert_allclose(found.theta_.class_weights, whole.theta_.class_weights)
    assert found.predict(rows).collect().tolist() == whole.predict(frame).tolist()


def test_files_of_tables_and_of_sparse_matrices(counts, tmp_path):
    frame = pd.DataFrame(counts, columns=[f"w{j}" for j in range(30)])
    whole = model().fit(frame)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=60)
    frame.to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "t.npy", counts)
    folder = tmp_path / "sparse"
    folder.mkdir()
    for i in range(0, 200, 90):
        save_npz(folder / f"{i}.npz", csr_array(counts[i : i + 90]))
    for path in (tmp_path / "t.parquet", tmp_path / "t.csv", tmp_path / "t.npy", folder):
        assert_same(model().fit(jensen.scan(path)), whole)
    assert jensen.scan(folder).n_rows == 200


def test_an_executor(counts, tmp_path):
    pd.DataFrame(counts, columns=[f"w{j}" for j in range(30)]).to_parquet(tmp_path / "t.parquet", row_group_size=60)
    rows = jensen.scan(tmp_path / "t.parquet")
    here = model().fit(rows)
    with ThreadPoolExecutor(2) as executor:
        found = model().fit(rows, executor=executor)
        assert found.components_.tobytes() == here.components_.tobytes()
        with pytest.raises(ValueError, match=r"one step after another .* choose 'batch' or 'collapsed'"):
            model("online").fit(rows, executor=executor)


class TestTexts:
    OPTIONS = ({}, {"min_df": 5, "max_df": 0.6}, {"min_df": 0.1, "max_features": 7}, {"stop_words": ["w00", "w01"]})

    @pytest.mark.parametrize("options", OPTIONS)
    def test_the_vocabulary_of_a_scan(self, texts, options):
        rare = ["", "alone rare", *texts]
        whole, found = model(**options).fit(rare), model(**options).fit(jensen.scan(lambda: iter(rare), block_rows=30))
        assert found.vocabulary_.tolist() == whole.vocabulary_.tolist()
        assert_same(found, whole)

    def test_a_column(self, texts, tmp_path):
        frame = pd.DataFrame({"id": range(200), "body": texts})
        frame.loc[7, "body"] = None
        frame.to_parquet(tmp_path / "t.parquet", row_group_size=90)
        frame.to_csv(tmp_path / "t.csv", index=False)
        whole = model().fit(frame["body"])
        for path in (tmp_path / "t.parquet", tmp_path / "t.csv"):
            rows = jensen.scan(path, columns=["body"])
            found = model().fit(rows)
            assert_same(found, whole)
            assert_allclose(found.transform(rows).collect(), whole.transform(frame["body"]), rtol=1e-7)
            assert_allclose(found.score_samples(rows).collect(), whole.score_samples(frame["body"]), rtol=1e-7)

    def test_a_block_without_known_words(self, texts):
        fitted = model().fit(texts)
        rows = jensen.scan(lambda: iter(["other words", "no more", *texts]), block_rows=2)
        assert_allclose(fitted.transform(rows).collect(), fitted.transform(["other words", "no more", *texts]))

    def test_limits_that_leave_nothing(self, texts):
        with pytest.raises(ValueError, match=r"no word of the scan is left by min_df=201 .*; lower min_df"):
            model(min_df=201, max_df=500).fit(jensen.scan(lambda: iter(texts)))
        with pytest.raises(ValueError, match=r"empty vocabulary.*give other texts"):
            model().fit(jensen.scan(lambda: iter(["", "?"])))
        with pytest.raises(ValueError, match="max_df=2 is fewer documents than min_df=3; lower min_df"):
            model(min_df=3, max_df=2).fit(jensen.scan(lambda: iter(texts)))

    def test_tables_of_other_columns_among_texts(self, texts):
        blocks = [pd.DataFrame({"body": texts[:9]}), pd.DataFrame({"a": [1, 2], "b": [3, 4]})]
        with pytest.raises(ValueError, match=r"rows 9 to 10 .*the scan begins with texts.*columns="):
            model().fit(jensen.scan(lambda: iter(blocks)))


def test_scores_of_a_scan(counts):
    fitted, rows = model().fit(counts), in_blocks(csr_array(counts))
    assert fitted.score(rows) == pytest.approx(fitted.score(counts), rel=1e-12)
    assert fitted.perplexity(rows) == pytest.approx(fitted.perplexity(counts), rel=1e-12)
    assert fitted.document_completion(rows) == fitted.document_completion(counts)


def test_online_steps_through_a_small_buffer(counts, monkeypatch):
    monkeypatch.setattr(scanning, "BUFFER", 80)
    found = model("online", max_iter=5).fit(in_blocks(csr_array(counts), 30))
    whole, none = (model("online", max_iter=n).fit(counts) for n in (5, 0))
    # Other documents share a step, so topics differ, but they are about as good.
    assert found.lower_bound_ - none.lower_bound_ > 0.9 * (whole.lower_bound_ - none.lower_bound_)


def test_more_classes_than_topics(counts):
    frame = pd.DataFrame(counts).rename(columns=str).assign(y=np.arange(200) % 5)
    with pytest.raises(ValueError, match=r"^n_components=3 is less than the 5 classes"):
        model().fit(in_blocks(frame, label="y"))
