"""Latent Dirichlet allocation: the topics of documents.

    β_k ~ Dir(η),  θ_d ~ Dir(α),  z ~ Categorical(θ_d),  w | z=k ~ Categorical(β_k)
    q(θ_d) = Dir(γ_d),  q(β_k) = Dir(λ_k),  q(z=k | w) = φ_wk
    E:  φ_wk ∝ e^{E ln θ_k + E ln β_kw},  γ_k = α_k + Σ_w c_w φ_wk       M:  λ_kw = η + Σ_d c_dw φ_dwk
Blei, Ng & Jordan (2003); online: Hoffman, Blei & Bach (2010); collapsed: Foulds et al. (2013). The bound is not exact.
"""

from __future__ import annotations

import os
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.utils._param_validation import Interval, StrOptions

from jensen.contract import Problem, Rows, Stream
from jensen.contract.problem import check_decay
from jensen.contract.scanning import as_scan
from jensen.contract.sites import has_settled
from jensen.engines.em import loop as em
from jensen.engines.em.checkpoint import checkpoint_at
from jensen.engines.em.frame import Frame
from jensen.models.topics.base import TopicModel
from jensen.models.topics.documents import csr_tensor
from jensen.models.topics.em import TopicSource, TopicVerbs
from jensen.models.topics.fit import HeldCorpus, Options, corpus_of, first_theta, problem_of, source_for, verbs_for
from jensen.models.topics.online import Steps
from jensen.runtime.threads import at_most


