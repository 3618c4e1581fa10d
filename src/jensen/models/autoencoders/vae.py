"""Variational autoencoder.

    z ~ N(0, I_m),  x | z ~ p(x | decoder(z)),   q(z|x) = N(μ(x), L(x) L(x)ᵀ)
    ln p(x) ≥ E_q[ln p(x|z)] - KL(q(z|x) ‖ N(0, I))
    and tighter with k draws:  ln p(x) ≥ E ln (1/k) Σ_j p(x, z_j) / q(z_j|x)
The first is the evidence lower bound (ELBO). With labels y for some rows, and q(y|x) as the classifier, training raises
the semi-supervised objective:
    labelled    E_q[ln p(x|y,z)] + ln π_y - KL(q(z|x,y) ‖ N(0, I)) + α ln q(y|x)
    unlabelled  Σ_y q(y|x) {E_q[ln p(x|y,z)] - KL(q(z|x,y) ‖ N(0, I))} - KL(q(y|x) ‖ π)
Kingma & Welling (2014); importance-weighted Burda et al. (2016); missing values Mattei & Frellsen (2019); labels Kingma
et al. (2014). A bound, never exact.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from jensen.contract import warn_unused
from jensen.contract.gradient import GradientEstimator
from jensen.contract.scanning import as_scan
from jensen.contract.training import TrainingSpec, class_frequencies
from jensen.data.container import Table
from jensen.data.network_columns import NetworkColumns
from jensen.data.reader import read_weights
from jensen.data.rows import ColumnRules, read_events
from jensen.engines.sgd.plan import Phase, Run, Trainer
from jensen.engines.sgd.streams import TrainingData
from jensen.engines.sgd.training_set import TrainingSet
from jensen.files.scan import Scan
from jensen.models.autoencoders.base import VariationalModel
from jensen.models.autoencoders.build import VAEFacts, build_module, choose_n_latent, with_frequencies
from jensen.models.autoencoders.covariates import check_names, check_training_set, places_of
from jensen.models.autoencoders.module import VAEModule
from jensen.models.autoencoders.objective import Elbo, reconstruction, semi_supervised, true_bound
from jensen.nets.likelihoods import Likelihood, likelihood_of
from jensen.nets.recipe import Recipe

# For images on a grid of levels: the share of the training over which the weight of the KL rises, without which z is
# hardly used, and the number of steps if there is no max_epochs.
WARM_UP, IMAGE_STEPS = 0.2, 1000


class VAE(VariationalModel):
    """Variational autoencoder for tables and images, with missing values, labels and columns of any kind.

    An encoder maps each row x to a Gaussian q(z|x) over a latent vector z, and a decoder maps z to a distribution of x.
    Training raises the evidence lower bound (ELBO). With labels for some rows it raises the semi-supervised objective:
    the bound of ln p(x, y) for labelled rows, the bound of ln p(x) for the others, and α ln q(y|x), which trains the
    classifier.

    Args:
        n_components: m, the dimension of z; None is half the number of features, at most 8.
        likelihood: distribution of the columns given z. "auto" chooses by the type of each column: numbers are
            Gaussian, text and categories categorical, true/false Bernoulli, counts that `columns` names negative
            binomial, and images whose pixels are on a grid of levels discretised logistic. "gaussian", "bernoulli",
            "categorical", "poisson", "negative-binomial" or "logistic" apply to all columns. `Gaussian(...)` and
            `Bernoulli(...)` have options. A dictionary chooses by column.
        columns: {column: kind} for columns that are not what they look like: "number", "count", "level", "yes/no",
            "date" or "left out"; or {column: {"kind": "number", "atoms": [0]}} for numbers with a probability of their
            own, [] for none. The likelihood has precedence.
        condition_on: columns that are given and not modelled, such as ["batch"]: encoder and decoder see them, and
            scores are ln p(the other columns | these). They have a value in every row.
        encoder, decoder: recipes of the networks, such as MLP(hidden=(200, 200)) or, for images, ConvEncoder() and
            ConvDecoder(); None is MLP() for tables and ConvEncoder(), ConvDecoder() for images.
        classifier: recipe of q(y|x) in a fit with labels; None is MLP(activation="relu", dropout=0.5) for tables and
            ConvEncoder(dropout=0.5) for images.
        posterior_covariance: covariance of q(z|x), "diagonal" or "full".
        training: "joint" trains both networks together; "alternating" trains only the encoder in one round and only the
            decoder in the next.
        importance_samples: number k of draws in the bound that training raises; 1 is the ELBO.
        evaluation_samples: number of draws of z per row for scores and imputations.
        objective: what training raises, `Elbo(beta=..., warm_up=...)`; None is the ELBO, for
            images on a grid of levels Elbo(warm_up=0.2).
        class_weight: total weight of ln q(y|x) of the labelled rows in the objective, relative to the number of rows;
            α is class_weight divided by the fraction of rows with a label.
        class_length: length of the one-hot class that the decoder sees beside z, whose length is about √m; None is 2√m,
            so that z does not drown the class.
        scaling: "feature" standardises every column, "common" divides all columns by one number; None is "common" for
            images and "feature" for tables. "pooled" standardises every column by its rows and one more, as far from
            the mean as columns are on average: for pixels, whose unit is the same, so that a pixel that hardly varies
            in the training rows may vary in others. Scores are in the units of the data in any case.
        max_epochs: passes over the rows; None is enough for 5000 steps, or 1000 for images on a grid of levels, but at
            least 20.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        trainer: the other options of the training, `Trainer(...)`.
        checkpoint: file that training writes from time to time and resumes from if it exists.
        device: "auto", "cpu", "cuda", ...
        random_state: seed or RandomState of the training and of every method that draws.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        module_: the networks; forward returns the terms of the bound.
        history_: data frame with one row per round, and a `plot()`.
        columns_: kind, levels, atoms and scaling of every column.
        classes_: the classes, after a fit with labels.
        n_iter_: number of epochs.
        pixel_range_: for images, the smallest and the largest value of a pixel; sampled images are clipped to it.
        noise_variance_: σ² of the continuous columns (d,), unless the decoder predicts it for every row.
        lower_bound_: mean objective per row at the weights that were kept.

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
        "columns": [Mapping, None],
        "condition_on": "no_validation",
        "encoder": [Recipe, None],
        "decoder": [Recipe, None],
        "classifier": [Recipe, None],
        "posterior_covariance": [StrOptions({"diagonal", "full"})],
        "training": [StrOptions({"joint", "alternating"})],
        "importance_samples": [Interval(Integral, 1, None, closed="left")],
        "evaluation_samples": [Interval(Integral, 2, None, closed="left")],
        "objective": [Elbo, None],
        "class_weight": [Interval(Real, 0.0, None, closed="left")],
        "class_length": [Interval(Real, 0.0, None, closed="neither"), None],
        "scaling": [StrOptions({"feature", "pooled", "common"}), None],
        **GradientEstimator._training_constraints,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        likelihood: Likelihood = "auto",
        columns: Mapping[str | int, Any] | None = None,
        condition_on: Sequence[str | int] | None = None,
        encoder: Recipe | None = None,
        decoder: Recipe | None = None,
        classifier: Recipe | None = None,
        posterior_covariance: str = "diagonal",
        training: str = "joint",
        importance_samples: int = 1,
        evaluation_samples: int = 100,
        objective: Elbo | None = None,
        class_weight: float = 10.0,
        class_length: float | None = None,
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
        self.columns = columns
        self.condition_on = condition_on
        self.encoder = encoder
        self.decoder = decoder
        self.classifier = classifier
        self.posterior_covariance = posterior_covariance
        self.training = training
        self.importance_samples = importance_samples
        self.evaluation_samples = evaluation_samples
        self.objective = objective
        self.class_weight = class_weight
        self.class_length = class_length
        self.scaling = scaling
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.trainer = trainer
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the networks.

        Args:
            X: table (n, d), images (n, h, w) or (n, c, h, w), memory-mapped array, torch Dataset or `jensen.scan`;
                NaN, None and empty cells are missing values.
            y: labels (n,), with -1, None or NaN where unknown; None ignores labels. A scan has them in a column.
            sample_weight: weight of every row: 2 counts the row twice, 0 leaves it out.
        """
        self._fit_set(self._training_set(X, y, sample_weight))
        return self

    def _fit_set(self, data: TrainingData, seed: int | None = None) -> Run:
        is_image = data.events.table.is_grid and len(data.events.shape) > 1
        elbo = self.objective or Elbo(warm_up=WARM_UP if is_image else 0.0)
        elbo.check()
        if elbo.beta == 0:
            warn_unused(elbo, {"warm_up": "beta=0 leaves nothing to warm up to"})
        facts = self._derived_facts(data)
        return self._train(
            data,
            TrainingSpec(
                objective=semi_supervised(elbo),
                score=true_bound,
                facts=lambda rows: with_frequencies(self, facts, data, rows),
                phases=self._phases,
                seed=seed,
                n_steps=IMAGE_STEPS if is_image else None,
            ),
        )

    def fit_decoder(self, X: Table, Z: Any, sample_weight: Any = None) -> Self:
        """Train only the decoder, on pairs of a row and its latent vector; with a Gaussian this is least squares.

        The encoder does not change. In a model that was not fitted before it is untrained, so only `sample`,
        `inverse_transform` and `fit` are useful afterwards.
        """
        known: VAEModule | None = getattr(self, "theta_", None)
        data: TrainingSet
        if isinstance(as_scan(X, None, sample_weight, None), Scan):
            raise ValueError(
                "fit_decoder has the latent vectors of all rows in memory, and takes no scan; give an array"
            )
        if known is None:
            data = cast(TrainingSet, self._training_set(X, None, sample_weight))
            facts = self._derived_facts(data)
        else:
            events, facts = read_events(self, X, self._columns, self._shape), self._facts
            data = TrainingSet(events, None, read_weights(sample_weight, events.n_rows))
        z = torch.as_tensor(np.asarray(Z, dtype=np.float32))
        expected = (data.events.n_rows, facts.n_latent)
        if z.shape != expected:
            raise ValueError(f"Z has shape {tuple(z.shape)}; expected {expected}, a latent vector for every row of X")
        if not z.isfinite().all():
            raise ValueError("Z holds NaN or infinity; give a finite latent vector for every row")
        if facts.n_classes:
            raise ValueError("fit_decoder needs a model without classes; create a new one")
        spec: TrainingSpec[VAEFacts, VAEModule]
        if known is None:
            spec = TrainingSpec(
                reconstruction,
                reconstruction,
                facts=lambda rows: with_frequencies(self, facts, data, rows),
                trained=PairModule,
            )
        else:
            spec = TrainingSpec(
                reconstruction,
                reconstruction,
                facts=lambda rows: facts,
                build=lambda facts: copy.deepcopy(known),
                trained=PairModule,
            )
        self._train(replace(data, extra=z), spec)
        return self

    def _training_set(self, X: Table, y: Any, sample_weight: Any) -> TrainingData:
        self._validate_params()
        data = super()._training_set(X, y, sample_weight)
        if not data.has_labels:
            warn_unused(
                self,
                dict.fromkeys(["classifier", "class_weight", "class_length"], "there are no labels; pass them as y"),
            )
            return data
        if self.importance_samples > 1:
            raise ValueError(
                f"importance_samples={self.importance_samples} cannot be used with labels, whose bound sums over "
                "classes; set it to 1, or pass y=None to ignore labels"
            )
        return replace(data, is_mixed=True)

    def _column_rules(self) -> ColumnRules:
        options = likelihood_of(self.likelihood)
        if options.kinds == "grid" and self.scaling is not None:
            raise ValueError(
                f"scaling={self.scaling!r} is for densities, and a Logistic has probabilities; leave it out"
            )
        # Who asks for a scale asks for numbers.
        data_levels = options.data_levels if self.scaling is None else None
        return ColumnRules(options.kinds, self.scaling, data_levels, self.columns, atoms=True, counts=True)

    def _derived_facts(self, data: TrainingData) -> VAEFacts:
        parts = NetworkColumns.of(data.events.table)
        names = check_names(self.condition_on, data.events.table)
        if names:
            check_training_set(data, places_of(names, parts), parts)
        m = choose_n_latent(self.n_components, len(parts.places) - len(names))
        if not data.has_labels:
            return VAEFacts(m, 0, data.has_missing(), condition_on=names)
        counts = data.class_counts(len(self.classes_))
        share = float(counts.sum()) / data.total_weight
        prior = class_frequencies(counts)
        weight, length = self.class_weight / share, self.class_length or 2 * math.sqrt(m)
        return VAEFacts(m, len(prior), data.has_missing(), prior, weight, length, condition_on=names)

    def _phases(self, module: VAEModule) -> list[Phase]:
        if self.training == "joint":
            return []
        return [Phase("E", module.inference_parameters()), Phase("M", module.generative_parameters())]

    def _build(self, facts: VAEFacts) -> VAEModule:
        return build_module(self, self._parts, self._image_shape, facts)


class PairModule(nn.Module):
    """ln p(x|z) of given pairs of x and z."""

    def __init__(self, vae: VAEModule) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, x: Tensor, z: Tensor) -> dict[str, Tensor]:
        emission, observed = self.vae.emission, ~x.isnan()
        log_prob = emission.log_prob(self.vae.decode(z, x), x.nan_to_num(), observed)
        return {"reconstruction": log_prob + emission.log_jacobian(observed)}
