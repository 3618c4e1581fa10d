"""`jensen studio`: a local web page.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jensen.cli.output import show_message


def studio(
    model: Annotated[Path | None, typer.Argument(help="Model file written by `jensen fit`, to ask.")] = None,
    table: Annotated[Path | None, typer.Argument(help="Table whose rows the model is asked about.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of this machine. Default: a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
) -> None:
    """Open a page in the browser that explains the models and answers about yours.

    The page is served by this machine to this machine alone, under an address that
    nobody guesses, and needs no network. Ctrl-C ends it.

    Examples:
      jensen studio
      jensen studio iris.jensen iris.csv
    """
    from jensen.files.sources import needed

    for module in ("starlette", "uvicorn"):
        needed(module, "jensen studio needs starlette and uvicorn", "studio")
    from jensen.studio.serve import run

    run(port, opens_browser=not no_browser, say=show_message)
