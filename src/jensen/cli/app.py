"""The `jensen` command: models of tables and images, from the shell.

Results go to standard output, messages to standard error; a mistake of the user's is one line and exit code 2, and
Ctrl-C is 130.
Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jensen.cli.apply import impute, predict, sample, score, transform
from jensen.cli.arguments import argument_descriptions, default_text, flag_of, type_text
from jensen.cli.contest import compare, select
from jensen.cli.inputs import (
    MODEL_OPTIONS,
    Drop,
    FitSeed,
    Json,
    Label,
    Name,
    Quiet,
    Weight,
    Word,
    check_writable,
    is_first_process,
    only,
    predicts_numbers,
    read_order,
    run_together,
    takes_images,
    tell_of_ignored,
)
from jensen.cli.output import noted, report, show, summary_of_fit, tell, wrote
from jensen.cli.report import report as report_page
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.progress import hide_progress, shown_progress

__all__ = ["app", "main"]


class Commands(TyperGroup):
    """One line for what is wrong with the input; other exceptions are bugs and keep their traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # What was typed, for processes that are to do the same.
        ctx.meta["words"] = [*args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            tell(f"warning: {message}")
            ctx.meta["is_interrupted"] = ctx.meta.get("is_interrupted") or issubclass(category, InterruptedFitWarning)

        with warnings.catch_warnings(), shown_progress(tell), noted() as written:
            warnings.showwarning = show
            if not is_first_process():
                warnings.simplefilter("ignore")
                hide_progress()
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise
            except KeyboardInterrupt:
                tell(f"interrupted; wrote {', '.join(written)}" if written else "interrupted; no output was written")
                raise typer.Exit(130) from None
            except (ValueError, TypeError, OSError, ImportError) as error:
                tell(f"error: {error}")
                raise typer.Exit(2) from None
            except AttributeError as error:
                # A method that a model does not offer says why in the cause; any other is a bug.
                if not isinstance(error.__cause__, AttributeError):
                    raise
                tell(f"error: {error}: {error.__cause__}")
                raise typer.Exit(2) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def print_version(wanted: bool) -> None:
    if wanted:
        from jensen import __version__

        typer.echo(f"jensen {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")]


@app.callback()
def root(version: Version = False) -> None:
    """Latent-variable models of tables and images: learn p(x), then score, sample, impute and predict.

    Data are .csv, .tsv, .parquet and .npy files, folders of images, or the names
    digits, iris and wine. Missing cells need no preparation, and every score is
    in nats per row.

    Exit codes: 0 done; 2 a mistake in what was given, told in one line;
    130 stopped by Ctrl-C. A fit that Ctrl-C ends early writes its model: 0.

    Examples:
      jensen fit gaussian-mixture iris.csv --label species -o iris.jensen
      jensen score iris.jensen new.csv
      jensen impute iris.jensen holes.csv --output filled.csv
      jensen fit diffusion digits -o digits.jensen
      jensen sample digits.jensen -n 64 --output grid.png
      jensen compare iris --effort quick
      jensen models
    """


