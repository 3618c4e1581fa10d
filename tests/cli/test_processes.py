"""`jensen fit --processes`: several processes that look like one to the user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sklearn.datasets import load_digits

import jensen
from jensen.cli.processes import launch
from jensen.files.tables import write_dataset
from shell import COMMAND, fail, run, succeed

SMALL = ("--encoder", "MLP(hidden=(20,))", "--decoder", "MLP((20,))", "--max-epochs", 15)
PRINT = "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['OMP_NUM_THREADS'])"


class TestLaunch:
    def test_only_the_first_process_is_heard(self, capfd, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        assert launch([sys.executable, "-c", PRINT], 3) == (0, "")
        assert capfd.readouterr().out == "0 3 1\n"

    def test_a_failure_of_another_process_ends_all_and_is_returned(self):
        code = "import os, sys, time; time.sleep(60) if os.environ['RANK'] == '0' else sys.exit('no memory')"
        assert launch([sys.executable, "-c", code], 2) == (1, "no memory\n")

    def test_an_error_of_the_first_process_is_its_own_to_print(self, capfd):
        code = "import os, sys, time; time.sleep(60) if os.environ['RANK'] == '1' else sys.exit('bad file')"
        assert launch([sys.executable, "-c", code], 2) == (1, "")
        assert capfd.readouterr().err == "bad file\n"

    def test_a_signal_reaches_every_process_once(self, tmp_path):
        code = f"""if True:
            import os, pathlib, signal, time
            file = pathlib.Path({str(tmp_path)!r}) / os.environ["RANK"]
            def note(*_):
                with file.open("a") as out: out.write("!")
            signal.signal(signal.SIGINT, note)
            file.touch()
            while not file.read_text(): time.sleep(0.02)
            time.sleep(0.3)
        """

        def interrupt():
            while sum(1 for _ in tmp_path.iterdir()) < 2:
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Thread(target=interrupt).start()
            assert launch([sys.executable, "-c", code], 2) == (0, "")
        finally:
            signal.signal(signal.SIGINT, before)
        assert [(tmp_path / rank).read_text() for rank in "01"] == ["!", "!"]

    def test_a_process_that_was_killed_has_the_code_of_a_shell(self):
        code, _ = launch([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], 2)
        assert code == 128 + signal.SIGKILL

    def test_a_signal_that_is_ignored_stays_ignored(self):
        code = "import os, signal, time; os.kill(os.getppid(), signal.SIGHUP); time.sleep(0.3)"
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            assert launch([sys.executable, "-c", code], 2) == (0, "")
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        finally:
            signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.npy"
    write_dataset(path, (load_digits().images[:200] / 16).astype("float32"))
    return path


class TestProcesses:
    def test_two_processes_write_one_model_and_print_once(self, digits, tmp_path, capfd):
        files = ("--checkpoint", tmp_path / "run.ckpt", "-o", tmp_path / "m")
        fit = ("fit", "vae", digits, *SMALL, "--likelihood", "bernoulli", "--processes", 2, *files)
        assert succeed(*fit, "--json") == ""
        # They have the terminal, not this process.
        out, err = capfd.readouterr()
        assert err == ""
        assert json.loads(out)["epochs"] == 15
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "run.ckpt"]
        assert jensen.load(tmp_path / "m").n_iter_ == 15

    def test_are_for_models_trained_by_gradients(self, digits, tmp_path):
        fit = ("fit", "kmeans", "iris", "-o", tmp_path / "m", "--processes", 2)
        assert "--processes is for models trained by gradients, which KMeans is not, and for tables that" in fail(*fit)

    def test_need_accelerate(self, digits, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "accelerate", None)
        fit = ("fit", "vae", digits, "-o", tmp_path / "m", "--processes", 2)
        assert "--processes 2 needs accelerate: pip install 'jensen[scale]'" in fail(*fit)

    def test_one_is_this_one(self, digits, tmp_path):
        fit = ("fit", "vae", digits, *SMALL, "--quiet", "-o", tmp_path / "m", "--processes", 1)
        assert succeed(*fit) == ""

    def test_a_mistake_in_the_data_is_reported_once(self, tmp_path, capfd):
        data = tmp_path / "empty.csv"
        data.touch()
        result = run("fit", "vae", data, "-o", tmp_path / "m", "--processes", 2)
        assert (result.exit_code, result.output) == (2, "")
        assert capfd.readouterr().err == f"error: {data} is empty: it has no header line\n"

    def test_ctrl_c_ends_all_and_writes_the_model_so_far(self, digits, tmp_path):
        trainer = ("--trainer", "Trainer(checkpoint_every=0, patience=100000)", "--max-epochs", 100_000)
        files = ("--checkpoint", tmp_path / "run.ckpt", "-o", tmp_path / "m")
        words = ["fit", "vae", digits, *SMALL[:4], *trainer, *files, "--processes", 2, "--json"]
        fitting = subprocess.Popen(
            [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while fitting.poll() is None and not (tmp_path / "run.ckpt").exists():
            time.sleep(0.02)
        fitting.send_signal(signal.SIGINT)
        out, err = fitting.communicate(timeout=60)
        assert fitting.returncode == 0, err
        assert err.startswith("warning: interrupted after step ")
        assert err.count("\n") == 1
        assert json.loads(out)["interrupted"]
        assert jensen.load(tmp_path / "m").n_iter_ == json.loads(out)["epochs"] < 100_000

    def test_the_words_of_the_command_go_to_all_processes(self, tmp_path, monkeypatch):
        commands = []
        monkeypatch.setattr("jensen.cli.processes.launch", lambda command, n: commands.append(command) or (3, ""))
        result = run("fit", "vae", "iris", "-o", tmp_path / "m", "--processes", 3)
        assert (result.exit_code, result.output) == (3, "")
        assert commands[0][3:] == ["fit", "vae", "iris", "-o", str(tmp_path / "m"), "--processes", "3"]

    def test_the_last_line_of_another_process_that_fails_is_shown(self, tmp_path, monkeypatch):
        monkeypatch.setattr("jensen.cli.processes.launch", lambda command, n: (1, "Traceback\nMemoryError: 3 GB\n"))
        result = run("fit", "vae", "iris", "-o", tmp_path / "m", "--processes", 3)
        assert (result.exit_code, result.stderr) == (1, "in another process: MemoryError: 3 GB\n")
