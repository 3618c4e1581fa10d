"""The networks of a variational autoencoder; forward returns the terms of its bound.

    z ~ N(0, I),  x | z ~ p(x | decoder(z)),   q(z|x) = N(μ(x), L(x) L(x)ᵀ)
    with classes:  y ~ Categorical(π),  x | y, z ~ p(x | decoder(z, y)),   q(y|x) q(z|x,y)
Missing values are hidden from the encoder and left out of the likelihood, so the bound is that of the observed values
(Mattei & Frellsen 2019). The model with classes is M2 of Kingma et al. (2014): q(y|x) is the classifier.

All z have an axis of classes, of length 1 without classes: draws (k, C, b, m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, one_hot

from jensen.contract.gradient import MOST_ROWS
from jensen.formulas.latent_gaussian import LatentGaussian, read_posterior
from jensen.nets.emission import Emission


@dataclass(frozen=True)
class Parts:
    """What a VAE is made of.

    Args:
        view: turns rows (b, d) in the units of `Columns`, NaN where missing, into the encoder's input.
        encoder: returns the parameters of q(z|x).
        decoder: returns the parameters of p(x|z).
        emission: p(x|z), given these parameters.
        n_latent: m.
        is_full: whether q has a full covariance.
        n_draws: k of the importance-weighted bound that forward returns; with 1 the KL is in closed form.
        has_missing: whether values may be missing in training.
        resamples: whether forward draws binary values from grey ones.
        given: returns what the decoder sees of rows (b, d) beside z, (b, e); None if it sees z alone.
    """

    view: Callable[[Tensor], Tensor]
    encoder: nn.Module
    decoder: nn.Module
    emission: Emission
    n_latent: int
    is_full: bool
    n_draws: int
    has_missing: bool
    resamples: bool
    given: Callable[[Tensor], Tensor] | None = None


class VAEModule(nn.Module):
    """The networks of a VAE without classes."""

    n_classes, class_length = 1, 1.0

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.view, self.encoder, self.decoder, self.emission = parts.view, parts.encoder, parts.decoder, parts.emission
        self.n_latent, self.is_full, self.n_draws = parts.n_latent, parts.is_full, parts.n_draws
        self.has_missing, self.resamples = parts.has_missing, parts.resamples
        self.covariates = parts.given

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Terms per row (b,), or per draw and row (k, b)."""
        x, observed = self.given(x)
        latent = read_posterior(self.encoder(self.view(x)), self.n_latent, self.is_full)
        noise = torch.randn((self.n_draws, *latent.mean.shape), dtype=x.dtype, device=x.device)
        if self.n_draws == 1:
            z, kl = latent.draw(noise[0]), latent.kl()
        else:
            z = latent.draw(noise)
            kl = latent.log_ratio(z, noise)
        filled = x if observed is None else x.nan_to_num()
        log_prob = self.emission.log_prob(self.decode(z, x), filled, observed) + self.emission.log_jacobian(observed)
        return {"reconstruction": log_prob, "latent": kl}

    def given(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The rows to train on, and a mask of the observed values; None if all are."""
        observed = ~x.isnan() if self.has_missing else None
        if self.resamples:
            drawn = binary_draws(x)
            x = drawn if observed is None else torch.where(observed, drawn, x)
        return x, observed

    def decode(self, z: Tensor, x: Tensor | None = None) -> Tensor:
        """The parameters of p(x|z) for z (..., b, m); with covariates, which are all it uses of rows x (b, d)."""
        if self.covariates is not None and x is not None:
            given = self.covariates(x)
            z = torch.cat([z.expand(*z.shape[:-2], len(x), -1), given.expand(*z.shape[:-2], -1, -1)], -1)
        points = z.reshape(-1, z.shape[-1])
        # Hidden layers need far more memory than the draws; with gradients all of it is kept anyway.
        parts = (points,) if torch.is_grad_enabled() else points.split(MOST_ROWS)
        found = [self.decoder(part).flatten(1) for part in parts]
        flat: Tensor = found[0] if len(found) == 1 else torch.cat(found)
        return flat.reshape(*z.shape[:-1], -1)

    def beside_class(self, z: Tensor, y: Tensor) -> Tensor:
        """What the decoder sees of z (..., m) and of one-hot classes y (..., C)."""
        return torch.cat([z, self.class_length * y], -1)

    def latents(self, x: Tensor) -> tuple[LatentGaussian, Tensor]:
        """q(z|x,y) of every class (C, b, m), and ln q(y|x) (b, C)."""
        latent = read_posterior(self.encoder(self.view(x))[None], self.n_latent, self.is_full)
        return latent, x.new_zeros((len(x), 1))

    def log_prior_class(self) -> Tensor:
        """ln π (C,)."""
        return torch.zeros(1, device=next(self.parameters()).device)

    def decode_classes(self, z: Tensor, x: Tensor) -> Tensor:
        """The same for z (..., C, b, m), where the index C is the class; z may be the same for all rows, b = 1."""
        return self.decode(z, x)

    def generative_parameters(self) -> list[nn.Parameter]:
        """Of p(x, z)."""
        return [*self.decoder.parameters(), *self.emission.parameters()]

    def inference_parameters(self) -> list[nn.Parameter]:
        """Of q."""
        return list(self.encoder.parameters())


def binary_draws(p: Tensor) -> Tensor:
    """0 or 1 with these probabilities of a 1; 0 for NaN. `torch.bernoulli` takes three times as long."""
    draws = torch.rand_like(p)
    return torch.lt(draws, p, out=draws)


class ClassVAEModule(VAEModule):
    """The networks of a VAE with classes, which are known for some rows.

    Args:
        parts: as for every VAE; the encoder returns a summary of x.
        log_prior: ln π (C,).
        classifier: returns the logits of q(y|x).
        head: returns the parameters of q(z|x,y), from the summary of x and the class y.
        class_weight: α, the weight of ln q(y|x) of a labelled row in the objective.
        class_length: the one-hot class times this number is what the decoder sees of it.
    """

    log_prior: Tensor

    def __init__(
        self,
        parts: Parts,
        log_prior: Tensor,
        classifier: nn.Module,
        head: nn.Module,
        class_weight: float,
        class_length: float = 1.0,
    ) -> None:
        super().__init__(parts)
        self.n_classes = len(log_prior)
        self.register_buffer("log_prior", log_prior)
        self.classifier, self.head, self.class_weight = classifier, head, class_weight
        self.class_length = class_length

    def forward(self, x: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
        """Terms of ln p(x, y) for labelled rows, and of ln p(x), averaged over q(y|x), for unlabelled ones."""
        x, observed = self.given(x)
        label = x.new_full((len(x),), -1, dtype=torch.long) if label is None else label
        is_known = label >= 0
        seen = self.view(x)
        log_q = log_softmax(self.classifier(seen), -1)
        summary = self.encoder(seen)
        # Labelled rows with their class, then unlabelled rows once with every class.
        known, unknown = is_known.nonzero()[:, 0], (~is_known).nonzero()[:, 0]
        row = torch.cat([known, unknown.repeat(self.n_classes)])
        number = torch.cat(
            [label[known], torch.arange(self.n_classes, device=x.device).repeat_interleave(len(unknown))]
        )
        y = one_hot(number, self.n_classes).to(x)
        latent = read_posterior(self.head(torch.cat([summary[row], y], -1)), self.n_latent, self.is_full)
        z = latent.draw(torch.randn_like(latent.mean)[None])[0]
        outputs = self.decode(self.beside_class(z, y), x[row])
        filled = x if observed is None else x.nan_to_num()
        reconstruction = self.emission.log_prob(outputs, filled[row], None if observed is None else observed[row])
        share = torch.cat([x.new_ones(len(known)), log_q.exp()[unknown].T.reshape(-1)])

        def per_row(value: Tensor) -> Tensor:
            return torch.zeros_like(log_q[:, 0]).index_add(0, row, share * value)

        divergence = (log_q.exp() * (log_q - self.log_prior)).sum(-1)
        of_label = label.clamp_min(0)
        chosen = log_q.gather(-1, of_label[:, None])[:, 0]
        return {
            "reconstruction": per_row(reconstruction) + self.emission.log_jacobian(observed),
            "latent": per_row(latent.kl()),
            "class": torch.where(is_known, -self.log_prior[of_label], divergence),
            "classification": torch.where(is_known, -self.class_weight * chosen, torch.zeros_like(chosen)),
        }

    def latents(self, x: Tensor) -> tuple[LatentGaussian, Tensor]:
        seen = self.view(x)
        summary = self.encoder(seen).expand(self.n_classes, len(x), -1)
        y = torch.eye(self.n_classes, dtype=x.dtype, device=x.device)[:, None].expand(-1, len(x), -1)
        outputs = self.head(torch.cat([summary, y], -1).flatten(0, 1)).unflatten(0, (self.n_classes, len(x)))
        return read_posterior(outputs, self.n_latent, self.is_full), log_softmax(self.classifier(seen), -1)

    def log_prior_class(self) -> Tensor:
        return self.log_prior

    def decode_classes(self, z: Tensor, x: Tensor) -> Tensor:
        y = torch.eye(self.n_classes, dtype=z.dtype, device=z.device)[:, None].expand(*z.shape[:-1], -1)
        return self.decode(self.beside_class(z, y), x)

    def inference_parameters(self) -> list[nn.Parameter]:
        return [p for part in (self.encoder, self.head, self.classifier) for p in part.parameters()]
