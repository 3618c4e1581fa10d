"""Snapshots of every --help and of the keys of every --json, so that a change of the command line is always deliberate.

After a deliberate change, write them anew and read the difference:

    python tests/cli/test_snapshots.py
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from jensen.cli.app import app

SNAPSHOTS = Path(__file__).parent / "snapshots"
COMMANDS = ["", *typer.main.get_command(app).commands]  # type: ignore[attr-defined]
JSON = {
    "fit": "fit gaussian-mixture x.csv --drop kind -o m.jensen",
    "fit-kmeans": "fit kmeans x.csv --drop kind --n-clusters 2 -o k.jensen",
    "fit-regression": "fit ridge-regression x.csv --drop kind,a --label b -o r.jensen",
    "fit-vae": "fit vae x.csv --max-epochs 2 --n-components 1 --encoder MLP((4,)) --decoder MLP((4,)) -o v.jensen",
    "fit-topics": "fit topics t.csv --text body --n-components 2 -o t.jensen",
    "score-topics": "score t.jensen t.csv --text body",
    "score": "score m.jensen x.csv",
    "score-regression": "score r.jensen x.csv --label b",
    "sample": "sample m.jensen -n 2",
    "impute": "impute m.jensen x.csv",
    "impute-table": "impute x.csv --effort quick",
    "predict": "predict m.jensen x.csv --proba",
    "transform": "transform k.jensen x.csv",
    "statistics": "statistics m.jensen x.csv -o a.stats",
    "merge": "merge m.jensen a.stats -o m2.jensen",
    "select": "select gaussian-mixture x.csv --drop kind --grid n-components=1:2 -o best.jensen",
    "cluster": "cluster x.csv --effort quick --n-clusters 2 --no-noise -o labels.csv",
    "compare": "compare x.csv --models kmeans,gaussian-mixture --drop kind --cv 2 -o board.csv",
    "synthesize": "synthesize x.csv -n 3 -o new.csv --effort quick",
    "outliers": "outliers x.csv --effort quick --cells --level 0.99 -o scored.csv",
    "models": "models",
    "models-gaussian-mixture": "models gaussian-mixture",
}


def output_of(words: list[str]) -> str:
    result = CliRunner().invoke(app, words, prog_name="jensen")
    assert result.exit_code == 0, result.output
    return result.stdout


def help_of(command: str) -> str:
    """The help 100 columns wide, whatever the terminal."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "TERMINAL_WIDTH", "TERM")}
    os.environ |= {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "TERM": "dumb"}
    try:
        lines = output_of([*command.split(), "--help"]).splitlines()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return "\n".join(line.rstrip() for line in lines).strip() + "\n"


def shape_of(value: object) -> object:
    """The keys of a JSON value, and the types of its other values; of a list the shape of its first entry."""
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape_of(item) for item in value[:1]]
    # Whether a number is whole, or missing, may depend on the data.
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def json_of(words: str) -> str:
    shape = shape_of(json.loads(output_of([*words.split(), "--json"])))
    return json.dumps(shape, indent=1) + "\n"


def write_data() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"]).assign(kind=["u", "v"] * 20)
    frame.loc[3, "a"] = np.nan
    frame.to_csv("x.csv", index=False)
    pd.DataFrame({"body": ["rain and wind", "bread and milk", "wind and sun", "milk"]}).to_csv("t.csv", index=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, before = tmp_path_factory.mktemp("snapshots"), Path.cwd()
    os.chdir(path)
    write_data()
    yield
    os.chdir(before)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_that_of_the_snapshot(command):
    assert help_of(command) == (SNAPSHOTS / f"{command or 'jensen'}.help.txt").read_text(encoding="utf-8")


# In order: some commands read what others have written.
def test_lines_that_are_kept_as_written_fit_a_terminal_of_80_columns():
    """Typer keeps the line ends of a docstring, and frames it by a space on either side."""
    root = typer.main.get_command(app)
    for command in (root, *root.commands.values()):  # type: ignore[attr-defined]
        wide = [line for line in (command.help or "").split("\n\n", 1)[-1].splitlines() if len(line) > 78]
        assert not wide, f"{command.name}: {wide}"


@pytest.mark.filterwarnings("ignore")
def test_json_has_the_keys_of_the_snapshots(folder):
    for name, words in JSON.items():
        assert json_of(words) == (SNAPSHOTS / f"{name}.json").read_text(encoding="utf-8"), name


def test_there_is_no_snapshot_of_what_is_gone():
    expected = {f"{command or 'jensen'}.help.txt" for command in COMMANDS} | {f"{name}.json" for name in JSON}
    assert {path.name for path in SNAPSHOTS.iterdir()} == expected


if __name__ == "__main__":
    SNAPSHOTS.mkdir(exist_ok=True)
    for old in SNAPSHOTS.iterdir():
        old.unlink()
    for command in COMMANDS:
        (SNAPSHOTS / f"{command or 'jensen'}.help.txt").write_text(help_of(command), encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        write_data()
        for name, words in JSON.items():
            (SNAPSHOTS / f"{name}.json").write_text(json_of(words), encoding="utf-8")
    sys.stdout.write(f"wrote {len(COMMANDS)} helps and {len(JSON)} JSON outputs to {SNAPSHOTS}\n")
