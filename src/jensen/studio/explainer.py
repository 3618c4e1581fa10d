"""An explainer: a function from parameters to values, and the controls that set the parameters.

Its view is a JavaScript module of the same name in `web/views/`, which draws the values. Where the values come from is
not the view's business: the server computes them, a static page looks them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

# The most points that may be dragged, and how far from 0.
MOST_POINTS, FARTHEST = 200, 100.0


@dataclass(frozen=True)
class Slider:
    """A number between two ends.

    Args:
        name: the parameter.
        label: what a reader calls it.
        low, high, step: its values are low, low + step, ..., high.
        value: the first one shown.
        still: the values on a static page; empty for all of them.
        plays: whether a button moves it by itself.
    """

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float
    still: tuple[float, ...] = ()
    plays: bool = False
    kind: str = "slider"

    def read(self, given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
            raise ValueError(f"{self.name}={given!r} must be a number from {self.low:g} to {self.high:g}")
        if not self.low - 1e-9 <= given <= self.high + 1e-9:
            raise ValueError(f"{self.name}={given:g} must be from {self.low:g} to {self.high:g}")
        return round(given) if self.is_whole else float(given)

    @property
    def is_whole(self) -> bool:
        return float(self.step).is_integer() and float(self.low).is_integer()

    def stops(self) -> tuple[float, ...]:
        """The values on a static page."""
        n = round((self.high - self.low) / self.step)
        return self.still or tuple(round(self.low + i * self.step, 9) for i in range(n + 1))


@dataclass(frozen=True)
class Choice:
    """One of several words.

    Args:
        name: the parameter.
        label: what a reader calls it.
        options: the words, and what a reader calls them.
        value: the first one shown.
        still: the words on a static page; empty for all of them.
    """

    name: str
    label: str
    options: Mapping[str, str]
    value: str
    still: tuple[str, ...] = ()
    kind: str = "choice"

    def read(self, given: Any) -> str:
        if not isinstance(given, str) or given not in self.options:
            raise ValueError(f"{self.name}={given!r} must be one of {', '.join(self.options)}")
        return given

    def stops(self) -> tuple[str, ...]:
        return self.still or tuple(self.options)


@dataclass(frozen=True)
class Points:
    """Points in the plane that can be dragged; None leaves those that the other parameters choose.

    Args:
        name: the parameter.
        label: what a reader calls them.
    """

    name: str
    label: str
    value: None = None
    kind: str = "points"

    def read(self, given: Any) -> tuple[tuple[float, float], ...] | None:
        if given is None:
            return None
        if not isinstance(given, list) or not 2 <= len(given) <= MOST_POINTS:
            raise ValueError(f"{self.name} must be a list of 2 to {MOST_POINTS} points")
        return tuple(self.pair(point) for point in given)

    def pair(self, given: Any) -> tuple[float, float]:
        is_pair = isinstance(given, list) and len(given) == 2
        if not is_pair or not all(isinstance(x, int | float) and abs(x) <= FARTHEST for x in given):
            raise ValueError(f"{self.name} has {given!r}, which is not a pair of numbers within ±{FARTHEST:g}")
        return float(given[0]), float(given[1])

    def stops(self) -> tuple[None]:
        return (None,)


Control = Slider | Choice | Points


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """One screen.

    Args:
        name: in addresses; also the name of its view.
        title: its heading.
        group: the heading above it in the list.
        lead: what it shows, in two or three sentences.
        formula: the formulas beside it, as lines of text.
        tries: what to try.
        controls: what sets the parameters.
        values: computes the values from the parameters: numbers, words, arrays, and lists and dictionaries of them.
        guide: the page of the documentation.
        exercise: the exercise whose claim it shows; empty if there is none.
        needs: names of small models that are trained when the explainer is first opened.
    """

    name: str
    title: str
    group: str
    lead: str
    formula: str
    tries: tuple[str, ...]
    controls: tuple[Control, ...]
    values: Callable[..., Mapping[str, Any]]
    guide: str
    exercise: str = ""
    needs: tuple[str, ...] = ()

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters from a request: what is left out has its first value, and what is unknown is an error."""
        known = {control.name: control for control in self.controls}
        for name in given:
            if name not in known:
                raise ValueError(f"{self.title} has no control {str(name)[:40]!r}; there are {', '.join(known)}")
        return {name: control.read(given.get(name, control.value)) for name, control in known.items()}

    def compute(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values at given parameters."""
        return self.values(**self.read(given))

    def describe(self) -> dict[str, Any]:
        """All but the function."""
        told = ("name", "title", "group", "lead", "formula", "tries", "guide", "exercise")
        controls = [asdict(control) | {"still": control.stops()} for control in self.controls]
        return {name: getattr(self, name) for name in told} | {"controls": controls}

    def states(self) -> list[dict[str, Any]]:
        """All combinations of the parameters that a static page has."""
        names = [control.name for control in self.controls]
        return [dict(zip(names, each, strict=True)) for each in product(*(c.stops() for c in self.controls))]
