"""What a fitted model returns about rows, as a table: of all rows at once, or of a block of them.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from jensen.cli.arguments import value_of
from jensen.cli.inputs import method, options_for
from jensen.cli.output import check_complete, columns_of, entries_of, in_units, show_message

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

N_LEAST = 5


@dataclass(frozen=True)
class Predictions:
    """Predictions in a column, with those of --proba or --std beside it.

    Args:
        estimator: the model.
        proba: whether to add the probability of every class or component.
        std: whether to add the standard deviation of a regression.
        options: of `predict`.
    """

    estimator: Any
    proba: bool
    std: bool
    options: Mapping[str, Any]

    def check(self) -> None:
        if self.std and "return_std" not in inspect.signature(method(self.estimator, "predict")).parameters:
            raise ValueError(f"--std is for regressions; {type(self.estimator).__name__} does not predict numbers")

    def __call__(self, X: Any) -> pd.DataFrame:
        import pandas as pd
        from sklearn.base import is_regressor

        if self.proba:
            return self.with_probabilities(X)
        ask = method(self.estimator, "predict")
        found = ask(X, **self.options, return_std=True) if self.std else (ask(X, **self.options),)
        if is_regressor(self.estimator):
            for numbers in found:
                check_complete("predict", numbers)
        names = ("prediction", "standard_deviation")
        return pd.concat([columns_of(name, values) for name, values in zip(names, found, strict=False)], axis=1)

    def with_probabilities(self, X: Any) -> pd.DataFrame:
        from jensen.data.labels import decode_labels

        estimator, options = self.estimator, dict(self.options) | ({"return_std": True} if self.std else {})
        # The most probable class follows from these; a second call may take minutes.
        probabilities, classes = method(estimator, "predict_proba")(X, **options), getattr(estimator, "classes_", None)
        best, has_noise = probabilities.argmax(1), getattr(estimator, "noise", False) is True
        values = best if classes is None else decode_labels(best, classes)
        if has_noise and classes is None:
            values[best == probabilities.shape[1] - 1] = -1
        result = columns_of("prediction", values)
        check_complete("predict", probabilities)
        known = [] if classes is None else classes
        names = [*known, *(f"component_{k}" for k in range(len(known), probabilities.shape[1] - has_noise))]
        names += ["noise"] * has_noise
        result[[f"probability_{name}" for name in names]] = probabilities
        return result


@dataclass(frozen=True)
class Scoring:
    """How a diffusion scores rows; None is its default.

    Args:
        levels: "all", or a number.
        method: "bound" or "ode".
    """

    levels: str | None = None
    method: str | None = None


def row_scores(estimator: Any, X: Any, y: Any, scoring: Scoring) -> np.ndarray:
    """ln p, or a bound of it, of every row; of a regression that of y."""
    import numpy as np

    levels, how = scoring.levels, options_for(estimator, "score_samples", method=scoring.method)
    if levels is None:
        found = method(estimator, "score_samples")(*((X,) if y is None else (X, y)), **how)
    elif scoring.method == "ode":
        found = estimator.ode_log_prob(X, levels=value_of(levels, Any)).value
    else:
        found = estimator.bound(X, **options_for(estimator, "bound", levels=value_of(levels, Any))).total
    scores = np.asarray(found, dtype=np.float64)
    check_complete("score", scores)
    return scores


def latent_vectors(estimator: Any, X: Any) -> pd.DataFrame:
    import pandas as pd

    values = pd.DataFrame(method(estimator, "transform")(X), columns=estimator.get_feature_names_out())
    check_complete("transform", values)
    return values


def with_classes(estimator: Any, rows: Any, came_from: Any, is_shown: bool) -> tuple[Any, dict[str, Any]]:
    """Drawn rows with the class of each, and a summary: a column of a table with names; images are sorted by class.

    Columns without names are known by their number, so a model could not read its own rows with one more.
    """
    import numpy as np

    from jensen.files.tables import as_frame

    classes = drawn_classes(estimator, came_from)
    if classes is None:
        return rows, {}
    if getattr(rows, "ndim", 2) > 2:
        order = np.argsort([estimator.classes_.tolist().index(label) for label in classes.tolist()], kind="stable")
        values, counts = np.unique(classes, return_counts=True)
        counted = ", ".join(f"{n} of {value}" for value, n in zip(values, counts, strict=True))
        if is_shown:
            show_message(f"images are sorted by class: {counted}")
        return rows[order], {"classes": classes[order].tolist()}
    if not hasattr(estimator, "feature_names_in_"):
        return rows, {"classes": classes.tolist()}
    frame = as_frame(rows)
    names = chain(("class", "class_drawn"), (f"class_{i}" for i in count()))
    name = next(name for name in names if name not in frame)
    return frame.assign(**{name: classes}), {}


def drawn_classes(estimator: Any, came_from: Any) -> np.ndarray | None:
    """The class of every drawn row after a fit with labels, if the model draws classes or components."""
    import numpy as np

    from jensen.data.labels import decode_labels

    if not hasattr(estimator, "classes_"):
        return None
    if isinstance(came_from, tuple):
        return np.asarray(came_from[1])
    found = np.asarray(came_from)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        return None
    # Noise, -1, belongs to no class, as a component beyond the classes.
    return decode_labels(np.where(found < 0, len(estimator.classes_), found), estimator.classes_)


@dataclass
class Moments:
    """The mean of numbers, and the sum of their squared distances from it."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: np.ndarray) -> None:
        """Chan, Golub & LeVeque (1979)."""
        own, n = float(values.mean()), self.n + len(values)
        apart = own - self.mean
        self.squares += float(((values - own) ** 2).sum()) + apart**2 * self.n * len(values) / n
        self.mean, self.n = self.mean + apart * len(values) / n, n


@dataclass
class Scores:
    """The mean of scores and the lowest of them, added up block by block; of a regression also R²."""

    estimator: Any
    n: int = 0
    n_observed: float = 0.0
    scores: Moments = field(default_factory=Moments)
    least: list[tuple[float, int]] = field(default_factory=list)
    target: Moments = field(default_factory=Moments)
    residuals: float | None = None  # Σ (y - prediction)²

    def add(self, X: Any, y: Any, scores: np.ndarray) -> None:
        n = self.n + len(scores)
        self.scores.add(scores)
        if y is not None:
            self.target.add(y)
            self.residuals = (self.residuals or 0.0) + float(((y - self.estimator.predict(X)) ** 2).sum())
        self.n_observed += float(entries_of(self.estimator, X)[0].sum())
        lowest = [(float(scores[i]), self.n + int(i)) for i in scores.argsort(kind="stable")[:N_LEAST]]
        self.least = sorted([*self.least, *lowest])[:N_LEAST]
        self.n = n

    def summary(self) -> dict[str, Any]:
        import numpy as np

        error = math.sqrt(self.scores.squares / (self.n - 1) / self.n) if self.n > 1 else None
        return {
            **({} if self.residuals is None else {"r2": 1 - self.residuals / self.target.squares}),
            **in_units(self.estimator, self.scores.mean, np.array([self.n_observed / self.n])),
            "standard_error": error,
            "least_likely": [{"row": row, "nats": nats} for nats, row in self.least],
        }
