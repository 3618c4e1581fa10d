"""What the examples share: one thread, a plain style, colours for colour-blind readers, ellipses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from jensen import GaussianMixture

__all__ = [
    "COLOURS",
    "GREY",
    "INK",
    "covariance_matrices",
    "ellipses",
    "figure",
    "image_rows",
    "picture_path",
    "save",
    "title",
]

# Okabe & Ito (2008): blue, vermilion, green, orange, purple, sky.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"]
INK, GREY = "#222222", "#8A8A8A"

# On a few thousand rows, threads cost more time than they save, above all on a busy machine.
torch.set_num_threads(1)

matplotlib.rcParams.update(
    {
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.labelcolor": INK,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": 1.8,
        "savefig.dpi": 150,
    }
)


def figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches; made without pyplot, so no screen is needed."""
    return Figure(figsize=(width, height), layout="constrained")


def title(fig: Figure, text: str) -> None:
    """Write one sentence above the figure that states what it shows."""
    fig.suptitle(text, x=0.01, ha="left", fontsize=12.5, fontweight="bold", color=INK)


def picture_path(doc: str | None) -> Path:
    """The path on the command line, by default the script's name in the current directory."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, default=Path(Path(sys.argv[0]).stem + ".png"))
    path: Path = parser.parse_args().picture
    return path


def save(fig: Figure, path: Path) -> None:
    """Write the figure and print its path."""
    fig.savefig(path)
    print(f"picture: {path.resolve()}")


def covariance_matrices(model: GaussianMixture) -> np.ndarray:
    """Covariances of any structure as matrices (K, d, d)."""
    k, d = model.means_.shape
    cov = model.covariances_
    if cov.shape[-2:] == (d, d) and model.covariance_type not in ("diag", "VEI", "EVI", "VVI"):
        return np.broadcast_to(cov, (k, d, d))
    # Variances of components and features, of either alone, or one for all.
    variances = cov[:, None] if model.covariance_type in ("spherical", "VII") else cov
    return np.broadcast_to(variances, (k, d))[:, :, None] * np.eye(d)


def ellipses(
    ax: Axes, model: GaussianMixture, colours: list[str] | None = None, radii: tuple[float, ...] = (1, 2)
) -> None:
    """The components of a 2-D mixture: contours at `radii` standard deviations and a cross at the mean."""
    for k, (mean, cov) in enumerate(zip(model.means_, covariance_matrices(model), strict=True)):
        colour = (colours or COLOURS)[k % len(colours or COLOURS)]
        values, vectors = np.linalg.eigh(cov)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        for radius in radii:
            height, width = 2 * radius * np.sqrt(values)
            ax.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, color=colour, lw=1.8 / radius**0.5))
        ax.plot(*mean, "+", color=colour, ms=9, mew=2)


def image_rows(ax: Axes, rows: dict[str, np.ndarray], largest: float) -> None:
    """Named rows of small images (n, h, w), dark where large, tinted where missing."""
    shades = matplotlib.colormaps["gray_r"].with_extremes(bad="#CFE3F1")
    for line, images in enumerate(rows.values()):
        for column, image in enumerate(images):
            place = (column + 0.05, column + 0.95, line + 0.95, line + 0.05)
            ax.imshow(image, cmap=shades, vmin=0, vmax=largest, extent=place)
    ax.set(xlim=(0, len(next(iter(rows.values())))), ylim=(len(rows), 0), xticks=[])
    ax.set_yticks(np.arange(len(rows)) + 0.5, list(rows))
    ax.set_anchor("N")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