class LatentDirichletAllocation(TopicModel):
    """Topics of documents: each document has shares of K topics, and each topic is a distribution of words.

    X are counts (n, V), dense or sparse, with fractions if need be, or one text per document, whose words
    scikit-learn's CountVectorizer counts. It replaces scikit-learn's class of the same name.

    Args:
        n_components: K, the number of topics.
        doc_topic_prior: α, one number or one for every topic (K,); None is 1/K.
        topic_word_prior: η; None is 1/K.
        learning_method: "batch", variational EM that starts from a short collapsed run; "online", a step after every
            `batch_size` documents; "collapsed", CVB0, which needs the least time for topics that predict words best.
        learning_decay, learning_offset: κ and τ of the online steps ρ_t = (τ + t)^-κ.
        max_iter: sweeps over the documents at most; 0 returns the start.
        batch_size: documents per online step.
        evaluate_every, perp_tol: if evaluate_every is positive, the fit also stops when the perplexity of the training
            documents changes by less than perp_tol, as in scikit-learn.
        total_samples: documents of the whole stream, for `partial_fit`.
        mean_change_tol: a document's topics have settled when the mean change of γ is below this.
        max_doc_update_iter: updates of γ at most; a sweep of "batch" takes at most 20 and one of "collapsed" 5, as the
            next one resumes them.
        n_jobs: threads at most; None uses those of torch.
        verbose: 1 shows a progress bar on a terminal.
        random_state: seed or RandomState.
        tol: the fit stops when a sweep gains less than this many nats per word.
        learn_priors: None keeps α and η; "symmetric" learns one number for each, "asymmetric" one α for every topic;
            with labels η alone is learnt.
        stop_words, min_df, max_df, max_features: of CountVectorizer, for texts.

    Attributes:
        components_: λ (K, V); normalised it is β̂.
        topics_: the most probable words of every topic, with probability and lift, as a data frame.
        doc_topic_prior_, topic_word_prior_: α and η.
        vocabulary_: the words, after a fit to texts.
        classes_: the classes in y. Topic k < C is that of class k, and the others are shared by all documents.
        theta_: all parameters as one frozen value of tensors.
        lower_bound_: the bound per document, less the topics' own KL; lower_bounds_ the objective after every sweep.
        topics_kl_: Σ_k KL(λ_k ‖ η), which belongs to the model and to no document.
        bound_: perplexity of the training documents in scikit-learn's meaning.
        n_iter_, n_batch_iter_, converged_: sweeps, online steps + 1, and whether the last sweep gained less than tol.

    Example:
        >>> from jensen import LatentDirichletAllocation
        >>> texts = ["sun rain wind", "rain wind rain", "bread milk", "milk bread bread"]
        >>> model = LatentDirichletAllocation(2, random_state=0).fit(texts)
        >>> shares = model.transform(["wind and rain", "milk"])
        >>> bool(shares[0].argmax() != shares[1].argmax())
        True
    """

    _keeps_units = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "topic_word_prior": [None, Interval(Real, 0, None, closed="neither")],
        "learning_method": [StrOptions({"batch", "online", "collapsed"})],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 0, None, closed="neither")],
        "evaluate_every": [Interval(Integral, None, None, closed="neither")],
        "total_samples": [Interval(Real, 0, None, closed="neither")],
        "perp_tol": [Interval(Real, 0, None, closed="left")],
        "mean_change_tol": [Interval(Real, 0, None, closed="left")],
        "max_doc_update_iter": [Interval(Integral, 0, None, closed="left")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "learn_priors": [StrOptions({"symmetric", "asymmetric"}), None],
        "stop_words": [StrOptions({"english"}), list, None],
        "min_df": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="both")],
        "max_df": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="both")],
        "max_features": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        doc_topic_prior: Any = None,
        topic_word_prior: float | None = None,
        learning_method: str = "batch",
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_iter: int = 100,
        batch_size: int = 128,
        evaluate_every: int = -1,
        total_samples: float = 1e6,
        perp_tol: float = 1e-1,
        mean_change_tol: float = 1e-3,
        max_doc_update_iter: int = 100,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        tol: float = 1e-3,
        learn_priors: str | None = None,
        stop_words: str | list[str] | None = None,
        min_df: float = 1,
        max_df: float = 1.0,
        max_features: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learning_method = learning_method
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.evaluate_every = evaluate_every
        self.total_samples = total_samples
        self.perp_tol = perp_tol
        self.mean_change_tol = mean_change_tol
        self.max_doc_update_iter = max_doc_update_iter
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.tol = tol
        self.learn_priors = learn_priors
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        executor: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Find the topics of documents.

        Args:
            X: counts (n, V), dense or sparse, or one text per document; or a `jensen.scan` of such, or a collection of
                dask, of which only some documents are in memory at a time.
            y: labels (n,), -1, None or NaN where unknown. A labelled document has the topic of its class and the shared
                ones, which are those beyond the number of classes.
            sample_weight: a count per document: 2 is the document twice, 0 leaves it out.
            executor: runs the sweeps over a scan, such as a ProcessPoolExecutor, or `client.get_executor()` of dask.
            checkpoint: a file that is written after every sweep, beside one with the shares of all documents; a fit
                that was stopped resumes from it. Not for online steps.
        """
        with at_most(self.n_jobs), checkpoint_at(checkpoint):
            # A single text has an error of its own.
            self._fit(X if isinstance(X, str) else as_scan(X, y, sample_weight, executor), y, sample_weight)
        n_words = self.total_weight_ * self.theta_.length
        self.bound_ = float(np.exp(-self.lower_bound_ * self.total_weight_ / n_words)) if n_words else np.nan
        self.n_batch_iter_ = 1 + self.n_iter_ * (-(-self._n_documents // self.batch_size) if self._is_online else 1)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, decay: float | None = None) -> Self:
        """One online step for every `batch_size` documents of X; the first call sets the vocabulary and the classes.

        With a `decay` γ in (0, 1] all documents of X are one step: λ ← η + γ (λ - η) + Σ_d c_dw φ_dwk. What was seen
        before counts γ times from this batch on, and `total_samples` and `learning_decay` play no part. Before that, λ
        stands for `total_samples` documents after steps without a decay, and for the documents seen after `fit`.
        """
        self._validate_params()
        check_decay(decay)
        is_first = not hasattr(self, "theta_")
        rows = self._read_rows(X, y, sample_weight, reset=is_first)
        options, corpus = self._options(), corpus_of(rows)
        if is_first:
            self._remember(rows)
            self.theta_ = first_theta(options, corpus, self._generator())
            self.n_iter_, self.n_batch_iter_, self.converged_, self.total_weight_ = 0, 1, False, 0.0
        if decay is not None:
            stream, documents = self._resume(rows)
            running = None if is_first else stream.running
            with at_most(self.n_jobs):
                self.theta_, now = em.stepwise(stream.verbs, stream.theta, documents, running, decay=decay)
            self.n_batch_iter_, self.total_weight_ = self.n_batch_iter_ + 1, now.weight
            return self
        source = source_for(options, corpus, block=options.batch_size)
        verbs = verbs_for(options, source, self.theta_.length)
        with at_most(self.n_jobs):
            self.theta_, self.n_batch_iter_ = options.steps.take(verbs, self.theta_, source, self.n_batch_iter_)
        self.total_weight_ += corpus.total
        return self

    def _resume(self, rows: Rows) -> tuple[Stream, TopicSource]:
        # Collapsed inference needs the shares of every document from the last sweep; variational does not.
        options, theta = replace(self._options(), method="batch"), self.theta_
        n_classes = len(theta.class_weights)
        source = source_for(options, HeldCorpus(rows.x, rows.weight, rows.label, n_classes))
        verbs = verbs_for(options, source, theta.length)
        assert isinstance(verbs, TopicVerbs)
        if n_classes:
            # Also where no document of these has a label.
            verbs = replace(verbs, learns_alpha=None)
        seen = self.total_weight_ or 1.0
        running = em.Running(replace(options.steps, total=seen).statistics(theta), seen)
        return Stream(Frame.identity(1), verbs, running, theta), source

    def _no_rows(self) -> Rows:
        return replace(super()._no_rows(), x=csr_tensor(csr_array((0, self.theta_.concentration.shape[1]))))

    def _has_settled(self, objective: float, weight: float) -> bool:
        return has_settled(self, objective, weight, self.tol * self.theta_.length)

    @property
    def _is_online(self) -> bool:
        return bool(self.learning_method == "online")

    def _options(self) -> Options:
        if self.learn_priors is not None and self.learning_method == "collapsed":
            raise ValueError(
                f"learn_priors={self.learn_priors!r} needs the variational posterior of the shares, which "
                "learning_method='collapsed' does not have; choose 'batch', or set learn_priors=None"
            )
        return Options(
            n_topics=int(self.n_components),
            alpha=self.doc_topic_prior,
            eta=self.topic_word_prior,
            method=self.learning_method,
            steps=Steps(float(self.learning_decay), float(self.learning_offset), float(self.total_samples)),
            batch_size=int(self.batch_size),
            evaluate_every=int(self.evaluate_every),
            perp_tol=float(self.perp_tol),
            mean_change_tol=float(self.mean_change_tol),
            most_updates=int(self.max_doc_update_iter),
            tol=float(self.tol),
            learns=self.learn_priors,
            progress="start" if self.verbose else None,
        )

    def _problem(self, rows: Rows, start: Any, frame: Frame | None) -> tuple[Problem, Frame]:
        self._n_documents = rows.n_rows
        return problem_of(self._options(), corpus_of(rows)), Frame.identity(1)

    def _run(
        self, problem: Problem, generator: torch.Generator, n_init: int, progress_every: int = 1
    ) -> em.Fit[Any, Any]:
        fitted = super()._run(problem, generator, n_init, progress_every)
        if self.learning_method != "collapsed":
            return fitted
        # What was raised is no bound of the evidence: the bound is that of variational inference at the same topics.
        options, source = replace(self._options(), method="batch"), cast(TopicSource, problem.source)
        verbs = verbs_for(options, source, fitted.theta.length)
        summary = em.sweep(verbs, fitted.theta, source)
        return replace(fitted, objective=float((summary.bound + verbs.log_prior(fitted.theta)) / summary.weight))

    def _unused(self, rows: Rows) -> dict[str, str]:
        unused = {}
        if not hasattr(self, "vocabulary_"):
            unused = dict.fromkeys(("stop_words", "min_df", "max_df", "max_features"), "X holds counts and no texts")
        if self.learning_method == "collapsed":
            unused["evaluate_every"] = "collapsed inference has no perplexity of its own; it stops by tol"
        return unused
