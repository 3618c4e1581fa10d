"""Topics: `LatentDirichletAllocation` beside scikit-learn, gensim and tomotopy, by document completion.

    python benchmarks/topics.py --data DIR [--quick] [part ...]
DIR holds reuters_lda/reuters.ldac and 20news/etm_20ng/bow_*.mat. gensim and tomotopy run where they are installed.
`reuters`     395 documents, 300 of them to train on: what other libraries report as held-out perplexity, the parts it
              is wrong by, and the perplexity of document completion. α = 0.1, η = 0.01, 100 sweeps, K = 5, 20, 50.
`newsgroups`  11 214 documents of 20 Newsgroups to train on, 7531 to complete, K = 50, α = η = 1/K (tomotopy learns α
              and has η = 0.01): completion after some time. All libraries get as many threads as OMP_NUM_THREADS, 1
              unless it is set; "CPU" are processor seconds, on a busy machine the figure to compare.
`stream`      a million documents of ten words through `partial_fit`: time and peak memory after 1e5 and 1e6.
Completion is that of docs/topics.md for all: the same words give shares, by the same inference at the topics of each.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.io import loadmat
from scipy.sparse import csr_array
from scipy.special import gammaln, psi
from sklearn.decomposition import LatentDirichletAllocation as OfSklearn

import jensen
from jensen.data.sparse import rows_tensor
from jensen.formulas.completion import Completion, completion_of
from jensen.models.topics.completion import completion_scores
from jensen.models.topics.em import TopicTheta
from jensen.models.topics.inference import Patience, bound_terms

warnings.simplefilter("ignore")
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
PATIENCE = Patience(1e-3, 100)


def theta_of(topics: np.ndarray, alpha: float | np.ndarray) -> TopicTheta:
    """Topics (K, V) of any library, up to their scale."""
    prior = torch.from_numpy(np.broadcast_to(np.asarray(alpha, dtype=np.float64), len(topics)).copy())
    return TopicTheta(torch.from_numpy(np.asarray(topics, dtype=np.float64)), prior, 0.01, 1.0, torch.empty(0))


def completed(topics: np.ndarray, alpha: float | np.ndarray, test: csr_array) -> Completion:
    return completion_of(*completion_scores(theta_of(topics, alpha), rows_tensor(test), PATIENCE))


def reuters_documents(folder: Path) -> tuple[csr_array, csr_array]:
    rows, columns, values = [], [], []
    for i, line in enumerate((folder / "reuters_lda" / "reuters.ldac").read_text().splitlines()):
        for entry in line.split()[1:]:
            word, count = entry.split(":")
            rows.append(i)
            columns.append(int(word))
            values.append(float(count))
    counts = csr_array((values, (rows, columns)), shape=(395, 4258))
    order = np.random.default_rng(0).permutation(395)
    return counts[order[:300]], counts[order[300:]]


def topics_kl(components: np.ndarray, eta: float) -> float:
    logs = psi(components) - psi(components.sum(1, keepdims=True))
    v = components.shape[1]
    per_topic = gammaln(components.sum(1)) - gammaln(components).sum(1) + v * gammaln(eta) - gammaln(v * eta)
    return float((per_topic + ((components - eta) * logs).sum(1)).sum())


def reuters(folder: Path, quick: bool) -> None:
    train, test = reuters_documents(folder)
    n_words, options = float(test.sum()), {"doc_topic_prior": 0.1, "topic_word_prior": 0.01}
    share = np.asarray(train.sum(0)).ravel() + 0.01
    print(f"unigram: completion {completed(share[None], 0.1, test).perplexity:.1f}")
    print("K | scikit-learn perplexity | × topics' KL | × e^(E ln β) | bound at β̂ | completion | gensim | s")
    for k in (5,) if quick else (5, 20, 50):
        began = time.process_time()
        peer = OfSklearn(k, **options, max_iter=100, random_state=0).fit(train)
        took, shown = time.process_time() - began, peer.perplexity(test)
        factor = np.exp(topics_kl(peer.components_, 0.01) / n_words)
        bound = bound_terms(theta_of(peer.components_, 0.1), rows_tensor(test), PATIENCE).total.sum()
        honest = float(np.exp(-bound / n_words))
        found = completed(peer.components_, 0.1, test)
        gensim = gensim_perplexity(train, test, k)
        print(
            f"{k} | {shown:.1f} | {factor:.3f} | {shown / factor / honest:.2f} | {honest:.1f} | {found.perplexity:.1f} "
            f"| {gensim} | {took:.1f}",
            flush=True,
        )
        for method in ("batch", "collapsed"):
            scores, seconds = [], []
            for seed in range(1 if quick else 5):
                began = time.process_time()
                model = jensen.LatentDirichletAllocation(k, **options, learning_method=method, random_state=seed)
                model.fit(train)
                seconds.append(time.process_time() - began)
                scores.append(model.document_completion(test).perplexity)
            print(
                f"    jensen, {method}: completion {[round(s, 1) for s in scores]}, {np.median(seconds):.2f} s of CPU"
            )


def gensim_perplexity(train: csr_array, test: csr_array, k: int) -> str:
    try:
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LdaModel
    except ImportError:
        return "not installed"
    options = {"alpha": [0.1] * k, "eta": 0.01, "passes": 100, "random_state": 0, "chunksize": 300}
    model = LdaModel(Sparse2Corpus(train, documents_columns=False), num_topics=k, **options)
    bound = model.log_perplexity(list(Sparse2Corpus(test, documents_columns=False)))
    return f"{np.exp(-bound):.0f} ({2**-bound:.0f})"


def newsgroup_documents(folder: Path, part: str) -> csr_array:
    def read(what: str) -> list[np.ndarray]:
        file = loadmat(folder / "20news" / "etm_20ng" / f"bow_{part}_{what}.mat")
        return [np.ravel(entry) for entry in np.ravel(file[what])]

    words, counts = read("tokens"), read("counts")
    rows = np.repeat(np.arange(len(words)), [len(entry) for entry in words])
    found = csr_array((np.concatenate(counts).astype(float), (rows, np.concatenate(words))), shape=(len(words), 3072))
    found.sum_duplicates()
    return found


Run = Iterator[tuple[str, np.ndarray, float | np.ndarray]]


def timed(name: str, run: Run, test: csr_array) -> list[tuple[str, float, float]]:
    """Completion of every state that a run yields, and the time without that of judging it."""
    wall = cpu = 0.0
    found = []
    while True:
        began, worked = time.perf_counter(), time.process_time()
        state = next(run, None)
        wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - worked
        if state is None:
            return found
        note, topics, alpha = state
        score = completed(topics, alpha, test)
        print(
            f"{name} | {note} | {wall:.2f} | {cpu:.2f} | {score.perplexity:.1f} | {score.nats_per_word:.4f}", flush=True
        )
        found.append((note, cpu, score.perplexity))


def by_sklearn(train: csr_array, k: int, method: str, at: list[int]) -> Run:
    # Sweeps through the private step: fit would start anew for every number of sweeps.
    model = OfSklearn(k, random_state=0, learning_method=method)
    model._init_latent_vars(train.shape[1])
    for sweep in range(1, max(at) + 1):
        for start in range(0, train.shape[0], 128 if method == "online" else train.shape[0]):
            part = train[start : start + 128] if method == "online" else train
            model._em_step(part, total_samples=train.shape[0], batch_update=method == "batch")
        if sweep in at:
            yield f"{sweep} sweeps", model.components_, 1 / k


def by_jensen(train: csr_array, k: int, method: str, at: list[int], **options: object) -> Iterator[Callable[[], Run]]:
    for sweeps in at:

        def run(sweeps: int = sweeps) -> Run:
            model = jensen.LatentDirichletAllocation(
                k, learning_method=method, random_state=0, max_iter=sweeps, **options
            ).fit(train)
            yield f"{model.n_iter_} sweeps, bound {model.lower_bound_:.2f}", model.components_, model.doc_topic_prior_

        yield run


def by_gensim(train: csr_array, k: int, at: list[int]) -> Run:
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    corpus = list(Sparse2Corpus(train, documents_columns=False))
    model = LdaModel(id2word={w: str(w) for w in range(train.shape[1])}, num_topics=k, random_state=0, eval_every=None)
    for sweep in range(1, max(at) + 1):
        model.update(corpus)
        if sweep in at:
            yield f"{sweep} passes", model.get_topics(), 1 / k


def by_tomotopy(train: csr_array, k: int, at: list[int]) -> Run:
    import tomotopy

    model = tomotopy.LDAModel(k=k, seed=0)
    for i in range(train.shape[0]):
        row = train[[i]]
        model.add_doc([str(w) for w, c in zip(row.indices, row.data, strict=True) for _ in range(int(c))])
    workers = int(os.environ["OMP_NUM_THREADS"])
    for last, now in zip([0, *at[:-1]], at, strict=True):
        model.train(now - last, workers=workers)
        topics = np.full((k, train.shape[1]), 1e-12)
        names = [int(word) for word in model.used_vocabs]
        topics[:, names] = [model.get_topic_word_dist(j) for j in range(k)]
        yield f"{now} iterations", topics, np.asarray(model.alpha)


def newsgroups(folder: Path, quick: bool) -> None:
    train, test, k = newsgroup_documents(folder, "tr"), newsgroup_documents(folder, "ts"), 50
    if quick:
        train, test = train[:2000], test[:1000]
    print("library | state | s | CPU | perplexity of completion | nats per word")
    for method in ("collapsed", "batch"):
        for run in by_jensen(train, k, method, [1, 10, 100] if method == "batch" else [10, 25, 100]):
            timed(f"jensen, {method}", run(), test)
    for run in by_jensen(train, k, "batch", [100], learn_priors="asymmetric"):
        timed("jensen, batch, learnt priors", run(), test)
    for run in by_jensen(train, k, "collapsed", [25, 100], doc_topic_prior=0.1, topic_word_prior=0.01):
        timed("jensen, collapsed, α = 0.1, η = 0.01", run(), test)
    for run in by_jensen(train, k, "online", [5]):
        timed("jensen, online", run(), test)
    for method, at in (("batch", [1, 2, 3, 5, 10, 20, 40]), ("online", [1, 2, 5, 10])):
        timed(f"scikit-learn, {method}", by_sklearn(train, k, method, at[:3] if quick else at), test)
    for name, run in (
        ("gensim", by_gensim(train, k, [1, 2, 5, 10])),
        ("tomotopy", by_tomotopy(train, k, [10, 50, 200, 1000])),
    ):
        try:
            timed(name, run, test)
        except ImportError as error:
            print(f"{name}: {error}")


def stream(folder: Path, quick: bool) -> None:
    rng, v, k, n = np.random.default_rng(0), 5000, 20, 10_000
    ends = np.cumsum(rng.dirichlet(np.full(v, 0.005), k), axis=1)
    model = jensen.LatentDirichletAllocation(k, total_samples=1e6, batch_size=2000, random_state=0)
    began = made = 0.0
    worked = time.process_time()
    for batch in range(1, (10 if quick else 100) + 1):
        began = time.process_time()
        shares = rng.dirichlet(np.full(k, 0.1), n).cumsum(1)
        topic = np.minimum((rng.random((n, 10, 1)) > shares[:, None]).sum(2), k - 1)
        place = rng.random((n, 10))
        words = np.empty((n, 10), dtype=int)
        for j in range(k):
            words[topic == j] = np.minimum(np.searchsorted(ends[j], place[topic == j]), v - 1)
        counts = csr_array((np.ones(10 * n), (np.repeat(np.arange(n), 10), words.ravel())), shape=(n, v))
        made += time.process_time() - began
        model.partial_fit(counts)
        if batch in (1, 10, 100):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            took = time.process_time() - worked - made
            print(
                f"{batch * n} documents: {took:.1f} s of processor, peak of the process {peak:.0f} MB, "
                f"completion {model.document_completion(counts).perplexity:.1f}",
                flush=True,
            )


def main() -> None:
    parts = {"reuters": reuters, "newsgroups": newsgroups, "stream": stream}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(parts)}")
    parser.add_argument("--data", type=Path, required=True, help="folder with reuters_lda and 20news")
    parser.add_argument("--quick", action="store_true", help="fewer documents and seeds")
    arguments = parser.parse_args()
    for part in arguments.parts or parts:
        print(f"\n## {part}", flush=True)
        parts[part](arguments.data, arguments.quick)


if __name__ == "__main__":
    main()
