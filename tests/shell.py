"""The command line as a person meets it."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from jensen.cli.app import app

__all__ = ["fail", "run", "succeed"]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments: Any) -> str:
    """The one line that a mistake of the user's gets."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
