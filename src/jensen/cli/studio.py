"""`jensen studio`: a local web page.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jensen.cli.checks import check_files
from jensen.cli.inputs import open_rows
from jensen.cli.output import show_message

# Seconds in which the page of a fit that has ended may still ask for its last steps.
LAST_LOOK = 2.0

if TYPE_CHECKING:
    from jensen.studio.folder import Folder


def studio(
    model: Annotated[Path | None, typer.Argument(help="Model file written by `jensen fit`, to ask.")] = None,
    table: Annotated[Path | None, typer.Argument(help="Table whose rows the model is asked about.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of this machine. Default: a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
) -> None:
    """Open a page in the browser that explains the models and answers about yours.

    This machine serves the page to itself alone, under an address that nobody
    guesses, and needs no network. Ctrl-C ends it.

    Examples:
      jensen studio
      jensen studio iris.jensen iris.csv
    """
    need_studio()
    if model is not None:
        check_files(model, table)
    from jensen.studio.serve import run

    given = [file for file in (model, table) if file is not None]
    root = Path.cwd() if model is None else model.absolute().parent
    folder = folder_of(root, {file.name: file for file in given})
    if model is not None and table is not None:
        # A mistake in a file is reported here, and not only in the page.
        folder.open(model.name, table.name)
    run(folder, port, opens_browser=not no_browser, say=show_message)


def need_studio() -> None:
    """An error that names the extra, if it is not installed."""
    from jensen.files.sources import needed

    for module in ("starlette", "uvicorn"):
        needed(module, "the local web page needs starlette and uvicorn", "studio")


def folder_of(root: Path, given: Mapping[str, Path]) -> Folder:
    """A folder whose models and tables are read as other commands read them."""
    from jensen.studio.folder import Folder

    def opened(model: Path, table: Path) -> tuple[Any, Any]:
        found = open_rows(model, table, is_shown=False)
        return found.estimator, found.X

    return Folder(root, opened, given)


def check_watch(as_json: bool, quiet: bool) -> None:
    """An error if a fit cannot be watched."""
    if as_json or quiet:
        raise ValueError(f"--watch is for a reader; leave out {'--json' if as_json else '--quiet'}")
    need_studio()


@contextmanager
def watching(title: str | None) -> Iterator[None]:
    """Serve a page that shows the fit inside; None shows nothing."""
    if title is None:
        yield
        return
    from jensen.runtime.watching import Watch, watched
    from jensen.studio.serve import Server, in_background, open_browser

    watch = Watch(title)
    with in_background(Server(folder_of(Path.cwd(), {}), watch=watch)) as server:
        show_message(f"watch the fit: {server.address}#watch")
        open_browser(server, "watch")
        try:
            with watched(watch):
                yield
            watch.end = "The fit has ended."
        finally:
            watch.end = watch.end or "The fit was stopped."
            watch.wait_for_reader(LAST_LOOK)
