"""`jensen outliers`: a file in, scores, cells and a page out."""

import json

import pandas as pd

from odd_people import people
from shell import fail, succeed


def test_the_command(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    printed = succeed("outliers", tmp_path / "people.csv", "--effort", "quick", "-o", tmp_path / "scored.csv")
    assert "rows are odd" in printed
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert scored.loc[[7, 11], "is_outlier"].all()
    cells = json.loads(succeed("outliers", tmp_path / "people.csv", "--effort", "quick", "--cells", "--json"))["cells"]
    assert {(cell["row"], cell["column"]) for cell in cells[:2]} == {(7, "weight"), (11, "visits")}
    assert min(cell["tail"] for cell in cells) == 1e-6
    printed = succeed("outliers", tmp_path / "people.csv", "--effort", "quick", "--cells", "-o", tmp_path / "cells.csv")
    assert f"{len(cells)} cells are odd" in printed
    assert "<1e-6" in printed
    assert len(pd.read_csv(tmp_path / "cells.csv")) == len(cells) < 10
    assert "--level" not in fail("outliers", tmp_path / "missing.csv")
    assert "--level 2.0 must be between 0 and 1" in fail("outliers", tmp_path / "people.csv", "--level", "2")
