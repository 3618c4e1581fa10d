"""Topics beside brute force, closed forms, known corpora and scikit-learn."""

from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.special import gammaln, logsumexp
from scipy.stats import dirichlet
from sklearn.decomposition import LatentDirichletAllocation as OfSklearn
from sklearn.naive_bayes import MultinomialNB

from cases import of_words
from jensen import LatentDirichletAllocation
from jensen.engines.em import loop as em
from jensen.models.topics.em import TopicTheta

# Words 001, 122 and 00 of three, with α = η = ½.
TINY = np.array([[2.0, 1, 0], [0, 1, 2], [2, 0, 0]])
KNOWN = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])


def exact(**arguments):
    options = {"tol": 1e-13, "max_iter": 3000, "mean_change_tol": 1e-12, "max_doc_update_iter": 10_000}
    return LatentDirichletAllocation(**{"random_state": 0} | options | arguments)


def with_topics(topics, prior=0.5):
    """A model whose topics are known: λ so large that its spread is nothing."""
    model = exact(n_components=len(topics), doc_topic_prior=prior).fit(TINY)
    model.theta_ = TopicTheta(
        torch.tensor(topics) * 1e12, torch.full((len(topics),), prior, dtype=torch.float64), 0.5, 3.0, torch.empty(0)
    )
    return model


def documents(n=400, length=60, seed=0, n_words=30, n_topics=3):
    """Documents of known topics, each of them on words of its own and a few common ones."""
    rng = np.random.default_rng(seed)
    topics = np.full((n_topics, n_words), 0.3)
    for k in range(n_topics):
        topics[k, k * 10 : (k + 1) * 10] += 10 * rng.random(10)
    topics /= topics.sum(1, keepdims=True)
    shares = rng.dirichlet(np.full(n_topics, 0.3), n)
    return np.array([rng.multinomial(length, p) for p in shares @ topics]).astype(float), topics, shares


def test_the_tiny_corpus_has_its_digits():
    """Values of the bound at its maximum over λ and γ, and of the evidence by enumeration of all topics."""
    best = max(
        exact(n_components=2, doc_topic_prior=0.5, topic_word_prior=0.5, random_state=seed).fit(TINY).lower_bound_
        for seed in range(5)
    )
    assert 3 * best == pytest.approx(-11.316177, abs=5e-7)
    one = exact(n_components=1, doc_topic_prior=0.5, topic_word_prior=0.5).fit(TINY)
    assert 3 * one.lower_bound_ == pytest.approx(-10.504108, abs=5e-7)


def test_the_evidence_of_the_tiny_corpus_is_above_the_bound():
    """ln p of all words, the topics integrated out: the same enumeration gives one topic's evidence exactly."""

    def log_dirichlet_multinomial(counts, prior):
        prior = np.full(counts.shape, prior)
        return gammaln(prior.sum()) - gammaln((prior + counts).sum()) + (gammaln(prior + counts) - gammaln(prior)).sum()

    words = [[0, 0, 1], [1, 2, 2], [0, 0]]
    values = []
    for z in product(range(2), repeat=8):
        parts, total, pairs = iter(z), 0.0, np.zeros((2, 3))
        for document in words:
            own = [next(parts) for _ in document]
            total += log_dirichlet_multinomial(np.bincount(own, minlength=2), 0.5)
            for k, w in zip(own, document, strict=True):
                pairs[k, w] += 1
        values.append(total + sum(log_dirichlet_multinomial(row, 0.5) for row in pairs))
    assert logsumexp(values) == pytest.approx(-9.405194, abs=5e-7)


def test_documents_of_known_topics_have_their_digits():
    model, prior = with_topics(KNOWN), np.full(2, 0.5)
    evidence = [of_words(KNOWN, prior, words) for words in ([0, 0, 1], [1, 2, 2], [0, 0])]
    assert_allclose(evidence, [-3.150925, -3.095553, -1.872427], atol=5e-7)
    assert_allclose(model.score_samples(TINY), [-3.335951, -3.380786, -1.977869], atol=5e-7)


def test_one_topic_is_the_unigram_as_its_prior_vanishes():
    counts, _, _ = documents()
    model = exact(n_components=1, topic_word_prior=1e-9).fit(counts)
    share = counts.sum(0) / counts.sum()
    assert_allclose(model.components_[0] / model.components_.sum(), share, rtol=1e-7)
    assert_allclose(model.score_samples(counts), counts @ np.log(share), rtol=1e-7)


