"""What the columns of a table are, found from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, issparse

from jensen.data.cells import Cells, cells_of_numbers, read_cells
from jensen.data.columns import Columns
from jensen.data.constants import warn_of_constants
from jensen.data.container import Kind, Table
from jensen.data.edits import LEFT_OUT, Asked, asked_columns, with_asked_numbers
from jensen.data.findings import own_kind, type_of, warn_of_left_out
from jensen.data.levels import plain
from jensen.data.names import shown
from jensen.data.rules import Given, find_column
from jensen.data.scaled import learn_scaled
from jensen.data.statistics import CountStatistics, TableStatistics, statistics_of


def learn_columns(
    X: Table | Cells | TableStatistics,
    columns: Any = None,
    *,
    kinds: str = "scaled",
    shared_scale: bool = False,
    atoms: bool = False,
) -> Columns:
    """What the columns of X are.

    For networks (kinds="scaled") whole numbers are numbers, and these are standardised, see `learn_scaled`. For
    mixtures (kinds="all") values stay in their own units, and the rules are, the first that applies:

    1. A column with one value is a "constant", whatever is asked for. One warning names all of them.
    2. Dates, times of day and durations are a "date": days if all are whole days, else seconds.
    3. Truth values, text and categories are "yes/no" if they have two values, else a "level". A column of text is left
       out if it has at least 30 observed values and more than half of them are distinct, because it names rows or is
       free text. More than 1000 levels are an error.
    4. Two numbers alone are "yes/no": 0 and 1, or any two, such as the codes 1 and 2, with at least 5 rows per value.
       Two points have no density.
    5. Numbers that are not all whole are a "number".
    6. Whole numbers are judged by their values, not by their type: in pandas a missing value turns integers into
       floats, and must not change what the column is.
       a. At least 30 that are all distinct and fill at least half of their range, in any order, are running numbers and
          left out: they tell rows apart and nothing else.
       b. At most 10 values are a "level" if there are at least 5 rows per value on average and their range is less
          than 20, or at least 30 rows per value in any range: answers of a survey, grades, the number of vessels,
          postcodes of a few towns. Probabilities of levels can describe a count as well, but no count describes codes.
       c. From 0 up to at most 1000, with a mean of less than two standard deviations, they are a "count": a Gaussian
          would reach below 0. Above that a count looks like a Gaussian, which also has a covariance with other numbers.
       d. All others are a "number", such as age, years of schooling, hours per week and capital gain.

    A count is 0 or more. A value at a given bound is an atom. With atoms=True a value of a column of numbers is an
    atom, too, if it has at least 10 % of the observed rows and at least five times the rows of its neighbours, the two
    next values on either side; for 0 as the least value 1 % suffice. An atom may be a natural bound of the other
    numbers: 0 if no value is less, and 1 if all values are from 0 to 1. Numbers have no other bounds, unless given.

    Args:
        X: a data frame, or numbers (n, d) as an array or tensor; NaN and its like are missing. For mixtures also the
            statistics of a table that is not in memory.
        columns: a kind for all columns, or {name or number: kind or options} for some. For mixtures kinds are "auto",
            "number", "count", "level", "yes/no", "date", "constant" and "left out", and options are a dictionary of
            "kind", "low", "high" and "atoms"; a bound of None is none, not even a natural one. For networks kinds are
            "auto", "number", "yes/no" and "level".
        kinds: "all" or "scaled".
        shared_scale: one location and scale for all numbers, as for the pixels of images; only if "scaled".
        atoms: whether frequent numbers may be atoms; only if "all".

    Example:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from jensen.data.infer import learn_columns
        >>> columns = learn_columns(np.array([[1.0, 0.0], [3.0, np.nan], [5.0, 1.0]]), {1: "yes/no"})
        >>> columns.kinds, columns.location
        (('number', 'yes/no'), tensor([3., 0.], dtype=torch.float64))
        >>> X = pd.DataFrame({"town": ["Bonn", "Rome", None, "Oslo"], "visits": [0, 7, 2, 1], "size": [2.5, 1, 2, 3]})
        >>> print(learn_columns(X, kinds="all"))
        column  kind    values            atoms  missing  measure
        town    level   Bonn, Oslo, Rome         25.0%    probability
        visits  count   0 to 7                   0.0%     probability
        size    number  1 to 3                   0.0%     density
    """
    if isinstance(X, TableStatistics):
        return columns_from(X, asked_columns(columns, X.head.names), atoms)
    if kinds == "scaled":
        return learn_scaled(read_cells(X, dates=True), "auto" if columns is None else columns, shared_scale)
    if kinds != "all":
        raise ValueError(f"kinds={kinds!r} is not known; choose 'all' or 'scaled'")
    cells = read_cells(X, dates=True)
    n, d = cells.numbers.shape
    if n == 0 or d == 0:
        raise ValueError(f"X has {n} rows and {d} columns; give at least one of each")
    asked = asked_columns(columns, cells.names)
    return columns_from(statistics_of(with_asked_numbers(cells, asked)), asked, atoms)


def columns_from(table: TableStatistics, asked: Sequence[Asked], atoms: bool = False) -> Columns:
    """What the columns of a table with these statistics are."""
    head, statistics = table.head, table.columns
    found = [
        find_column(Given(name, head.sorts[j], head.orders.get(j), statistics[j]), asked[j], atoms)
        for j, name in enumerate(head.names)
    ]
    kept = [j for j, column in enumerate(found) if column.kind != LEFT_OUT]
    left_out = [j for j, column in enumerate(found) if column.kind == LEFT_OUT]
    unasked = [j for j in left_out if asked[j].kind != LEFT_OUT]
    warn_of_left_out({head.names[j]: own_kind(head.sorts[j] == "text", statistics[j].n_distinct) for j in unasked})
    if not kept:
        raise ValueError("X has no column left to model; give columns={name: kind} for those that were left out")
    constants = {head.names[j]: found[j] for j in kept if found[j].kind == "constant"}
    warn_of_constants({name: None if one.unit else one.levels[0] for name, one in constants.items()})
    used = [found[j] for j in kept]
    return Columns(
        tuple(head.names[j] for j in kept),
        tuple(column.kind for column in used),
        tuple(column.levels for column in used),
        torch.zeros(len(kept), dtype=torch.float64),
        torch.ones(len(kept), dtype=torch.float64),
        tuple(type_of(head, j) for j in kept),
        head.kind.container,
        bounds=torch.tensor([(column.least, column.greatest) for column in used], dtype=torch.float64),
        support=torch.tensor([column.support for column in used], dtype=torch.float64),
        atoms=tuple(column.atoms for column in used),
        units=tuple(column.unit for column in used),
        ranges=torch.tensor([(column.low, column.high) for column in used], dtype=torch.float64),
        whole=tuple(column.is_whole for column in used),
        categories=tuple(tuple(map(plain, head.orders.get(j, ()))) for j in kept),
        n_observed=torch.tensor([statistics[j].n_observed for j in kept]),
        n_rows=statistics[0].n_rows,
        left_out=tuple(head.names[j] for j in left_out),
        kept=tuple(kept),
    )


def count_columns(X: Table | Cells | CountStatistics) -> Columns:
    """Columns that are all counts, such as words, whatever they look like; rows may be sparse."""
    if issparse(X):
        X = cells_of_numbers(csr_array(X, dtype=np.float64), Kind("numpy", "float64"))
    found = X if isinstance(X, CountStatistics) else CountStatistics.of(read_cells(X))
    d, empty = len(found.names), np.flatnonzero(found.n_observed == 0)
    if len(empty):
        name = shown(found.names[empty[0]])
        raise ValueError(f"X has no observed value in column {name}; drop it: there is nothing to learn from")
    return Columns(
        found.names,
        ("count",) * d,
        ((),) * d,
        torch.zeros(d, dtype=torch.float64),
        torch.ones(d, dtype=torch.float64),
        found.dtypes,
        found.container,
        bounds=torch.from_numpy(np.stack([np.zeros(d), np.full(d, np.inf)], 1)),
        ranges=torch.from_numpy(np.stack([found.low, found.high], 1).astype(np.float64)),
        whole=(True,) * d,
        n_observed=torch.from_numpy(found.n_observed),
        n_rows=found.n_rows,
    )
