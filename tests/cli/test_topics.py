"""The command line on documents: texts in a column, a folder and lines, and counts that are sparse or in columns."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array, issparse, load_npz, save_npz

import jensen
from shell import fail, run, succeed

WORDS = {
    "weather": ["rain", "wind", "sun", "cloud", "storm", "snow"],
    "food": ["bread", "milk", "butter", "cheese", "apple", "soup"],
}
TWO = ("--n-components", 2, "--quiet")


@pytest.fixture(scope="module")
def documents() -> pd.DataFrame:
    """Documents about weather and food in turn; a third has no label."""
    rng = np.random.default_rng(0)
    kinds = [["weather", "food"][i % 2] for i in range(30)]
    texts = ["the " + " ".join(rng.choice(WORDS[kind], 8)) for kind in kinds]
    known = [kind if i % 3 else None for i, kind in enumerate(kinds)]
    return pd.DataFrame({"id": range(30), "kind": known, "body": texts, "times": [1 + i % 2 for i in range(30)]})


@pytest.fixture(scope="module")
def counts() -> csr_array:
    return csr_array(np.random.default_rng(1).poisson(0.5, (30, 12)).astype(float))


@pytest.fixture(scope="module")
def folder(documents, counts, tmp_path_factory):
    path = tmp_path_factory.mktemp("documents")
    documents.to_csv(path / "texts.csv", index=False)
    (path / "lines.txt").write_text("\n".join(documents["body"]) + "\n", encoding="utf-8")
    for i, (kind, text) in enumerate(zip(["a", "b"] * 15, documents["body"], strict=True)):
        (path / "files" / kind).mkdir(parents=True, exist_ok=True)
        (path / "files" / kind / f"{i:02}.txt").write_text(text, encoding="utf-8")
    save_npz(path / "counts.npz", counts)
    names = [f"w{j}" for j in range(12)]
    pd.DataFrame(counts.toarray().astype(int), columns=names).assign(g=["u", "v"] * 15).to_csv(path / "counts.csv")
    fit = ("fit", "topics", path / "texts.csv", "--text", "body", "--stop-words", "english", *TWO)
    result = run(*fit, "-o", path / "texts.jensen")
    assert result.exit_code == 0, result.output
    assert "30 documents in the column 'body'; id, kind, times are left out" in result.stderr
    return path


def test_a_fit_prints_words_topics_and_completion(folder, tmp_path):
    fit = ("fit", "topics", folder / "texts.csv", "--text", "body", "--n-components", 2, "--stop-words", "english")
    shown = succeed(*fit, "-o", tmp_path / "m.jensen")
    for name, value in (("words", "240"), ("vocabulary", "12"), ("completion perplexity", r"6\.\d+")):
        assert pd.Series([shown]).str.contains(rf"{name} +│ {value} ").all(), name
    lines = [line for line in shown.splitlines() if line.startswith("topic ")]
    assert len(lines) == 2
    assert all(len(line) <= 80 for line in lines)
    # The six most probable words of a topic are of one kind.
    assert {frozenset(line.partition(" %  ")[2].split()[:6]) for line in lines} == {*map(frozenset, WORDS.values())}


def test_the_model_is_that_of_the_texts(folder, documents):
    model = jensen.load(folder / "texts.jensen")
    own = jensen.LatentDirichletAllocation(2, stop_words="english", random_state=0).fit(documents["body"])
    assert_allclose(model.components_, own.components_)


def test_json_has_topics_and_completion(folder, tmp_path):
    found = json.loads(
        succeed("fit", "topics", folder / "texts.csv", "--n-components", 3, "-o", tmp_path / "m.jensen", "--json")
    )
    model, texts = jensen.load(tmp_path / "m.jensen"), pd.read_csv(folder / "texts.csv")["body"]
    assert_allclose(found["completion_perplexity"], model.document_completion(texts).perplexity)
    assert_allclose(found["nats_per_row"], model.score_samples(texts).mean())
    assert found["words"] == 270
    assert_allclose(found["nats_per_word"], found["nats_per_row"] * 30 / 270)
    assert [len(topic["words"]) for topic in found["topics"]] == [12, 12, 12]
    shares = [topic["share"] for topic in found["topics"]]
    assert_allclose(sum(shares), 1)
    assert shares == sorted(shares, reverse=True)


def test_one_column_of_free_text_is_found_and_named(folder, tmp_path):
    result = run(
        "fit", "topics", folder / "texts.csv", "--label", "kind", "--weight", "times", *TWO, "-o", tmp_path / "m"
    )
    assert result.exit_code == 0, result.output
    assert "texts.csv: 30 documents in the column 'body' (--text names another); id is left out" in result.stderr
    table = pd.read_csv(folder / "texts.csv")
    own = jensen.LatentDirichletAllocation(2, random_state=0)
    own.fit(table["body"], table["kind"].astype(object).where(table["kind"].notna(), None), table["times"])
    model = jensen.load(tmp_path / "m")
    assert_allclose(model.components_, own.components_)
    predicted = pd.read_csv(io.StringIO(succeed("predict", tmp_path / "m", folder / "texts.csv", "--keep", "id")))
    assert predicted["id"].tolist() == [*range(30)]
    assert predicted["prediction"].tolist() == ["weather", "food"] * 15


def test_documents_of_weight_0_are_not_scored(folder, documents, tmp_path):
    (tmp_path / "w.txt").write_text("\n".join(str(i % 2) for i in range(30)))
    fit = ("fit", "topics", folder / "lines.txt", "--weight", tmp_path / "w.txt", "--n-components", 2, "--json")
    found = json.loads(succeed(*fit, "-o", tmp_path / "m"))
    assert found["words"] == 135
    model = jensen.load(tmp_path / "m")
    assert_allclose(found["nats_per_row"], model.score_samples(documents["body"][1::2]).mean())


def test_lines_and_folders_are_the_same_documents(folder, documents, tmp_path):
    for data, output in ((folder / "lines.txt", "l"), (folder / "files", "f")):
        result = run("fit", "topics", data, "--stop-words", "english", *TWO, "-o", tmp_path / output)
        assert result.exit_code == 0, result.output
        assert "30 documents, one per" in result.stderr
    texts = jensen.load(folder / "texts.jensen")
    assert_allclose(jensen.load(tmp_path / "l").components_, texts.components_)
    # Files are sorted by their names, those of a subfolder together.
    shares = pd.read_csv(io.StringIO(succeed("transform", folder / "texts.jensen", folder / "files")))
    assert shares["file"].tolist()[:2] == ["a/00.txt", "a/02.txt"]
    order = [*range(0, 30, 2), *range(1, 30, 2)]
    assert_allclose(shares.iloc[:, 1:], texts.transform(documents["body"].iloc[order]))


def test_subfolders_are_labels(folder, tmp_path):
    succeed("fit", "topics", folder / "files", "--label", "folder", *TWO, "-o", tmp_path / "m")
    predicted = pd.read_csv(io.StringIO(succeed("predict", tmp_path / "m", folder / "files", "--proba")))
    assert (predicted["file"].str[0] == predicted["prediction"]).all()
    assert {"probability_a", "probability_b"} < {*predicted}


def test_sparse_counts(folder, counts, tmp_path):
    found = json.loads(
        succeed("fit", "topics", folder / "counts.npz", "--n-components", 3, "-o", tmp_path / "m", "--json")
    )
    own = jensen.LatentDirichletAllocation(3, random_state=0).fit(counts)
    assert_allclose(jensen.load(tmp_path / "m").components_, own.components_)
    assert found["words"] == counts.sum()
    assert all(word[0] == "x" for topic in found["topics"] for word in topic["words"])
    scores = json.loads(succeed("score", tmp_path / "m", folder / "counts.npz", "--json"))
    assert_allclose(scores["nats_per_row"], own.score_samples(counts).mean())


def test_other_models_take_sparse_counts(folder, counts, tmp_path):
    fit = ("fit", "mixture", folder / "counts.npz", "--families", "multinomial", "--n-components", 2)
    found = json.loads(succeed(*fit, "-o", tmp_path / "m", "--json"))
    own = jensen.Mixture(2, families="multinomial", random_state=0).fit(counts)
    assert_allclose(found["nats_per_row"], own.score_samples(counts).mean())
    assert_allclose(found["bits_per_dimension"], -found["nats_per_row"] / 12 / np.log(2))
    assert len(succeed("predict", tmp_path / "m", folder / "counts.npz").splitlines()) == 31
    refused = run("fit", "gaussian-mixture", folder / "counts.npz", "-o", tmp_path / "x")
    assert refused.exit_code == 2
    assert "counts.npz holds sparse counts, and GaussianMixture takes dense rows; save a dense array" in refused.stderr


def test_a_table_of_numbers_is_counts(folder, tmp_path):
    data = ("--drop", "Unnamed: 0", "--label", "g")
    succeed("fit", "topics", folder / "counts.csv", *data, "--n-components", 3, "--quiet", "-o", tmp_path / "m")
    model = jensen.load(tmp_path / "m")
    assert list(model.words_) == [f"w{j}" for j in range(12)]
    assert list(model.classes_) == ["u", "v"]
    scores = json.loads(succeed("score", tmp_path / "m", folder / "counts.csv", "--json"))
    assert scores["rows"] == 30
    drawn = pd.read_csv(io.StringIO(succeed("sample", tmp_path / "m", "-n", 3)))
    assert list(drawn) == list(model.words_)


def test_samples_are_counts_that_the_model_reads_again(folder, tmp_path):
    model = folder / "texts.jensen"
    succeed("sample", model, "-n", 5, "--seed", 1, "-o", tmp_path / "new.npz")
    succeed("sample", model, "-n", 5, "--seed", 1, "-o", tmp_path / "new.csv")
    drawn = load_npz(tmp_path / "new.npz")
    assert issparse(drawn)
    table = pd.read_csv(tmp_path / "new.csv")
    assert list(table) == sorted(WORDS["weather"] + WORDS["food"])
    assert_allclose(drawn.toarray(), table)
    sparse, dense = (json.loads(succeed("score", model, tmp_path / f"new.{end}", "--json")) for end in ("npz", "csv"))
    assert sparse == dense
    assert json.loads(succeed("sample", model, "-n", 2, "-o", tmp_path / "x.npz", "--json"))["rows"] == 2


def test_scores_by_document(folder, documents, tmp_path):
    succeed(
        "score", folder / "texts.jensen", folder / "texts.csv", "--keep", "id,kind", "-o", tmp_path / "s.csv", "--json"
    )
    table = pd.read_csv(tmp_path / "s.csv")
    assert list(table) == ["id", "kind", "log_likelihood"]
    assert_allclose(table["log_likelihood"], jensen.load(folder / "texts.jensen").score_samples(documents["body"]))


def test_a_report_of_texts(folder, tmp_path):
    page = tmp_path / "page.html"
    succeed("report", folder / "texts.jensen", folder / "texts.csv", "--text", "body", "-o", page, "--quiet")
    content = page.read_text(encoding="utf-8")
    assert "Typical documents" in content
    assert "Not available" not in content


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_texts_of_any_encoding(encoding, tmp_path):
    (tmp_path / "a.txt").write_bytes("Käse und Brot\nKäse und Wein\n".encode(encoding))
    succeed("fit", "topics", tmp_path / "a.txt", *TWO, "-o", tmp_path / "m")
    assert sorted(jensen.load(tmp_path / "m").vocabulary_) == ["brot", "käse", "und", "wein"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("texts.csv", ("--text", "bdy"), "there is no column 'bdy'; there are id, kind, body, times"),
        ("texts.csv", ("--text", "times"), "the column 'times' holds no words; .* there is text in kind, body"),
        ("texts.csv", ("--drop", "body"), "no column looks like documents, but kind is not a number; .*--text kind"),
        ("counts.npz", ("--text", "body"), "there is no column 'body': .*counts.npz holds documents and no table"),
        ("counts.npz", ("--label", "kind"), "--label kind: there is no such file; give a file with one value for each"),
        ("files", ("--label", "kind"), "--label kind: there is no such file; .* document, or folder"),
        ("none.npz", (), "there is no file .*none.npz"),
        ("broken.npz", (), "broken.npz cannot be read as a sparse matrix: .*; write it with scipy.sparse.save_npz"),
        ("dense.npz", (), "dense.npz cannot be read as a sparse matrix: .*; write it with scipy.sparse.save_npz"),
        ("wrong.npz", (), "wrong.npz cannot be read as a sparse matrix"),
        ("empty", (), "empty holds no texts; give a folder of .txt files"),
        ("binary", (), "a.txt is no text: it holds bytes of 0; save it as text in UTF-8"),
        ("blank.txt", (), "blank.txt is empty: it has no line with a word"),
    ],
)
def test_mistakes_are_one_line(folder, data, options, message, tmp_path):
    (folder / "broken.npz").write_bytes(b"nonsense")
    (folder / "blank.txt").write_text("\n\n")
    np.savez(folder / "dense.npz", x=np.eye(2))
    wrong = csr_array(np.eye(3))
    wrong.indices[1] = 1000
    save_npz(folder / "wrong.npz", wrong)
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "binary").mkdir(exist_ok=True)
    (folder / "binary" / "a.txt").write_bytes(b"\0\1\2")
    result = run("fit", "topics", folder / data, *options, *TWO, "-o", tmp_path / "m")
    assert result.exit_code == 2, result.output
    error = result.stderr.splitlines()[-1]
    assert pd.Series([error]).str.contains(f"^error: .*{message}").all(), error


def test_text_is_for_models_of_texts(folder, tmp_path):
    message = fail("fit", "gaussian-mixture", folder / "texts.csv", "--text", "body", "-o", tmp_path / "m")
    assert "--text body is for models of texts (jensen fit topics), which GaussianMixture is not" in message


def test_counts_of_other_words(folder):
    (folder / "other.csv").write_text("rain,wind\n1,2\n")
    message = fail("score", folder / "texts.jensen", folder / "other.csv")
    assert (
        "neither a column of texts nor a count of every word that the model knows: there is no column apple" in message
    )
    (folder / "some.txt").write_text("zzz qqq\n")
    assert "no word of X is in the vocabulary" in run("score", folder / "texts.jensen", folder / "some.txt").stderr


def test_a_model_of_numbers_writes_no_sparse_counts(folder, tmp_path):
    succeed("fit", "gaussian-mixture", "iris", "--quiet", "-o", tmp_path / "m")
    assert "holds sparse counts, which GaussianMixture does not draw" in fail("sample", tmp_path / "m", "-o", "x.npz")


def test_select_chooses_the_number_of_topics_by_completion(folder, tmp_path):
    words = ("select", "topics", folder / "texts.csv", "--text", "body", "--grid", "n-components=1,2")
    found = json.loads(succeed(*words, "-o", tmp_path / "best.jensen", "--json"))
    assert found["criterion"] == "completion"
    assert {"nats_per_word", "perplexity"} <= {*found["table"][0]}
    assert jensen.load(tmp_path / "best.jensen").n_components == found["best"]["n_components"]
    counts = json.loads(succeed("select", "topics", folder / "counts.npz", "--grid", "n-components=1,2", "--json"))
    assert counts["rows"] == 30


def test_compare_ranks_models_of_words(folder):
    found = json.loads(succeed("compare", folder / "counts.npz", "--effort", "quick", "--json"))
    assert {"topics", "unigram"} <= {row["model"] for row in found["table"]}
    assert "completion" in found["caption"]
