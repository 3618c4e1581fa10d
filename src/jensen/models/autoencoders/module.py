"""The networks of a variational autoencoder; forward gives the terms of its bound.

    z ~ N(0, I),  x | z ~ p(x | decoder(z)),   q(z|x) = N(μ(x), L(x) L(x)ᵀ)
    with classes:  y ~ Categorical(π),  x | y, z ~ p(x | decoder(z, y)),   q(y|x) q(z|x,y)
Of missing entries neither the encoder nor the likelihood knows anything: the bound is that of the observed ones (Mattei
& Frellsen 2019). The classes are M2 of Kingma et al. (2014).

All z have an axis of classes, of length 1 where there are none: draws (k, C, b, m).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, one_hot

from jensen.contract.gradient import MOST_ROWS
from jensen.formulas.latent_gaussian import LatentGaussian, read_posterior
from jensen.nets.likelihoods import Emission

__all__ = ["ClassVAEModule", "VAEModule"]


class VAEModule(nn.Module):
    """
    Args:
        view: rows (b, d) in the units of `Columns`, NaN where missing, as the encoder takes them.
        encoder: of what `view` gives, the numbers that say q(z|x).
        decoder: of z, the numbers that say p(x|z).
        emission: reads these.
        n_latent: m.
        is_full: whether q has a full covariance.
        n_draws: k of the importance-weighted bound that forward gives; with 1 the KL is in closed form.
        has_holes: whether rows may have missing entries in training.
        resamples: whether forward draws binary values from grey ones.
        start: what the decoder's outputs are added to (D,), so that training begins with the columns' own frequencies.
    """

    n_classes = 1
    start: Tensor | None

    def __init__(
        self,
        view: Callable[[Tensor], Tensor],
        encoder: nn.Module,
        decoder: nn.Module,
        emission: Emission,
        *,
        n_latent: int,
        is_full: bool,
        n_draws: int,
        has_holes: bool,
        resamples: bool,
        start: Tensor | None,
    ) -> None:
        super().__init__()
        self.view, self.encoder, self.decoder, self.emission = view, encoder, decoder, emission
        self.n_latent, self.is_full, self.n_draws = n_latent, is_full, n_draws
        self.has_holes, self.resamples = has_holes, resamples
        self.register_buffer("start", start, persistent=False)

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
        log_prob = self.emission.log_prob(self.decode(z), filled, observed) + self.emission.log_jacobian(observed)
        return {"reconstruction": log_prob, "latent": kl}

    def given(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows as they are learnt from, and where they are observed, None for everywhere."""
        observed = ~x.isnan() if self.has_holes else None
        if self.resamples:
            drawn = torch.bernoulli(x.nan_to_num() if self.has_holes else x)
            x = drawn if observed is None else torch.where(observed, drawn, x)
        return x, observed

    def decode(self, z: Tensor) -> Tensor:
        """Numbers that say p(x|z), for z with any leading axes."""
        points = z.reshape(-1, z.shape[-1])
        # What hidden layers hold of many draws is far more than the draws; gradients need it all the same.
        parts = (points,) if torch.is_grad_enabled() else points.split(MOST_ROWS)
        flat = torch.cat([self.decoder(part).flatten(1) for part in parts])
        outputs = flat if self.start is None else flat + self.start
        return outputs.reshape(*z.shape[:-1], -1)

    def latents(self, x: Tensor) -> tuple[LatentGaussian, Tensor]:
        """q(z|x,y) of every class (C, b, m), and ln q(y|x) (b, C)."""
        latent = read_posterior(self.encoder(self.view(x))[None], self.n_latent, self.is_full)
        return latent, x.new_zeros((len(x), 1))

    def log_prior_class(self) -> Tensor:
        """ln π (C,)."""
        return torch.zeros(1, device=next(self.parameters()).device)

    def decode_classes(self, z: Tensor) -> Tensor:
        """The same for z (..., C, b, m) with the class by its place."""
        return self.decode(z)

    def generative_parameters(self) -> list[nn.Parameter]:
        """Of p(x, z)."""
        return [*self.decoder.parameters(), *self.emission.parameters()]

    def inference_parameters(self) -> list[nn.Parameter]:
        """Of q."""
        return list(self.encoder.parameters())


class ClassVAEModule(VAEModule):
    """With a class for every row, known for some.

    Args:
        log_prior: ln π (C,).
        classifier: of what `view` gives, the logits of q(y|x).
        head: of the encoder's summary of x and of y, the numbers that say q(z|x,y).
        class_weight: what ln q(y|x) of a labelled row counts in training.
    """

    log_prior: Tensor

    def __init__(
        self,
        log_prior: Tensor,
        classifier: nn.Module,
        head: nn.Module,
        class_weight: float,
        *parts: Any,
        **options: Any,
    ) -> None:
        super().__init__(*parts, **options)
        self.n_classes = len(log_prior)
        self.register_buffer("log_prior", log_prior)
        self.classifier, self.head, self.class_weight = classifier, head, class_weight

    def forward(self, x: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
        """Of a labelled row the terms of ln p(x, y), of another the terms of ln p(x) averaged over q(y|x)."""
        x, observed = self.given(x)
        label = x.new_full((len(x),), -1, dtype=torch.long) if label is None else label
        is_known = label >= 0
        seen = self.view(x)
        log_q = log_softmax(self.classifier(seen), -1)
        summary = self.encoder(seen)
        # Rows of the labelled with their class, then rows of the others once with every class.
        known, unknown = is_known.nonzero()[:, 0], (~is_known).nonzero()[:, 0]
        row = torch.cat([known, unknown.repeat(self.n_classes)])
        number = torch.cat(
            [label[known], torch.arange(self.n_classes, device=x.device).repeat_interleave(len(unknown))]
        )
        y = one_hot(number, self.n_classes).to(x)
        latent = read_posterior(self.head(torch.cat([summary[row], y], -1)), self.n_latent, self.is_full)
        z = latent.draw(torch.randn_like(latent.mean)[None])[0]
        outputs = self.decode(torch.cat([z, y], -1))
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

    def decode_classes(self, z: Tensor) -> Tensor:
        y = torch.eye(self.n_classes, dtype=z.dtype, device=z.device)[:, None].expand(*z.shape[:-1], -1)
        return self.decode(torch.cat([z, y], -1))

    def inference_parameters(self) -> list[nn.Parameter]:
        return [p for part in (self.encoder, self.head, self.classifier) for p in part.parameters()]
