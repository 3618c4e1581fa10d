"""`jensen.impute`: from a table with missing values to a complete one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from jensen.contract import whole_number
from jensen.data.cells import read_cells
from jensen.data.container import Table
from jensen.files.replacing import write_text
from jensen.report import charts
from jensen.report.html import table as html_table
from jensen.report.page import article, document
from jensen.report.panels import Panel
from jensen.runtime.progress import Bar
from jensen.tasks.imputation.scores import measured
from jensen.tasks.imputer import Imputer
from jensen.tasks.opening import opened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Draws by which the deviation of a filled cell is found, and the cells that a report lists.
N_DRAWS, N_LISTED = 50, 200
ERRORS = ("rmse", "rmse_of_mean", "mae", "mae_of_mean")


@dataclass(frozen=True, eq=False)
class Imputed:
    """A complete table, and how it was found.

    Args:
        table: the table with its missing values filled, in the container that came in; other cells bit for bit.
        model: the fitted `Imputer`: `impute` fills other rows, `save` and `jensen.load` keep it.
        given: the table that came in.
        seed: of draws.

    Example:
        >>> import numpy as np
        >>> import jensen
        >>> x = np.random.default_rng(0).normal(size=40).round(3)
        >>> X = np.column_stack([x, 2 * x])
        >>> X[7, 1] = np.nan
        >>> imputed = jensen.impute(X, "quick")
        >>> imputed.table[7].round(1).tolist(), imputed.cells["row"].tolist()
        ([0.9, 1.9], [7])
    """

    table: Any
    model: Imputer
    given: Any
    seed: int = 0

    @property
    def tried(self) -> pd.DataFrame:
        """The models that were tried, their errors on hidden entries, seconds, and weights in the average."""
        return self.model.tried_

    @property
    def columns(self) -> pd.DataFrame:
        """The error of every column on hidden entries."""
        return self.model.column_errors_

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Every filled cell: row, column, value, and how sure it is.

        `std` is the standard deviation of a number, in its own units, and `probability` that of a level.
        """
        cells = read_cells(self.given, dates=True)
        coding, codes = self.model.theta_.coding, self.model.columns_.codes(cells)
        x, missing = codes.x.numpy(), codes.missing.numpy()
        z = self.model.theta_.expected(x)
        has_numbers = any(missing[:, j].any() for j in range(coding.d) if not coding.is_level(j))
        drawn = self.model.theta_.marginal_draws(x, N_DRAWS, self.seed) if has_numbers else x[None]
        filled = frame_of(self.table)
        parts = []
        for j, name in enumerate(self.model.columns_.names):
            rows = np.flatnonzero(missing[:, j])
            part: dict[str, Any] = {
                "row": rows,
                "column": name,
                "value": filled.iloc[rows, self.model.columns_.kept[j]].to_numpy(object),
            }
            if coding.is_level(j):
                part |= {"std": np.nan, "probability": z[rows, coding.places[j]].max(1)}
            else:
                part |= {"std": drawn[:, rows, j].std(0, ddof=1), "probability": np.nan}
            parts.append(pd.DataFrame(part))
        found = pd.concat(parts, ignore_index=True).sort_values(["row"], kind="stable", ignore_index=True)
        return found

    def draws(self, m: int = 5, *, verbose: int = 0) -> list[Any]:
        """m complete tables for multiple imputation, in which the models' parameters are drawn as well as the values.

        Every table has models of its own: the rows get weights n·Dirichlet(1, ..., 1), EM resumes from the fit with
        them, and the missing cells are drawn given the observed ones. Combine the results of your analysis with `pool`.
        """
        codes = self.model.columns_.codes(read_cells(self.given, dates=True))
        x, rng = codes.x.numpy(), np.random.default_rng(self.seed)
        tables = []
        with Bar("draws" if verbose else None, whole_number("m", m), unit="table") as bar:
            for _ in range(m):
                ensemble = self.model.theta_.reweighted(x, len(x) * rng.dirichlet(np.ones(len(x))))
                drawn = torch.from_numpy(ensemble.drawn(x, 1, int(rng.integers(2**31)))[0])
                tables.append(self.model.columns_.restore(self.given, drawn, codes.missing))
                bar.update()
        return tables

    def plot(self) -> Figure:
        """How much better than the column's own mean, or most frequent level, every column is filled."""
        from jensen.runtime.figures import Drawn

        names, gains = self.gains()
        figure = Drawn(figsize=(7, 1.2 + 0.32 * len(names)), layout="constrained")
        axes = figure.subplots()
        axes.barh(names, gains, color="C0")
        axes.invert_yaxis()
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set(xlabel="share of the error that is removed on hidden entries", xlim=(min([0.0, *gains]), 1))
        return figure

    def gains(self) -> tuple[list[str], list[float]]:
        """For each column, 1 - error / error of its own mean (squares) or of its most frequent level (misses)."""
        names, gains = [], []
        for row in self.columns.to_dict("records"):
            if not row["hidden"]:
                continue
            names.append(str(row["column"]))
            if row["kind"] in ("level", "yes/no"):
                plain = 1 - row["most_frequent"]
                gains.append((row["accuracy"] - row["most_frequent"]) / plain if plain else 0.0)
            else:
                gains.append(row["explained"])
        return names, gains

    def report(self, path: str | os.PathLike[str], title: str = "Imputed values") -> None:
        """Write an HTML page: errors of the columns, the models that were tried, and the filled cells."""
        names, gains = self.gains()
        cells = self.cells
        listed = "" if len(cells) <= N_LISTED else f" The first {N_LISTED} of {len(cells)} are listed."
        panels = [
            Panel(
                "Columns",
                "Errors on entries that were hidden from the models. The bars show the share of the error that is "
                "removed, compared with the column's mean (squared error) or most frequent level (misses). Errors of "
                "dates are in the unit that stands beside them.",
                (charts.bars(names, gains, "share of the error removed", "Gain of every column") if names else "")
                + html_table(self.columns),
            ),
            Panel(
                "Models",
                "What was tried: rmse of numbers in standard deviations, misses of levels, on hidden entries. The "
                "weights minimise Huber's loss of numbers, which is the squared error up to three robust standard "
                "deviations and grows linearly beyond, so that a few far values do not decide; in a column with such "
                "values the rmse may be above that of the column's mean. For levels the loss is -ln p.",
                html_table(self.tried, sortable=True),
            ),
            Panel(
                "Filled cells",
                f"std is the standard deviation of a number, of dates in days or seconds as above.{listed}",
                html_table(cells[:N_LISTED]),
            ),
        ]
        body = f'<div class="panels">{"".join(article(panel) for panel in panels)}</div>'
        write_text(path, document(title, str(self).splitlines()[0], body))

    def __str__(self) -> str:
        errors = self.columns
        n_rows, filled = len(self.given), 0 if not len(errors) else int(errors["missing"].sum())
        lines = [f"{filled} values filled in {n_rows} rows"]
        for row in errors.to_dict("records") if filled else ():
            if row["kind"] == "constant":
                how = "the only value there is"
            elif not row["hidden"]:
                how = "too few values to measure an error"
            elif row["kind"] in ("level", "yes/no"):
                how = f"{row['accuracy']:.0%} of hidden levels right (most frequent level: {row['most_frequent']:.0%})"
            else:
                rmse, rmse_of_mean, mae, mae_of_mean = (measured(row[name], row.get("unit")) for name in ERRORS)
                how = f"error {rmse} on hidden entries (column mean: {rmse_of_mean})"
                if row["rmse"] > row["rmse_of_mean"]:  # a few far values decide a mean of squares
                    how += f", absolute error {mae} (column mean: {mae_of_mean}); models are judged by Huber's loss"
            lines.append(f"  {row['column']}: {row['missing']} filled, {how}")
        left = [str(name) for name in self.model.columns_.left_out]
        if left:
            lines.append(f"  not imputed: {', '.join(left)}")
        return "\n".join(lines)