@pytest.mark.parametrize("method", ["batch", "online", "collapsed"])
def test_known_topics_are_found(method):
    counts, topics, shares = documents()
    options = {"learning_method": method, "topic_word_prior": 0.1, "max_iter": 60}
    model = LatentDirichletAllocation(3, random_state=0, batch_size=50, **options).fit(counts)
    found = model.components_ / model.components_.sum(1, keepdims=True)
    distance = np.abs(topics[:, None] - found).sum(2) / 2
    own, matched = linear_sum_assignment(distance)
    # 8000 words of a topic determine a probability of 0.05 to 0.0025, and 30 of them to 0.04 in all if it were known
    # which words are the topic's; twice that, because it is not.
    assert distance[own, matched].max() < 0.08
    # Shares of 60 words are known to about 1/√60.
    assert np.abs(model.transform(counts)[:, matched] - shares[:, own]).mean() < 0.06


def test_collapsed_inference_raises_a_log_posterior():
    """By scipy: the mode of θ given β̂, under Dir(α+1), and of β under Dir(η+1)."""
    counts, _, _ = documents(n=30, length=15)
    options = {"learning_method": "collapsed", "doc_topic_prior": 0.4, "topic_word_prior": 0.3}
    model = exact(n_components=3, **options).fit(counts)
    beta = model.components_ / model.components_.sum(1, keepdims=True)
    total = sum(dirichlet.logpdf(row, np.full(30, 1.3)) for row in beta)
    for row in counts:
        theta = np.full(3, 1 / 3)
        for _ in range(1000):
            phi = theta[:, None] * beta
            before, theta = theta, 0.4 + (phi / phi.sum(0)) @ row
            theta /= theta.sum()
            if np.abs(theta - before).max() < 1e-14:
                break
        total += row @ np.log(theta @ beta) + dirichlet.logpdf(theta, np.full(3, 1.4))
    assert model.lower_bounds_[-1] == pytest.approx(total / 30, rel=1e-9)
    # The bound at these topics is another number, and a bound of the evidence.
    assert model.lower_bound_ < exact(n_components=3, **options | {"learning_method": "batch"}).fit(counts).lower_bound_


def test_a_fit_never_falls_in_either_precision(monkeypatch):
    counts, _, _ = documents()
    for much in (2**62, 0):
        monkeypatch.setattr("jensen.models.topics.fit.MUCH", much)
        for method in ("batch", "collapsed"):
            options = {"learning_method": method, "tol": 0, "max_iter": 40, "mean_change_tol": 1e-3}
            model = LatentDirichletAllocation(4, random_state=0, **options).fit(counts)
            # In single precision ln s of a word has 1e-7; a fall of more than 1e-6 nats a word raises in the engine.
            assert (np.diff(model.lower_bounds_) >= -1e-6 * 60).all()


def test_single_precision_finds_the_same_topics(monkeypatch):
    counts, _, _ = documents()
    single, double = [], []
    for much, into in ((2**62, double), (0, single)):
        monkeypatch.setattr("jensen.models.topics.fit.MUCH", much)
        for method in ("batch", "collapsed"):
            options = {"learning_method": method, "max_iter": 10, "tol": 0}
            into.append(LatentDirichletAllocation(3, random_state=0, **options).fit(counts))
    for one, other in zip(single, double, strict=True):
        # 30 sweeps amplify the rounding of 1e-7 in γ.
        assert_allclose(one.components_, other.components_, rtol=2e-3, atol=2e-3)
        assert one.lower_bound_ == pytest.approx(other.lower_bound_, rel=1e-5)


def test_a_document_does_not_depend_on_its_neighbours():
    counts, _, _ = documents()
    model = LatentDirichletAllocation(3, random_state=0, max_iter=5).fit(counts)
    together = model.score_samples(counts)
    alone = np.concatenate([model.score_samples(counts[i : i + 1]) for i in range(20)])
    assert_allclose(together[:20], alone, rtol=1e-14)
    assert_allclose(model.transform(counts[:3]), model.transform(counts)[:3], rtol=1e-14)


