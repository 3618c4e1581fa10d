"""The page about topics: words, typical documents, shares and document completion, from texts and from counts."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import coo_array, csr_array, random_array

import jensen
from jensen.models.topics.pictures import sorted_documents
from jensen.report.topics import shortened

TEXTS = [
    "Rain and wind, and again rain <b>&</b> storm " + "in the long cold winter of the north " * 6,
    "wind, sun, rain and a storm",
    "bread, milk and butter, and milk",
    "milk for the bread",
    "sun and wind and storm",
    "butter, bread, butter",
    "",
]


def page_of(tmp_path, model, X, y=None):
    path = tmp_path / "page.html"
    jensen.write_report(model, X, path, y)
    return path.read_text(encoding="utf-8")


def panel(page, title):
    return unescape(re.sub(r"<[^>]*>", " ", re.search(rf"<h3>{title}</h3>(.*?)</article>", page, re.DOTALL)[1]))


@pytest.fixture(scope="module")
def model():
    return jensen.LatentDirichletAllocation(2, stop_words="english", random_state=0).fit(TEXTS)


def test_the_panels_of_texts(model, tmp_path):
    page = page_of(tmp_path, model, TEXTS)
    headings = re.findall("<h3>(.*?)</h3>", page)
    assert headings[:5] == [
        "Topics",
        "Typical documents",
        "Shares of topics",
        "Document completion",
        "Terms of the bound",
    ]
    assert "Least likely rows" in headings
    assert not {"Samples beside real rows", "The latent map"} & {*headings}
    assert "Not available" not in page
    assert "7 documents, a vocabulary of" in page
    words = panel(page, "Topics")
    assert all(f"{one.word} {one.probability:.1%} ×{one.lift:.1f}" in words for one in model.topics_.itertuples())
    found = model.document_completion(TEXTS)
    assert f"{found.perplexity:.4g}" in panel(page, "Document completion")
    assert f"{found.standard_error:.4g}" in panel(page, "Document completion")
    assert f"{float(model.topics_kl_):.4g} nats, belongs to the model" in panel(page, "Terms of the bound")


def test_typical_documents_show_the_beginning_of_a_text(model, tmp_path):
    page = page_of(tmp_path, model, TEXTS, ["a", "b", "b", "b", "a", "b", None])
    shown = panel(page, "Typical documents")
    assert "Rain and wind, and again rain <b>&</b> storm in the long" in shown
    # The text is no part of the page's HTML.
    assert "rain <b>" not in page
    assert "label" in shown
    assert len(shortened(TEXTS[0])) == 121
    assert shortened(None) == ""


def test_the_least_likely_documents_are_so_by_word(model, tmp_path):
    shown = panel(page_of(tmp_path, model, TEXTS), "Least likely rows")
    each = model.score_samples(TEXTS)[:6] / model.count_words(TEXTS).sum(1)[:6]
    rows = [int(row) for row in re.findall(r" (\d) +-\d", shown)]
    assert rows[:6] == np.argsort(each).tolist()


def test_typical_documents_have_the_largest_shares(model):
    found = model.typical_documents(TEXTS, n=2)
    assert list(found) == ["topic", "rank", "document", "share"]
    assert found["rank"].tolist() == [1, 2, 1, 2]
    shares = model.transform(TEXTS)
    for row in found.itertuples():
        assert_allclose(row.share, shares[row.document, row.topic])
        # All other documents with words have less.
        assert (shares[:6, row.topic] > row.share).sum() == row.rank - 1
    assert 6 not in model.typical_documents(TEXTS, n=10)["document"].tolist()
    assert len(model.typical_documents(TEXTS, n=10)) == 12
    with pytest.raises(ValueError, match="n=0"):
        model.typical_documents(TEXTS, n=0)


@pytest.mark.parametrize("kind", [csr_array, coo_array, np.asarray, lambda x: pd.DataFrame(x.toarray())])
def test_counts_show_their_most_frequent_words(kind, tmp_path):
    counts = csr_array(np.random.default_rng(0).poisson(0.5, (20, 6)).astype(float))
    X = kind(counts.toarray() if kind is np.asarray else counts)
    if hasattr(X, "columns"):
        X.columns = list("abcdef")
    model = jensen.LatentDirichletAllocation(2, random_state=0).fit(X)
    page = page_of(tmp_path, model, X)
    assert "Not available" not in page
    first = int(model.typical_documents(X, 1)["document"].iloc[0])
    row = counts.toarray()[first]
    name = "abcdef"[row.argmax()] if hasattr(X, "columns") else f"x{row.argmax()}"
    assert f"{name} {row.max():.0f}" in panel(page, "Typical documents")


def test_sparse_counts_are_never_dense(tmp_path, monkeypatch):
    """A dense table of these documents would have 16 gigabytes."""
    X = csr_array(random_array((2000, 1_000_000), density=1e-5, rng=0, data_sampler=lambda size: np.ones(size)))
    model = jensen.LatentDirichletAllocation(2, max_iter=1, learning_method="collapsed", random_state=0).fit(X)

    def refuse(*_, **__):
        raise AssertionError("a sparse matrix became dense")

    monkeypatch.setattr(csr_array, "toarray", refuse)
    monkeypatch.setattr(csr_array, "todense", refuse)
    # It takes the columns of ten words out.
    monkeypatch.setattr(model, "coherence", lambda X, n: np.zeros(2))
    page = page_of(tmp_path, model, X)
    assert "1000 of 2000 documents, drawn at random" in page
    assert "Not available" not in page
    numbers = {int(n) for n in re.findall(r'<td data-value="[\d.]+">(\d+)</td><td>x', page)}
    assert max(numbers) > 1000, "documents have the numbers of all rows"


def test_documents_are_sorted_by_their_largest_topic():
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.0, 1.0]])
    assert sorted_documents(shares).tolist() == [3, 1, 2, 0]


def test_pictures(model):
    import matplotlib

    matplotlib.use("agg")
    figure = model.plot_topics(n_words=4)
    bars = [ax for ax in figure.axes if ax.get_title().startswith("topic ")]
    assert len(bars) == 2
    shares = model.topics_.drop_duplicates("topic")["share"]
    assert bars[0].get_title().endswith(f"{shares.max():.1%}")
    widths = [patch.get_width() for patch in bars[0].patches]
    top = model.top_words(4)
    assert_allclose(widths, top[top["topic"] == shares.to_numpy().argmax()]["probability"])
    ax = model.plot_shares(TEXTS)
    assert ax.get_images()[0].get_array().shape == (2, 7)
    assert_allclose(ax.get_images()[0].get_array().sum(0), 1)
    assert model.plot_shares(TEXTS, ax=ax) is ax
    matplotlib.pyplot.close("all")
