"""What every mixture returns, whatever its components.

    p(x) = Σ_k π_k p_k(x),   q(k|x) = π_k p_k(x) / p(x)
    ln p(x) = Σ_k q_k ln p_k(x) - KL(q ‖ π), exact with the posterior as q
A final class names the family of its components.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract import Answers, Problem, Rows, Stream
from jensen.contract.capabilities import Capabilities
from jensen.contract.em import EMEstimator
from jensen.contract.fitted import Fitted, Values, probabilities, read_values
from jensen.contract.sites import no_rows
from jensen.data.labels import decode_labels, numbers_of_classes, read_posterior
from jensen.data.reader import read_weights
from jensen.data.sparse import is_sparse, rows_matrix
from jensen.engines.em import loop as em
from jensen.engines.em.batch import Swept
from jensen.engines.em.frame import Frame
from jensen.models.mixtures.components import AnyComponents, Family
from jensen.models.mixtures.em import MixtureTheta, with_share
from jensen.models.mixtures.fit import mixture_problem, n_components_of, start_by
from jensen.models.mixtures.gaussians.family import RESOLUTION
from jensen.models.mixtures.inference import (
    bound_terms,
    draw,
    fill,
    fill_draws,
    log_evidence,
    numbered,
    responsibilities,
)
from jensen.models.mixtures.neighbours import copies, starts
from jensen.models.mixtures.noise import Noise
from jensen.models.mixtures.start import STARTS

# A variance below so many times the floor is at the floor.
AT_FLOOR = 2.0


class MixtureModel(EMEstimator):
    """A mixture fitted by EM, with labels for some rows.

    A final class has a constructor with `n_components`, `tol`, `max_iter`, `label_weight`, `random_state`, `verbose`;
    it names the class of its `_components`, their `_family`, and by `_schema` what a file must hold of them.
    """

    theta_: MixtureTheta[Any]
    n_components: int | None
    label_weight: float
    noise: bool = False
    classes_: np.ndarray
    weights_ = Fitted[np.ndarray](lambda model: model.theta_.weights)
    _components: ClassVar[type[AnyComponents]]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions(set(STARTS))],
        "label_weight": [Interval(Real, 0.0, None, closed="neither")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
    }
    capabilities = Capabilities(
        score="exact", missing_in_fit=True, missing_in_score=True, weights=True, batches=True, labels=True, predict=True
    )
    _answers = Answers(log_evidence, fill, fill_draws)

    @property
    def _takes_sparse(self) -> bool:
        """Whether X may be a sparse matrix with these arguments."""
        return False

    def _family(self, rows: Rows, k: int) -> Family[Any]:
        """The family of K components; rows that they cannot model are refused here."""
        raise NotImplementedError

    def _schema(self) -> Mapping[str, Values]:
        """What a file must hold of the components."""
        raise NotImplementedError

    def _problem(self, rows: Rows, start: Any, frame: Frame | None) -> tuple[Problem, Frame]:
        k = n_components_of(self, rows, start)
        prior = getattr(self, "prior", None)
        return mixture_problem(
            self,
            self._family(rows, k),
            k,
            rows,
            start_by(getattr(self, "init_params", "portfolio")),
            start=start,
            frame=frame,
            concentration=None if prior is None else prior.weight_concentration,
            noise=self._noise(rows, start, frame),
            algorithm=em.squarem if getattr(self, "acceleration", None) == "squarem" else em.plain,
        )

    def _fit_constants(self, problem: Problem, rows: Rows) -> Self:
        """Components are equal, but for the shares of their classes."""
        super()._fit_constants(problem, rows)
        k = self.theta_.n_components
        if rows.label is not None and len(rows.classes) == k and self.theta_.noise is None:
            known = rows.label >= 0
            weight = None if rows.weight is None else rows.weight[known]
            counts = torch.bincount(rows.label[known], weight, minlength=k).double()
            self.theta_ = MixtureTheta(counts / counts.sum(), self.theta_.components)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, then `predict` the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def posterior(self, X: Any) -> torch.distributions.Distribution:
        """q(z|x), a distribution over components per row; noise is the last of them."""
        return torch.distributions.Categorical(probs=responsibilities(self.theta_, self._read(X)[0]))

    def bound(self, X: Any, q: Any = None) -> Bound:
        """E_q[ln p(x|z)] and KL(q ‖ π) per row: exact with the posterior as q, a lower bound with any other (n, K).

        With one-hot q the total is the complete log-likelihood ln p(x, z).
        """
        x, kind = self._read(X)
        given = None if q is None else read_posterior(q, len(x), len(self.theta_.weights))
        reconstruction, kl = bound_terms(self.theta_, x, given)
        return Bound(kind.scores(reconstruction), {name: kind.values(v) for name, v in kl.items()}, is_exact=q is None)

    def predict_proba(self, X: Any) -> Any:
        """q(k|x), (n, K); with noise (n, K + 1), and the last column is that of the noise."""
        x, kind = self._read(X)
        return kind.values(responsibilities(self.theta_, x))

    def predict(self, X: Any) -> Any:
        """The most probable component, or after a fit with labels its class; -1 (None among texts) is noise."""
        x, kind = self._read(X)
        component = responsibilities(self.theta_, x).argmax(1)
        if not hasattr(self, "classes_"):
            return kind.values(numbered(component, self.theta_))
        labels = decode_labels(component.cpu().numpy(), self.classes_)
        return torch.as_tensor(labels) if kind.container == "torch" and labels.dtype.kind in "iufb" else labels

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """Rows and the component that generated each, -1 for noise.

        y selects a class (or component), one for all or one per row.
        """
        check_is_fitted(self)
        n = self._n_samples(n_samples)
        component = None
        if y is not None:
            classes = getattr(self, "classes_", np.arange(self.theta_.n_components))
            component = numbers_of_classes(y, classes, n)
        x, component = draw(self.theta_, n, self._generator(random_state), component)
        return self._kind.table(x), self._kind.values(component)

    def icl(self, X: Any) -> float:
        """bic + 2 Σ H(q): also penalises components that overlap (Biernacki, Celeux & Govaert 2000)."""
        x, _ = self._read(X)
        q = responsibilities(self.theta_, x)
        return self.bic(X) - 2 * float(torch.special.xlogy(q, q).sum())

    @property
    def at_floor_(self) -> np.ndarray:
        """Which components (K,) have a variance, or an eigenvalue of the covariance, at the floor of `reg_covar`: rows
        that lie in fewer dimensions than there are, or all in one place, so that the likelihood means nothing.
        """
        check_is_fitted(self)
        local = self.theta_.within(self.theta_.frame()).components
        # The floor is a share of the data's variance, and the mixture's own may differ from that a little.
        found = local.collapsed(AT_FLOOR * max(getattr(self, "reg_covar", 0.0), RESOLUTION)).cpu().numpy()
        return np.array(np.broadcast_to(found, self.theta_.n_components))

    @property
    def n_parameters_(self) -> int:
        """Free parameters: weights, and those of the components."""
        check_is_fitted(self)
        return len(self.theta_.weights) - 1 + int(self.theta_.components.n_parameters)

    def plausibility(self) -> float:
        """The objective of the fit less Chen & Tan's (2009) penalty on singular components, by which starts compare."""
        check_is_fitted(self)
        roughness = self.theta_.within(self.theta_.frame()).components.roughness()
        return float(self.lower_bound_ * self.total_weight_ - roughness / self.total_weight_)

    def starts_near(self, n_components: int, X: Any, sample_weight: Any = None) -> Iterator[MixtureTheta[Any]]:
        """Values of `theta_` with so many components that lie near this fit to X: `warm_start=True` fits from one."""
        x, _ = self._read(X)
        q, weight = responsibilities(self.theta_, x).cpu().numpy(), read_weights(sample_weight, len(x))
        counts = np.ones(len(x)) if weight is None else weight.numpy()
        if self.theta_.noise is not None:
            # A row counts by what of it is not noise.
            own = q[:, :-1].sum(1)
            q, counts = q[:, :-1] / np.maximum(own, 1e-300)[:, None], counts * own
        n_classes = len(getattr(self, "classes_", ()))
        # Words have no axes to split a component along: near a fit to sparse rows are only smaller ones.
        if is_sparse(x) and n_components >= self.theta_.n_components:
            return iter(())
        rows = rows_matrix(x) if is_sparse(x) else x.double().cpu().numpy()
        near = starts(self.theta_.with_noise(None), n_components, rows, q, counts, n_classes)
        return (self._beside_noise(theta) for theta in near)

    def with_copies(self, n_components: int) -> MixtureTheta[Any]:
        """A `theta_` of the same density with more components, some of which are equal."""
        check_is_fitted(self)
        return self._beside_noise(copies(self.theta_.with_noise(None), n_components))

    def without_noise(self) -> Self:
        """The same fitted mixture without its noise: what rows look like that belong to a component."""
        check_is_fitted(self)
        clean = copy(self)
        clean.theta_, clean.noise, clean._stream = self.theta_.with_noise(None), False, None
        return clean

    def _beside_noise(self, theta: MixtureTheta[Any]) -> MixtureTheta[Any]:
        """Other components beside the noise of this fit, if it has any."""
        if self.theta_.noise is None:
            return theta
        return MixtureTheta(
            with_share(theta.weights, float(self.theta_.weights[-1])), theta.components, self.theta_.noise
        )

    def _noise(self, rows: Rows, start: MixtureTheta[Any] | None, frame: Frame | None) -> Noise | None:
        """The noise of a fit to these rows; a later batch extends the box of the first."""
        if not self.noise:
            return None
        before = None if frame is None or start is None else start.noise
        if before is not None and (self._is_at_site or not rows.n_rows):
            return before
        box = self._box(rows)
        return box if before is None else before.joined(box)

    def _box(self, rows: Rows) -> Noise:
        return Noise.of(rows.examples)

    def _resume(self, rows: Rows) -> tuple[Stream, Swept]:
        stream, source = super()._resume(rows)
        if (noise := self._noise(rows, self.theta_, stream.frame)) is not None:
            verbs: Any = stream.verbs
            stream = replace(stream, verbs=replace(verbs, noise=noise), theta=replace(stream.theta, noise=noise))
        is_labelled = rows.label is not None and bool((rows.label >= 0).all())
        # Sums over labelled rows do not depend on the model, so all batches count alike.
        if is_labelled and len(rows.classes) == self.theta_.n_components:
            stream = replace(stream, exponent=1.0)
        return stream, source

    def _no_rows(self) -> Rows:
        return no_rows(self, self.theta_.components.n_features)

    def _informed(self, stream: Stream, stats: Any) -> Any:
        verbs: Any = stream.verbs
        return replace(verbs, family=verbs.family.informed(verbs.n_components, stream.frame, verbs.own(stats)))

    def _unused(self, rows: Rows) -> dict[str, str]:
        return {} if rows.label is not None else {"label_weight": "no row has a label; give y to fit"}

    def _remember(self, rows: Rows) -> None:
        super()._remember(rows)
        if hasattr(self, "classes_"):
            del self.classes_
        if rows.label is not None:
            self.classes_ = rows.classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def _theta_record(self) -> dict[str, Tensor]:
        components = self.theta_.components
        parts = {field.name: getattr(components, field.name) for field in fields(components)}
        return {"weights": self.theta_.weights} | parts

    def _theta_from(self, record: dict[str, Tensor]) -> MixtureTheta[Any]:
        schema = {"weights": Values("K", check=probabilities), **self._schema()}
        found = read_values(record, schema, d=self._n_varying)
        return MixtureTheta(found.pop("weights"), self._components(**found))
