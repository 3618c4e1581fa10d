"""A fit that is watched reports every step, and ends as one that is not."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
from sklearn.datasets import load_iris

import jensen
from jensen.runtime.watching import Watch, measured, watched

X = load_iris().data


def test_em_reports_every_step():
    with watched(Watch("a fit")) as watch:
        model = jensen.GaussianMixture(3, random_state=0, verbose=1, tol=1e-5).fit(X)
    steps = watch.since(0)["steps"]
    assert [step["step"] for step in steps] == list(range(1, model.n_iter_ + 1))
    assert [step["objective"] for step in steps] == model.lower_bounds_
    assert {step["loop"] for step in steps} == {"GaussianMixture 1/1"}
    assert watch.since(2)["steps"] == steps[2:]


def test_a_gradient_model_reports_the_rounds_of_its_history():
    with watched(Watch("a fit")) as watch:
        model = jensen.VAE(2, max_epochs=30, random_state=0, verbose=1).fit(X)
    history = model.history_
    assert [step["epoch"] for step in watch.steps] == history["epoch"].tolist()
    assert [step["objective"] for step in watch.steps] == history["objective"].tolist()


def test_watching_changes_nothing():
    alone = jensen.VAE(2, max_epochs=5, random_state=0).fit(X).score_samples(X)
    with watched(Watch("a fit")):
        seen = jensen.VAE(2, max_epochs=5, random_state=0, verbose=1).fit(X).score_samples(X)
    assert np.array_equal(alone, seen)


def test_nothing_is_kept_if_nobody_watches():
    watch = Watch("a fit")
    measured("EM", 1, 10, {"objective": 0.0})
    with watched(watch):
        measured(None, 1, 10, {"objective": 0.0})
    assert watch.steps == []


def test_the_end_waits_for_those_who_read_and_for_nobody_else():
    alone = Watch("a fit", end="over")
    before = time.monotonic()
    alone.wait_for_reader(60)
    assert time.monotonic() - before < 30
    read = Watch("a fit")
    read.since(0)
    read.end = "over"
    assert read.since(0)["end"] == "over"
    read.wait_for_reader(60)
    with pytest.raises(ValueError, match="seen='x' must be a whole number"):
        read.since("x")


def test_without_a_fit_there_is_nothing_to_watch(client):
    assert "no fit is watched" in client.error("api/watch", {"seen": 0})[1]


def started(*words, cwd):
    environment = os.environ | {"BROWSER": "true", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from jensen.cli import main; main()", *words]
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def address_in(process):
    """The address that a command printed first."""
    line = process.stderr.readline()
    return re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line)[0]


def ends_quietly(process):
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_a_fit_of_the_command_line_is_watched(tmp_path):
    process = started(
        "fit", "vae", "iris", "--label", "target", "--max-epochs", "40", "--watch", "-o", "v.jensen", cwd=tmp_path
    )
    try:
        request = urllib.request.Request(
            f"{address_in(process)}api/watch", b'{"seen": 0}', {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert b'"title":"VAE of iris"' in answer.read()
        assert process.wait(timeout=300) == 0
    finally:
        process.kill()
    assert (tmp_path / "v.jensen").is_file()


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_watching_is_for_a_reader(tmp_path, option):
    process = started("fit", "gaussian-mixture", "iris", "--watch", option, "-o", "g.jensen", cwd=tmp_path)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert error == f"error: --watch is for a reader; leave out {option}\n"


def test_the_page_ends_quietly_with_ctrl_c(tmp_path):
    process = started("studio", "--no-browser", cwd=tmp_path)
    try:
        with urllib.request.urlopen(address_in(process), timeout=60) as answer:
            assert answer.status == 200
        ends_quietly(process)
    finally:
        process.kill()


def test_ctrl_c_ends_a_training_too(tmp_path, monkeypatch):
    """A thread that computes while the process ends would abort it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    process = started("studio", "--no-browser", cwd=tmp_path)
    try:
        place = address_in(process)
        request = urllib.request.Request(f"{place}api/explain/latent_map", b"{}", {"content-type": "application/json"})
        done = 0
        while not done:
            with urllib.request.urlopen(request, timeout=60) as answer:
                done = json.loads(answer.read())["training"]["done"]
            time.sleep(0.1)
        ends_quietly(process)
    finally:
        process.kill()
    assert not (tmp_path / "cache").exists(), "half a training is not kept"


def test_a_port_that_is_in_use_is_an_error(server, folder):
    from jensen.studio.serve import bound_socket

    with pytest.raises(ValueError, match=f"port {server.port} is in use; give another with --port"):
        bound_socket(server.port)


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    from jensen.cli import studio

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"needs starlette and uvicorn: pip install 'jensen\[studio\]'"):
        studio.need_studio()
