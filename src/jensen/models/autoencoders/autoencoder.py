"""Autoencoder.

    min Σ_i ‖x_i - decoder(encoder(x_i))‖²
    denoising:  min Σ_i E‖x_i - decoder(encoder(x_i + ε))‖²,  ε ~ N(0, noise² I)
Rumelhart, Hinton & Williams (1986); with noise Vincent et al. (2008). Linear networks span the plane of PCA (Baldi &
Hornik 1989). A squared error is not a density, so there is no likelihood, no bound and no distribution of z; VAE has
them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from jensen.contract import not_offered
from jensen.contract.answering import mean_over
from jensen.contract.gradient import MOST_ROWS, GradientEstimator, blocks
from jensen.contract.training import Facts, TrainingSpec
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.rows import ColumnRules
from jensen.engines.sgd.plan import Terms, Trainer
from jensen.files.scan import Scan
from jensen.models.autoencoders.build import choose_n_latent, plan_networks, read_latents
from jensen.nets.emission import Emission
from jensen.nets.likelihoods import Gaussian, likelihood_of
from jensen.nets.recipe import Recipe, build_network
from jensen.runtime.progress import progress

NO_DENSITY = "an autoencoder has no likelihood, no probability of x and no distribution of z; use VAE for these"
NO_POSTERIOR = (
    f"an imputed value is a posterior mean or draw, and {NO_DENSITY}; reconstruct returns the decoder's output"
)


@dataclass(frozen=True)
class AutoencoderFacts(Facts):
    """What a fit derived from its rows: the dimension of z, and whether values may be missing."""

    n_latent: int
    has_missing: bool


class Autoencoder(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientEstimator[AutoencoderFacts, "AutoencoderModule"]
):
    """Autoencoder: an encoder maps rows to a few numbers and a decoder maps them back, with the least squared error.

    Errors are in standardised units and so do not depend on the units of the features: predicting the mean of every
    column has error 1 per value. For a categorical value, -2 ln of its predicted probability takes the place of the
    square.

    Args:
        n_components: m, the dimension of z; None is half the number of features, at most 8.
        noise: standard deviation of the noise that training adds to numbers before encoding them (denoising
            autoencoder), in standard deviations of their column; 0 adds none. Levels are not changed.
        columns: {column: kind} for columns that are not what they look like: "number", "level", "yes/no", "date" or
            "left out".
        encoder, decoder: recipes of the networks, such as MLP(hidden=(200, 200)) or, for images, ConvEncoder() and
            ConvDecoder(); None is MLP() for tables and ConvEncoder(), ConvDecoder() for images.
        scaling: "feature" standardises every column, "common" divides all columns by one number; None is "common" for
            images and "feature" for tables.
        max_epochs: passes over the rows; None is enough for 5000 steps, at least 20.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        trainer: the other options of the training, `Trainer(...)`.
        checkpoint: file that training writes from time to time and resumes from if it exists.
        device: "auto", "cpu", "cuda", ...
        random_state: seed or RandomState of the training.
        verbose: 1 shows a progress bar on a terminal.

    Attributes:
        module_: the networks; forward returns the error of every row.
        history_: data frame with one row per round: the mean error of the rows, and minus that of held-out rows.
        columns_: kind, levels and scaling of every column.
        n_iter_: number of epochs.
        pixel_range_: for images, the smallest and the largest value of a pixel; reconstructions are clipped to it.
        loss_: mean error per row, with the added noise, in the round whose weights were kept.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import Autoencoder
        >>> X = load_iris().data
        >>> model = Autoencoder(n_components=2, max_epochs=20, random_state=0).fit(X)
        >>> model.transform(X).shape, model.reconstruct(X).shape, model.reconstruction_error(X).shape
        ((150, 2), (150, 4), (150,))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "noise": [Interval(Real, 0.0, None, closed="left")],
        "columns": [Mapping, None],
        "encoder": [Recipe, None],
        "decoder": [Recipe, None],
        "scaling": [StrOptions({"feature", "common"}), None],
        **GradientEstimator._training_constraints,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: float = 0.0,
        columns: Mapping[str | int, Any] | None = None,
        encoder: Recipe | None = None,
        decoder: Recipe | None = None,
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
        self.noise = noise
        self.columns = columns
        self.encoder = encoder
        self.decoder = decoder
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
        """Train both networks.

        Args:
            X: table (n, d), images (n, h, w) or (n, c, h, w), memory-mapped array, torch Dataset or `jensen.scan`;
                NaN, None and empty cells are missing values, which do not count in the error.
            y: ignored.
            sample_weight: weight of every row: 2 counts the row twice, 0 leaves it out.
        """
        self._validate_params()
        data = self._training_set(X, None, sample_weight)
        columns = data.events.columns
        if self.noise and "number" not in columns.kinds:
            raise ValueError(
                f"noise={self.noise} is added to numbers, but X has none: its columns are binary or categorical; "
                "set noise=0"
            )
        # With noise, copying x is not optimal, however large z is.
        way_out = None if self.noise else "lower n_components, or set noise"
        n_latent = choose_n_latent(self.n_components, len(columns.names), way_out)
        facts = AutoencoderFacts(n_latent, data.has_missing())
        self._train(data, TrainingSpec(minus_error, minus_error, facts=lambda rows: facts))
        self.loss_ = -self.lower_bound_
        del self.lower_bound_
        return self

    def transform(self, X: Table) -> Any:
        """The latent vector of every row, (n, m)."""
        x, kind = self._read_events(X)
        return kind.values(self._computed(x, lambda module, rows: module.encode(rows)))

    def inverse_transform(self, Z: Any) -> Any:
        """The decoder's rows for latent vectors (n, m)."""
        check_is_fitted(self)
        z, kind = read_latents(Z, self.theta_.n_latent), self._kind
        if isinstance(Z, Tensor) and not self._columns.is_frame:
            kind = replace(kind, container="torch", device=str(Z.device))
        return self._present(self._computed(z, lambda module, rows: module.decode(rows)), kind, is_expected=True)

    def reconstruct(self, X: Table) -> Any:
        """Every row after encoding and decoding; columns with levels get a probability or the most probable level.

        Missing values are reconstructed as well, from the observed ones; they are not posterior means.
        """
        x, kind = self._read_events(X)
        decoded = self._computed(x, lambda module, rows: module.decode(module.encode(rows)))
        return self._present(decoded, kind, is_expected=True)

    def reconstruction_error(self, X: Table) -> Any:
        """The mean error of the observed values of every row (n,); large errors indicate outliers.

        Errors are in standardised units, which do not depend on the units of X. For images and with `scaling="common"`,
        multiply by `columns_.scale[0] ** 2` to get squared errors in the units of X. A row without observed values has
        error 0.
        """
        x, kind = self._read_events(X)
        error = self._computed(x, lambda module, rows: module(rows)["error"].double())
        return kind.values(error / (~x.isnan()).sum(1).clamp_min(1))

    def score(self, X: Table, y: Any = None) -> float:
        """Minus the mean `reconstruction_error` of the rows; y is ignored. It is not a likelihood."""
        errors = self.reconstruction_error(X)
        return -mean_over(errors) if isinstance(X, Scan) else -float(errors.mean())

    score_samples = not_offered("score_samples", NO_DENSITY)
    bound = not_offered("bound", NO_DENSITY)
    posterior = not_offered("posterior", NO_DENSITY)
    sample = not_offered("sample", NO_DENSITY)
    impute = not_offered("impute", NO_POSTERIOR)
    impute_draws = not_offered("impute_draws", NO_POSTERIOR)

    @property
    def _n_features_out(self) -> int:
        return self.theta_.n_latent

    def _computed(self, values: Tensor, function: Callable[[AutoencoderModule, Tensor], Tensor]) -> Tensor:
        """A function of the networks and of rows or latent vectors, one block at a time."""
        with self._inference() as (module, device):
            some = progress(list(blocks(len(values), module.n_numbers, MOST_ROWS)), "rows")
            parts = [function(module, values[rows].to(device)).cpu() for rows in some]
        return torch.cat(parts)

    def _column_rules(self) -> ColumnRules:
        return ColumnRules(scaling=self.scaling, columns=self.columns)

    def _build(self, facts: AutoencoderFacts) -> AutoencoderModule:
        return build_module(self, self._parts.inner, self._image_shape, facts)

    def _facts_from(self, record: dict[str, Any]) -> AutoencoderFacts:
        return AutoencoderFacts.from_record(record)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # No method draws random numbers.
        tags.non_deterministic = False
        return tags


