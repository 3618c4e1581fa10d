"""Blend: a mixture whose components are fitted models.

    p(x) = Σ_a w_a p_a(x),   p(a|x) = w_a p_a(x) / p(x)
Weights by EM over rows that no model was trained on: w_a ← w_a g_a, g_a = mean p_a(x) / p(x). The held-out ln p is
concave in w, and its optimum at most ln max g above. Smyth & Wolpert (1999), "Linearly combining density estimators via
stacking". With exact models ln p(x) is exact; if one has a bound, so has the blend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from jensen.bound import Bound
from jensen.contract.capabilities import ByArguments, Capabilities
from jensen.contract.files import fitted_record, restore
from jensen.contract.fitted import Fitted, Values, probabilities, read_values
from jensen.contract.model import LatentVariableModel, whole_number
from jensen.data.container import as_array, is_frame, n_rows, take
from jensen.data.reader import read_weights
from jensen.data.refuse import check_container
from jensen.formulas.blend import weigh
from jensen.models.blends.inference import as_tensor, joined_bound, kind_like, once_each
from jensen.models.blends.parts import check_measures, common, named_models
from jensen.models.blends.split import split
from jensen.models.blends.tables import averaged, chosen, stacked
from jensen.runtime.messages import recorded_warnings
from jensen.runtime.progress import Bar


@dataclass(frozen=True)
class BlendTheta:
    """
    Args:
        weights: of the models (A,).
        models: fitted.
    """

    weights: Tensor
    models: tuple[Any, ...]


class Blend(LatentVariableModel):
    """Mixture of models of any kind, weighted by what they give to rows that they were not trained on.

    Args:
        models: unfitted models, as a list or as a dictionary by name; None is a Gaussian and a probabilistic PCA. All
            must have scores of the same measure: a density for the same columns, and a probability for the others.
        held_out: the share of the rows that the weights are fitted to.
        max_iter: number of EM steps for the weights.
        tol: the steps end when the best weights are at most so many nats per held-out row better.
        random_state: seed of the split and of models without a seed of their own.
        verbose: 1 shows a progress bar on a terminal.

    `fit` trains every model twice: on a part of the rows, to score the held-out ones, to which the weights are fitted;
    and on all rows. The blend has the models of all rows.

    Attributes:
        weights_: of the models, (A,).
        models_: the fitted models, by name.
        held_out_score_: nats per held-out row at these weights, of the models of the other rows.
        held_out_scores_: the same for every single model, (A,).
        gap_: the best weights are at most so many nats per held-out row better.
        n_iter_: number of EM steps.
        lower_bound_: nats per training row.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import Blend, FactorAnalysis, GaussianMixture
        >>> X = load_iris().data
        >>> blend = Blend([GaussianMixture(3), FactorAnalysis(2)], random_state=0).fit(X)
        >>> blend.predict_proba(X).shape, blend.sample(5)[0].shape
        ((150, 2), (5, 4))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "models": [list, tuple, Mapping, None],
        "held_out": [Interval(Real, 0.0, 1.0, closed="neither")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    capabilities: ClassVar[Any] = ByArguments(
        Capabilities(score="exact", missing_in_fit=True, missing_in_score=True, weights=True, predict=True),
        lambda blend: common([model.capabilities for model in named_models(blend.models).values()]),
    )
    weights_ = Fitted[np.ndarray](lambda model: model.theta_.weights)

    def __init__(
        self,
        models: Sequence[LatentVariableModel] | Mapping[str, LatentVariableModel] | None = None,
        *,
        held_out: float = 0.2,
        max_iter: int = 10_000,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.models = models
        self.held_out = held_out
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the models and fit their weights.

        Args:
            X: rows as all models take them.
            y: ignored.
            sample_weight: weight of every row: 2 counts the row twice, 0 leaves it out.
        """
        self._validate_params()
        check_container(X)
        if issparse(X):
            raise TypeError("X is sparse, and a blend takes dense rows; give X.toarray()")
        check_container(X)
        parts = self._parts()
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        with Bar("blend" if self.verbose else None, 2 * len(parts), unit="fit") as bar:
            with once_each():
                # First those of all rows, whose errors name the rows as the user numbers them.
                models = [self._fit_part(name, part, X, sample_weight, bar) for name, part in parts.items()]
            check_measures(dict(zip(parts, models, strict=True)))
            X = X if is_frame(X) or isinstance(X, Tensor) else as_array(X)
            given = read_weights(sample_weight, n_rows(X))
            weight = None if given is None else given.numpy()
            n = n_rows(X) if weight is None else int((weight > 0).sum())
            if n < 2:
                raise ValueError(f"X has {n} sample, and a blend trains on some and holds out others; give more rows")
            trained, held = split(X, weight, self.held_out, seed)
            some, others = np.flatnonzero(trained > 0), np.flatnonzero(held > 0)
            own_weight = None if weight is None else trained[some]
            with recorded_warnings():
                rows, rest = take(X, some), take(X, others)
                inner = [self._fit_part(name, part, rows, own_weight, bar) for name, part in self._parts().items()]
                scores = np.stack([as_array(one.score_samples(rest)) for one in inner], 1)
        shares = torch.from_numpy(held[others])
        found = weigh(torch.from_numpy(scores.astype(np.float64)), shares, self.max_iter, self.tol)
        self._remember(models, found.weights)
        self.held_out_score_, self.gap_, self.n_iter_ = found.value, found.gap, found.n_iter
        self.held_out_scores_ = np.asarray(shares @ torch.from_numpy(scores.astype(np.float64)) / shares.sum())
        with recorded_warnings():
            log_p = as_array(self.score_samples(X))
        self.lower_bound_ = float(np.average(log_p, weights=weight))
        return self

    @classmethod
    def from_models(cls, models: Mapping[str, Any], weights: Any, random_state: Any = None) -> Self:
        """A blend of models that are fitted already, to the same columns, with given weights.

        Example:
            >>> import numpy as np
            >>> from jensen import Blend, GaussianMixture
            >>> X = np.random.default_rng(0).normal(size=(50, 2))
            >>> models = {"one": GaussianMixture(1).fit(X), "two": GaussianMixture(2).fit(X)}
            >>> Blend.from_models(models, [0.7, 0.3]).weights_
            array([0.7, 0.3])
        """
        for name, model in models.items():
            check_is_fitted(model, msg=f"models[{name!r}] is not fitted; call its fit first, or Blend(models).fit(X)")
        check_measures(models)
        blend = cls({name: clone(model) for name, model in models.items()}, random_state=random_state)
        found = Values(len(models), check=probabilities).read("weights", weights)
        blend._remember(list(models.values()), found)
        return blend

    def _parts(self) -> dict[str, Any]:
        """Copies of the models by name, with a seed of the blend where they have none."""
        parts = {name: clone(model) for name, model in named_models(self.models).items()}
        for part in parts.values():
            if isinstance(self.random_state, Integral) and part.get_params().get("random_state", 0) is None:
                part.set_params(random_state=int(self.random_state))
        return parts

    def _fit_part(self, name: str, part: Any, X: Any, weight: Any, bar: Bar) -> Any:
        bar.note(name)
        fitted = part.fit(X, **({} if weight is None else {"sample_weight": weight}))
        bar.update()
        return fitted

    def _remember(self, models: Sequence[Any], weights: Tensor) -> None:
        first = models[0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
            elif hasattr(self, name):
                delattr(self, name)
        self._kind = first._kind.of_other_rows()
        self.theta_ = BlendTheta(weights, tuple(models))

    @property
    def models_(self) -> dict[str, Any]:
        """The fitted models, by name."""
        check_is_fitted(self)
        return dict(zip(named_models(self.models), self.theta_.models, strict=True))

    @property
    def n_parameters_(self) -> int:
        """Free parameters: weights, and those of the models."""
        check_is_fitted(self)
        counts = (
            model.n_parameters_
            if hasattr(model, "n_parameters_")
            else sum(p.numel() for p in model.module_.parameters())
            for model in self.theta_.models
        )
        return len(self.theta_.weights) - 1 + int(sum(counts))

    @property
    def measure_(self) -> tuple[str, ...]:
        """For each column whether its score is a "density" or a "probability": that of all models."""
        check_is_fitted(self)
        return tuple(self.theta_.models[0].measure_)

    def find_measure(self, X: Any) -> tuple[str, ...]:
        """`measure_` of a fit to X, without fitting."""
        return tuple(next(iter(self._parts().values())).find_measure(X))

    def can_score(self, X: Any) -> np.ndarray:
        """Which rows (n,) have a score: those that all models can score."""
        check_is_fitted(self)
        return np.asarray(np.all([model.can_score(X) for model in self.theta_.models], 0))

    def describe_score(self) -> str:
        check_is_fitted(self)
        others = [text for model in self.theta_.models if (text := model.describe_score()) != "exact"]
        return others[0] if others else "exact"

    def score_samples(self, X: Any) -> Any:
        """ln Σ_a w_a p_a(x) of every row."""
        log_joint, kind = self._log_joint(X)
        return kind(log_joint.logsumexp(1))

    def bound(self, X: Any, q: Any = None) -> Bound:
        """The terms of every model, weighted by q (n, A), and KL(q ‖ w) of the model; q is p(a|x) unless given."""
        check_is_fitted(self)
        with once_each():
            bounds = [model.bound(X) for model in self.theta_.models]
        return joined_bound(bounds, self.theta_.weights, q)

    def posterior(self, X: Any) -> torch.distributions.Distribution:
        """p(a|x), a distribution over models per row."""
        return torch.distributions.Categorical(probs=self._log_joint(X)[0].softmax(1))

    def predict_proba(self, X: Any) -> Any:
        """p(a|x), (n, A): how probable it is that the row came from each model."""
        log_joint, kind = self._log_joint(X)
        return kind(log_joint.softmax(1))

    def predict(self, X: Any) -> Any:
        """The number of the most probable model of every row."""
        log_joint, kind = self._log_joint(X)
        return kind(log_joint.argmax(1))

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None) -> tuple[Any, Any]:
        """New rows, and the number of the model that each came from.

        Args:
            n_samples: number of rows.
            y: None, or the number of a model: one for all rows.
            random_state: seed or RandomState; None is the blend's own.
        """
        check_is_fitted(self)
        n, n_models = self._n_samples(n_samples), len(self.theta_.models)
        rng = check_random_state(self.random_state if random_state is None else random_state)
        if y is not None and not (isinstance(y, Integral) and 0 <= int(y) < n_models):
            raise ValueError(f"y={y!r} is no number of a model; give 0 to {n_models - 1}, or None for all")
        weights = self.theta_.weights.numpy()
        model = np.full(n, y) if y is not None else rng.choice(n_models, n, p=weights / weights.sum())
        seeds = rng.randint(np.iinfo(np.int32).max, size=n_models)
        counts, tables = np.bincount(model, minlength=n_models), []
        for a in np.flatnonzero(counts):
            table = self.theta_.models[a].sample(int(counts[a]), random_state=int(seeds[a]))[0]
            tables.append(table)
        place = np.argsort(np.argsort(model, kind="stable"), kind="stable")
        rows = take(stacked(tables), place)
        if hasattr(rows, "iloc"):
            rows = rows.reset_index(drop=True)
        return rows, kind_like(tables[0])(torch.from_numpy(model))

    def impute(self, X: Any) -> Any:
        """X with missing values at their mean over models, weighted by p(a | observed values).

        Values that are no numbers are those of the most probable models. Observed values are unchanged.
        """
        share = self._share(X)
        with once_each():
            tables = [model.impute(X) for model in self.theta_.models]
        return averaged(X, tables, share)

    def impute_draws(self, X: Any, n_draws: int = 1, random_state: Any = None) -> list[Any]:
        """Copies of X with missing values drawn from their posterior: first the model, then the values given it."""
        share, n = self._share(X), whole_number("n_draws", n_draws)
        rng = check_random_state(self.random_state if random_state is None else random_state)
        with once_each():
            draws = [
                model.impute_draws(X, n, random_state=int(rng.randint(np.iinfo(np.int32).max)))
                for model in self.theta_.models
            ]
        below = share.cumsum(1)
        out = []
        for tables in zip(*draws, strict=True):
            u = rng.random_sample((len(share), 1)) * below[:, -1:]
            out.append(chosen(tables, (u > below[:, :-1]).sum(1)))
        return out

    def _share(self, X: Any) -> np.ndarray:
        """p(a | observed values), (n, A)."""
        return self._log_joint(X)[0].softmax(1).numpy()

    def _log_joint(self, X: Any) -> tuple[Tensor, Any]:
        """ln w_a p_a(x), (n, A), and a function that puts results into the container of X."""
        check_is_fitted(self)
        with once_each():
            scores = [model.score_samples(X) for model in self.theta_.models]
        found = torch.stack([as_tensor(score) for score in scores], 1)
        return found + self.theta_.weights.log(), kind_like(scores[0])

    def _theta_record(self) -> dict[str, Any]:
        return {"weights": self.theta_.weights, "models": [fitted_record(model) for model in self.theta_.models]}

    def _theta_from(self, record: dict[str, Any]) -> BlendTheta:
        parts = list(self._parts().values())
        weights = read_values(record, {"weights": Values(len(parts), check=probabilities)})["weights"]
        models = tuple(restore(part, fitted) for part, fitted in zip(parts, record["models"], strict=True))
        for model in models:
            if model.n_features_in_ != self.n_features_in_:
                raise ValueError(
                    f"a model has {model.n_features_in_} columns, not {self.n_features_in_}; the file is damaged"
                )
        check_measures(dict(zip(named_models(self.models), models, strict=True)))
        return BlendTheta(weights, models)