def test_all_labels_and_a_topic_per_class_are_multinomial_naive_bayes():
    counts, _, shares = documents()
    y = np.array(["b", "a", "c"])[shares.argmax(1)]
    for eta in (0.5, 1.0):
        model = exact(n_components=3, topic_word_prior=eta).fit(counts, y)
        peer = MultinomialNB(alpha=eta).fit(counts, y)
        found = model.components_ / model.components_.sum(1, keepdims=True)
        assert_allclose(np.log(found), peer.feature_log_prob_, rtol=1e-9)
        assert_allclose(model.predict_proba(counts[:50]), peer.predict_proba(counts[:50]), atol=1e-9)
        assert (model.predict(counts) == peer.predict(counts)).all()


def test_some_labels_name_the_topics():
    counts, topics, shares = documents()
    y = np.full(len(counts), -1)
    for k in range(3):
        y[np.argsort(-shares[:, k])[:4]] = 2 - k
    model = LatentDirichletAllocation(3, random_state=0).fit(counts, y)
    found = model.components_ / model.components_.sum(1, keepdims=True)
    assert np.abs(found - topics[::-1]).sum(1).max() / 2 < 0.1
    assert (model.predict(counts) == 2 - shares.argmax(1)).mean() > 0.9
    _, z = model.sample(5, y=1)
    assert (z[:, 1] == 1).all()
    assert_allclose(model.sample(3)[1].sum(1), 1)


@pytest.mark.parametrize("method", ["batch", "online", "collapsed"])
def test_shared_topics_do_not_take_the_words_of_the_classes(method):
    counts, _, shares = documents()
    y = np.where(np.arange(len(counts)) % 3, -1, shares.argmax(1))
    options = {"learning_method": method, "batch_size": 64, "max_iter": 20}
    model = LatentDirichletAllocation(6, random_state=0, **options).fit(counts, y)
    assert (model.predict(counts) == shares.argmax(1)).mean() > 0.85


def test_extra_topics_are_shared_by_all_classes():
    counts, _, shares = documents()
    y = (shares[:, 0] > shares[:, 1]).astype(int)
    model = LatentDirichletAllocation(4, random_state=0, max_iter=5).fit(counts, y)
    _, z = model.sample(50, y=0, random_state=0)
    assert (z[:, 1] == 0).all()
    assert (z[:, 2:].sum(0) > 0).all()


@pytest.mark.parametrize("learn", ["symmetric", "asymmetric"])
def test_learnt_priors_raise_the_bound_as_far_as_they_can(learn):
    counts, _, _ = documents(n=150, length=30)
    options = {"n_components": 3, "tol": 1e-9, "mean_change_tol": 1e-9}
    model = exact(doc_topic_prior=1.0, topic_word_prior=1.0, learn_priors=learn, **options).fit(counts)
    alpha, eta = np.broadcast_to(model.doc_topic_prior_, 3), model.topic_word_prior_
    assert (len(set(alpha)) > 1) == (learn == "asymmetric")
    steps = np.ones(3) if learn == "symmetric" else np.array([1.0, 0, 0])
    for a, e in ((1.3**steps, 1), (0.7**steps, 1), (1, 1.3), (1, 0.7)):
        other = exact(doc_topic_prior=alpha * a, topic_word_prior=eta * e, **options)
        other.fit(counts)
        assert other.lower_bound_ < model.lower_bound_


def test_with_labels_only_the_prior_of_words_is_learnt():
    counts, _, shares = documents(n=100, length=20)
    y = np.where(np.arange(100) % 2, shares.argmax(1), -1)
    model = exact(n_components=4, doc_topic_prior=0.4, learn_priors="asymmetric", max_iter=50).fit(counts, y)
    assert model.doc_topic_prior_ == 0.4
    assert model.topic_word_prior_ != 0.25


@pytest.mark.parametrize("sweep", [3, 30])
def test_ctrl_c_keeps_the_topics_also_of_the_start(sweep, monkeypatch):
    real, calls = em.sweep, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == sweep:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(em, "sweep", interrupted)
    counts, _, _ = documents(n=50)
    what = "in the start; its topics" if sweep == 3 else "after .* EM steps; the best parameters so far"
    with pytest.warns(RuntimeWarning, match=f"interrupted {what} are kept"):
        model = LatentDirichletAllocation(3, random_state=0, tol=0).fit(counts)
    assert model.n_iter_ == max(0, sweep - 23)
    assert model.document_completion(counts).perplexity < 30


