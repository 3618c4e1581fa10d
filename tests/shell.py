"""The command line as a person meets it."""

from __future__ import annotations

import re
import sys
from typing import Any

from typer.testing import CliRunner

from jensen.cli.app import app

# Ctrl-C as a terminal's program has it, however the tests were started.
COMMAND = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from jensen.cli import main; main()",
]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="jensen")


def succeed(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments: Any) -> str:
    """The one line that a mistake of the user's gets; what was found in a table may stand before it."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    *found, error = result.stderr.splitlines(keepends=True)
    about = re.compile(r": (\d+ files, )?(\d+ rows, )?\d+ columns \(")
    assert all(line.startswith("  ") or about.search(line) for line in found), result.stderr
    assert error.startswith("error: ")
    return error
