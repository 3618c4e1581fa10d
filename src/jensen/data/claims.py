"""Which values can describe columns: the claims that a record of them makes, each with its check, and neutral ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import torch
from torch import Tensor

from jensen.data.container import CONTAINERS
from jensen.data.dates import SECONDS
from jensen.data.levels import ALL_KINDS

# Kinds whose encoded values are numbers of levels, beside the grid.
WITH_LEVELS = ("yes/no", "level", "constant")
# What a file may lack, because it was written before columns had it.
LATER = {"support"}


def neutral(d: int) -> dict[str, Any]:
    """The values of d columns of which nothing more is known than kinds, levels and scaling."""
    unlimited = torch.tensor([-torch.inf, torch.inf], dtype=torch.float64).repeat(d, 1)
    return {
        "bounds": unlimited,
        "atoms": ((),) * d,
        "units": ("",) * d,
        "ranges": unlimited.clone(),
        "whole": (False,) * d,
        "categories": ((),) * d,
        "n_observed": torch.zeros(d, dtype=torch.int64),
        "kept": tuple(range(d)),
        "support": unlimited.clone(),
    }


def checked_record(record: Any, names: Set[str]) -> dict[str, Any]:
    """The values of columns in a file, by these names; what does not describe columns is an error."""
    if not isinstance(record, Mapping) or not names - LATER <= set(record) <= names:
        given = sorted(map(str, record)) if isinstance(record, Mapping) else record
        raise ValueError(f"columns are described by {sorted(names)}, got {given}; the file is damaged")
    values = dict(record)
    if isinstance(values["kinds"], tuple) and values["kinds"][:1] == ("grid",) and len(values["levels"]) == 1:
        values["levels"] = values["levels"] * len(values["names"])
    if isinstance(values["names"], tuple):
        values = {name: value for name, value in neutral(len(values["names"])).items() if name in LATER} | values
    for what, is_right in claims(values):
        if not is_right:
            raise ValueError(f"{what}={values[what]!r} does not describe columns; the file is damaged")
    return values


def claims(record: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Fields of columns, and whether their values are possible; later checks rely on earlier ones."""
    names, kinds, levels, dtypes = (record[name] for name in ("names", "kinds", "levels", "dtypes"))
    yield "names", isinstance(names, tuple) and all_are((str, int), names) and 0 < len(names) == len(set(names))
    d = len(names)
    yield "kinds", isinstance(kinds, tuple) and len(kinds) == d and are_kinds(kinds)
    yield "levels", isinstance(levels, tuple) and len(levels) == d and all_are_levels(levels, kinds)
    yield "dtypes", isinstance(dtypes, tuple) and len(dtypes) == d and all_are(str, dtypes)
    yield "container", record["container"] in CONTAINERS
    is_level = torch.tensor([kind in WITH_LEVELS for kind in kinds])
    for what, neutral in (("location", 0.0), ("scale", 1.0)):
        value = record[what]
        yield what, is_tensor(value, (d,)) and bool(value.isfinite().all() and (value[is_level] == neutral).all())
    yield "scale", bool((record["scale"] > 0).all())
    yield from further_claims(record, d)


def further_claims(record: Mapping[str, Any], d: int) -> Iterator[tuple[str, bool]]:
    kinds = record["kinds"]
    for what in ("bounds", "ranges", "support"):
        yield what, is_tensor(record[what], (d, 2)) and bool((record[what][:, 0] <= record[what][:, 1]).all())
    has_density = torch.tensor([kind == "number" for kind in kinds])
    low, high = record["support"].T
    yield "support", bool(((low < high) & (has_density | (low.isneginf() & high.isposinf()))).all())
    atoms, units, whole = record["atoms"], record["units"], record["whole"]
    yield "atoms", isinstance(atoms, tuple) and len(atoms) == d and all(map(are_atoms, atoms, kinds))
    yield "units", isinstance(units, tuple) and len(units) == d and all(map(is_unit, units, kinds))
    yield "whole", isinstance(whole, tuple) and len(whole) == d and all_are(bool, whole)
    categories = record["categories"]
    yield (
        "categories",
        (isinstance(categories, tuple) and len(categories) == d and all(map(are_categories, categories))),
    )
    n_rows, n_observed = record["n_rows"], record["n_observed"]
    yield "n_rows", isinstance(n_rows, int) and n_rows >= 0
    is_count = isinstance(n_observed, Tensor) and n_observed.dtype == torch.int64 and n_observed.shape == (d,)
    yield "n_observed", is_count and bool(((n_observed >= 0) & (n_observed <= n_rows)).all())
    left_out, kept = record["left_out"], record["kept"]
    yield "left_out", isinstance(left_out, tuple) and all_are((str, int), left_out)
    all_names = (*record["names"], *left_out)
    yield "left_out", len(set(all_names)) == len(all_names)
    yield "kept", isinstance(kept, tuple) and len(kept) == d and all_are(int, kept)
    yield "kept", set(kept) <= set(range(len(all_names))) and list(kept) == sorted(set(kept))


def is_tensor(value: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float64 and value.shape == shape


def are_kinds(kinds: tuple[Any, ...]) -> bool:
    return set(kinds) == {"grid"} or all(kind in ALL_KINDS for kind in kinds)


def all_are_levels(levels: tuple[Any, ...], kinds: tuple[str, ...]) -> bool:
    # The columns of a grid share their levels, which are checked once.
    different = {(id(own), kind): own for own, kind in zip(levels, kinds, strict=True)}
    return all(are_levels(own, kind) for (_, kind), own in different.items())


def are_levels(levels: Any, kind: str) -> bool:
    if not isinstance(levels, tuple) or kind in ("number", "count", "date"):
        return isinstance(levels, tuple) and not levels
    if kind in ("yes/no", "constant"):
        right_count = len(levels) == (2 if kind == "yes/no" else 1)
    else:
        right_count = len(levels) >= 1 + (kind == "grid")
    return right_count and are_distinct(levels)


def are_distinct(values: tuple[Any, ...]) -> bool:
    one_type = len({type(value) for value in values}) == 1 and all_are((str, int, float), values)
    return one_type and len({value for value in values if value == value}) == len(values)


def are_categories(values: Any) -> bool:
    return isinstance(values, tuple) and (not values or are_distinct(values))


def are_atoms(atoms: Any, kind: str) -> bool:
    return isinstance(atoms, tuple) and all_are(float, atoms) and (not atoms or kind == "number")


def is_unit(unit: Any, kind: str) -> bool:
    return unit in SECONDS if kind == "date" else unit == "" or (kind == "constant" and unit in SECONDS)


def all_are(types: type | tuple[type, ...], values: Iterable[Any]) -> bool:
    return all(isinstance(value, types) for value in values)
