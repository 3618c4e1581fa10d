"""Tables as users have them: any container, any kind of column, values at the ends of what numbers can be.

hypothesis draws what a table is (its columns, scales, missing values, container) and a seed; numpy draws the cells. So
a failure shrinks to few rows and plain columns, and ten thousand tables are drawn in a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch
from hypothesis import strategies as st

import jensen
from jensen.files.scan import Scan

WORDS = np.array(["a", "b", "", "é", "日本", "Ａ", " a", "NaN", "-1", "x" * 40, "🙂", "a\nb"], dtype=object)
SCALES = (1.0, 1e-3, 1e6, 1e-140, 1e-160, 1e-300, 5e-324, 1e12, 1e150, 1e155, 1e300)


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n)


# Columns of numbers, by what is odd about them.
NUMBERS = {
    "normal": normal,
    "constant": lambda rng, n: np.full(n, rng.normal()),
    "zero": lambda rng, n: np.zeros(n),
    "two values": lambda rng, n: rng.choice([-1.5, 2.5], n),
    "bits": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "counts": lambda rng, n: rng.poisson(3, n).astype(float),
    "whole": lambda rng, n: rng.integers(-5, 20, n).astype(float),
    "large counts": lambda rng, n: np.floor(10.0 ** rng.uniform(0, 18, n)),
    "positive": lambda rng, n: rng.exponential(size=n),
    "far from 0": lambda rng, n: 1e8 + rng.normal(size=n),
    "last digits": lambda rng, n: 1.0 + rng.integers(0, 4, n) * np.finfo(float).eps,
    "all scales": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.uniform(-20, 20, n),
    "signed zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, -0.0),
    "one far": lambda rng, n: np.where(np.arange(n) == rng.integers(n), 1e9, rng.normal(size=n)),
    "identifiers": lambda rng, n: np.arange(n, dtype=float),
}
# Columns of data frames that are not floats.
OTHERS = {
    "text": lambda rng, n: rng.choice(WORDS, n),
    "one text": lambda rng, n: np.full(n, "only", dtype=object),
    "distinct texts": lambda rng, n: np.array([f"id{i}" for i in range(n)], dtype=object),
    "category": lambda rng, n: pd.Categorical(rng.choice(["low", "high", "none"], n), ["low", "high", "none"]),
    "ordered": lambda rng, n: pd.Categorical(rng.choice([3, 1, 2], n), [1, 2, 3, 4], ordered=True),
    "Int64": lambda rng, n: pd.array(rng.integers(-3, 9, n), dtype="Int64"),
    "int8": lambda rng, n: rng.integers(-128, 128, n).astype(np.int8),
    "uint64": lambda rng, n: rng.integers(0, 2**64, n, dtype=np.uint64),
    "Float32": lambda rng, n: pd.array(rng.normal(size=n).astype(np.float32), dtype="Float32"),
    "boolean": lambda rng, n: pd.array(rng.integers(0, 2, n).astype(bool), dtype="boolean"),
    "bool": lambda rng, n: rng.integers(0, 2, n).astype(bool),
    "date": lambda rng, n: pd.Timestamp("2020-02-29") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
    "time": lambda rng, n: pd.Timestamp("1700-01-01") + pd.to_timedelta(rng.integers(0, 2**62, n), unit="ns"),
    "zoned": lambda rng, n: pd.to_datetime(rng.integers(0, 2**60, n), utc=True).tz_convert("Europe/Paris"),
    "duration": lambda rng, n: pd.to_timedelta(rng.integers(-(10**15), 10**15, n)),
    "decimals as text": lambda rng, n: np.array([f"{v:.2f}" for v in rng.normal(size=n)], dtype=object),
    "decimal commas": lambda rng, n: np.array([f"{v:.1f}".replace(".", ",") for v in rng.normal(size=n)], dtype=object),
    "Decimal": lambda rng, n: np.array([Decimal(f"{v:.3f}") for v in rng.normal(size=n)], dtype=object),
    "objects": lambda rng, n: rng.choice(np.array([1, 2.5, "x", True], dtype=object), n),
}
MISSING = ("none", "none", "none", "some", "most", "rows", "column", "all but one", "all")
ARRAYS = (
    *("float64", "float64", "float32", "float16", "fortran", "strided", "reversed", "read-only", "object", "int64"),
    *("int8", "bool", "list", "tuple", "masked", "longdouble", "big-endian", "tensor", "tensor32", "tensor of ints"),
    *("transposed tensor", "tensor with gradient", "vector", "images", "no rows", "complex"),
)
FRAMES = ("pandas", "pandas", "pandas float32", "pandas index", "numbered columns", "polars", "pyarrow")


@dataclass(frozen=True)
class Given:
    """What a user calls a model with; the rows of a scan are those of a data frame.

    Args:
        container: what X is.
        columns: what its columns are.
        X: rows to fit.
        other: rows of the same columns to ask about.
        y: labels, or None.
        weight: row weights, or None.
    """

    container: str
    columns: tuple[str, ...]
    X: Any = field(repr=False)
    other: Any = field(repr=False)
    y: Any = field(repr=False)
    weight: Any = field(repr=False)
    words: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in ("X", "other", "y", "weight")}
        with np.printoptions(precision=17, threshold=400), pd.option_context("display.precision", 17):
            cells = "\n".join(f"{name} = {frame_of(value)!r}" for name, value in shown.items())
        return f"{self.container} of {self.columns}, {self.words}\n{cells}"


def frame_of(rows: Any) -> Any:
    """The rows of a scan, for methods that take tables only; other rows as they are."""
    if not isinstance(rows, Scan):
        return rows
    return pd.concat([block.table for block in rows])


def with_missing(x: np.ndarray, pattern: str, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, d) with NaN."""
    n, d = x.shape
    is_missing = {
        "none": lambda: np.zeros((n, d), dtype=bool),
        "some": lambda: rng.random((n, d)) < 0.2,
        "most": lambda: rng.random((n, d)) < 0.9,
        "rows": lambda: np.tile(rng.random((n, 1)) < 0.3, (1, d)),
        "column": lambda: np.tile(np.arange(d) == rng.integers(d), (n, 1)),
        "all but one": lambda: np.arange(n * d).reshape(n, d) != rng.integers(n * d),
        "all": lambda: np.ones((n, d), dtype=bool),
    }[pattern]()
    return np.where(is_missing, np.nan, x)


