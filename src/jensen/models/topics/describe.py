"""Topics as people read them: words with probability and lift, and their coherence.

    lift_kw = β̂_kw / Σ_j s_j β̂_jw,  s_j the share of topic j among all words
    NPMI(v, w) = ln [p(v, w) / (p(v) p(w))] / -ln p(v, w),   U_Mass(v, w) = ln [(D(v, w) + 1) / D(w)]
with p and D from documents that have both words. Bouma (2009); Mimno et al. (2011); Lau, Newman & Baldwin (2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from jensen.models.topics.em import TopicTheta


def topic_shares(theta: TopicTheta) -> np.ndarray:
    """The share of every topic (K,) among the training words."""
    mass = (theta.concentration - theta.eta).clamp(min=0).sum(1).numpy()
    total = mass.sum()
    return np.asarray(mass / total if total > 0 else np.full(len(mass), 1 / len(mass)))


def top_words(theta: TopicTheta, words: Sequence[Any], n_words: int) -> pd.DataFrame:
    """The most probable words of every topic: topic, share, rank, word, probability, lift."""
    beta, shares = theta.mean_topics.numpy(), topic_shares(theta)
    overall = shares @ beta
    parts = []
    for k, row in enumerate(beta):
        best = np.argsort(-row, kind="stable")[:n_words]
        part = {"topic": k, "share": shares[k], "rank": np.arange(1, len(best) + 1)}
        part |= {"word": [words[w] for w in best], "probability": row[best], "lift": row[best] / overall[best]}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def typical_documents(shares: np.ndarray, lengths: np.ndarray, n: int) -> pd.DataFrame:
    """The documents with the largest shares (n, K) of every topic, among those that have words."""
    able = np.flatnonzero(lengths > 0)
    parts = []
    for k, column in enumerate(shares[able].T):
        best = np.argsort(-column, kind="stable")[:n]
        part = {"topic": k, "rank": np.arange(1, len(best) + 1), "document": able[best], "share": column[best]}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def coherence(theta: TopicTheta, matrix: csr_array, n_words: int, measure: str) -> np.ndarray:
    """The mean over pairs of a topic's most probable words (K,), from the documents (n, V) that they occur in."""
    occurs = csr_array((matrix > 0).astype(np.float64))
    n, found = matrix.shape[0], []
    for row in theta.mean_topics.numpy():
        best = np.argsort(-row, kind="stable")[:n_words]
        own = occurs[:, best].toarray()
        together = own.T @ own
        one, both = np.diagonal(together), together
        pairs = [(i, j) for i in range(len(best)) for j in range(i)]
        pair = npmi if measure == "npmi" else u_mass
        values = [pair(both[i, j], one[i], one[j], n) for i, j in pairs]
        found.append(np.mean(values) if values else np.nan)
    return np.array(found)


def npmi(both: float, first: float, second: float, n: int) -> float:
    """From -1 (never together) to 1 (always together); 0 for words that are independent."""
    if both == 0:
        return -1.0
    if both == n:
        return 1.0
    return float(np.log(both * n / (first * second)) / -np.log(both / n))


def u_mass(both: float, first: float, second: float, n: int) -> float:
    """ln p(the rarer word of the topic | the more probable one), one document added; at most about 0."""
    return float(np.log((both + 1) / second)) if second else float(np.log(1.0 / n))