def test_scores_of_scikit_learn_have_its_meaning():
    """The same λ gives the same total; γ stops where its mean change is below 1e-3 in both."""
    counts, _, _ = documents(n=60)
    ours = LatentDirichletAllocation(3, random_state=0, mean_change_tol=1e-8, max_doc_update_iter=1000).fit(counts)
    peer = OfSklearn(3, random_state=0, max_iter=1, mean_change_tol=1e-8, max_doc_update_iter=1000).fit(counts)
    peer.components_, peer.exp_dirichlet_component_ = ours.components_.copy(), ours.exp_dirichlet_component_.copy()
    assert ours.score(counts) == pytest.approx(peer.score(counts), rel=1e-6)
    assert ours.perplexity(counts) == pytest.approx(peer.perplexity(counts), rel=1e-6)
    assert ours.perplexity(counts, True) == pytest.approx(peer.perplexity(counts, True), rel=1e-6)
    assert ours.bound_ == pytest.approx(ours.perplexity(counts), rel=1e-4)


def test_online_steps_are_those_of_the_paper():
    """λ ← (1-ρ) λ + ρ (η + (D/B) Σ c φ) from the same λ, by scikit-learn."""
    counts, _, _ = documents(n=40)
    options = {"learning_decay": 0.6, "learning_offset": 5.0, "total_samples": 1000, "batch_size": 10}
    inner = {"mean_change_tol": 1e-9, "max_doc_update_iter": 5000, "random_state": 0}
    ours = LatentDirichletAllocation(3, **options, **inner).partial_fit(counts[:10])
    peer = OfSklearn(3, **options, **inner)
    peer.partial_fit(counts[:10])
    peer.components_, peer.exp_dirichlet_component_ = ours.components_.copy(), ours.exp_dirichlet_component_.copy()
    assert ours.n_batch_iter_ == peer.n_batch_iter_ == 2
    ours.partial_fit(counts[10:])
    peer.partial_fit(counts[10:])
    assert ours.n_batch_iter_ == peer.n_batch_iter_ == 5
    # γ starts elsewhere, and ends where its mean change is below 1e-9.
    assert_allclose(ours.components_, peer.components_, rtol=1e-5)


def test_completion_scores_every_other_word():
    model = with_topics(KNOWN)
    rows = np.array([[2.0, 1, 1], [0, 0, 1]])
    # Tokens 0 0 1 2: the 1st and 3rd are 0 and 1, and 0 and 2 are scored. One word alone leaves nothing to score.
    shares = model.transform(np.array([[1.0, 1, 0]]))[0]
    expected = np.log(shares @ KNOWN[:, [0, 2]]).mean()
    found = model.document_completion(rows)
    assert found.nats_per_word == pytest.approx(expected)
    assert found.perplexity == pytest.approx(np.exp(-expected))
    assert (found.n_words, found.n_documents) == (2, 1)
    # Of fractions every other word is scored, so that none is seen before.
    parts = model.document_completion(np.array([[0.5, 1.5, 2.0]]))
    shares = model.transform(np.array([[0.5, 0.0, 2.0]]))[0]
    assert parts.nats_per_word == pytest.approx(np.log(shares @ KNOWN[:, 1]))
    assert parts.n_words == 1.5
    assert np.isnan(parts.standard_error)
    with pytest.raises(ValueError, match="no document of two words or more"):
        model.document_completion(np.eye(3))


def test_the_error_of_completion_is_that_of_other_documents():
    counts, _, _ = documents(n=3000, length=20)
    model = LatentDirichletAllocation(3, random_state=0, max_iter=10).fit(counts[:300])
    parts = [model.document_completion(part) for part in np.split(counts, 30)]
    spread = np.std([part.nats_per_word for part in parts], ddof=1)
    # A deviation from 30 values has an error of an eighth.
    assert spread == pytest.approx(np.mean([part.standard_error for part in parts]), rel=0.5)


def test_more_topics_look_worse_by_perplexity_and_are_better_by_completion():
    counts, _, _ = documents(n=500, n_topics=3)
    one, three = (LatentDirichletAllocation(k, random_state=0).fit(csr_array(counts[:400])) for k in (1, 3))
    assert three.document_completion(counts[400:]).perplexity < one.document_completion(counts[400:]).perplexity