def as_array(x: np.ndarray, container: str) -> Any:
    """Numbers (n, d) in a container without names."""
    filled = np.nan_to_num(x, posinf=0, neginf=0)
    small = filled.clip(-9e18, 9e18)
    with np.errstate(all="ignore"):
        return {
            "float64": lambda: x,
            "float32": lambda: x.astype(np.float32),
            "float16": lambda: x.astype(np.float16),
            "fortran": lambda: np.asfortranarray(x),
            "strided": lambda: np.repeat(x, 2, axis=0)[::2],
            "reversed": lambda: x[::-1, ::-1].copy()[::-1, ::-1],
            "read-only": lambda: read_only(x),
            "object": lambda: np.where(np.isnan(x), None, x.astype(object)),
            "int64": lambda: small.astype(np.int64),
            "int8": lambda: filled.clip(-128, 127).astype(np.int8),
            "bool": lambda: filled > 0,
            "list": lambda: x.tolist(),
            "tuple": lambda: tuple(map(tuple, x.tolist())),
            "masked": lambda: np.ma.masked_invalid(x),
            "longdouble": lambda: x.astype(np.longdouble),
            "big-endian": lambda: x.astype(">f8"),
            "tensor": lambda: torch.tensor(x),
            "tensor32": lambda: torch.tensor(x).float(),
            "tensor of ints": lambda: torch.tensor(small).long(),
            "transposed tensor": lambda: torch.tensor(x.T.copy()).T,
            "tensor with gradient": lambda: torch.tensor(x, requires_grad=True),
            "vector": lambda: x[:, 0],
            "images": lambda: x[:, :, None],
            "no rows": lambda: x[:0],
            "complex": lambda: x + 0j,
        }[container]()


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def as_frame(columns: dict[str, Any], container: str) -> Any:
    frame = pd.DataFrame(columns)
    if container == "pandas float32":
        with np.errstate(over="ignore"):
            return frame.astype({name: np.float32 for name, kind in frame.dtypes.items() if kind == np.float64})
    if container == "pandas index":
        return frame.set_axis([f"row {i // 2}" for i in range(len(frame))])
    if container == "numbered columns":
        return frame.set_axis(range(frame.shape[1]), axis=1)
    if container in ("polars", "pyarrow"):
        for name in frame.select_dtypes(object):
            # polars and arrow have one type per column.
            frame[name] = [None if value is None or value != value else str(value) for value in frame[name]]
        polars = pl.DataFrame({name: to_polars(frame[name]) for name in frame})
        return polars if container == "polars" else polars.to_arrow()
    return frame


