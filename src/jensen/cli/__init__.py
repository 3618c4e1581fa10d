"""The `jensen` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; Ctrl-C while it still loads ends it without a traceback."""
    try:
        from jensen.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
