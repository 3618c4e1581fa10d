"""What a job writes looks like the file it read: encoding, separator, decimal commas, dates and cells."""

import numpy as np
import pandas as pd
import pytest

from jensen.files.tables import write_dataset
from jensen.files.understood import TextForm
from shell import fail, run, succeed


@pytest.fixture
def rents(tmp_path):
    """A file as a German spreadsheet writes it."""
    rng = np.random.default_rng(0)
    rooms = rng.integers(1, 5, 80)
    lines = ["Größe;Zimmer;Miete;Einzug"]
    for i, n in enumerate(rooms):
        size = f"{20 * n + rng.normal():.1f}".replace(".", ",")
        rent = f"{1000 + 300 * n + i % 7}"
        day = pd.Timestamp("2021-01-01") + pd.Timedelta(days=int(rng.integers(400)))
        known = "" if i == 3 else n
        lines.append(f"{size};{known};{rent[0]}.{rent[1:]},50 €;{day:%d.%m.%Y}")
    path = tmp_path / "mieten.csv"
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")
    return path


@pytest.mark.parametrize("job", ["impute", "cluster", "outliers"])
def test_the_cells_of_the_input_are_in_the_output_as_they_were(rents, job):
    out = rents.with_name("out.csv")
    succeed(job, rents, "--effort", "quick", "-o", out)
    before, after = (path.read_text(encoding="cp1252").splitlines() for path in (rents, out))
    assert len(before) == len(after)
    for i, (given, found) in enumerate(zip(before, after, strict=True)):
        if job != "impute" or i != 4:
            assert found.startswith(given)
    if job == "outliers":
        # In a spreadsheet of this language a number has a decimal comma.
        score = after[1].split(";")[4]
        assert "," in score
        assert "." not in score


def test_synthetic_rows_are_written_like_the_real_ones(rents):
    out = rents.with_name("out.csv")
    succeed("synthesize", rents, "-n", 30, "--effort", "quick", "-o", out)
    first, *rows = out.read_text(encoding="cp1252").splitlines()
    assert first == "Größe;Zimmer;Miete;Einzug"
    for row in rows:
        assert pd.Series([row]).str.fullmatch(r"\d+,\d;[1-4]?;\d\.\d{3},\d0 €;\d\d\.\d\d\.\d{4}").all(), row


def test_another_format_gets_numbers_and_dates(rents):
    out = rents.with_name("out.parquet")
    succeed("cluster", rents, "--effort", "quick", "-o", out)
    table = pd.read_parquet(out)
    assert table["Miete"].dtype == "float64"
    assert table["Einzug"].dtype.kind == "M"


def test_dropped_columns_are_in_the_table_of_outliers(rents):
    out = rents.with_name("out.csv")
    succeed("outliers", rents, "--drop", "Miete", "--effort", "quick", "-o", out)
    assert out.read_text(encoding="cp1252").startswith("Größe;Zimmer;Miete;Einzug;outlier_score;")


def test_a_letter_that_the_encoding_lacks_makes_it_utf_8_and_is_said(tmp_path):
    path, table = tmp_path / "x.csv", pd.DataFrame({"λ": [1.5]})
    with pytest.warns(UserWarning, match=r"x\.csv is written in UTF-8: the encoding of .* has no 'λ'"):
        write_dataset(path, table, form=TextForm(";", ",", "cp1252"))
    assert path.read_text(encoding="utf-8") == "λ\n1,5\n"


def test_whole_numbers_beside_missing_ones_stay_whole(tmp_path):
    rng, path, out = np.random.default_rng(0), tmp_path / "x.csv", tmp_path / "out.csv"
    frame = pd.DataFrame({"age": rng.integers(20, 90, 60).astype(object), "size": rng.normal(170, 9, 60).round(1)})
    frame.loc[::9, "age"] = "?"
    frame.to_csv(path, index=False)
    succeed("synthesize", path, "-n", 20, "--effort", "quick", "-o", out)
    assert not any("." in line.split(",")[0] for line in out.read_text().splitlines())


@pytest.mark.parametrize("job", ["impute", "cluster", "synthesize", "outliers"])
def test_a_suffix_that_is_not_written_is_refused_before_the_work(rents, job):
    more = ("-n", "5") if job == "synthesize" else ()
    assert "has the suffix '.data'" in fail(job, rents, *more, "-o", rents.with_name("out.data"))


def test_a_text_file_is_a_table_if_it_looks_like_one(tmp_path):
    path = tmp_path / "x.txt"
    np.savetxt(path, np.random.default_rng(0).normal(size=(50, 3)), fmt="%9.4f")
    done = run("outliers", path, "--effort", "quick")
    assert done.exit_code == 0, done.output
    assert "50 rows, 3 columns" in done.stderr
