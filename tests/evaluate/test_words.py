"""Tables of words: select and compare by document completion, on sparse counts."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit

from jensen import GaussianMixture, LatentDirichletAllocation, Mixture, NaiveBayes, PoissonMixture, compare, select
from jensen.engines.em import seeding
from jensen.evaluate.candidates import entrants
from jensen.evaluate.kinds import find_ground
from jensen.evaluate.sizing import EFFORTS, sized_split
from jensen.formulas.completion import per_word
from shell import succeed


def corpus(n=150, seed=0):
    """Documents (n, 24) of three topics of eight words each, with mixed shares."""
    rng = np.random.default_rng(seed)
    topics = np.kron(np.eye(3), np.full(8, 1 / 8)) * 0.94 + 0.0025
    shares = rng.dirichlet(np.full(3, 0.3), n)
    return np.stack([rng.multinomial(rng.integers(10, 40), p / p.sum()) for p in shares @ topics]).astype(float)


DENSE = corpus()
CSR = sparse.csr_array(DENSE)
WEIGHT = np.random.default_rng(1).integers(0, 3, len(DENSE)).astype(float)


def topics(k=3, **options):
    return LatentDirichletAllocation(k, random_state=0, **options)


def words(k=3, **options):
    return Mixture(k, **({"families": "multinomial", "alpha": 0.1, "random_state": 0} | options))


class TestSelect:
    def test_topics_are_chosen_by_completion_of_held_out_documents(self):
        found = select(topics(), CSR, {"n_components": [1, 3, 8]}, random_state=4)
        table = found.table
        assert (found.criterion, found.direction, found.best_params) == ("completion", "larger", {"n_components": 3})
        assert_allclose(table["perplexity"], np.exp(-table["nats_per_word"]))

    def test_it_is_the_mean_over_the_documents_of_the_split(self):
        found = select(topics(), CSR, {"n_components": [1, 3]}, sample_weight=WEIGHT, random_state=4).table
        counted = np.flatnonzero(WEIGHT)
        n = round(0.2 * len(counted))
        ((trained, scored),) = ShuffleSplit(1, test_size=n, random_state=4).split(counted)
        trained, scored = counted[np.sort(trained)], counted[np.sort(scored)]
        by_hand = [
            topics(k).set_params(random_state=0).fit(CSR[trained], sample_weight=WEIGHT[trained]) for k in (1, 3)
        ]
        nats = np.stack([model.completion_samples(CSR[scored]) for model in by_hand])
        means = np.average(nats, axis=1, weights=WEIGHT[scored])
        assert_allclose(found["completion"], means, rtol=1e-9)
        n_words = WEIGHT[scored] @ (DENSE[scored].sum(1) // 2)
        assert_allclose(found["nats_per_word"], nats @ WEIGHT[scored] / n_words, rtol=1e-9)
        assert found["behind"][0] == pytest.approx(means[0] - means[1])
        assert 0 < found["behind_error"][0] < found["standard_error"][0]

    def test_a_mixture_of_words_has_both_bic_and_completion(self):
        grid = {"n_components": [1, 3]}
        assert select(words(), CSR, grid).criterion == "bic"
        assert select(words(), CSR, grid, "completion").best_params == {"n_components": 3}

    def test_texts_are_counted_by_every_fit(self):
        some = ["sun", "rain", "wind"], ["milk", "bread", "tea"]
        rng = np.random.default_rng(0)
        texts = [" ".join(rng.choice(some[i % 2], 8)) for i in range(60)]
        found = select(topics(), texts, {"n_components": [1, 2]})
        assert found.best_params == {"n_components": 2}
        assert [*found.winner.vocabulary_] == ["bread", "milk", "rain", "sun", "tea", "wind"]
        with pytest.raises(ValueError, match="the grid varies min_df, which changes the vocabulary; leave it out"):
            select(topics(), texts, {"min_df": [1, 5]})

    def test_words_of_probability_zero_are_a_failure(self):
        X = np.eye(40)[:, :30] * 2
        found = select(words(1), X, {"alpha": [0.0, 1.0]}, "completion").table
        assert "documents hold words of probability 0; give it alpha=1" in found["failure"][0]
        assert found["failure"][1] == ""

    def test_other_models_have_no_completion(self):
        with pytest.raises(ValueError, match="only words can be completed; give families='multinomial'"):
            select(Mixture(), DENSE, {"n_components": [1, 2]}, "completion")


class TestCompare:
    def test_scores_and_completion_by_hand(self):
        models = {"unigram": words(1), "mixture": words(), "topics": topics()}
        board = compare(CSR, models, cv=KFold(2, shuffle=True, random_state=0), sample_weight=WEIGHT)
        assert board.failures == {}
        assert board.table["model"].tolist() == ["topics", "mixture", "unigram"]
        assert dict(zip(board.table["model"], board.table["value"], strict=True)) == {
            "topics": "bound",
            "mixture": "exact",
            "unigram": "exact",
        }
        nats, completed = {name: np.zeros(len(DENSE)) for name in models}, {}
        for name, model in models.items():
            completed[name] = np.zeros(len(DENSE))
            for trained, held in KFold(2, shuffle=True, random_state=0).split(DENSE):
                fitted = model.fit(CSR[trained], sample_weight=WEIGHT[trained])
                nats[name][held] = fitted.score_samples(CSR[held])
                completed[name][held] = fitted.completion_samples(CSR[held])
        halves = DENSE.sum(1) // 2
        table = board.table.set_index("model")
        for name in models:
            row = table.loc[name]
            assert row["nats"] == pytest.approx(np.average(nats[name], weights=WEIGHT))
            assert row["nats_per_word"] == pytest.approx(nats[name] @ WEIGHT / (DENSE.sum(1) @ WEIGHT))
            expected = per_word(completed[name], halves, WEIGHT)
            assert (row["completion"], row["completion_error"]) == pytest.approx(expected)
            assert row["perplexity"] == pytest.approx(math.exp(-row["completion"]))
            behind, error = per_word(completed[name] - completed["topics"], halves, WEIGHT)
            assert row["behind"] == pytest.approx(behind)
            assert row["behind_high"] - row["behind"] == pytest.approx(1.96 * error)
        assert "bits_per_dimension" not in board.table
        assert_allclose(board.scores.sort_index()["unigram"], nats["unigram"])

    def test_a_low_bound_does_not_decide_the_rank(self):
        """With 12 topics for 3 the bound pays for shares that it cannot tell apart; the words are predicted well."""
        board = compare(CSR, {"mixture": words(3), "topics": topics(12)}, effort="quick")
        table = board.table.set_index("model")
        assert table["nats"]["topics"] < table["nats"]["mixture"]
        assert board.best == "topics"
        assert table["behind"]["mixture"] < 0
        assert "ranked by document completion" in board.caption
        assert "a bound that is low does not show that a model is bad" in board.caption

    def test_auto_enters_models_of_words(self, tmp_path):
        board = compare(CSR, effort="quick", random_state=0)
        assert board.failures == {}
        assert {*board.models} == {"unigram", "multinomial mixture", "topics"}
        assert board.table["model"].iloc[-1] == "unigram"
        assert "a sparse table holds counts of words: probabilities" in board.caption
        assert "dequantised" not in board.caption
        heads = [*board.shown().columns]
        assert heads[:4] == ["model", "completion", "± s.e.", "perplexity"]
        assert "bits/dim" not in heads
        board.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "completion, nats per word" in page
        assert "Terms of the bound" in page
        assert "Samples beside real rows" not in page
        assert "Not available" not in page
        assert board.plot().get_xlabel().startswith("nats per completed word")
        assert {rows.shape for rows in board.sample(5).values()} == {(5, 24)}
        assert all(sparse.issparse(rows) for rows in board.sample(2).values())

    @pytest.mark.parametrize("width", [80, 200])
    def test_a_terminal_has_room_for_what_counts(self, width):
        from rich.console import Console

        board = compare(CSR, {"multinomial mixture": words(), "topics": topics()}, effort="quick")
        console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
        console.print(board.rich(width))
        shown = console.export_text()
        assert "…" not in shown
        for word in ("completion", "perplexity", "bound", "exact"):
            assert word in shown

    def test_names_of_the_command_line(self):
        board = compare(CSR, ["topics", "mixture"], effort="quick")
        assert {*board.models} == {"topics", "mixture"}
        assert board.models["mixture"].families == "multinomial"
        assert board.models["topics"].n_components in EFFORTS["quick"].n_topics

    @pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame])
    def test_a_dense_table_is_of_words_if_all_models_are(self, convert):
        dense = compare(convert(DENSE), [topics(), words()], effort="quick")
        rows = compare(CSR, [topics(), words()], effort="quick")
        for name in ("nats", "nats_per_word", "completion", "behind"):
            assert_allclose(dense.table[name], rows.table[name], rtol=1e-9)
        assert "all models are of words" in dense.caption

    def test_a_dense_table_by_names(self):
        assert find_ground(DENSE, "auto", ["topics", "mixture"]).footing.unit == "words"
        assert find_ground(DENSE, "auto", "topics").footing.unit == "words"
        assert find_ground(DENSE, "auto", ["mixture"]).footing.unit == "probability"
        assert find_ground(DENSE, "auto", "auto").footing.unit == "probability"

    def test_beside_models_of_counts_words_have_another_unit(self):
        board = compare(DENSE, [PoissonMixture(2), topics()], effort="quick")
        assert "the words of a row in one order, which has another unit" in board.failures["LatentDirichletAllocation"]
        board = compare(CSR, [GaussianMixture(2), topics()], effort="quick")
        assert "no model of words: it has no document completion" in board.failures["GaussianMixture"]

    def test_labels_are_for_models_that_use_them(self):
        y = DENSE.reshape(-1, 3, 8).sum(2).argmax(1)
        y[::2] = -1
        board = compare(CSR, "auto", y, effort="quick")
        assert board.failures == {}
        assert "multinomial per class" in board.models
        assert all(len(model.classes_) == 3 for model in board.models.values())
        named = compare(CSR, [NaiveBayes(families="multinomial")], DENSE[:, 0] > 0, effort="quick")
        assert named.failures == {}

    def test_empty_and_fractional_documents(self):
        X = np.vstack([DENSE, np.zeros((20, 24))])
        board = compare(sparse.csr_array(X), {"a": topics(1), "b": words(1)}, effort="quick")
        assert board.failures == {}
        board = compare(sparse.csr_array(X / 2), {"a": topics(1), "b": words(1)}, effort="quick")
        assert "holds 0.5 in row" in board.failures["b"]

    def test_the_matrix_that_was_given_stays_as_it_is(self):
        twice = sparse.coo_array((np.ones(4), ([0, 0, 1, 2], [1, 1, 0, 2])), (3, 3)).tocsr()
        raw = sparse.csr_array((np.ones(4), np.array([1, 1, 0, 2]), np.array([0, 2, 3, 4])), (3, 3))
        ground = find_ground(raw, "auto", "auto")
        assert (twice != ground.X).nnz == 0
        assert raw.nnz == 4

    def test_sizes_follow_from_the_words_that_occur(self):
        columns = np.concatenate([np.random.default_rng(i).permutation(50_000)[:50] for i in range(400)] * 10)
        X = sparse.csr_array((np.ones(len(columns)), columns, np.arange(0, len(columns) + 1, 50)), (4000, 50_000))
        footing = find_ground(X, "auto", "auto").footing
        assert footing.held == pytest.approx(50)
        assert sized_split(4000, footing, 0.2, EFFORTS["quick"]) == (3200, 800)
        found = entrants(footing, 3200, 0, EFFORTS["quick"], 0)
        assert found["topics"].grid == {"n_components": [2, 5, 20]}
        few = entrants(footing, 3_200_000, 0, EFFORTS["quick"], 0)
        assert few["topics"].grid == {"n_components": [2]}


class TestErrors:
    @pytest.mark.parametrize("value", [-1.0, np.nan])
    def test_what_counts_nothing(self, value):
        wrong = DENSE.copy()
        wrong[3, 5] = value
        with pytest.raises(ValueError, match=r"X is sparse and holds (-1|nan) in row 3, column 5, but sparse rows are"):
            compare(sparse.csr_array(wrong))

    def test_texts(self):
        with pytest.raises(ValueError, match=r"X holds texts, .* CountVectorizer\(\)\.fit_transform\(X\)"):
            compare(["sun rain", "milk bread"] * 10, ["topics"])
        with pytest.raises(ValueError, match="X holds texts"):
            compare(pd.Series(["sun rain", "milk bread"] * 10), ["topics"])

    def test_densities(self):
        with pytest.raises(ValueError, match="discrete=False asks for densities, and words have probabilities"):
            compare(CSR, discrete=False)

    def test_no_rows(self):
        with pytest.raises(ValueError, match="which is too few"):
            compare(CSR[:1])

    def test_a_blend(self):
        with pytest.raises(ValueError, match="blend=True needs models that are ranked by their score"):
            compare(CSR, blend=True)
        board = compare(CSR, {"a": topics(1), "b": words(1)}, effort="quick")
        with pytest.raises(ValueError, match=r"a blend has none; use board\.models"):
            board.blend()


def test_the_command_line_knows_the_criterion(tmp_path):
    pd.DataFrame(DENSE).add_prefix("w").to_csv(tmp_path / "x.csv", index=False)
    for criterion in ("auto", "completion"):
        grid = ("--grid", "n-components=1,3,8", "--criterion", criterion)
        found = json.loads(succeed("select", "topics", tmp_path / "x.csv", *grid, "--held-out", 0.3, "--json"))
        assert (found["criterion"], found["best"]) == ("completion", {"n_components": 3})
        assert found["table"][0]["perplexity"] > found["table"][1]["perplexity"]


def test_no_table_of_documents_by_words_is_written_out(monkeypatch, tmp_path):
    """Documents are 3600 numbers; starts of mixtures write out tables of few columns, so there is one component."""

    def refuse_if_large(toarray):
        def checked(self, *arguments, **options):
            assert np.prod(self.shape) <= 1000, "a sparse table was written out"
            return toarray(self, *arguments, **options)

        return checked

    monkeypatch.setattr(seeding, "FEW_NUMBERS", 1000)
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse_if_large(kind.toarray))
    assert select(topics(), CSR, {"n_components": [1, 3, 8]}).best_params == {"n_components": 3}
    board = compare(CSR, {"topics": topics(), "unigram": words(1)}, effort="quick")
    assert board.failures == {}
    board.report(tmp_path / "page.html")
