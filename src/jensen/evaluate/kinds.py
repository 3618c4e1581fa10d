"""One description of the columns for all models of a comparison.

A model that takes `columns` can be told what a column is. The kinds are found once, in all rows, and given to every
model that takes them, so that folds agree. In a table with text, categories or dates
- columns that identify rows, and constants, are left out for all models;
- counts and whole numbers that are levels have a probability in mixtures: a network, to which they are numbers, is
  dequantised there;
- dates are numbers, in days or seconds;
- frequent numbers have a probability of their own, and bounds there, unless a model that reads text cannot have it.
In a table of numbers the footing decides, no column is left out, and no number has a probability of its own unless the
user asks for it.

All values of column j that are not among its n_j training entries share the probability 1 / (n_j + 1), so a seen level
has n_j / (n_j + 1) times its probability, under every model alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from jensen.data.claims import WITH_LEVELS
from jensen.data.codes import without_unseen_warning
from jensen.data.columns import Columns
from jensen.data.edits import LEFT_OUT
from jensen.data.infer import learn_columns
from jensen.data.names import column_name
from jensen.evaluate.estimators import Estimator
from jensen.evaluate.footing import Footing, Measure, find_footing, networks_footing
from jensen.evaluate.words import is_of_words, words_footing
from jensen.models.mixtures.families.choice import KIND_OF
from jensen.registry import MODELS, model_class
from jensen.runtime.messages import own_filters

AUTO = "auto"
# What a model is told of a column: a kind, or a kind with bounds and atoms.
Kinds = dict[str | int, Any]


@dataclass(frozen=True, eq=False)
class Ground:
    """The table that models are compared on.

    Args:
        X: rows without the columns that are left out.
        footing: of these rows.
        table: what all columns look like, those left out included; None if there is no such model.
        kinds: what mixtures that take `columns` are told, None if there is no such model.
        left_out: for the caption, which columns are left out and why; empty if none is.
        told: what networks are told, None if there is no network.
    """

    X: Any
    footing: Footing
    table: Columns | None = None
    kinds: Kinds | None = None
    left_out: str = ""
    told: Kinds | None = None


def find_ground(X: Any, discrete: Any, models: Any) -> Ground:
    """The rows to compare models on, their footing and the kinds of their columns."""
    if is_of_words(X, models):
        return Ground(*words_footing(X, discrete))
    footing = find_footing(X, discrete)
    takers, networks, has_atoms = takers_among(models)
    is_auto = isinstance(models, str) and models == AUTO
    # Images have neither atoms nor constants.
    if not takers and (footing.is_image or not (networks or is_auto)):
        return Ground(X, footing)
    looks = silently_learnt(footing.as_table(X)) if takers or footing.unit == "mixed" else seen_by_networks(X)
    names, left_out = looks.table_names, ""
    asked = all_asked([*takers, *networks], looks)
    if footing.unit == "mixed":
        columns = silently_learnt(X, asked, atoms=has_atoms)
        constants = [name for name, kind in zip(columns.names, columns.kinds, strict=True) if kind == "constant"]
        kept = [j for j, name in enumerate(names) if name not in (*columns.left_out, *constants)]
        if not kept:
            raise ValueError("X has no column to compare models on: all of them identify rows or have one value")
        if len(kept) < len(names):
            left_out = reason_of_left_out(columns.left_out, constants)
            X = some_columns(X, kept)
            footing = find_footing(X, discrete)
        asked = {names[j]: asked[names[j]] for j in kept if names[j] in asked}
    if footing.unit != "mixed":
        kinds = numeric_kinds(footing, silently_learnt(footing.as_table(X), asked), asked) if takers else None
        return Ground(X, footing, looks, kinds, left_out, None if footing.is_image else told_numbers(X, footing, asked))
    if discrete is False:
        # As asked, numbers have a density unless they are 0 and 1.
        dense = [names[j] for j, word in zip(kept, footing.measure, strict=True) if word == "density"]
        dates = [name for name, kind in zip(columns.names, columns.kinds, strict=True) if kind == "date"]
        asked = {name: plain_number() for name in dense if name not in dates} | asked
    columns = silently_learnt(X, asked, atoms=has_atoms)
    told = told_columns(X, columns, asked)
    if not (takers or is_auto):
        return Ground(X, networks_footing(footing, columns), looks, None, left_out, told)
    return Ground(X, mixed_footing(footing, columns), looks, mixed_kinds(columns, asked), left_out, told)


def takers_among(models: Any) -> tuple[list[Any], list[Any], bool]:
    """The mixtures and the networks that can be told what columns are, and whether these are all that read text."""
    if isinstance(models, str) and models == AUTO:
        return [], [], True
    given = models.values() if isinstance(models, Mapping) else models
    given = [given] if is_name(given) or hasattr(given, "get_params") else list(given)
    known = {*MODELS, *MODELS.values()}
    # A wrong name is an error later on.
    found = [model_class(one.strip())() if is_name(one) and one.strip() in known else one for one in given]
    takers, networks = ([model for model in found if is_one(model)] for is_one in (takes_kinds, is_network))
    readers = [model for model in found if getattr(getattr(model, "capabilities", None), "text", False)]
    return takers, networks, all(reads_columns(model) for model in readers)


def is_name(model: Any) -> bool:
    return isinstance(model, str)


def takes_kinds(model: Any) -> bool:
    """Whether a mixture can be told what a column is: it takes `columns`, and has no one family for all columns."""
    inner = getattr(model, "model", model)  # of `Chosen`
    if not takes_columns(inner) or inner.capabilities.gradients:
        return False
    families = inner.get_params(deep=False).get("families", AUTO)
    return not (isinstance(families, str) and families != AUTO)


def is_network(model: Any) -> bool:
    """Whether a network can be told what a column is; whole numbers are numbers to it."""
    inner = getattr(model, "model", model)
    return takes_columns(inner) and bool(inner.capabilities.gradients)


def takes_columns(model: Any) -> bool:
    is_estimator = hasattr(model, "get_params") and hasattr(model, "capabilities") and not isinstance(model, type)
    return is_estimator and "columns" in model.get_params(deep=False)


def reads_columns(model: Any) -> bool:
    """Whether a model reads columns of any kind as it is told."""
    return takes_kinds(model) or is_network(model)


def with_kinds(model: Estimator, ground: Ground) -> None:
    """Tell a model what the columns are, but for those that its arguments name."""
    inner: Any = getattr(model, "model", model)
    kinds = ground.told if is_network(inner) else ground.kinds if takes_kinds(inner) else None
    if kinds is None or ground.table is None:
        return
    own = own_asked(inner, ground.table)
    others = {name: kind for name, kind in own.items() if name not in kinds and name not in ground.table.table_names}
    inner.set_params(columns=with_asked(kinds, own) | others)


def own_asked(model: Any, table: Columns) -> Kinds:
    """The kinds that the arguments of a model ask for, by the name of the column; a column may have its number."""
    dates = [name for name, kind in zip(table.names, table.kinds, strict=True) if kind == "date"]
    families = getattr(model, "families", AUTO)
    # Unknown families are an error of the fit, and a date is a number already.
    asked: Kinds = {
        column_name(key): KIND_OF[family]
        for key, family in ({} if isinstance(families, str) else families).items()
        if family in KIND_OF and column_name(key) not in dates
    }
    asked |= {column_name(key): kind for key, kind in (model.columns or {}).items()}
    names = table.table_names
    return {
        names[key] if isinstance(key, int) and key not in names and 0 <= key < len(names) else key: kind
        for key, kind in asked.items()
    }


def all_asked(models: Iterable[Any], table: Columns) -> Kinds:
    """The kinds that models ask for; the first has precedence. Columns that X does not have are left to the model."""
    asked: Kinds = {}
    for model in models:
        asked = own_asked(model, table) | asked
    return {name: kind for name, kind in asked.items() if name in table.table_names}


def silently_learnt(X: Any, asked: Kinds | None = None, atoms: bool = False) -> Columns:
    with own_filters():
        warnings.simplefilter("ignore")
        return learn_columns(X, asked, kinds="all", atoms=atoms)


def seen_by_networks(X: Any) -> Columns:
    with own_filters():
        warnings.simplefilter("ignore")
        return learn_columns(X, kinds="scaled")


def told_numbers(X: Any, footing: Footing, asked: Kinds) -> Kinds:
    """What networks are told of a table of numbers: these have no atoms and, unless on a grid, a density."""
    seen = seen_by_networks(footing.as_table(X))
    asked = for_networks(asked, silently_learnt(footing.as_table(X), asked)) if asked else {}
    are_all = footing.unit == "density"
    numbers = [name for name, kind in zip(seen.names, seen.kinds, strict=True) if are_all or kind == "number"]
    return asked | with_asked(dict.fromkeys([*numbers, *seen.left_out], plain_number()), asked)


def told_columns(X: Any, columns: Columns, asked: Kinds) -> Kinds:
    """What networks are told of a table with text: their own kinds, and the atoms that mixtures have."""
    seen, atoms = seen_by_networks(X), dict(zip(columns.names, columns.atoms, strict=True))
    kinds: Kinds = dict.fromkeys(seen.left_out, plain_number())
    for name, kind in zip(seen.names, seen.kinds, strict=True):
        kinds[name] = plain_number(atoms.get(name, ())) if kind == "number" else kind
    return with_asked(kinds, for_networks(asked, columns))


def for_networks(asked: Kinds, columns: Columns) -> Kinds:
    """What is asked of columns, with the atoms of values at bounds in place of bounds, which networks do not have."""
    atoms = dict(zip(columns.names, columns.atoms, strict=True))
    return {name: kind if is_name(kind) else plain_number(atoms.get(name, ())) for name, kind in asked.items()}


def plain_number(atoms: Sequence[float] = (), low: float = -np.inf, high: float = np.inf) -> dict[str, Any]:
    """A column of numbers that has these atoms and bounds and no others."""
    ends = {"low": None if low == -np.inf else low, "high": None if high == np.inf else high}
    return {"kind": "number", "atoms": list(atoms)} | ends


def other_atoms(models: Mapping[str, Any], X: Any) -> dict[str, str]:
    """Why models are not ranked with the first one: other numbers have a probability of their own."""
    found = {name: atoms_of(model, X) for name, model in models.items() if reads_columns(model)}
    first = next(iter(found), "")
    return {
        name: f"it gives other numbers a probability of their own than {first} does; compare them with equal atoms"
        for name, atoms in found.items()
        if atoms != found[first]
    }


def atoms_of(model: Any, X: Any) -> tuple[tuple[float, ...], ...]:
    inner: Any = getattr(model, "model", model)
    return silently_learnt(X, inner.columns, atoms=getattr(inner, "families", AUTO) == AUTO).atoms


def numeric_kinds(footing: Footing, columns: Columns, asked: Kinds) -> Kinds:
    """Of a table of numbers: all have a density, or on a grid those that are neither counts nor levels."""
    kinds: Kinds = dict.fromkeys(columns.table_names, plain_number())
    if footing.unit == "probability":
        kinds |= mixed_kinds(columns, {})
    return with_asked(kinds, asked)


def mixed_kinds(columns: Columns, asked: Kinds) -> Kinds:
    found = zip(columns.names, columns.kinds, columns.atoms, columns.support.tolist(), strict=True)
    kinds: Kinds = {name: plain_number(atoms, *ends) if kind == "number" else kind for name, kind, atoms, ends in found}
    return with_asked(kinds, asked)


def with_asked(kinds: Kinds, asked: Kinds) -> Kinds:
    """The kinds, but for columns where something else is asked for; "number" alone does not ask for atoms."""
    return {
        name: asked[name] if name in asked and asked[name] not in (kind_of(kind), AUTO) else kind
        for name, kind in kinds.items()
    }


def kind_of(kind: Any) -> Any:
    # Options without a kind are bounds or atoms of numbers.
    return kind if isinstance(kind, str) else kind.get("kind", "number" if kind else AUTO)


def mixed_footing(footing: Footing, columns: Columns) -> Footing:
    """The footing of a table with text, whose columns have these kinds."""
    steps = np.array([step_of(columns, j) for j in range(len(columns.names))])
    words = {"number": "numbers", "date": "dates"}
    dense = " and ".join(word for kind, word in words.items() if kind in columns.kinds)
    some = [str(name) for name, word in zip(columns.names, columns.measure, strict=True) if word == "probability"]
    what = "columns of text, categories and flags"
    if "count" in columns.kinds:
        what = "columns of text, categories, flags and counts"
    reason = f"{what} ({', '.join(some)}) have probabilities" + (f", {dense} a density" if dense else "")
    if "both" in columns.measure:
        both = [str(name) for name, word in zip(columns.names, columns.measure, strict=True) if word == "both"]
        reason += f"; frequent numbers of {', '.join(both)} have a probability of their own"
    return replace(footing, measure=columns.measure, steps=steps, reason=reason, columns=columns)


def step_of(columns: Columns, j: int) -> float:
    """The size of the cells of a column of numbers that has probabilities; NaN for any other column."""
    kind, levels = columns.kinds[j], columns.levels[j]
    if kind == "count":
        return 1.0
    if kind in WITH_LEVELS and not any(isinstance(level, str) for level in levels) and len(levels) > 1:
        return float(np.diff(np.sort(np.asarray(levels, dtype=np.float64))).min())
    return np.nan


def some_columns(X: Any, kept: Sequence[int]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[:, list(kept)]
    return nw.from_native(X, eager_only=True)[:, list(kept)].to_native()


def reason_of_left_out(identifiers: Sequence[Any], constants: Sequence[Any]) -> str:
    parts = []
    if identifiers:
        parts.append(f"{', '.join(map(str, identifiers))} (identifies rows, or free text)")
    if constants:
        parts.append(f"{', '.join(map(str, constants))} (one value)")
    return f"left out for all models: {', '.join(parts)}"


def log_seen(ground: Ground, kinds: Kinds, trained: Any, held_out: Any) -> np.ndarray | None:
    """Σ_j ln(n_j / (n_j + 1)) over the levels of held-out rows (n,) that training rows have; None without levels."""
    if all(kind == LEFT_OUT for kind in kinds.values()):
        return None
    as_table = ground.footing.as_table
    columns = silently_learnt(as_table(trained), kinds)
    with without_unseen_warning():
        seen = ~columns.codes(as_table(held_out)).x.isnan()
    return np.asarray(columns.log_seen_discount(seen))


def own_level_kinds(model: Any) -> Kinds:
    """The columns to which a fitted network alone gives levels, as in a table of numbers; all others are left out."""
    if not is_network(model):
        return {}
    columns: Columns = getattr(model, "model", model).columns_
    return {
        name: kind if kind == "level" else LEFT_OUT for name, kind in zip(columns.names, columns.kinds, strict=True)
    }


def level_kinds(ground: Ground, ranked: Measure) -> Kinds:
    """The kinds of columns with levels, to which ranked models give a probability; all others are left out."""
    kinds = ground.kinds
    if kinds is None and ground.footing.unit != "mixed":
        return {}
    if kinds is None:
        kinds = dict.fromkeys([column_name(name) for name in ground.X.columns], "level")
    return {
        name: kind_of(kind) if word == "probability" and kind_of(kind) in WITH_LEVELS else LEFT_OUT
        for (name, kind), word in zip(kinds.items(), ranked, strict=True)
    }
