"""Other systems, as far as they can be tried on this one: names, line ends, encodings, folders and new processes."""

import ast
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal

import jensen
from jensen import GaussianMixture, KMeans, load, write_report
from jensen.files.datasets import read_dataset
from jensen.files.replacing import replacing
from jensen.files.understood import Reported
from jensen.runtime import threads
from jensen.runtime.threads import in_threads
from shell import fail, succeed

SOURCES = sorted(Path(jensen.__file__).parent.rglob("*.py"))
X = np.random.default_rng(0).normal(size=(40, 2))
LONG = "a" * 300
# Windows allows none of these in the name of a file.
FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]|[. ]$|^(CON|PRN|AUX|NUL|COM\d|LPT\d)(\.|$)', re.IGNORECASE)
# As in a container that sets nothing: ASCII for the names of files too.
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "latin-1"}
# A folder that cannot be made, not even by root.
NOWHERE = "/dev/null/home"
# Nobody can create a file in it, not even root.
READ_ONLY = Path("/proc/self")
needs_linux = pytest.mark.skipif(not READ_ONLY.exists(), reason="there is no folder that root cannot write to")


def python(code, *words, cwd=None, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("MPLCONFIGDIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        cwd=cwd,
        env=kept | {"OMP_NUM_THREADS": "1"} | environment,
        check=False,
    )


def command(*words, **options):
    return python("from jensen.cli import main; main()", *words, **options)


class TestProcesses:
    def test_a_spawned_process_fits_as_this_one(self):
        model = GaussianMixture(2, random_state=0)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            there = pool.submit(model.fit, X).result()
        assert_array_equal(there.means_, model.fit(X).means_)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_process_that_the_user_forks_has_threads_of_its_own(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            assert list(in_threads(abs, [-1, -2, -3])) == [1, 2, 3]
            child = os.fork()
            if child == 0:
                # Threads of the parent do not exist here: without new ones this would wait forever.
                os._exit(0 if list(in_threads(abs, [-1, -2, -3])) == [1, 2, 3] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            torch.set_num_threads(before)

    def test_the_package_forks_no_process(self):
        """A fork after threads have started can hang; joblib and torch start new programs instead."""
        forks = {"fork", "forkpty", "set_start_method"}
        for path in SOURCES:
            nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
            for call in (node for node in nodes if isinstance(node, ast.Call)):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if name == "get_context":
                    assert [argument.value for argument in call.args] == ["spawn"], path
                if name == "ProcessPoolExecutor":
                    assert len(call.args) > 1 or "mp_context" in {keyword.arg for keyword in call.keywords}, path
            names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            names |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
            assert not names & forks, path

    def test_a_system_that_does_not_fork_imports_threads(self, monkeypatch):
        monkeypatch.delattr(os, "register_at_fork", raising=False)
        assert "in_threads" in runpy.run_path(threads.__file__)


class TestNames:
    @pytest.mark.parametrize(
        "write", [lambda path: KMeans(2).fit(X).save(path), lambda path: write_report(KMeans(2).fit(X), X, path=path)]
    )
    def test_a_name_that_is_too_long_is_named(self, write, tmp_path):
        with pytest.raises(OSError, match=rf"{LONG}\.html cannot be written: File name too long"):
            write(tmp_path / f"{LONG}.html")
        assert not any(tmp_path.iterdir())

    def test_so_is_one_that_is_read(self, tmp_path):
        for read in (load, read_dataset):
            with pytest.raises(OSError, match=f"File name too long: '.*{LONG}.csv'"):
                read(tmp_path / f"{LONG}.csv")
        assert "File name too long" in fail("fit", "kmeans", tmp_path / f"{LONG}.csv", "-o", tmp_path / "m.jensen")

    @pytest.mark.parametrize("name", ["x.csv", "a b.csv", "δοκιμή.csv", "con.csv", ".hidden", f"{'a' * 250}.csv"])
    def test_temporary_names_are_allowed_everywhere(self, name, tmp_path):
        with replacing(tmp_path / name) as aside:
            assert not FORBIDDEN.search(aside.name)
            assert aside.name.isascii()
            assert len(aside.name) < 100

    def test_names_in_a_checkpoint_are_allowed_everywhere(self, tmp_path):
        jensen.select(KMeans(random_state=0), X, {"n_clusters": [1, 2]}, checkpoint=tmp_path / "run")
        names = [path.name for path in (tmp_path / "run").rglob("*")]
        assert names
        assert not [name for name in names if FORBIDDEN.search(name) or len(name) > 100]

    def test_spaces_and_letters_of_all_kinds(self, tmp_path):
        folder = tmp_path / "mes données – δοκιμή"
        folder.mkdir()
        pd.DataFrame(X, columns=["μ", "größe"]).to_csv(folder / "tab le.csv", index=False)
        succeed("fit", "kmeans", folder / "tab le.csv", "--n-clusters", 2, "-o", folder / "modèle 1.jensen")
        succeed("predict", folder / "modèle 1.jensen", folder / "tab le.csv", "-o", folder / "σ.csv")
        succeed("report", folder / "modèle 1.jensen", folder / "tab le.csv", "-o", folder / "ρ.html")
        assert len(pd.read_csv(folder / "σ.csv")) == len(X)
        assert "größe" in (folder / "ρ.html").read_text(encoding="utf-8")


class TestText:
    def test_line_ends_of_windows_read_as_those_of_unix(self, tmp_path):
        lines = ["size;name;when", '1,5;"two\nlines";2020-01-31', "2,5;é;2020-02-29", ""]
        tables = []
        for end in ("\n", "\r\n"):
            path = tmp_path / f"{len(end)}.csv"
            path.write_bytes("\n".join(lines).replace("\n", end).encode())
            with pytest.warns(Reported, match="1 of numbers, 1 of text, 1 of dates"):
                tables.append(read_dataset(path).replace("two\r\nlines", "two\nlines"))
        assert_frame_equal(*tables)

    def test_text_is_read_and_written_in_a_named_encoding(self):
        for path in SOURCES:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for call in (node for node in nodes if isinstance(node, ast.Call)):
                name, named = ast.unparse(call.func), {keyword.arg for keyword in call.keywords}
                is_text = name == "open" and not any("b" in ast.unparse(mode) for mode in call.args[1:2])
                if is_text or name.endswith((".read_text", ".write_text")):
                    assert "encoding" in named, f"{path}:{call.lineno}: {name} without encoding="

    @pytest.mark.slow
    def test_a_terminal_of_latin_letters_shows_what_it_can(self, tmp_path):
        table, model = tmp_path / "δ.csv", tmp_path / "δ.jensen"
        pd.DataFrame(X, columns=["λ", "é"]).to_csv(table, index=False)
        GaussianMixture(random_state=0).fit(pd.read_csv(table)).save(model)
        for words in [("models", "gaussian-mixture"), ("report", model, table, "-o", tmp_path / "ρ.html")]:
            done = command(*words, **C_LOCALE)
            assert done.returncode == 0, done.stderr
        assert "λ" in (tmp_path / "ρ.html").read_text(encoding="utf-8")


class TestFolders:
    def test_no_home_and_no_cache(self):
        code = (
            "import jensen, numpy as np; jensen.VAE(1, max_epochs=1).fit(np.random.default_rng(0).normal(size=(30, 2)))"
        )
        done = python(code, HOME=NOWHERE)
        assert (done.returncode, done.stderr) == (0, b"")

    @pytest.mark.slow
    @needs_linux
    def test_a_folder_that_cannot_be_written_to(self, tmp_path):
        there = command("fit", "kmeans", "iris", "-o", tmp_path / "m.jensen", cwd=READ_ONLY, HOME=NOWHERE)
        assert (there.returncode, (tmp_path / "m.jensen").exists()) == (0, True), there.stderr
        here = command("fit", "kmeans", "iris", "-o", "m.jensen", cwd=READ_ONLY, HOME=NOWHERE)
        assert here.returncode == 2
        assert re.fullmatch(rb"error: --output m\.jensen cannot be written: [^\n]+\n", here.stderr), here.stderr
