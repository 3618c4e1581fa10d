"""What jensen writes appears whole or not at all, and a full disk is one line; text that is written harms nobody."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import jensen
from jensen import MLP, VAE, GaussianMixture, Trainer, write_report
from jensen.files import replacing as aside
from jensen.files.replacing import replacing
from jensen.files.tables import write_dataset
from jensen.report.images import write_png
from shell import fail, succeed

X = load_iris().data
FRAME = pd.DataFrame(np.random.default_rng(0).random((2000, 3)), columns=list("abc"))
MODEL = GaussianMixture(2, random_state=0).fit(X)

# A file of each kind, and how it comes to be.
WRITERS = {
    "table.csv": lambda path: write_dataset(path, FRAME),
    "table.tsv": lambda path: write_dataset(path, FRAME),
    "table.npy": lambda path: write_dataset(path, FRAME.to_numpy()),
    "table.parquet": lambda path: write_dataset(path, FRAME),
    "model.jensen": MODEL.save,
    "page.html": lambda path: write_report(MODEL, X[:20], path),
    "picture.png": lambda path: write_png(np.random.default_rng(0).integers(0, 256, (99, 99), np.uint8), path),
}


@contextmanager
def full_disk():
    """No file may grow beyond a few bytes, as on a disk with no more room; pytest's own must, after the test."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_cannot_be_written_leaves_the_old_one(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    path.write_text("old")
    message = f"{name} cannot be written: .*; an existing file is unchanged"
    with full_disk(), pytest.raises(OSError, match=message):
        WRITERS[name](path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_ctrl_c_while_a_file_is_written_leaves_the_old_one(name, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    path = tmp_path / name
    path.write_text("old")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        WRITERS[name](path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_every_file_is_put_in_place_when_it_is_whole(name, tmp_path, monkeypatch):
    """Whatever a writer opens, the target itself is touched by one call alone."""
    path, replace, put = tmp_path / name, os.replace, []
    path.write_text("old")

    def watched(source, target):
        assert path.read_text() == "old"
        put.append(target)
        replace(source, target)

    monkeypatch.setattr("os.replace", watched)
    WRITERS[name](path)
    assert put == [path]
    assert path.read_bytes() != b"old"
    assert os.listdir(tmp_path) == [name]


class TestReplacing:
    def test_an_error_of_the_system_names_the_file_and_keeps_its_number(self, tmp_path):
        def write_half():
            with replacing(tmp_path / "a.csv") as path:
                path.write_text("half")
                raise OSError(errno.ENOSPC, "No space left on device", str(path))

        with pytest.raises(OSError, match=r"a.csv cannot be written: No space left on device") as told:
            write_half()
        assert told.value.errno == errno.ENOSPC
        assert os.listdir(tmp_path) == []

    def test_permissions_are_those_of_the_umask_or_of_the_old_file(self, tmp_path):
        before = os.umask(0o027)
        try:
            for name in WRITERS:
                WRITERS[name](tmp_path / name)
                assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640, name
        finally:
            os.umask(before)
        (tmp_path / "table.csv").chmod(0o600)
        WRITERS["table.csv"](tmp_path / "table.csv")
        assert stat.S_IMODE((tmp_path / "table.csv").stat().st_mode) == 0o600

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link.csv").symlink_to(tmp_path / "folder" / "real.csv")
        WRITERS["table.csv"](tmp_path / "link.csv")
        assert (tmp_path / "link.csv").is_symlink()
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "folder" / "real.csv"), FRAME)

    def test_a_device_is_written_to_as_it_is(self, tmp_path):
        (tmp_path / "full.csv").symlink_to("/dev/full")
        with pytest.raises(OSError, match=r"full.csv cannot be written: No space left on device"):
            WRITERS["table.csv"](tmp_path / "full.csv")
        assert not Path("/dev/full").is_file()

    def test_what_a_killed_process_has_left_is_cleared_by_the_next(self, tmp_path):
        code = (
            "import os, signal, sys; from jensen.files.replacing import replacing\n"
            "with replacing(sys.argv[1]) as path:\n"
            "    path.write_text('half')\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        path = tmp_path / "table.csv"
        assert subprocess.run([sys.executable, "-c", code, path]).returncode == -signal.SIGKILL
        (left,) = os.listdir(tmp_path)
        assert left.startswith(".jensen-")
        assert left.endswith(".csv")
        # Those of other files, of processes that run and of other machines stay.
        others = [
            left.replace(aside.mark_of(path), aside.mark_of(tmp_path / "other.csv")),
            f"{aside.mark_of(path)}-{os.getppid()}-0.csv",
            left.replace(aside.here(), "0123abcd"),
        ]
        for name in others:
            (tmp_path / name).touch()
        WRITERS["table.csv"](path)
        assert sorted(os.listdir(tmp_path)) == sorted(["table.csv", *others])
        for name in others:
            os.utime(tmp_path / name, (0, time.time() - 2 * aside.DAY))
        WRITERS["table.csv"](path)
        assert sorted(os.listdir(tmp_path)) == sorted(["table.csv", others[0]])


def test_a_checkpoint_that_cannot_be_written_warns_and_training_continues(tmp_path):
    network, path = MLP((4,)), tmp_path / "run.ckpt"
    options = {"encoder": network, "decoder": network, "max_epochs": 2, "random_state": 0}
    whole = VAE(2, **options).fit(X).transform(X)
    model = VAE(2, **options, checkpoint=path, trainer=Trainer(checkpoint_every=0))
    message = r"training continues without its checkpoint: .*run.ckpt cannot be written"
    with full_disk(), pytest.warns(RuntimeWarning, match=message) as heard:
        model.fit(X)
    assert {warning.filename for warning in heard} == {__file__}
    np.testing.assert_array_equal(model.transform(X), whole)
    assert os.listdir(tmp_path) == []


class TestCommandLine:
    @pytest.fixture
    def model(self, tmp_path):
        (tmp_path / "model").mkdir()
        MODEL.save(tmp_path / "model" / "iris.jensen")
        return tmp_path / "model" / "iris.jensen"

    def test_a_full_disk_is_one_line(self, model, tmp_path):
        (tmp_path / "new.csv").write_text("old")
        with full_disk():
            told = fail("sample", model, "-n", 2000, "--output", tmp_path / "new.csv")
        assert "new.csv cannot be written: File too large; an existing file is unchanged" in told
        assert (tmp_path / "new.csv").read_text() == "old"

    def test_so_is_a_folder_that_may_not_be_written_to(self, model, tmp_path, monkeypatch):
        def refuse(*arguments):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("os.open", refuse)
        assert "new.csv cannot be written: Read-only file system" in fail(
            "sample", model, "-n", 2, "--output", tmp_path / "new.csv"
        )

    def command(self, *words, stdout=subprocess.PIPE, **environment):
        run = [sys.executable, "-c", "from jensen.cli import main; main()", *map(str, words)]
        return subprocess.run(run, stdout=stdout, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})

    def test_a_full_standard_output_is_one_line(self, model):
        with open("/dev/full", "w") as full:
            done = self.command("sample", model, stdout=full)
        assert (done.returncode, done.stderr) == (2, "error: [Errno 28] No space left on device\n")

    def test_a_terminal_of_ascii_shows_what_it_can(self, tmp_path):
        table = pd.DataFrame(X[:, :2], columns=["λ", "é"])
        GaussianMixture(random_state=0).fit(table).save(tmp_path / "é.jensen")
        c_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        # A pipe takes the names as they are; what the user says of the encoding counts, as a terminal's own does.
        for encoding, header in (("", "λ,é\n"), ("ascii", "\\u03bb,\\xe9\n")):
            done = self.command("sample", tmp_path / "é.jensen", **c_locale, PYTHONIOENCODING=encoding)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith(header)


class TestSafeCsv:
    FORMULA = "=HYPERLINK(1)"

    @pytest.fixture
    def table(self, tmp_path):
        frame = pd.DataFrame({"@x": [-1.0, 2.0, 3.0, -4.5], "b": [1.0, 2.0, 4.0, 8.0]})
        texts = [self.FORMULA, "-1+1", "+5", "plain"]
        frame.assign(note=texts, when=["\tx", "@y", "-7", "a=b"]).to_csv(tmp_path / "in.csv", index=False)
        GaussianMixture(random_state=0).fit(frame).save(tmp_path / "m.jensen")
        return tmp_path / "in.csv"

    def test_texts_that_begin_a_formula_get_a_quote_and_numbers_do_not(self, table):
        model, output = table.with_name("m.jensen"), table.with_name("out.csv")
        succeed("score", model, table, "--keep", "@x,note,when", "--safe-csv", "--output", output)
        found = pd.read_csv(output, dtype=str)
        assert [*found] == ["'@x", "note", "when", "log_likelihood"]
        assert found["note"].tolist() == [f"'{self.FORMULA}", "'-1+1", "+5", "plain"]
        assert found["when"].tolist() == ["'\tx", "'@y", "-7", "a=b"]
        assert found["'@x"].tolist() == ["-1.0", "2.0", "3.0", "-4.5"]
        assert found["log_likelihood"].str.match(r"-?\d").all()

    @pytest.mark.parametrize("verb", ["sample", "impute", "predict", "transform"])
    def test_every_command_that_writes_csv_has_it(self, verb, table):
        model = table.with_name("m.jensen")
        if verb == "transform":
            jensen.ProbabilisticPCA(1).fit(pd.read_csv(table)[["@x", "b"]]).save(model)
        rows = {"sample": ("-n", 2), "impute": (table,), "predict": (table, "--keep", "@x"), "transform": (table,)}
        plain, safe = (succeed(verb, model, *rows[verb], *option) for option in ((), ("--safe-csv",)))
        assert safe.splitlines()[0] == plain.splitlines()[0].replace("@x", "'@x")

    def test_what_it_has_no_part_in_is_said_before_the_work(self, table):
        model = table.with_name("m.jensen")
        for words in (("sample", model, "--json"), ("score", model, table), ("compare", "iris")):
            assert "--safe-csv applies to .csv and .tsv tables" in fail(*words, "--safe-csv")
        assert "--safe-csv applies to" in fail("sample", model, "--output", table.with_suffix(".parquet"), "--safe-csv")