@app.command(context_settings=MODEL_OPTIONS)
def fit(
    ctx: typer.Context,
    model: Name,
    data: Word,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    label: Label = None,
    weight: Weight = None,
    drop: Drop = None,
    seed: FitSeed = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes that train a deep model together.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a table or images and write it to a file.

    Every option of the model is an option here; `jensen models NAME` lists them.
    Lists are written a,b and arrays and objects as JSON; none is None.
    Recipes are written as in Python, in quotes: 'MLP(hidden=(50, 50))'.

    Ctrl-C ends the training, and the best model so far is written; a second one
    ends all at once. With --checkpoint the same command goes on from there.

    Examples:
      jensen fit gaussian-mixture iris.csv --label species -o iris.jensen
      jensen fit gaussian-mixture x.npy --n-components 3 --n-init 5 -o x.jensen
      jensen fit gaussian-mixture a.csv --drop id --prior '{}' -o a.jensen
      jensen fit ridge-regression b.csv --label price --alpha evidence -o b.jensen
      jensen fit vae c.csv --encoder 'MLP(hidden=(50,))' -o c.jensen
      jensen fit vae d.npy --checkpoint d.ckpt --processes 2 -o d.jensen
      jensen fit diffusion e.npy --network 'UNet(channels=(16, 32))' -o e.jensen
      jensen fit diffusion images.npy --label labels.npy -o g.jensen
      jensen fit diffusion f.csv --schedule cosine --n-steps 50 -o f.jensen
      jensen fit vae faces/ --label folder --checkpoint h.ckpt -o h.jensen
      jensen fit gaussian-mixture iris --label target -o iris.jensen
    """
    check_writable(output)
    column = only("--label", label)
    order = read_order(ctx, model, data, seed)
    if run_together(order, ctx.meta["words"], processes):
        return
    estimator, parameters = order.estimator, order.parameters
    has_own_bar = "verbose" in parameters and "verbose" not in order.given
    if has_own_bar:
        estimator.set_params(verbose=int(not (as_json or quiet)))
    from jensen.files.datasets import read_dataset, split_columns

    X, y, weights = split_columns(
        read_dataset(order.path, images=takes_images(estimator)),
        label=column,
        weight=weight,
        drop=drop or [],
        label_is_number=predicts_numbers(estimator, column),
    )
    estimator.fit(X, y, sample_weight=weights)
    if not is_first_process():
        return
    tell_of_ignored(estimator, column)
    # The bar and the checkpoint, of parts, too, are this command's, not properties of the model.
    places = [name for name in estimator.get_params() if name.split("__")[-1] == "checkpoint"]
    estimator.set_params(**dict.fromkeys(places), **({"verbose": 0} if has_own_bar else {}))
    estimator.save(output)
    wrote(output)
    is_interrupted = ctx.meta.get("is_interrupted", False)
    summary = summary_of_fit(estimator, X, y, weights, is_scored=not is_interrupted)
    if is_interrupted:
        # A user who interrupts a fit does not want to wait for scores.
        summary["interrupted"] = True
        if not as_json:
            tell(f"wrote the model so far to {output}; `jensen score` gives the scores left out here")
    report(estimator, len(X), summary, output, as_json, quiet)


app.command(context_settings=MODEL_OPTIONS)(select)
for verb in (compare, score, sample, impute, predict, transform, report_page):
    app.command()(verb)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="A model, to list its options.")] = None, as_json: Json = False
) -> None:
    """List the models and what each can do, or all options of one with their defaults.

    A verb that a model cannot honour says why when it is asked for.

    Examples:
      jensen models
      jensen models gaussian-mixture
      jensen models --json
    """
    from jensen.registry import ANSWERS, MATERIAL, MODELS, abilities, model_class

    if name is not None:
        return show_model(name, as_json)
    found = {known: abilities(known) for known in MODELS}
    what = {known: summary_of(model_class(known)) for known in MODELS}
    if as_json:
        return typer.echo(json.dumps([{"model": known, "what": what[known], **found[known]} for known in MODELS]))
    show(("model", "what it is"), [*what.items()])
    for heading, words in (("what it answers", ANSWERS), ("what it learns from", MATERIAL)):
        show((heading, *words), [(known, *(mark(can[word]) for word in words)) for known, can in found.items()])
    typer.echo(
        "score: ln p(x) exactly, or a lower bound of it. predict, labels: after a fit\n"
        "with labels only. holes: missing values. text: columns of words, too. batches:\n"
        "partial_fit, in Python."
    )


def show_model(name: str, as_json: bool) -> None:
    """What a model is and can do, and its options."""
    from jensen.registry import ANSWERS, MATERIAL, MODELS, PAGES, abilities, model_class

    cls = model_class(name)
    name = next(known for known in MODELS if model_class(known) is cls)
    can, meaning, header = abilities(name), argument_descriptions(cls), ("option", "type", "default", "meaning")
    options = [
        (flag_of(p.name), type_text(p), default_text(p.default), meaning.get(p.name, ""))
        for p in inspect.signature(cls, eval_str=True).parameters.values()
    ]
    if as_json:
        told = [dict(zip(header, option, strict=True)) for option in options]
        summary = {"model": name, "what": summary_of(cls), **can, "page": PAGES[name], "options": told}
        return typer.echo(json.dumps(summary))
    head = [
        ("model", f"{name}, the class {cls.__name__}"),
        ("what it is", summary_of(cls)),
        ("what it answers", listed(can, ANSWERS)),
        ("what it learns from", listed(can, MATERIAL)),
        ("page of the documentation", PAGES[name]),
    ]
    show(("", ""), head)
    show(header, options)


def summary_of(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def listed(can: Mapping[str, bool | str], words: Sequence[str]) -> str:
    """What a model can, in words: score (exact), sample, ..."""
    return ", ".join(word if can[word] is True else f"{word} ({can[word]})" for word in words if can[word])


def mark(ability: bool | str) -> str:
    return ability if isinstance(ability, str) else "yes" if ability else "-"


def main() -> None:
    # Waiting threads sleep and leave the cores to working ones: on a busy machine a step is many times faster.
    # OpenMP reads this when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An ASCII terminal shows \u03bb for λ.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="jensen")
    except SystemExit as end:
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        # Threads that talked to other processes may abort one that ends in the usual way.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