def to_polars(column: pd.Series) -> pl.Series:
    if isinstance(column.dtype, pd.CategoricalDtype):
        values = [None if value != value else str(value) for value in column]
        return pl.Series(values, dtype=pl.Categorical if values else pl.Utf8)
    return pl.from_pandas(column, nan_to_null=False)


def pieces(frame: Any, size: int, **roles: str) -> Any:
    """A scan of blocks of a data frame."""
    blocks = [frame.iloc[i : i + size] for i in range(0, len(frame), size)]
    return jensen.scan(lambda: iter(blocks), block_rows=size, **roles)


@st.composite
def labels(draw: Any, n: int, rng: np.random.Generator, usual: bool = False) -> tuple[str, Any]:
    code = rng.integers(0, 3, n)
    kinds = {
        "numbers": lambda: code,
        "some numbers": lambda: np.where(rng.random(n) < 0.5, -1, code),
        "none known": lambda: np.full(n, -1),
        "texts": lambda: np.array(["a", "b", None], dtype=object)[code],
        "floats": lambda: np.array([0.0, 1.0, np.nan])[code],
        "fractions": lambda: rng.normal(size=n),
        "bools": lambda: code > 0,
        "one class": lambda: np.ones(n, dtype=int),
        "a series": lambda: pd.Series(np.array(["x", "y", "-1"])[code]),
        "a list": lambda: code.tolist(),
        "dates": lambda: pd.to_datetime(code, unit="D").to_numpy(),
        "many": lambda: np.arange(n),
        "too few": lambda: code[:-1],
        "a column": lambda: code[:, None],
        "infinity": lambda: np.where(code == 0, np.inf, code),
    }
    kind = draw(st.sampled_from(("numbers", "some numbers", "texts") if usual else sorted(kinds)))
    return f"y: {kind}", kinds[kind]()


@st.composite
def weights(draw: Any, n: int, rng: np.random.Generator) -> tuple[str, Any]:
    kinds = {
        "counts": lambda: rng.integers(0, 4, n),
        "shares": lambda: rng.random(n),
        "one row": lambda: (np.arange(n) == 0).astype(float),
        "zero": lambda: np.zeros(n),
        "huge ratios": lambda: 10.0 ** rng.uniform(-25, 25, n),
        "all ratios": lambda: 10.0 ** rng.uniform(-300, 29, n),
        "tiny": lambda: np.full(n, 1e-29),
        "negative": lambda: rng.normal(size=n),
        "NaN": lambda: np.full(n, np.nan),
        "too many": lambda: np.ones(n + 1),
        "texts": lambda: ["1"] * n,
        "float32": lambda: rng.random(n).astype(np.float32),
        "a series": lambda: pd.Series(rng.random(n), index=range(5, 5 + n)),
        "a tensor": lambda: torch.tensor(rng.random(n)),
        "one number": lambda: 2.0,
    }
    kind = draw(st.sampled_from(sorted(kinds)))
    return f"weight: {kind}", kinds[kind]()


