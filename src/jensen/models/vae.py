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
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from jensen.bound import Bound
from jensen.contract import whole_number
from jensen.contract.gradient import GradientEstimator, Lesson
from jensen.engines.sgd import Phase, Terms
from jensen.engines.trainer import Trainer
from jensen.interop.events import learn_events
from jensen.interop.labels import decode_labels, encode_labels, numbers_of_classes
from jensen.interop.tables import Kind
from jensen.models import vae_answers as answers
from jensen.models.network_views import choose_n_latent, read_latents
from jensen.models.objectives import Elbo
from jensen.models.vae_build import build_module, labelled_feed
from jensen.models.vae_module import VAEModule
from jensen.nets.likelihoods import likelihood_of
from jensen.nets.recipe import Recipe

__all__ = ["VAE"]


def has_classes(model: VAE) -> bool:
    if not hasattr(model, "theta_") or hasattr(model, "classes_"):
        return True
    raise AttributeError("the model was fitted without labels and knows no classes; fit(X, y) with some labels in y")


class VAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientEstimator):
    """A deep latent-variable model of tables and images, with holes, labels and columns of any kind.

    Args:
        n_components: m, the dimensions of z; None is half the features, at most 8.
        likelihood: "auto" by column of a data frame (numbers are Gaussian, text and categories categorical, true and
            false Bernoulli), "gaussian", "bernoulli" or "categorical" for all columns, `Gaussian`, `Bernoulli` with
            choices of their own, or a dictionary of these by column.
        encoder, decoder: recipes of networks, such as MLP(hidden=(200, 200)) or, for images, ConvEncoder() and
            ConvDecoder(); None is MLP() for tables and these two for images.
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

    theta_: VAEModule
    classes_: np.ndarray

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "likelihood": "no_validation",
        "encoder": [Recipe, None],
        "decoder": [Recipe, None],
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
        lesson = self._lesson(X, y, sample_weight)
        elbo = self.objective or Elbo()
        elbo.check()
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
        self._train(lesson, self._found(lesson), objective, bound, phases, feed)
        return self

    def fit_decoder(self, X: Any, Z: Any, sample_weight: Any = None) -> Self:
        """Train the decoder alone from pairs of a row and its latent vector; with a Gaussian, least squares.

        The encoder stays as it is: of a model that was not fitted before it is untrained, and only `sample`,
        `inverse_transform` and `fit` make sense of such a model.
        """
        known = getattr(self, "theta_", None)
        lesson = self._lesson(X, None, sample_weight)
        facts = self._found(lesson) if known is None else self._facts
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
        self._train(pairs, facts, likelihood, likelihood, start=known, wrap=PairModule)
        return self

    def score_samples(self, X: Any, importance_samples: int | None = None) -> Any:
        """The importance-weighted bound of ln p(x) per row, over the entries that are observed.

        It rises with the number of draws, `evaluation_samples` unless given here; `bound` also tells its standard
        error.
        """
        return self.bound(X, importance_samples or self.evaluation_samples).total

    def bound(self, X: Any, importance_samples: int | None = None) -> Bound:
        """The evidence lower bound, term by term, or with `importance_samples` the tighter one of so many draws."""
        x, kind = self._read_events(X)
        jacobian = self._columns.log_jacobian(~x.isnan())
        with self._answering() as (module, device):
            if importance_samples is None:
                found = answers.elbo(module, x, self.evaluation_samples, self._generator(), device)
            else:
                k = whole_number("importance_samples", importance_samples)
                found = answers.evidence(module, x, k, self._generator(), device)
        return Bound(
            kind.values(found.reconstruction + jacobian),
            {name: kind.values(value) for name, value in found.kl.items()},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
        )

    def posterior(self, X: Any) -> torch.distributions.Distribution:
        """q(z|x), a Gaussian per row; with classes the mixture of q(z|x,y) with the weights q(y|x)."""
        x, _ = self._read_events(X)
        with self._answering() as (module, device):
            latent, log_q = answers.posterior(module, x, device)
        if len(log_q) == 1:
            return latent.map(lambda tensor: tensor[0]).distribution()
        return torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=log_q.T),
            latent.map(lambda tensor: tensor.transpose(0, 1)).distribution(),
        )

    def transform(self, X: Any) -> Any:
        """The posterior mean of every row's latent vector, (n, m)."""
        x, kind = self._read_events(X)
        with self._answering() as (module, device):
            return kind.values(answers.latent_means(module, x, device))

    def inverse_transform(self, Z: Any, y: Any = None) -> Any:
        """The rows that the decoder expects at latent vectors (n, m); y says their classes where there are any."""
        check_is_fitted(self)
        z = read_latents(Z, self.theta_.n_latent)
        return self._present(self._decoded(z, self._class_numbers(y, len(z))), self._kind)

    def reconstruct(self, X: Any) -> Any:
        """What the decoder expects at the posterior mean of every row."""
        x, kind = self._read_events(X)
        with self._answering() as (module, device):
            return self._present(answers.reconstruction(module, x, device), kind)

    def interpolate(self, a: Any, b: Any, n: int = 10) -> Any:
        """`n` rows on the way from a to b: the decoder along the straight line between their posterior means."""
        ends = [np.asarray(self.transform(self._one_row(name, row)), np.float64) for name, row in (("a", a), ("b", b))]
        share = np.linspace(0, 1, whole_number("n", n))[:, None]
        y = None
        if hasattr(self, "classes_"):
            found = [self.predict(self._one_row(name, row)) for name, row in (("a", a), ("b", b))]
            y = np.where(share[:, 0] < 0.5, np.repeat(found[0], n), np.repeat(found[1], n))
        return self.inverse_transform((1 - share) * ends[0] + share * ends[1], y)

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the latent vector each came from; after a fit with labels, y asks for classes."""
        check_is_fitted(self)
        n = whole_number("n_samples", n_samples)
        generator = self._generator(random_state)
        z = torch.randn((n, self.theta_.n_latent), generator=generator)
        label = self._class_numbers(y, n, generator)
        return self._present(self._decoded(z, label, generator), self._kind), self._kind.values(z)

    def impute(self, X: Any, importance_samples: int | None = None) -> Any:
        """X with missing entries at their posterior mean, or most probable level; observed ones bit for bit."""
        x, kind = self._read_events(X)
        with self._answering() as (module, device):
            k = importance_samples or self.evaluation_samples
            filled = answers.fill(module, x, whole_number("importance_samples", k), self._generator(), device)
        return self._restored(X, filled, kind)

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing entries drawn from their posterior, for multiple imputation."""
        x, kind = self._read_events(X)
        n, generator = whole_number("n_draws", n_draws), self._generator(random_state)
        with self._answering() as (module, device):
            copies = answers.fill_draws(module, x, n, self.evaluation_samples, generator, device)
        return [self._restored(X, copy, kind) for copy in copies]

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """q(y|x), (n, C)."""
        x, kind = self._read_events(X)
        with self._answering() as (module, device):
            return kind.values(answers.posterior(module, x, device)[1].T.exp())

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """The most probable class."""
        proba = self.predict_proba(X)
        labels = decode_labels(np.asarray(proba).argmax(1), self.classes_)
        return torch.as_tensor(labels) if isinstance(proba, Tensor) and labels.dtype.kind in "iufb" else labels

    @property
    def noise_variance_(self) -> np.ndarray:
        """σ² of every continuous column, in the units of the data; of a decoder that says it by point there is none."""
        check_is_fitted(self)
        emission = self.theta_.emission
        if emission.has_point_variance or not len(emission.continuous):
            raise AttributeError("the model has no noise variance apart from the decoder's")
        scale = self._columns.scale[emission.continuous.cpu()]
        variance = emission.log_noise(torch.empty(0)).detach().double().cpu().exp() * scale.square()
        return np.asarray(variance)

    @property
    def _n_features_out(self) -> int:
        return self.theta_.n_latent

    def _lesson(self, X: Any, y: Any, sample_weight: Any) -> Lesson:
        """Rows, labels and weights to learn from."""
        self._validate_params()
        kinds, _, _ = likelihood_of(self.likelihood)
        events, weight, kept = learn_events(self, X, kinds, self.scaling, sample_weight)
        label, classes = encode_labels(y, len(kept), None, kept)
        if hasattr(self, "classes_"):
            del self.classes_
        if label is None:
            return Lesson(events, (), weight)
        if self.importance_samples > 1:
            raise ValueError(
                f"importance_samples={self.importance_samples} cannot be used with labels, whose bound sums over "
                "classes; set it to 1, or pass y=None to ignore labels"
            )
        self.classes_ = classes
        return Lesson(events, (label[torch.from_numpy(kept)],), weight)

    def _found(self, lesson: Lesson) -> dict[str, Any]:
        """What the rows decide about the networks."""
        m = choose_n_latent(self.n_components, len(lesson.events.columns.names))
        facts: dict[str, Any] = {"n_latent": m, "n_classes": 0, "has_holes": lesson.has_holes()}
        if lesson.extra and lesson.extra[0] is not None:
            label = lesson.extra[0]
            counts = torch.bincount(label[label >= 0], minlength=len(self.classes_)).double()
            # One row more for every class: none is impossible.
            prior = ((counts + 1) / (counts + 1).sum()).tolist()
            share = float(counts.sum()) / len(label)
            facts |= {"n_classes": len(prior), "prior": prior, "class_weight": self.class_weight / share}
        return facts

    def _build(self, facts: dict[str, Any]) -> nn.Module:
        return build_module(self, self._columns, self._image_shape, facts)

    def _decoded(self, z: Tensor, label: Tensor | None, generator: torch.Generator | None = None) -> Tensor:
        """Rows expected at z, or drawn there with a generator."""
        with self._answering() as (module, device):
            if label is not None:
                z = torch.cat([z, torch.nn.functional.one_hot(label, module.n_classes)], -1)
            parts = []
            for rows in z.split(4096):
                outputs = module.decode(rows.to(device))
                emission = module.emission
                drawn = generator is not None
                values = (
                    emission.sample(outputs, generator) if drawn else emission.decide(emission.expectation(outputs))
                )
                parts.append(values.cpu())
        return torch.cat(parts)

    def _class_numbers(self, y: Any, n: int, generator: torch.Generator | None = None) -> Tensor | None:
        """The numbers of the classes asked for, one each for n rows; without y drawn from their prior."""
        known = getattr(self, "classes_", None)
        if known is None:
            if y is not None:
                raise ValueError(f"y={y!r} asks for a class, but the model was fitted without labels; pass y=None")
            return None
        if y is None:
            if generator is None:
                raise ValueError(f"the decoder needs classes: give y, one of {known.tolist()} for all rows or one each")
            prior = torch.tensor(self._facts["prior"])
            return torch.multinomial(prior, n, replacement=True, generator=generator)
        return numbers_of_classes(y, known, n)

    def _one_row(self, name: str, row: Any) -> Any:
        """A row as a table of one row."""
        if hasattr(row, "to_frame"):
            return row.to_frame().T.infer_objects()
        if hasattr(row, "columns"):
            return row
        values = np.asarray(row)
        if values.shape == (1, *self._shape):
            return values
        if values.shape != self._shape:
            raise ValueError(f"{name} has shape {values.shape}; expected one row of shape {self._shape}")
        return values[None]

    def _restored(self, X: Any, filled: Tensor, kind: Kind) -> Any:
        """X with its holes from `filled`."""
        if kind.container in ("pandas", "polars"):
            return self._columns.restore(X, filled.double())
        values = self._decoded_matrix(filled)
        given = torch.as_tensor(np.asarray(X.cpu() if isinstance(X, Tensor) else X, dtype=kind.dtype))
        return kind.values(torch.where(given.isnan(), values.to(given), given))


class PairModule(nn.Module):
    """ln p(x|z) of given pairs."""

    def __init__(self, vae: VAEModule) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, x: Tensor, z: Tensor) -> dict[str, Tensor]:
        emission, observed = self.vae.emission, ~x.isnan()
        log_prob = emission.log_prob(self.vae.decode(z), x.nan_to_num(), observed)
        return {"reconstruction": log_prob + emission.log_jacobian(observed)}
