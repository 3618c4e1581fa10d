"""The result of a comparison, as a table, in a terminal, a notebook and a figure."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse

from jensen.data.codes import without_unseen_warning
from jensen.data.container import as_array
from jensen.evaluate.footing import Footing
from jensen.evaluate.scoring import dequantised, given
from jensen.evaluate.words import WORDS
from jensen.files.replacing import write_text
from jensen.report.html import board_html
from jensen.report.images import scale_of, shades
from jensen.report.page import page
from jensen.report.subject import Subject, new_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

# The columns that are displayed, with their headings; the numbers in `table` are not rounded.
SHOWN = {
    "model": "model",
    "nats": "nats",
    "standard_error": "± s.e.",
    "bits_per_dimension": "bits/dim",
    "behind": "to the best ± 95 %",
    "value": "value",
    "n_parameters": "parameters",
    "fit_seconds": "fit, s",
    "score_seconds": "score, s",
}
# In a table of words.
SHOWN_OF_WORDS = {
    "model": "model",
    "completion": "completion",
    "completion_error": "± s.e.",
    "perplexity": "perplexity",
    "behind": "to the best ± 95 %",
    "nats": "nats",
    "nats_per_word": "nats/word",
    **{name: SHOWN[name] for name in ("value", "n_parameters", "fit_seconds", "score_seconds")},
}
# A terminal with this many characters per line has room for all of them.
WIDE = 130
NOT_NARROW = ("standard_error", "n_parameters", "score_seconds")
NOT_NARROW_OF_WORDS = ("completion_error", "nats_per_word", "n_parameters", "fit_seconds", "score_seconds")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The held-out rows of the first fold: as given, with their labels, row numbers and footing."""

    rows: Any
    y: Any
    numbers: np.ndarray
    footing: Footing


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """The result of `compare`.

    Args:
        table: a row per model, the best first and failures last. Columns: held-out `nats` per row and their
            `standard_error`; `bits_per_dimension`, or in a table of words `nats_per_word`, `completion` (nats per word)
            with its `completion_error`, and `perplexity`; the difference to the best model (`behind`), of words in
            completion, with its 95 % interval (`behind_low` to `behind_high`); `value`, whether scores are exact or a
            bound; `n_parameters`; `fit_seconds`; `score_seconds`; and `failure`, the reason why a model has no
            scores and no rank.
        caption: how rows were held out, what the scores are of, and their units.
        scores: nats of every held-out row (index) under every model (column).
        models: the fitted models of the first fold, by name.
        held_out: the held-out rows of the first fold.
        blender: makes the blend.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from jensen import KMeans, ProbabilisticPCA, compare
        >>> board = compare(load_iris().data, {"PPCA": ProbabilisticPCA(2), "k-means": KMeans(3, random_state=0)})
        >>> board.best, board.table["model"].tolist()
        ('PPCA', ['PPCA', 'k-means'])
    """

    table: pd.DataFrame
    caption: str
    scores: pd.DataFrame
    models: Mapping[str, Any]
    held_out: HeldOut
    blender: Callable[[], Any]

    @property
    def best(self) -> str:
        """The name of the model with the highest score, or of words the best completion."""
        return str(self.table["model"].iloc[0])

    def blend(self) -> Any:
        """A `Blend` of the models of the first fold.

        Unless `compare` had blend=True, every model is fitted once more, to a part of its training rows; the weights
        are fitted to the others. The rows that the table reports have no part in it. Models are blended whose scores
        are densities of the same columns, and probabilities of the others.
        """
        return self.blender()

    def shown(self) -> pd.DataFrame:
        """The table as text, rounded for display."""
        table = self.table[self.table["failure"] == ""]
        columns = SHOWN_OF_WORDS if self._is_of_words else SHOWN
        rows = [
            {name: displayed(name, row, is_best=i == 0) for name in columns}
            for i, row in enumerate(table.astype(object).to_dict("records"))
        ]
        return pd.DataFrame(rows, columns=list(columns)).rename(columns=columns)

    @property
    def _is_of_words(self) -> bool:
        return self.held_out.footing.unit == WORDS

    @property
    def failures(self) -> dict[str, str]:
        """Why models are not ranked: reasons by name."""
        failed = self.table[self.table["failure"] != ""]
        return dict(zip(failed["model"], failed["failure"], strict=True))

    def rich(self, width: int = 80) -> Table:
        """A table for `rich.print`; a wide one also has standard errors, parameters and scoring times."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        shown = self.shown()
        if width < WIDE:
            wide = NOT_NARROW_OF_WORDS if self._is_of_words else NOT_NARROW
            shown = shown.drop(columns=[(SHOWN | SHOWN_OF_WORDS)[name] for name in wide])
        # Reasons are too long for a column.
        reasons = [f"{name} is not ranked: {reason}" for name, reason in self.failures.items()]
        # Names of columns may look like markup; Text prints them as they are.
        caption = Text("\n".join([*reasons, self.caption]))
        out = Table(caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for name in shown.columns:
            # Only descriptions of scores and headings may wrap.
            head, is_word = Text(name.replace("/", "\n/").replace(" ±", "\n±")), name in ("model", "value")
            out.add_column(head, justify="left" if is_word else "right", no_wrap=name != "value")
        for row in shown.to_numpy().tolist():
            out.add_row(*map(Text, row))
        for name in self.failures:
            out.add_row(Text(name), "not ranked")
        return out

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the difference of every model to the best, with 95 % intervals."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        table = self.table[self.table["failure"] == ""].iloc[::-1]
        place = np.arange(len(table))
        reach = np.abs(table[["behind_low", "behind_high"]].to_numpy().T - table["behind"].to_numpy())
        ax.errorbar(table["behind"], place, xerr=np.nan_to_num(reach), fmt="o", ms=5, capsize=3)
        ax.set_yticks(place, list(table["model"]))
        ax.axvline(0, color="grey", lw=1, zorder=0)
        unit = "nats per completed word" if self._is_of_words else "nats per held-out row"
        ax.set(xlabel=f"{unit}, relative to {self.best}")
        return ax

    def sample(self, n_samples: int = 12, random_state: Any = 0) -> dict[str, Any]:
        """New rows from every model that can sample, best model first, in the shape of the given rows."""
        there, out = self.held_out, {}
        for name, model in self.models.items():
            if not hasattr(model, "sample"):
                continue
            seed = {"random_state": random_state} if "random_state" in signature(model.sample).parameters else {}
            rows = new_rows(model.sample(n_samples, **seed))
            if issparse(there.rows):
                rows = csr_array(rows)
            elif there.footing.is_image:
                rows = as_array(rows).reshape(n_samples, *there.footing.shape)
            elif hasattr(there.rows, "columns") and not hasattr(rows, "columns"):
                rows = pd.DataFrame(as_array(rows), columns=list(there.rows.columns))
            out[name] = rows
        return out

    def plot_samples(self, n_samples: int = 12, random_state: Any = 0) -> Figure:
        """Draw held-out images, and below them a row of samples per model."""
        from jensen.runtime.figures import Drawn

        if not self.held_out.footing.is_image:
            raise ValueError("rows of a table cannot be drawn as images; board.sample() returns the samples")
        real = as_array(self.held_out.rows)[:n_samples].astype(np.float64)
        limits = scale_of(float(np.nanmin(real)), float(np.nanmax(real)))
        lines = {"real": real, **self.sample(n_samples, random_state)}
        fig = Drawn(figsize=(1.6 + 0.62 * n_samples, 0.68 * len(lines)), dpi=150, layout="constrained")
        axes = fig.subplots(len(lines), n_samples, squeeze=False)
        for panels, (name, images) in zip(axes, lines.items(), strict=True):
            for ax, image in zip(panels, images, strict=False):
                ax.imshow(picture_of(image, limits), cmap="gray", vmin=0, vmax=255)
            for ax in panels:
                ax.set_axis_off()
            panels[0].text(-0.25, 0.5, name, transform=panels[0].transAxes, ha="right", va="center", fontsize=11)
        return fig

    def report(self, path: str | os.PathLike[str], title: str = "Models compared", verbose: int = 0) -> None:
        """Write an HTML page: this table, with a section per model about the held-out rows.

        Args:
            path: the file.
            title: of the page.
            verbose: 1 shows a progress bar on a terminal.
        """
        # The caption says what unseen values count.
        with without_unseen_warning():
            write_text(path, self._page(title, verbose))

    def _page(self, title: str, verbose: int) -> str:
        there = self.held_out
        rng = np.random.default_rng(0)
        subjects = [
            Subject(
                name,
                model,
                there.rows,
                there.y,
                there.footing.shape if there.footing.is_image else None,
                self.scores[name].loc[there.numbers].to_numpy(),
                there.numbers,
                log_cell=log_cell(model, there),
                inputs=given(model, there.footing, there.rows, rng),
            )
            for name, model in self.models.items()
        ]
        lead = f"{len(self.models)} models, evaluated on {len(there.numbers)} held-out rows"
        return page(title, lead, board_html(self.table, self.caption), subjects, verbose)

    def __repr__(self) -> str:
        unranked = [f"{name} is not ranked: {reason}" for name, reason in self.failures.items()]
        return "\n".join([self.shown().to_string(index=False), *unranked, self.caption])

    def _repr_html_(self) -> str:
        unranked = "".join(f"<p>{html.escape(f'{k} is not ranked: {v}')}</p>" for k, v in self.failures.items())
        return f"{self.shown().to_html(index=False, border=0)}{unranked}<p>{html.escape(self.caption)}</p>"


def log_cell(model: Any, there: HeldOut) -> float | None:
    """The mean of Σ_j ln h_j, for a model with densities of values on a grid."""
    columns = dequantised(model, there.footing, there.rows)
    return float(there.footing.log_cell(there.rows, columns).mean()) if columns.any() else None


def displayed(name: str, row: Mapping[Any, Any], is_best: bool) -> str:
    """A cell of the table as text; the best model is not behind."""
    value = row[name]
    if name == "behind":
        return "" if is_best else f"{short(value, '+')} ± {short(row['behind_high'] - value)}"
    if name in ("model", "value"):
        return str(value)
    if name == "n_parameters":
        return "" if value is pd.NA else f"{value:,}"
    return f"{value:.1f}" if name in ("fit_seconds", "score_seconds", "perplexity") else short(value)


def short(value: float, sign: str = "") -> str:
    """Three decimals; large numbers in scientific notation."""
    return f"{value:{sign}.3f}" if abs(value) < 1e5 else f"{value:{sign}.2e}"


def picture_of(image: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Grey levels (h, w) or colours (h, w, c)."""
    shaded = shades(image.astype(np.float64), limits)
    return shaded if shaded.ndim == 2 else shaded.transpose(1, 2, 0).squeeze()
