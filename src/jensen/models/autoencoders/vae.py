"""Variational autoencoder.

    z ~ N(0, I_m),  x | z ~ p(x | decoder(z)),   q(z|x) = N(μ(x), L(x) L(x)ᵀ)
    ln p(x) ≥ E_q[ln p(x|z)] - KL(q(z|x) ‖ N(0, I))
    and tighter with k draws:  ln p(x) ≥ E ln (1/k) Σ_j p(x, z_j) / q(z_j|x)
Kingma & Welling (2014); importance-weighted Burda et al. (2016); missing entries Mattei & Frellsen (2019); classes that
are known for some rows Kingma et al. (2014). A bound, never exact.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from jensen.contract import warn_unused
from jensen.contract.gradient import GradientEstimator, Lesson
from jensen.data.labels import encode_labels
from jensen.data.reader import read_weights
from jensen.data.rows import Events, learn_events, read_events
from jensen.engines.sgd.loop import Phase, Terms
from jensen.engines.sgd.plan import Trainer
from jensen.models.autoencoders.base import VariationalModel
from jensen.models.autoencoders.build import build_module, choose_n_latent, labelled_feed, marginal_start
from jensen.models.autoencoders.module import VAEModule
from jensen.models.autoencoders.objective import Elbo
from jensen.nets.likelihoods import likelihood_of
from jensen.nets.recipe import Recipe

__all__ = ["VAE"]


class VAE(VariationalModel):
    """A deep latent-variable model of tables and images, with holes, labels and columns of any kind.

    Args:
        n_components: m, the dimensions of z; None is half the features, at most 8.
        likelihood: "auto" by column of a data frame (numbers are Gaussian, text and categories categorical, true and
            false Bernoulli), "gaussian", "bernoulli" or "categorical" for all columns, `Gaussian`, `Bernoulli` with
            choices of their own, or a dictionary of these by column.
        encoder, decoder: recipes of networks, such as MLP(hidden=(200, 200)) or, for images, ConvEncoder() and
            ConvDecoder(); None is MLP() for tables and these two for images.
        classifier: recipe of q(y|x) after a fit with labels; None is MLP(activation="relu", dropout=0.5) for tables and
            ConvEncoder(dropout=0.5) for images.
        posterior_covariance: "diagonal" or "full", of q(z|x).
        training: "joint", or "alternating" between rounds that move only the encoder and only the decoder.
        importance_samples: k of the bound that training raises; 1 is the evidence lower bound.
        evaluation_samples: draws of z per row that scores and imputations rest on.
        objective: what training raises, `Elbo(beta=..., warm_up=...)`; None is the bound itself.
        class_weight: with labels, what ln q(y|x) of all labelled rows together counts in training, per row of X.
        scaling: "feature" standardises every column, "common" all by one number, None is common for images; scores
            are in the units of the data all the same.
        max_epochs: passes over the rows; None is enough for 5000 steps, at least 20.
        batch_size: rows per step.
        learning_rate: of Adam.
        trainer: everything else about training, `Trainer(...)`.
        checkpoint: file that training writes to from time to time, and goes on from if it is there.
        device: "auto", "cpu", "cuda", ...
        random_state: seed or RandomState, of the training and of every call that draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        module_: the networks; forward gives the terms of the bound.
        history_: a data frame with one row per round, and a `plot()`.
        columns_: kind, levels and scaling of every column.
        classes_: after a fit with labels.
        n_iter_: epochs.
        pixel_range_: of images, the least and the greatest value of a pixel; pictures are cut off there.
        noise_variance_: σ² of the continuous columns (d,), unless the decoder says it by point.
        lower_bound_: what training raised, at the weights that were kept.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import VAE
        >>> X = load_iris().data
        >>> model = VAE(n_components=2, max_epochs=20, random_state=0).fit(X)
        >>> model.transform(X).shape, model.sample(5)[0].shape
        ((150, 2), (5, 4))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "likelihood": "no_validation",
        "encoder": [Recipe, None],
        "decoder": [Recipe, None],
        "classifier": [Recipe, None],
        "posterior_covariance": [StrOptions({"diagonal", "full"})],
        "training": [StrOptions({"joint", "alternating"})],
        "importance_samples": [Interval(Integral, 1, None, closed="left")],
        "evaluation_samples": [Interval(Integral, 2, None, closed="left")],
        "objective": [Elbo, None],
        "class_weight": [Interval(Real, 0.0, None, closed="left")],
        "scaling": [StrOptions({"feature", "common"}), None],
        **GradientEstimator._training_constraints,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        likelihood: str | Any | Mapping[str, Any] = "auto",
        encoder: Recipe | None = None,
        decoder: Recipe | None = None,
        classifier: Recipe | None = None,
        posterior_covariance: str = "diagonal",
        training: str = "joint",
        importance_samples: int = 1,
        evaluation_samples: int = 100,
        objective: Elbo | None = None,
        class_weight: float = 10.0,
        scaling: str | None = None,
        max_epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        trainer: Trainer | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.likelihood = likelihood
        self.encoder = encoder
        self.decoder = decoder
        self.classifier = classifier
        self.posterior_covariance = posterior_covariance
        self.training = training
        self.importance_samples = importance_samples
        self.evaluation_samples = evaluation_samples
        self.objective = objective
        self.class_weight = class_weight
        self.scaling = scaling
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.trainer = trainer
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train both networks.

        Args:
            X: a table (n, d), images (n, h, w) or (n, c, h, w), a memory-mapped array or a torch Dataset; NaN, None
                or an empty cell is missing.
            y: labels (n,), -1, None or NaN where unknown; None ignores labels.
            sample_weight: a count per row: 2 is the row twice, 0 leaves it out.
        """
        self._fit_lesson(self._lesson(X, y, sample_weight))
        return self

    def _fit_lesson(self, lesson: Lesson, seed: int | None = None) -> bool:
        """Whether Ctrl-C has ended it."""
        elbo = self.objective or Elbo()
        elbo.check()
        if elbo.beta == 0:
            warn_unused(elbo, {"warm_up": "beta=0 leaves nothing to warm up to"})
        label = lesson.extra[0] if lesson.extra else None

        def objective(terms: Terms, done: float) -> Tensor:
            rest = dict(terms)
            classification = rest.pop("classification", None)
            return elbo(rest, done) if classification is None else elbo(rest, done) - classification

        def bound(terms: Terms, done: float) -> Tensor:
            return Elbo()({name: term for name, term in terms.items() if name != "classification"}, done)

        def phases(module: VAEModule) -> list[Phase]:
            if self.training == "joint":
                return []
            return [Phase("E", module.inference_parameters()), Phase("M", module.generative_parameters())]

        feed = Lesson.feed if label is None else labelled_feed
        start = partial(marginal_start, self, lesson)
        return self._train(lesson, self._found(lesson), objective, bound, phases, feed, found=start, seed=seed)

    def fit_decoder(self, X: Any, Z: Any, sample_weight: Any = None) -> Self:
        """Train the decoder alone from pairs of a row and its latent vector; with a Gaussian, least squares.

        The encoder stays as it is: of a model that was not fitted before it is untrained, and only `sample`,
        `inverse_transform` and `fit` make sense of such a model.
        """
        known = getattr(self, "theta_", None)
        if known is None:
            lesson = self._lesson(X, None, sample_weight)
            facts = self._found(lesson)
        else:
            events, facts = read_events(self, X, self._columns, self._shape), self._facts
            lesson = Lesson(events, (), read_weights(sample_weight, events.n_rows))
        z = torch.as_tensor(np.asarray(Z, dtype=np.float32))
        expected = (lesson.events.n_rows, facts["n_latent"])
        if z.shape != expected:
            raise ValueError(f"Z has shape {tuple(z.shape)}; expected {expected}, a latent vector for every row of X")
        if not z.isfinite().all():
            raise ValueError("Z holds NaN or infinity; give a finite latent vector for every row")
        if facts["n_classes"]:
            raise ValueError("fit_decoder needs a model without classes; make a new one")

        def likelihood(terms: Terms, done: float) -> Tensor:
            return terms["reconstruction"]

        pairs = Lesson(lesson.events, (z,), lesson.weight)

        def found(rows: np.ndarray) -> dict[str, Any]:
            return marginal_start(self, lesson, rows) if known is None else {}

        self._train(pairs, facts, likelihood, likelihood, start=known, wrap=PairModule, found=found)
        return self

    def _lesson(self, X: Any, y: Any, sample_weight: Any) -> Lesson:
        """Rows, labels and weights to learn from."""
        self._validate_params()
        events, weight, kept = self._learn(X, sample_weight)
        label, classes = encode_labels(y, len(kept), None, kept)
        if hasattr(self, "classes_"):
            del self.classes_
        if label is None:
            warn_unused(self, dict.fromkeys(["classifier", "class_weight"], "there are no labels; pass them as y"))
            return Lesson(events, (), weight)
        if self.importance_samples > 1:
            raise ValueError(
                f"importance_samples={self.importance_samples} cannot be used with labels, whose bound sums over "
                "classes; set it to 1, or pass y=None to ignore labels"
            )
        self.classes_ = classes
        return Lesson(events, (label[torch.from_numpy(kept)],), weight)

    def _learn(self, X: Any, sample_weight: Any = None) -> tuple[Events, Tensor | None, np.ndarray]:
        return learn_events(self, X, likelihood_of(self.likelihood)[0], self.scaling, sample_weight)

    def _found(self, lesson: Lesson) -> dict[str, Any]:
        """What the rows decide about the networks."""
        m = choose_n_latent(self.n_components, len(lesson.events.columns.names))
        facts: dict[str, Any] = {"n_latent": m, "n_classes": 0, "has_holes": lesson.has_holes()}
        if lesson.extra and lesson.extra[0] is not None:
            label = lesson.extra[0]
            weight = torch.ones(len(label)).double() if lesson.weight is None else lesson.weight.double()
            counts = torch.bincount(label[label >= 0], weight[label >= 0], minlength=len(self.classes_))
            # One row more for every class: none is impossible.
            prior = ((counts + 1) / (counts + 1).sum()).tolist()
            share = float(counts.sum() / weight.sum())
            facts |= {"n_classes": len(prior), "prior": prior, "class_weight": self.class_weight / share}
        return facts

    def _build(self, facts: dict[str, Any]) -> nn.Module:
        return build_module(self, self._columns, self._image_shape, facts)


class PairModule(nn.Module):
    """ln p(x|z) of given pairs."""

    def __init__(self, vae: VAEModule) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, x: Tensor, z: Tensor) -> dict[str, Tensor]:
        emission, observed = self.vae.emission, ~x.isnan()
        log_prob = emission.log_prob(self.vae.decode(z), x.nan_to_num(), observed)
        return {"reconstruction": log_prob + emission.log_jacobian(observed)}
