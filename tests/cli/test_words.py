"""Messages of the library speak of options on the command line."""

import numpy as np
import pandas as pd
import pytest

from jensen.cli.words import in_shell_words
from shell import fail, run

CLUSTER = ["--label", "--n-clusters", "--drop", "--types", "--no-noise", "--effort", "--seed"]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("effort='fast' is not known", "--effort fast is not known"),
        ("n_clusters=3 and y: the classes of y", "--n-clusters 3 and --label: the classes of --label"),
        ("random_state=7 gives other rows", "--seed 7 gives other rows"),
        ("noise=True finds rows", "no --no-noise finds rows"),
        ("noise=False, and every row", "--no-noise, and every row"),
        ("give at least two, or y=None for clusters", "give at least two, or no --label for clusters"),
        ("raise it, or pass y=None to ignore labels", "raise it, or leave --label out"),
        ("leave it out by columns={'my id': 'left out'}", "leave it out by --drop 'my id'"),
        ("know no more, so drop 'b', 'my c'", "know no more, so --drop 'b,my c'"),
        ("give columns={'zip': 'level'}", "give --types zip=text"),
        ("given={'a': 1} is unknown here", "given={'a': 1} is unknown here"),
        ("y.csv has 3 values of 'y'; /tmp/y/x.csv, p(y|x)", "y.csv has 3 values of 'y'; /tmp/y/x.csv, p(y|x)"),
        ("max_iter=3 is no option here", "max_iter=3 is no option here"),
    ],
)  # fmt: skip
def test_arguments_become_options(message, words):
    assert in_shell_words(message, CLUSTER, takes_models=False) == words


def test_arguments_of_a_model_become_options_where_a_command_takes_them():
    flags = ["--drop", "--reg-covar", "--tol", "--max-iter"]
    assert in_shell_words("lower reg_covar=0.5", flags, takes_models=True) == "lower --reg-covar 0.5"
    said = in_shell_words("no convergence to tol=0.0; raise max_iter or tol; 'max_iter'", flags, takes_models=True)
    assert said == "no convergence to --tol 0.0; raise --max-iter or --tol; 'max_iter'"
    given = in_shell_words("such as columns={'zip': 'level'}", ["--drop"], takes_models=True)
    assert given == """such as --columns '{"zip": "level"}'"""


@pytest.fixture
def file(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "x.csv"
    frame = pd.DataFrame({"code": [f"c{i}" for i in range(60)], "a": rng.normal(size=60), "kind": ["x"] * 60})
    frame["b"] = frame["a"].where(np.arange(60) % 7 > 0) + rng.normal(size=60)
    frame.to_csv(path, index=False)
    return path


def test_errors_of_jobs(file):
    for job in ("cluster", "impute", "outliers"):
        assert "fast" in (said := fail(job, file, "--effort", "fast"))
        assert "effort=" not in said
    assert fail("cluster", file, "--label", "kind").startswith("error: --label has one class, ['x']; give labels")
    assert "--level 7.0 must be between 0 and 1" in fail("outliers", file, "--level", "7")


def test_a_column_that_is_left_out_can_be_dropped(file):
    done = run("impute", file, "--effort", "quick")
    assert done.exit_code == 0
    assert "left out: 'code'; --drop leaves a column out without this line" in done.stderr
    assert "columns=" not in done.stderr


def test_compare_warns_of_columns_that_follow_from_others(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "x.csv"
    level = rng.integers(0, 4, 80)
    names, years = np.array(["none", "school", "college", "degree"])[level], np.array([0, 10, 13, 17])[level]
    pd.DataFrame({"schooling": names, "years": years, "size": rng.normal(size=80)}).to_csv(path, index=False)
    done = run("compare", path, "--models", "mixture", "--effort", "quick")
    assert done.exit_code == 0, done.output
    assert "a function of another: 'years' of 'schooling'; models that notice it score higher" in done.stderr
    assert "and know no more, so --drop years" in done.stderr
    again = run("compare", path, "--models", "mixture", "--effort", "quick", "--drop", "years")
    assert "function" not in again.stderr
