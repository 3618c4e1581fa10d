"""Ctrl-C in every command that takes long, at a definite point: no traceback, no half file, nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import jensen
from jensen.cli import main
from jensen.engines.em import loop as em
from shell import COMMAND, run, succeed

# Commands that fit by EM, with the exit code after Ctrl-C when there is something to keep.
LONG = {
    "fit": (
        ("fit", "gaussian-mixture", "DATA", "--n-components", 3, "--tol", 0, "--max-iter", 9, "-o", "OUT.jensen"),
        0,
    ),
    "fit topics": (("fit", "topics", "COUNTS", "--n-components", 2, "-o", "OUT.jensen"), 0),
    "fit factor-analysis": (("fit", "factor-analysis", "DATA", "--n-components", 1, "-o", "OUT.jensen"), 0),
    "cluster": (("cluster", "DATA", "--effort", "quick", "--drop", "c", "-o", "OUT.csv"), 0),
    "impute": (("impute", "DATA", "--effort", "quick", "-o", "OUT.csv"), 0),
    "synthesize": (("synthesize", "DATA", "-n", 20, "-o", "OUT.csv"), 0),
    "outliers": (("outliers", "DATA", "--effort", "quick", "-o", "OUT.csv"), 0),
    "compare": (
        ("compare", "DATA", "--models", "probabilistic-pca,gaussian-mixture", "--effort", "quick", "-o", "OUT.csv"),
        130,
    ),
    "select": (("select", "gaussian-mixture", "DATA", "--grid", "n-components=1:3", "-o", "OUT.jensen"), 130),
}
# Commands with a file; they are interrupted when it is to be put in its place.
WRITING = {
    "score": ("score", "MODEL", "DATA", "-o", "OUT.csv"),
    "predict": ("predict", "MODEL", "DATA", "-o", "OUT.csv"),
    "impute": ("impute", "MODEL", "DATA", "-o", "OUT.csv"),
    "sample": ("sample", "MODEL", "-n", 5, "-o", "OUT.csv"),
    "report": ("report", "MODEL", "DATA", "-o", "OUT.html"),
    "transform": ("transform", "PCA", "DATA", "-o", "OUT.csv"),
    "fit": ("fit", "kmeans", "DATA", "--n-clusters", 2, "-o", "OUT.jensen"),
    "fit vae": ("fit", "vae", "DATA", "--max-epochs", 1, "-o", "OUT.jensen"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (30, 3)), rng.normal(5, 1, (30, 3))])
    x[:, 2] += x[:, 1]
    x[::7, 1] = np.nan
    pd.DataFrame(x, columns=list("abc")).to_csv(folder / "x.csv", index=False)
    from scipy.sparse import csr_array, save_npz

    save_npz(folder / "counts.npz", csr_array(rng.poisson(1.0, (30, 8))))
    frame = pd.read_csv(folder / "x.csv")
    jensen.GaussianMixture(2, random_state=0).fit(frame).save(folder / "m.jensen")
    jensen.ProbabilisticPCA(1).fit(frame).save(folder / "p.jensen")
    return folder


def words(data, folder, command):
    known = {
        "DATA": data / "x.csv",
        "COUNTS": data / "counts.npz",
        "MODEL": data / "m.jensen",
        "PCA": data / "p.jensen",
    }
    return [folder / w.lower() if str(w).startswith("OUT.") else known.get(w, w) for w in command]


def state():
    """What belongs to the process of the user."""
    return {
        "filters": list(warnings.filters),
        "handler": signal.getsignal(signal.SIGINT),
        "threads": torch.get_num_threads(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
    }


@pytest.fixture
def stop(monkeypatch):
    """Ctrl-C in the n-th sweep of EM from now; None in none. The list of sweeps grows."""
    real, calls, last = em.sweep, [], []

    def watched(*arguments):
        calls.append(1)
        if len(calls) in last:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(em, "sweep", watched)

    def at(n):
        calls.clear()
        last[:] = [] if n is None else [n]
        return calls

    return at


@pytest.mark.parametrize("name", LONG)
def test_a_long_command_keeps_what_is_done_or_nothing(name, data, tmp_path, stop):
    command, code = LONG[name]
    calls, before = stop(None), state()
    arguments = words(data, tmp_path, command)
    succeed(*arguments)
    n_sweeps = len(calls)
    (output,) = tmp_path.iterdir()
    assert n_sweeps > 3
    codes = set()
    for n in (1, n_sweeps // 2, n_sweeps):
        output.write_text("old")
        stop(n)
        result = run(*arguments)
        assert isinstance(result.exception, SystemExit | None), result.exception
        assert "Traceback" not in result.output
        assert "interrupted" in result.stderr
        codes.add(result.exit_code)
        if "no output was written" in result.stderr:
            assert result.exit_code == 130
            assert output.read_text() == "old"
        else:
            assert result.exit_code == code, result.stderr
            assert output.read_bytes() != b"old"
        assert list(tmp_path.iterdir()) == [output]
        assert state() == before
    assert code in codes


@pytest.mark.parametrize("name", WRITING)
def test_ctrl_c_while_a_file_is_written_leaves_the_old_one(name, data, tmp_path, monkeypatch):
    arguments, before = words(data, tmp_path, WRITING[name]), state()
    succeed(*arguments)
    (output,) = tmp_path.iterdir()
    output.write_text("old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    result = run(*arguments)
    assert result.exit_code == 130
    assert result.stderr.endswith("interrupted; no output was written\n")
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]
    assert state() == before


def test_answers_of_a_scan_leave_no_half_file(data, tmp_path, monkeypatch):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    answers = jensen.load(data / "m.jensen").score_samples(jensen.scan(data / "x.csv"))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        answers.write(target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["scores.csv"]


class TestResume:
    @pytest.mark.parametrize("name", ["compare", "select"])
    def test_the_same_command_resumes(self, name, data, tmp_path, stop):
        command, _ = LONG[name]
        arguments = [*words(data, tmp_path, command), "--json"]
        calls = stop(None)
        whole, n_sweeps = json.loads(succeed(*arguments)), len(calls)
        arguments += ["--checkpoint", tmp_path / "run"]
        stop(1)
        result = run(*arguments)
        assert result.exit_code == 130
        message = f"interrupted; no output was written; the same command resumes from --checkpoint {tmp_path / 'run'}\n"
        assert result.stderr == message
        stop(n_sweeps // 2)
        result = run(*arguments)
        assert result.exit_code == 130
        assert json.loads(result.stdout)["interrupted"]
        assert f"with --checkpoint {tmp_path / 'run'} resumes" in result.stderr
        stop(None)
        again = json.loads(succeed(*arguments))
        for told in (whole, again):
            for row in told["table"]:
                for column in ("seconds", "fit_seconds", "score_seconds"):
                    row.pop(column, None)
        assert again == whole

    def test_another_table_is_refused_in_words_of_the_shell(self, data, tmp_path):
        one = ("select", "gaussian-mixture", data / "x.csv", "--grid")
        succeed(*one, "n-components=1,2", "--checkpoint", tmp_path / "run", "-q")
        result = run(*one, "n-components=1,3", "--checkpoint", tmp_path / "run", "-q")
        assert result.exit_code == 2
        assert f"--checkpoint {tmp_path / 'run'} is of another call: entry 1 was" in result.stderr

    def test_a_winner_that_is_not_fitted_is_not_written(self, data, tmp_path, stop):
        arguments = ("select", "gaussian-mixture", data / "x.csv", "--grid", "n-components=1:3", "--criterion", "cv")
        calls = stop(None)
        succeed(*arguments)
        stop(len(calls))
        result = run(*arguments, "-o", tmp_path / "m.jensen")
        assert result.exit_code == 130
        assert "interrupted before the winner was fitted to all rows; the table is complete" in result.stderr
        assert "m.jensen is not written" in " ".join(result.stderr.split())
        assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_real_ctrl_c_ends_all_processes_of_select(n_jobs, tmp_path):
    x = np.random.default_rng(0).normal(size=(20_000, 6))
    np.save(tmp_path / "x.npy", x)
    folder = tmp_path / "run"
    grid = ("--grid", "n-components=1:40", "--tol", "0", "--max-iter", "300", "--n-jobs", str(n_jobs))
    select = ("select", "gaussian-mixture", tmp_path / "x.npy", *grid, "--checkpoint", folder, "--json")
    process = subprocess.Popen(
        [*COMMAND, *map(str, select)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and len(list(folder.glob("*.trial"))) < 2:
        time.sleep(0.05)
    # The terminal sends it to every process of the command.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    told = json.loads(out)
    assert told["interrupted"]
    assert sum(row["failure"] == "" for row in told["table"]) >= 2
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    # Helpers of joblib end when they see that their parent has.
    for _ in range(600):
        if not is_alive(process.pid):
            break
        time.sleep(0.05)
    assert not is_alive(process.pid)


def is_alive(group):
    """Whether a process group has a process that has not ended."""
    listed = subprocess.run(["ps", "-eo", "pgid,stat"], capture_output=True, text=True, check=True).stdout
    return any(int(line[0]) == group and line[1][0] != "Z" for line in map(str.split, listed.splitlines()[1:]))


def test_while_the_command_is_loading(monkeypatch, capsys):
    class Loading:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "jensen.cli.app", Loading())
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr() == ("", "")