def impute(
    table: Table | str | os.PathLike[str],
    effort: str = "normal",
    *,
    columns: Mapping[str | int, Any] | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> Imputed:
    """Fill the missing values of a table.

    Several models of the table are compared on entries that are hidden from them and averaged, with weights for each
    column: mixtures of all columns and of few, factor analysers, nearest rows; a VAE as well if effort="thorough".
    Numbers are filled with their expectation, levels with the most probable one. Columns that name rows (identifiers,
    free text) and columns without any value stay as they are.

    Args:
        table: a data frame, an array, or the path of a file.
        effort: "quick" (seconds), "normal" (a minute or two for 5000 rows of 15 columns) or "thorough".
        columns: {column: kind} for columns that are not what they look like, as in `Mixture`.
        random_state: seed of the comparison and of draws.
        verbose: 1 shows a progress bar on a terminal.

    Example:
        >>> import pandas as pd
        >>> import jensen
        >>> X = pd.DataFrame({"size": [1.0, 1.1, 5.0, 5.2, None] * 8, "kind": ["a", "a", "b", None, "b"] * 8})
        >>> result = jensen.impute(X, "quick")
        >>> result.table["kind"].tolist()[:5]
        ['a', 'a', 'b', 'b', 'b']
    """
    rows = opened(table)
    model = Imputer(effort, columns=columns, random_state=random_state, verbose=verbose).fit(rows)
    seed = int(np.random.default_rng(random_state if isinstance(random_state, int) else None).integers(2**31))
    return Imputed(model.impute(rows), model, rows, seed)


def frame_of(table: Any) -> pd.DataFrame:
    """A pandas frame with the cells of any table."""
    if hasattr(table, "to_pandas"):
        frame: pd.DataFrame = table.to_pandas()
        return frame
    return table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table))
