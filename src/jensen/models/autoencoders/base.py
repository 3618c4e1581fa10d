"""The methods of a model with an encoder, a decoder and a Gaussian latent vector.

ln p(x) ≥ E_q[ln p(x|z)] - KL(q(z|x) ‖ N(0, I)),   and tighter with k draws:  E ln (1/k) Σ_j p(x, z_j) / q(z_j|x)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound, HeavyTailWarning, averaging, is_averaging
from jensen.contract import whole_number
from jensen.contract.gradient import GradientEstimator, has_classes
from jensen.data.columns import Columns
from jensen.data.container import Table
from jensen.data.labels import classes_to_draw, decode_labels
from jensen.data.rows import FittedRows
from jensen.formulas.pareto import UNRELIABLE
from jensen.models.autoencoders import inference as answers
from jensen.models.autoencoders.build import VAEFacts, read_latents
from jensen.models.autoencoders.covariates import check_complete, check_known, draw_rows, places_of, table_of
from jensen.models.autoencoders.module import VAEModule
from jensen.runtime.messages import warn_of_rows
from jensen.runtime.progress import progress
from jensen.runtime.row_draws import RowDraws

# A standard error of so many nats is small: nearly equal weights may have a heavy tail, too.
SMALL_ERROR = 0.1


class VariationalModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientEstimator[VAEFacts, VAEModule]):
    """Scores, latent vectors, samples and imputations from the networks of `module_`."""

    capabilities = replace(
        GradientEstimator.capabilities, score="bound", missing_in_score=True, labels=True, predict="labels"
    )
    evaluation_samples: int
    condition_on: Sequence[str | int] | None

    def score_samples(self, X: Table, *, importance_samples: int | None = None) -> Any:
        """The importance-weighted bound of ln p(x) per row, over its observed values.

        In expectation it lies below ln p(x) and rises with the number of draws, by default `evaluation_samples`. The
        score of a single row may lie above ln p(x) by chance if a few draws carry all the weight: a `HeavyTailWarning`
        counts such rows, and `bound(X, importance_samples=k)` has the standard error and `diagnostics` of every row.
        """
        k = self.evaluation_samples if importance_samples is None else importance_samples
        return self.bound(X, importance_samples=k).total

    def score(self, X: Table, y: Any = None) -> float:
        """Mean of `score_samples` over the rows; y is ignored."""
        with averaging():
            return super().score(X, y)

    def describe_score(self) -> str:
        return f"bound, {self.evaluation_samples} importance samples"

    def bits_per_dimension(self, X: Table, *, importance_samples: int | None = None) -> Any:
        """-score / (d ln 2) of every row with d observed values: on a grid, the bits per value of a lossless code."""
        n_observed = (~self._read_fitted(X).missing).sum(1).sub(len(self._facts.condition_on)).clamp_min(1)
        scores = self.score_samples(X, importance_samples=importance_samples)
        per_row = n_observed if isinstance(scores, Tensor) else n_observed.numpy()
        return scores / (-math.log(2) * per_row)

    def bound(self, X: Table, *, importance_samples: int | None = None) -> Bound:
        """The evidence lower bound (ELBO), term by term; with `importance_samples`, the tighter bound of so many draws.

        `diagnostics` holds, for every row, `pareto_k`, the shape k̂ of the tail of the importance weights (NaN for 20
        draws or fewer), and `effective_samples`. The standard error of an importance-weighted bound allows for the
        part of the tail beyond the draws, and for regions that as many draws from the prior reach but draws from q(z|x)
        miss. A `HeavyTailWarning` counts the rows with k̂ above 0.7 and a standard error above 0.1 nats.
        """
        rows = self._read_fitted(X)
        x, kind = rows.x, rows.kind
        outside = self._parts.inner.log_jacobian(~x.isnan() & self._is_modelled) + rows.log_unseen
        seed = self._generator().initial_seed()
        with self._inference() as (module, device):
            if importance_samples is None:
                found = answers.elbo(module, x, self.evaluation_samples, RowDraws.of(x, seed), device)
            else:
                k = whole_number("importance_samples", importance_samples)
                found = answers.evidence(module, x, k, RowDraws.of(x, seed), seed, device)
                warn_of_heavy_tails(found, k)
        return Bound(
            kind.values(found.reconstruction + outside),
            {name: kind.values(value) for name, value in found.kl.items()},
            is_exact=False,
            standard_error=kind.values(found.standard_error),
            diagnostics={name: kind.values(value) for name, value in (found.diagnostics or {}).items()},
        )

    def posterior(self, X: Table) -> torch.distributions.Distribution:
        """q(z|x), a Gaussian per row; with classes the mixture of q(z|x,y) with the weights q(y|x)."""
        x, _ = self._read_events(X)
        with self._inference() as (module, device):
            latent, log_q = answers.posterior(module, x, device)
        if len(log_q) == 1:
            return latent.map(lambda tensor: tensor[0]).distribution()
        return torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=log_q.T),
            latent.map(lambda tensor: tensor.transpose(0, 1)).distribution(),
        )

    def transform(self, X: Table) -> Any:
        """The posterior mean of every row's latent vector, (n, m)."""
        x, kind = self._read_events(X)
        with self._inference() as (module, device):
            return kind.values(answers.latent_means(module, x, device))

    def inverse_transform(self, Z: Any, y: Any = None, *, given: Mapping[str | int, Any] | None = None) -> Any:
        """The expected rows at latent vectors (n, m); a model with classes needs y, one with covariates `given`."""
        check_is_fitted(self)
        z = read_latents(Z, self.theta_.n_latent)
        expected = self._decoded(z, self._class_numbers(y, len(z)), None, self._given_rows(given, len(z)))
        return self._present(expected, self._kind, is_expected=True)

    def reconstruct(self, X: Table) -> Any:
        """The expected row at the posterior mean of every row's latent vector."""
        x, kind = self._read_events(X)
        with self._inference() as (module, device):
            return self._present(answers.reconstruction(module, x, device), kind, is_expected=True)

    def interpolate(self, a: Any, b: Any, n: int = 10) -> Any:
        """`n` rows from a to b: the decoder along the straight line between their posterior means."""
        ends = [np.asarray(self.transform(self._one_row(name, row)), np.float64) for name, row in (("a", a), ("b", b))]
        share = np.linspace(0, 1, whole_number("n", n))[:, None]
        y = None
        if hasattr(self, "classes_"):
            found = [self.predict(self._one_row(name, row)) for name, row in (("a", a), ("b", b))]
            y = np.where(share[:, 0] < 0.5, np.repeat(found[0], n), np.repeat(found[1], n))
        z = read_latents((1 - share) * ends[0] + share * ends[1], self.theta_.n_latent)
        given = torch.cat([self._read_events(self._one_row(name, row))[0] for name, row in (("a", a), ("b", b))])
        rows = given[(torch.from_numpy(share[:, 0]) >= 0.5).long()]
        return self._present(self._decoded(z, self._class_numbers(y, n), None, rows), self._kind, is_expected=True)

    def sample(
        self,
        n_samples: int = 1,
        y: Any = None,
        random_state: Any = None,
        *,
        mean: bool = False,
        given: Mapping[str | int, Any] | None = None,
    ) -> tuple[Any, Any]:
        """New rows, and what they came from: latent vectors z (n, m); after a fit with labels, (z, classes).

        Args:
            n_samples: number of rows.
            y: after a fit with labels, the class of all rows, or one per row; None draws classes by their frequencies.
            random_state: seed or RandomState; None is the model's own.
            mean: whether rows are the decoder's means and most probable levels, without the noise of p(x|z). Means
                look smoother than the data, and are no samples of the model.
            given: {column: value or values} of all columns of `condition_on`; None draws them from training rows.
        """
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        generator = self._generator(random_state)
        z = torch.randn((n, self.theta_.n_latent), generator=generator)
        label = self._class_numbers(y, n, generator)
        rows = self._decoded(z, label, None if mean else generator, self._given_rows(given, n, generator))
        rows = self._present(rows, self._kind, is_expected=mean)
        latent = self._kind.values(z)
        return rows, latent if label is None else (latent, decode_labels(label.numpy(), self.classes_))

    def impute(self, X: Table, *, importance_samples: int | None = None) -> Any:
        """X with missing values at their posterior mean or most probable level; observed values are unchanged."""
        rows = self._read_fitted(X)
        with self._inference() as (module, device):
            k = self.evaluation_samples if importance_samples is None else importance_samples
            filled = answers.fill(module, rows.x, whole_number("importance_samples", k), self._draws(rows.x), device)
        return self._with_rows(X, rows, self._parts.join(filled, is_expected=True))

    def impute_draws(self, X: Table, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing values drawn from their posterior, for multiple imputation."""
        rows = self._read_fitted(X)
        n, generator = whole_number("n_draws", n_draws), self._generator(random_state)
        with self._inference() as (module, device):
            copies = answers.fill_draws(module, rows.x, n, self.evaluation_samples, generator, device)
        return [self._with_rows(X, rows, self._parts.join(copy)) for copy in copies]

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Table) -> Any:
        """The class probabilities q(y|x) of the classifier, (n, C)."""
        x, kind = self._read_events(X)
        with self._inference() as (module, device):
            return kind.values(answers.posterior(module, x, device)[1].T.exp())

    @available_if(has_classes)  # type: ignore[untyped-decorator]
    def predict(self, X: Table) -> Any:
        """The most probable class of every row, by the classifier q(y|x)."""
        return self._decided(self.predict_proba(X))

    @property
    def noise_variance_(self) -> np.ndarray:
        """σ² of every continuous column, in the units of the data, unless the decoder predicts it for every row."""
        check_is_fitted(self)
        numbers = self.theta_.emission.numbers
        if numbers.has_point_variance or not len(numbers.columns):
            raise AttributeError(
                "the model has no noise variance of its own: the decoder predicts it, or no column is continuous"
            )
        scale = self._parts.inner.scale[numbers.columns.cpu()]
        variance = numbers.log_noise(torch.empty(0)).detach().double().cpu().exp() * scale.square()
        return np.asarray(variance)

    @property
    def _n_features_out(self) -> int:
        return self.theta_.n_latent

    def _measured(self, columns: Columns) -> tuple[str, ...]:
        """ "given" for the columns of `condition_on`, whose values have no score."""
        given = set(self.condition_on or ())
        return tuple(
            "given" if name in given else measure for name, measure in zip(columns.names, columns.measure, strict=True)
        )

    def _read_fitted(self, X: Table) -> FittedRows:
        rows = super()._read_fitted(X)
        if self._facts.condition_on:
            places = places_of(self._facts.condition_on, self._parts)
            check_known(rows.unseen, places, self._parts)
            check_complete(rows.x, places, self._parts)
        return rows

    @property
    def _is_modelled(self) -> Tensor:
        """Which columns of networks (D,) have a distribution."""
        is_modelled = torch.zeros(len(self._parts.inner.names), dtype=torch.bool)
        is_modelled[self.theta_.emission.modelled.cpu()] = True
        return is_modelled

    def _given_rows(
        self, given: Mapping[str | int, Any] | None, n: int, generator: torch.Generator | None = None
    ) -> Tensor | None:
        """n rows (n, D) with values of the covariates: given ones, or drawn ones; None without covariates."""
        names = self._facts.condition_on
        if not names:
            if given is not None:
                raise ValueError(f"given={given!r} is for models with condition_on; leave it out")
            return None
        if given is not None or generator is None:
            return self._read_events(table_of(given or {}, names, self._columns, n))[0]
        assert self._facts.covariates is not None
        places = places_of(names, self._parts)
        return draw_rows(self._facts.covariates, places, n, len(self._parts.inner.names), generator)

    def _decoded(
        self,
        z: Tensor,
        label: Tensor | None,
        generator: torch.Generator | None = None,
        given: Tensor | None = None,
    ) -> Tensor:
        """Expected rows at z; with a generator, rows drawn there; covariates are those of the given rows (n, D)."""
        every = torch.empty((len(z), len(self._parts.inner.names))) if given is None else given
        with self._inference() as (module, device):
            if label is not None:
                z = module.beside_class(z, torch.nn.functional.one_hot(label, module.n_classes))
            parts = []
            for rows, x in progress(list(zip(z.split(4096), every.split(4096), strict=True)), "samples"):
                outputs, emission = module.decode(rows.to(device), x.to(device)), module.emission
                if generator is None:
                    parts.append(emission.decide(emission.expectation(outputs)).cpu())
                else:
                    parts.append(emission.sample(outputs, generator).cpu())
        rows = torch.cat(parts)
        return rows if given is None else torch.where(self._is_modelled, rows, given)

    def _class_numbers(self, y: Any, n: int, generator: torch.Generator | None = None) -> Tensor | None:
        """The class numbers of n rows: those of y, or draws from the class frequencies."""
        known = getattr(self, "classes_", None)
        if known is not None and y is None:
            if generator is None:
                raise ValueError(f"the decoder needs classes: give y, one of {known.tolist()} for all rows or one each")
            prior = torch.tensor(self._facts.prior)
            return torch.multinomial(prior, n, replacement=True, generator=generator)
        return classes_to_draw(y, known, n)

    def _facts_from(self, record: dict[str, Any]) -> VAEFacts:
        return VAEFacts.from_record(record)

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


def warn_of_heavy_tails(found: answers.Evidence, n_draws: int) -> None:
    """One warning for all rows whose score depends on a few draws."""
    assert found.diagnostics is not None
    k = found.diagnostics["pareto_k"]
    n = int(((k > UNRELIABLE) & (found.standard_error > SMALL_ERROR)).sum())
    if n and not is_averaging():
        warn_of_rows(
            f"the scores of {n} of {len(k)} rows are uncertain: a few of their {n_draws} importance weights dominate "
            f"(Pareto k̂ above {UNRELIABLE}, standard error above {SMALL_ERROR} nats); raise evaluation_samples or "
            "importance_samples, and see bound(X, importance_samples=...) for the diagnostics of every row",
            HeavyTailWarning,
        )
