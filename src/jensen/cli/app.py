"""The `jensen` command: models of tables and images, from the shell.

Results go to standard output, messages to standard error. A mistake of the user is one line and exit code 2; Ctrl-C is
130. Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import io
import os
import sys
import time
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jensen.cli.apply import predict, score, transform
from jensen.cli.arguments import flag_of
from jensen.cli.cluster import cluster
from jensen.cli.compare import compare
from jensen.cli.fit import fit
from jensen.cli.impute import impute
from jensen.cli.inputs import MODEL_OPTIONS
from jensen.cli.models import models
from jensen.cli.outliers import outliers
from jensen.cli.output import noted, show_message
from jensen.cli.processes import GRACE, is_first_process, is_one_of_several
from jensen.cli.report import report as report_page
from jensen.cli.sample import sample
from jensen.cli.select import select
from jensen.cli.sites import merge, statistics
from jensen.cli.studio import studio
from jensen.cli.synthesize import synthesize
from jensen.cli.words import arguments_of_model, in_shell_words
from jensen.files.understood import Reported
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.progress import hide_progress, shown_progress

# Newer versions of typer hold a copy of click, and export this subclass only.
UsageError: Any = typer.BadParameter.__base__


class Commands(TyperGroup):
    """Reports wrong input in one line. Other exceptions are bugs and keep their traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # The words of the command, for other processes that run it.
        ctx.meta["words"] = [*args]
        return super().parse_args(ctx, args or ["--help"])

    def main(self, *args: Any, **options: Any) -> Any:
        """Misspelt commands and options, too, are one line; typer would draw a box around them."""
        try:
            sys.exit(super().main(*args, **options | {"standalone_mode": False}) or 0)
        except UsageError as error:
            command = error.ctx.command_path if error.ctx else "jensen"
            show_message(f"error: {error.format_message().rstrip('.')} (see {command} --help)")
            sys.exit(error.exit_code)

    def invoke(self, ctx: Any) -> Any:
        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            if issubclass(category, Reported):
                return typer.echo(str(message), err=True)
            show_message(f"warning: {self.in_words(ctx, message)}")
            ctx.meta["is_interrupted"] = ctx.meta.get("is_interrupted") or issubclass(category, InterruptedFitWarning)

        with warnings.catch_warnings(), shown_progress(show_message), noted() as written:
            warnings.showwarning = show
            if not is_first_process():
                warnings.simplefilter("ignore")
                hide_progress()
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise
            except KeyboardInterrupt:
                kept, folder = ", ".join(written), ctx.meta.get("checkpoint")
                resume = f"; the same command resumes from --checkpoint {folder}" if folder else ""
                show_message(f"interrupted; {f'wrote {kept}' if kept else 'no output was written'}{resume}")
                raise typer.Exit(130) from None
            except (ValueError, TypeError, OSError, ImportError) as error:
                show_message(f"error: {self.in_words(ctx, error)}")
                raise typer.Exit(2) from None
            except AttributeError as error:
                # For a method that a model does not offer, the cause is the reason; any other AttributeError is a bug.
                if not isinstance(error.__cause__, AttributeError):
                    raise
                show_message(f"error: {self.in_words(ctx, error)}: {self.in_words(ctx, error.__cause__)}")
                raise typer.Exit(2) from None

    def in_words(self, ctx: Any, message: object) -> str:
        """A message of the library with the options of the command that runs, in place of arguments."""
        command = next((self.commands[word] for word in ctx.meta.get("words", ()) if word in self.commands), None)
        if command is None:
            return str(message)
        flags = [flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)]
        takes_models = "ignore_unknown_options" in command.context_settings
        if takes_models:
            flags += [flag_of(name) for name in arguments_of_model(ctx.meta["words"])]
        return in_shell_words(str(message), flags, takes_models)


app = typer.Typer(
    cls=Commands,
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
    """Fit latent-variable models to tables, images and texts, then score, sample, impute and predict.

    Data: tables (.csv, .tsv, .txt, .jsonl, .json, .parquet, .feather, .xlsx,
    .npy, packed ones, databases, or - for standard input), folders of images, or
    one of the names digits, iris and wine. What is found in a table beyond plain
    cells is reported. Topics take texts (a column, a folder of .txt files) and
    sparse counts (.npz). Missing values need no preparation. Scores are in nats
    per row.

    Exit codes: 0 success; 2 wrong input, reported in one line; 130 stopped by
    Ctrl-C. A fit that Ctrl-C ends early writes its model and exits with 0;
    compare and select print what is done and exit with 130.

    Examples:
      jensen fit gaussian-mixture iris.csv --label species -o iris.jensen
      jensen score iris.jensen new.csv
      jensen impute gaps.csv --output filled.csv
      jensen impute iris.jensen gaps.csv --output filled.csv
      jensen fit diffusion digits -o digits.jensen
      jensen sample digits.jensen -n 64 --output grid.png
      jensen fit topics texts.csv --text body --n-components 20 -o t.jensen
      jensen cluster iris.csv --report clusters.html
      jensen compare iris --effort quick
      jensen outliers iris --cells
      jensen studio
      jensen models
    """


app.command(context_settings=MODEL_OPTIONS)(fit)
app.command(context_settings=MODEL_OPTIONS)(select)
for verb in (impute, cluster, synthesize, outliers, compare, score, sample, predict, transform, report_page, models):
    app.command()(verb)
app.command()(studio)
app.command()(statistics)
app.command()(merge)


def main() -> None:
    # Waiting threads sleep and leave the cores to working ones: on a busy machine a step is many times faster.
    # OpenMP reads this when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An ASCII terminal shows \u03bb for λ; a file or a pipe gets the character itself.
            is_file = stream is sys.stdout and not stream.isatty() and not os.environ.get("PYTHONIOENCODING")
            stream.reconfigure(errors="backslashreplace", encoding="utf-8" if is_file else None)
    try:
        app(prog_name="jensen")
    except SystemExit as end:
        if not is_one_of_several():
            raise
        if end.code and not is_first_process():
            time.sleep(GRACE)
        # Threads that communicate with other processes can abort a process that exits in the usual way.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