@st.composite
def numbers_like(draw: Any, x: np.ndarray, n: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Rows of a model's own kind, drawn with repetition; columns may be constant, copies or scaled."""
    found = x[rng.integers(0, len(x), n)].copy()
    words = ["own"] * found.shape[1]
    for j in range(found.shape[1]):
        words[j] = draw(st.sampled_from(("own", "own", "own", "own", "constant", "copy", "zero", "scaled")))
        if words[j] == "constant":
            found[:, j] = found[0, j]
        elif words[j] == "copy":
            found[:, j] = found[:, 0]
        elif words[j] == "zero":
            found[:, j] = 0
        elif words[j] == "scaled":
            with np.errstate(over="ignore"):
                found[:, j] *= draw(st.sampled_from(SCALES))
    return words, found


@st.composite
def numbers(draw: Any, n: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    words = draw(st.lists(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=6))
    scale = draw(st.sampled_from((1.0, 1.0, *SCALES)))
    with np.errstate(over="ignore"):
        return words, scale * np.column_stack([NUMBERS[word](rng, n) for word in words])


def odd_cell(x: np.ndarray, cell: float, rng: np.random.Generator) -> np.ndarray:
    x = x.copy()
    x[rng.integers(len(x)), rng.integers(x.shape[1])] = cell
    return x


@st.composite
def tables(draw: Any, like: np.ndarray, has_labels: bool = False) -> Given:
    """
    Args:
        like: rows of the kind that a model is for; two thirds of the tables have columns like them.
        has_labels: whether most tables have labels.
    """
    n = draw(st.sampled_from((8, 1, 2, 3, 5, 13, 25, 40)))
    rng = np.random.default_rng(draw(st.integers(0, 2**31 - 1)))
    is_own = draw(st.sampled_from((True, True, False)))
    words, x = draw(numbers_like(like, 2 * n, rng) if is_own else numbers(2 * n, rng))
    if draw(st.sampled_from((False,) * 9 + (True,))):
        x = odd_cell(x, draw(st.sampled_from((np.inf, -np.inf, 1e300, 1e150, -1e30, 5e-324, -0.0))), rng)
    missing = draw(st.tuples(*[st.sampled_from(MISSING if not is_own else MISSING[:6])] * 2))
    first, second = (with_missing(half, how, rng) for half, how in zip((x[:n], x[n:]), missing, strict=True))
    usual = labels(n, rng, usual=True) if has_labels else st.none()
    y = draw(st.one_of(usual, usual, labels(n, rng)))
    weight = draw(st.one_of(st.none(), st.none(), weights(n, rng)))
    container = draw(st.sampled_from((*ARRAYS, *FRAMES * 3, *("scan",) * 6)))
    said = tuple(word for word, _ in filter(None, (y, weight)))
    y, weight = (None if pair is None else pair[1] for pair in (y, weight))
    said = (*said, f"missing: {missing[0]}, {missing[1]}")
    if container in ARRAYS:
        return Given(container, tuple(words), as_array(first, container), as_array(second, container), y, weight, said)
    more = draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=0 if draw(st.booleans()) else 3))
    odd = {f"o{j}": OTHERS[word](rng, 2 * n) for j, word in enumerate(more)}
    halves = [
        {f"c{j}": half[:, j] for j in range(half.shape[1])}
        | {name: part(column, place) for name, column in odd.items()}
        for half, place in ((first, slice(None, n)), (second, slice(n, None)))
    ]
    words = [*words, *more]
    if container != "scan":
        own, other = (as_frame(half, container) for half in halves)
        return Given(container, tuple(words), own, other, y, weight, said)
    size = draw(st.sampled_from((3, 7, 50)))
    own, other = map(pd.DataFrame, halves)
    roles = {name: name for name, value in (("label", y), ("weight", weight)) if fits(value, n)}
    columns = {name: np.asarray(value) for name, value in (("label", y), ("weight", weight)) if name in roles}
    return Given(
        container, tuple(words), pieces(own.assign(**columns), size, **roles), pieces(other, size), None, None, said
    )


def part(column: Any, place: slice) -> Any:
    return column[place]


def fits(value: Any, n: int) -> bool:
    return value is not None and np.shape(value) == (n,)
