"""A user's choice of p(x|z): the distributions of a decoder, and what they say about the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sklearn.base import BaseEstimator


class Gaussian(BaseEstimator):
    """Gaussian likelihood for continuous columns: a normal density around the decoder's mean.

    Args:
        variance: "learned" for one σ², as a fraction of the variance of each feature; "feature" for one σ² per feature;
            "point" for a σ² that the decoder predicts for every row; or a number, the variance in the units of the
            data.

    Example:
        >>> from jensen import Gaussian
        >>> Gaussian(variance="feature").variance
        'feature'
    """

    def __init__(self, variance: str | float = "learned") -> None:
        self.variance = variance

    def check(self) -> None:
        """Raise a ValueError if an option is not valid."""
        if self.variance in ("learned", "feature", "point"):
            return
        if not isinstance(self.variance, (str, bool)) and 0 < self.variance < math.inf:
            return
        raise ValueError(
            f"Gaussian(variance={self.variance!r}) must be 'learned', 'feature', 'point' or a number above 0"
        )


class Bernoulli(BaseEstimator):
    """Bernoulli likelihood for binary columns; grey values between 0 and 1 are probabilities of a 1.

    Args:
        resample: whether every training step draws new values 0 and 1 from the grey ones.

    Example:
        >>> from jensen import Bernoulli
        >>> Bernoulli(resample=True).resample
        True
    """

    def __init__(self, resample: bool = False) -> None:
        self.resample = resample

    def check(self) -> None:
        """Raise a ValueError if an option is not valid."""
        if not isinstance(self.resample, bool):
            raise ValueError(f"Bernoulli(resample={self.resample!r}) must be True or False")


class Categorical(BaseEstimator):
    """Categorical likelihood: a probability for every level of a column.

    Example:
        >>> from jensen import Categorical
        >>> Categorical()
        Categorical()
    """

    def check(self) -> None:
        """There are no options."""


class Logistic(BaseEstimator):
    """Discretised logistic likelihood for numbers that are all on one grid, such as pixels: a probability per level.

    The decoder predicts the location and the scale of every number.

    Example:
        >>> from jensen import Logistic
        >>> Logistic()
        Logistic()
    """

    def check(self) -> None:
        """There are no options."""


class Poisson(BaseEstimator):
    """Poisson likelihood for counts: the decoder predicts the mean, which is the variance, too.

    Example:
        >>> from jensen import Poisson
        >>> Poisson()
        Poisson()
    """

    def check(self) -> None:
        """There are no options."""


class NegativeBinomial(BaseEstimator):
    """Negative binomial likelihood for counts: variance mean + mean² / r, with one learned r per column.

    Example:
        >>> from jensen import NegativeBinomial
        >>> NegativeBinomial()
        NegativeBinomial()
    """

    def check(self) -> None:
        """There are no options."""


Counts = Poisson | NegativeBinomial
Distribution = Gaussian | Bernoulli | Categorical | Logistic | Poisson | NegativeBinomial
# A user's likelihood: a name or a distribution for all columns, or one of these by column.
Likelihood = str | Distribution | Mapping[str, str | Distribution]
D = TypeVar("D")
NAMES: dict[str, type[Distribution]] = {
    "gaussian": Gaussian,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "logistic": Logistic,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
}
KINDS: dict[type[Distribution], str] = {
    Gaussian: "number",
    Bernoulli: "yes/no",
    Categorical: "level",
    Logistic: "grid",
    Poisson: "count",
    NegativeBinomial: "count",
}


@dataclass(frozen=True)
class Options:
    """A user's likelihood.

    Args:
        kinds: of all columns, or of some by name; "auto" leaves them to the data.
        gaussian, bernoulli, counts: the distributions of columns of these kinds.
    """

    kinds: str | dict[str, str]
    gaussian: Gaussian
    bernoulli: Bernoulli
    counts: Counts

    @property
    def data_levels(self) -> str | None:
        """Which rows are on a grid, as `ColumnRules` has it: images by default, or all by a Logistic."""
        return {"auto": "images", "grid": "needed"}.get(self.kinds) if isinstance(self.kinds, str) else None


def likelihood_of(given: Likelihood) -> Options:
    """The options of a user's likelihood, with defaults for what it leaves open."""
    if given == "auto":
        return Options("auto", Gaussian(), Bernoulli(), NegativeBinomial())
    by_column = given if isinstance(given, Mapping) else {"": given}
    values = {column: value_of(value) for column, value in by_column.items()}
    kinds = {column: KINDS[type(value)] for column, value in values.items()}
    if isinstance(given, Mapping) and "grid" in kinds.values():
        raise ValueError(
            f"likelihood={given!r} has a Logistic for one column, but it is for rows whose numbers are all on one "
            'grid; choose likelihood="logistic", or Gaussian(...) for this column'
        )
    every = list(values.values())
    return Options(
        kinds if isinstance(given, Mapping) else kinds[""],
        one_of([Gaussian], every, Gaussian()),
        one_of([Bernoulli], every, Bernoulli()),
        one_of([Poisson, NegativeBinomial], every, NegativeBinomial()),
    )


def value_of(given: str | Distribution) -> Distribution:
    value = NAMES[given]() if isinstance(given, str) and given in NAMES else given
    if isinstance(value, str) or type(value) not in KINDS:
        raise ValueError(
            f"likelihood={given!r} must be 'auto', {', '.join(map(repr, NAMES))}, Gaussian(...), Bernoulli(...), or a "
            "dictionary of these by column"
        )
    value.check()
    return value


def one_of(kinds: Sequence[type], values: Sequence[Distribution], default: D) -> D:
    """The distribution of these kinds among the values, or the default."""
    found = {repr(value): value for value in values if type(value) in kinds}
    if len(found) > 1:
        raise ValueError(f"likelihood has {' and '.join(found)}; columns of one kind must share one")
    return next(iter(found.values()), default)
