"""The command `jensen sample`: new rows of a fitted model.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

import typer

from jensen.cli.answers import with_classes
from jensen.cli.apply import Model, RowsOutput, Seed
from jensen.cli.arguments import value_of
from jensen.cli.checks import check_place, check_safe, is_image_file
from jensen.cli.documents import is_sparse_output, write_sparse, written_out
from jensen.cli.inputs import Json, SafeCsv, check_rows_fit, method, open_model, options_for
from jensen.cli.output import check_complete, report, show_message, write_rows, wrote


def sample(
    model: Model,
    n_samples: Annotated[int, typer.Option("-n", "--n-samples", help="Number of rows.")] = 1,
    y: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Class (or component) to sample from. Default: all.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Diffusion only: number of sampling steps. Default: all levels.")
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(metavar="ancestral|ddim|dpm", help="Diffusion only: sampler; ddim and dpm need few steps."),
    ] = None,
    eta: Annotated[float | None, typer.Option(help="ddim only: share of the noise, 0 (deterministic) to 1.")] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Diffusion only: strength of classifier-free guidance towards --y.")
    ] = None,
    mean: Annotated[
        bool | None,
        typer.Option(
            "--mean/--no-mean",
            help="VAE and latent diffusion only: the decoder's means, or draws with its noise. "
            "Default: means in a picture, draws otherwise.",
        ),
    ] = None,
    seed: Seed = None,
    output: RowsOutput = None,
    safe_csv: SafeCsv = False,
    as_json: Json = False,
) -> None:
    """Draw new rows from a model.

    Without --output, rows are printed as CSV. Images are written to an .npy file,
    as a grid to one .png, or, if the name has no suffix, to a folder of .png
    files. Counts can also be written as a sparse matrix, .npz.

    A model fitted with --label draws a class for every row. In a table with names
    it is the column class; images are sorted by class, and a message counts them.

    Pictures of a VAE or a latent diffusion show the decoder's means, unless
    --no-mean asks for draws: the noise of every pixel is drawn alone, and looks
    like grain. Tables and .npy files have draws, unless --mean asks for means.

    Examples:
      jensen sample iris.jensen -n 100 --y setosa --seed 1 --output new.csv
      jensen sample iris.jensen -n 1000 | head
      jensen sample iris.jensen -n 3 --json
      jensen sample digits.jensen -n 64 --output grid.png
      jensen sample digits.jensen -n 64 --sampler ddim --steps 20 --output new.npy
      jensen sample digits.jensen -n 64 --y 3 --guidance 1 --output threes.png
      jensen sample digits.jensen -n 64 --output new/
      jensen sample vae.jensen -n 36 --no-mean --output draws.png
      jensen sample topics.jensen -n 1000 --output counts.npz
    """
    check_place(output)
    check_safe(safe_csv, output, is_printed=not as_json)
    estimator = open_model(model, seed, is_shown=not as_json)
    classes = {str(value): value for value in getattr(estimator, "classes_", [])}
    wanted = None if y is None else classes.get(y, value_of(y, Any))
    draw = method(estimator, "sample")
    asked = {"steps": steps, "sampler": sampler, "eta": eta, "guidance": guidance, "mean": mean}
    options = options_for(estimator, "sample", **asked)
    check_rows_fit(estimator, output)
    if shows_means := mean is None and is_image_file(output) and has_means(estimator):
        options["mean"] = True
        if not as_json:
            show_message("the images are the decoder's means, without the noise of the pixels; --no-mean draws it, too")
    rows, came_from = draw(n_samples, y=wanted, random_state=seed, **options)
    if output is not None and is_sparse_output(estimator, output):
        write_sparse(rows, output)
        wrote(output)
        if not as_json:
            return show_message(f"wrote {n_samples} rows to {output}")
        return report(estimator, n_samples, {}, output, as_json)
    rows = written_out(estimator, rows)
    check_complete("sample", rows)
    rows, summary = with_classes(estimator, rows, came_from, is_shown=not as_json) if wanted is None else (rows, {})
    if shows_means:
        summary["mean"] = True
    write_rows(estimator, rows, output, as_json, safe_csv, **summary)


def has_means(estimator: Any) -> bool:
    """Whether samples have a decoder, whose means can be shown in place of draws."""
    return "mean" in signature(estimator.sample).parameters
