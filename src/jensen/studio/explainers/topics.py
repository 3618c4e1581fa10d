"""Topics of small documents whose words are the cells of a square, so that a topic is a picture."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jensen.models.topics.latent_dirichlet_allocation import LatentDirichletAllocation
from jensen.studio.explainer import Explainer, Slider

SIDE, DOCUMENTS, WORDS = 5, 260, 60
TRAIN = 200


@lru_cache(maxsize=1)
def documents() -> tuple[np.ndarray, np.ndarray]:
    """Counts (n, 25), and the ten bars (10, 25) that they are mixed from."""
    rng = np.random.default_rng(3)
    bars = np.zeros((2 * SIDE, SIDE, SIDE))
    for i in range(SIDE):
        bars[i, i, :], bars[SIDE + i, :, i] = 1 / SIDE, 1 / SIDE
    flat = bars.reshape(2 * SIDE, -1)
    shares = rng.dirichlet(np.full(2 * SIDE, 0.15), DOCUMENTS)
    mixed = shares @ flat
    return np.array([rng.multinomial(WORDS, row / row.sum()) for row in mixed]), flat


@lru_cache(maxsize=16)
def fitted(k: int, prior: float) -> LatentDirichletAllocation:
    """The model of the training documents."""
    model = LatentDirichletAllocation(k, doc_topic_prior=prior, topic_word_prior=0.1, random_state=0, max_iter=60)
    return model.fit(documents()[0][:TRAIN])


def values(k: int, prior: float, document: int) -> dict[str, Any]:
    """All topics, and one document that was not trained on."""
    X, bars = documents()
    model = fitted(k, prior)
    topics = model.components_ / model.components_.sum(1, keepdims=True)
    order = np.argsort(-model.transform(X[:TRAIN]).mean(0))
    one = X[TRAIN + document - 1 : TRAIN + document]
    shares, bound = model.transform(one)[0], model.bound(one)
    # The bars are known here, so topics can be matched with them.
    distance = 0.5 * np.abs(topics[:, None] - bars).sum(-1)
    return {
        "topics": topics[order],
        "document": one[0],
        "shares": shares[order],
        "expected": WORDS * shares @ topics,
        "reconstruction": float(bound.reconstruction[0]),
        "kl": {name: float(term[0]) for name, term in bound.kl.items()},
        "bound": float(bound.total[0]),
        "completion": model.document_completion(X[TRAIN:]).perplexity,
        "found": int((distance.min(0) < 0.25).sum()),
        "largest": float(topics.max()),
    }


EXPLAINER = Explainer(
    name="topics",
    title="Topics",
    group="Topics",
    lead="The 25 words of this language are the cells of a square. Each document mixes a few of ten hidden topics, the "
    "rows and columns of the square. From 200 documents alone, the model finds topics (distributions over words) and "
    "the shares of the topics in each document.",
    formula="θ ~ Dir(α),   βₖ ~ Dir(η)\n"
    "each word:  topic z ~ θ,  word w ~ β_z\n"
    "q:  φ_wk ∝ exp(E ln θₖ + E ln βₖw)\n"
    "    γ = α + Σ_w c_w φ_w\n"
    "bound = Σ_w c_w E[ln β] − KL(φ ‖ θ) − KL(γ ‖ α)",
    tries=(
        "Raise K to 10: the rows and columns appear, though nobody told the model about them.",
        "With K = 1 all documents have the same words; the perplexity says what that costs.",
        "A larger α spreads the shares of a document over more topics.",
    ),
    controls=(
        Slider("k", "K, topics", 1, 14, 1, 5, still=(1, 2, 5, 10, 14)),
        Slider("prior", "α, prior of the shares", 0.05, 1, 0.05, 0.15, still=(0.15, 1)),
        Slider("document", "document, not trained on", 1, 12, 1, 1, still=(1, 2, 3, 4, 5, 6)),
    ),
    values=values,
    guide="topics.html",
)