def minus_error(terms: Terms, done: float) -> Tensor:
    return -terms["error"]


def build_module(
    model: Autoencoder, columns: Columns, shape: tuple[int, ...], facts: AutoencoderFacts
) -> AutoencoderModule:
    """New networks for rows of this shape, (d,) or (c, h, w)."""
    units = replace(columns, scale=torch.ones_like(columns.scale), atoms=())
    emission = Emission(units, likelihood_of(Gaussian(variance=1.0)))
    networks = plan_networks(model, columns, shape, emission.n_outputs, facts.has_missing)
    m = facts.n_latent
    return AutoencoderModule(
        networks.view,
        build_network("encoder", networks.encoder, networks.in_shape, (m,)),
        build_network("decoder", networks.decoder, (m,), networks.out_shape),
        emission,
        n_latent=m,
        noise=model.noise,
    )


class AutoencoderModule(nn.Module):
    """
    Args:
        view: turns rows (b, d) in the units of `Columns`, NaN where missing, into the encoder's input.
        encoder: returns z.
        decoder: returns the parameters of the emission, given z.
        emission: the error of every column; variance 1 for numbers makes it the squared error.
        n_latent: m.
        noise: standard deviation of the noise that training adds to numbers.
    """

    is_number: Tensor

    def __init__(
        self,
        view: Callable[[Tensor], Tensor],
        encoder: nn.Module,
        decoder: nn.Module,
        emission: Emission,
        *,
        n_latent: int,
        noise: float,
    ) -> None:
        super().__init__()
        self.view, self.encoder, self.decoder, self.emission = view, encoder, decoder, emission
        self.n_latent, self.noise = n_latent, noise
        is_number = torch.zeros(emission.n_columns)
        is_number[emission.numbers.columns] = 1.0
        self.register_buffer("is_number", is_number, persistent=False)

    @property
    def n_numbers(self) -> int:
        """Size of the widest tensor per row."""
        return max(self.emission.n_outputs, self.emission.n_columns)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """The error of every row (b,), summed over its observed values."""
        # Missing values stay missing: NaN plus noise is NaN.
        given = x + self.noise * self.is_number * torch.randn_like(x) if self.training and self.noise else x
        outputs = self.decoder(self.encode(given)).flatten(1)
        # -2 ln p with unit variance is the square plus ln 2π; rounding may leave it slightly below 0.
        entries = -2 * self.emission.log_prob_entries(outputs, x.nan_to_num()) - math.log(2 * math.pi) * self.is_number
        return {"error": (entries.clamp_min(0.0) * ~x.isnan()).sum(-1)}

    def encode(self, x: Tensor) -> Tensor:
        """z (b, m)."""
        z: Tensor = self.encoder(self.view(x))
        return z

    def decode(self, z: Tensor) -> Tensor:
        """Rows (b, d): numbers, probabilities of 1, and the most probable levels."""
        return self.emission.decide(self.emission.expectation(self.decoder(z).flatten(1)))
