"""compare and select, stopped at any trial and called again: nothing is repeated, and the table is the same."""

import json
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import coo_array, csr_array
from sklearn.datasets import load_digits, load_iris
from sklearn.mixture import GaussianMixture as Theirs

import jensen
from jensen import MLP, VAE, GaussianMixture, KMeans, LatentDirichletAllocation, Mixture, ProbabilisticPCA
from jensen.evaluate import attempt, blending, parallel
from jensen.evaluate.checkpoint import rows_in_words
from jensen.runtime.interrupt import InterruptedFitWarning

IRIS = load_iris().data
TWO = [GaussianMixture(2), ProbabilisticPCA(2)]
SECONDS = ["seconds", "fit_seconds", "score_seconds"]


def same(found, expected):
    """The same table but for the seconds, which are measured."""
    pd.testing.assert_frame_equal(
        found.drop(columns=SECONDS, errors="ignore"), expected.drop(columns=SECONDS, errors="ignore"), check_exact=True
    )


@pytest.fixture
def stop(monkeypatch):
    """Ctrl-C in the n-th trial from now; the list of calls grows with every trial that begins."""
    calls, last = [], []

    def watched(real):
        def begin(*arguments, **keywords):
            calls.append(1)
            if last and len(calls) > last[-1]:
                raise KeyboardInterrupt
            return real(*arguments, **keywords)

        return begin

    for home, name in ((attempt, "fit"), (blending, "fit"), (parallel, "do")):
        monkeypatch.setattr(home, name, watched(getattr(home, name)))

    def after(n):
        calls.clear()
        last[:] = [] if n is None else [n]
        return calls

    return after


def interrupted(call, folder):
    """What a stopped call returns, or None if nothing was done."""
    try:
        with pytest.warns(InterruptedFitWarning, match="resumes") as heard:
            found = call(checkpoint=folder)
    except KeyboardInterrupt:
        return None
    assert any(f"the same call with checkpoint={str(folder)!r} resumes" in str(one.message) for one in heard)
    return found


class TestCompare:
    def call(self, **more):
        return jensen.compare(IRIS, TWO, cv=2, blend=True, **more)

    def test_stopped_at_any_trial_it_repeats_none_and_ends_alike(self, tmp_path, stop):
        calls = stop(None)
        whole = self.call()
        n_trials = len(calls)
        assert n_trials == 8  # of 2 models on 2 folds, once for the table and once for the blend
        for n in range(n_trials):
            folder = tmp_path / str(n)
            stop(n)
            found = interrupted(self.call, folder)
            assert (found is None) == (n < 2)
            if found is not None:
                done = min(n // 2, 2)
                assert len(found.models) == done
                assert set(found.failures.values()) <= {"interrupted before it was done"}
            calls = stop(None)
            again = self.call(checkpoint=folder)
            assert len(calls) == n_trials - n
            same(again.table, whole.table)
            pd.testing.assert_frame_equal(again.scores, whole.scores, check_exact=True)
            assert again.caption == whole.caption
            for name, rows in again.sample(5).items():
                np.testing.assert_array_equal(rows, whole.sample(5)[name])
            np.testing.assert_array_equal(again.blend().weights_, whole.blend().weights_)

    def test_what_is_in_the_folder(self, tmp_path):
        jensen.compare(IRIS, TWO[:1], cv=2, checkpoint=tmp_path / "run")
        names = [f"model-0-fold-{fold}.{kind}" for fold in (0, 1) for kind in ("jensen", "trial")]
        assert sorted(os.listdir(tmp_path / "run")) == ["call.json", *names]
        assert json.loads((tmp_path / "run" / "call.json").read_text())["call"] == "compare"
        assert jensen.load(tmp_path / "run" / "model-0-fold-1.jensen").n_components == 2

    def test_a_killed_process_loses_one_trial(self, tmp_path):
        code = """if True:
            import os, signal, sys, jensen
            from sklearn.datasets import load_iris
            from jensen.evaluate import attempt
            real, calls = attempt.fit, []
            def fit(*arguments):
                calls.append(1)
                if len(calls) == 4:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)
            attempt.fit = fit
            models = [jensen.GaussianMixture(2), jensen.ProbabilisticPCA(2)]
            jensen.compare(load_iris().data, models, cv=2, blend=True, checkpoint=sys.argv[1])
        """
        ended = subprocess.run([sys.executable, "-c", code, tmp_path / "run"])
        assert ended.returncode == -signal.SIGKILL
        assert sum(name.endswith(".trial") for name in os.listdir(tmp_path / "run")) == 3
        same(self.call(checkpoint=tmp_path / "run").table, self.call().table)

    @pytest.mark.parametrize("kind", ["mixed", "words", "images"])
    def test_tables_words_and_images(self, kind, tmp_path, stop):
        rng = np.random.default_rng(0)
        options = {"random_state": 0, "max_epochs": 1}
        if kind == "mixed":
            X = pd.DataFrame({"a": rng.normal(size=90), "b": rng.choice(["x", "y", None], 90)})
            models = [Mixture(2), VAE(1, encoder=MLP((4,)), decoder=MLP((4,)), **options)]
        elif kind == "words":
            X, models = (
                csr_array(rng.poisson(1.0, (60, 12))),
                {"two": LatentDirichletAllocation(2), "three": LatentDirichletAllocation(3)},
            )
        else:
            X, models = load_digits().images[:80], [VAE(2, encoder=MLP((4,)), decoder=MLP((4,)), **options), KMeans(2)]
        stop(3)
        interrupted(lambda **more: jensen.compare(X, models, cv=2, **more), tmp_path / "run")
        calls = stop(None)
        again = jensen.compare(X, models, cv=2, checkpoint=tmp_path / "run")
        assert len(calls) == 1
        whole = jensen.compare(X, models, cv=2)
        same(again.table, whole.table)
        for name, rows in again.sample(5).items():
            expected = whole.sample(5)[name]
            is_same = (rows != expected).nnz == 0 if kind == "words" else np.array_equal(rows, expected)
            assert is_same, name

    def test_entrants_by_name_and_models_of_ones_own(self, tmp_path, stop):
        class Own(GaussianMixture):
            pass

        models = {"own": Own(2, random_state=1)}
        jensen.compare(IRIS, models, cv=2, checkpoint=tmp_path / "own")
        calls = stop(0)
        assert type(jensen.compare(IRIS, models, cv=2, checkpoint=tmp_path / "own").models["own"]) is Own
        assert not calls
        stop(None)
        once = jensen.compare(IRIS, ["gaussian-mixture"], effort="quick", checkpoint=tmp_path / "auto")
        assert len(stop(0)) == 0
        same(jensen.compare(IRIS, ["gaussian-mixture"], effort="quick", checkpoint=tmp_path / "auto").table, once.table)

    def test_a_model_without_a_file_is_fitted_again(self, tmp_path, stop):
        models = {"ours": GaussianMixture(2), "theirs": Theirs(2, random_state=0)}
        with pytest.warns(UserWarning, match=r"keeps no fit of GaussianMixture: it has no method save; its trials are"):
            once = jensen.compare(IRIS, models, cv=2, checkpoint=tmp_path / "run")
        calls = stop(None)
        with pytest.warns(UserWarning, match="keeps no fit"):
            same(jensen.compare(IRIS, models, cv=2, checkpoint=tmp_path / "run").table, once.table)
        assert len(calls) == 2

    def test_a_failure_is_tried_again(self, tmp_path):
        models = [*TWO, KMeans(1000)]
        once, again = (jensen.compare(IRIS, models, cv=2, checkpoint=tmp_path / "run") for _ in range(2))
        same(again.table, once.table)
        assert "n_clusters=1000" in again.failures["KMeans"]


class TestSelect:
    @pytest.mark.parametrize("criterion", ["bic", "cv"])
    def test_stopped_at_any_trial_it_repeats_none_and_ends_alike(self, criterion, tmp_path, stop):
        def call(**more):
            return jensen.select(
                GaussianMixture(), IRIS[:, 2:], {"n_components": [1, 2, 3, 4]}, criterion, cv=2, **more
            )

        calls = stop(None)
        whole = call()
        n_trials = len(calls)
        # Warm starts of the one, and the fit of the winner of the other.
        assert n_trials > 10 if criterion == "bic" else n_trials == 5
        for n in {*range(0, n_trials, 3), n_trials - 1}:
            folder = tmp_path / str(n)
            stop(n)
            found = interrupted(call, folder)
            assert (found is None) == (n == 0)
            if found is not None:
                assert (found.table["failure"] == "").sum() == min(n, 4)
                assert (found.winner is None) == (criterion == "cv")
                assert "Selection by" in repr(found)
            calls = stop(None)
            again = call(checkpoint=folder)
            assert len(calls) == n_trials - n
            same(again.table, whole.table)
            np.testing.assert_array_equal(again.winner.means_, whole.winner.means_)

    def test_processes_keep_the_same_folder(self, tmp_path, stop):
        def call(**more):
            return jensen.select(GaussianMixture(), IRIS, {"n_components": [1, 2, 3]}, **more)

        whole = call()
        same(call(n_jobs=2, checkpoint=tmp_path / "run").table, whole.table)
        stop(0)
        same(call(checkpoint=tmp_path / "run").table, whole.table)

    def test_warnings_of_kept_fits_are_given_again(self, tmp_path):
        for _ in range(2):
            with pytest.warns(match="did not converge to tol") as heard:
                jensen.select(GaussianMixture(max_iter=1), IRIS, {"n_components": [2, 3]}, checkpoint=tmp_path / "run")
        assert {"ConvergenceWarning"} <= {one.category.__name__ for one in heard}

    def test_a_search_inside_another_call_is_no_result(self, stop):
        stop(4)
        with pytest.raises(KeyboardInterrupt):
            jensen.compare(IRIS, ["gaussian-mixture"], cv=2)


class TestFolder:
    def call(self, folder, X=IRIS, models=TWO, **more):
        return jensen.compare(X, models, cv=2, checkpoint=folder, **more)

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"X": IRIS + 1}, r"is of another call: X was '150 rows, checksum \w+' and is '150 rows"),
            ({"y": load_iris().target}, "y was 'None' and is '150 rows"),
            ({"sample_weight": np.ones(150)}, "sample_weight was 'None'"),
            ({"models": [TWO[0]]}, r"model 'ProbabilisticPCA' was \"ProbabilisticPCA\(.*\" and is None"),
            ({"models": [GaussianMixture(3), TWO[1]]}, "model 'GaussianMixture' was .*n_components=2.*n_components=3"),
            ({"discrete": False}, "discrete was 'auto' and is False"),
            ({"random_state": 1}, "folds was .*, seed was"),
        ],
    )
    def test_of_another_call_is_refused(self, other, message, tmp_path):
        self.call(tmp_path / "run")
        with pytest.raises(ValueError, match=f"(?s){message}.*; delete it, or give another path"):
            self.call(tmp_path / "run", **other)

    def test_of_another_criterion_is_refused(self, tmp_path):
        grid = {"n_components": [1, 2]}
        jensen.select(GaussianMixture(), IRIS, grid, checkpoint=tmp_path / "run")
        with pytest.raises(ValueError, match="criterion was 'bic' and is 'held_out'"):
            jensen.select(GaussianMixture(), IRIS, grid, "held_out", checkpoint=tmp_path / "run")
        with pytest.raises(ValueError, match="call was 'select' and is 'compare'"):
            self.call(tmp_path / "run")

    def test_that_is_none_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(ValueError, match=r"file' is a file, and finished trials are kept in a folder"):
            self.call(tmp_path / "file")
        with pytest.raises(ValueError, match=r"holds other files and no call.json; give a new folder"):
            self.call(tmp_path)
        with pytest.raises(ValueError, match=r"run' cannot be written; give a folder in an existing folder"):
            self.call(tmp_path / "none" / "run")
        with pytest.raises(ValueError, match="needs a random_state, because the same call must draw the same folds"):
            self.call(tmp_path / "run", random_state=None)
        assert sorted(os.listdir(tmp_path)) == ["file"]
        self.call(tmp_path / "run")
        (tmp_path / "run" / "call.json").write_text("{")
        with pytest.raises(ValueError, match=r"is damaged: call.json is no JSON; delete the folder"):
            self.call(tmp_path / "run")

    @pytest.mark.parametrize("kind", ["trial", "jensen"])
    def test_a_damaged_trial_is_repeated(self, kind, tmp_path, stop):
        once = self.call(tmp_path / "run")
        path = tmp_path / "run" / f"model-1-fold-0.{kind}"
        content = bytearray(path.read_bytes())
        content[-20] ^= 1
        path.write_bytes(content)
        calls = stop(None)
        with pytest.warns(UserWarning, match=f"model-1-fold-0.{kind} is damaged: .*; this trial is repeated"):
            same(self.call(tmp_path / "run").table, once.table)
        assert len(calls) == 1
        path.with_suffix(".jensen").unlink()
        with pytest.warns(UserWarning, match=r"model-1-fold-0.jensen.*; this trial is repeated"):
            same(self.call(tmp_path / "run").table, once.table)

    def test_on_a_full_disk_the_call_goes_on(self, tmp_path, stop):
        before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        whole = self.call(None)
        stop(0)
        with pytest.raises(KeyboardInterrupt):
            self.call(tmp_path / "run")
        stop(None)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (900, before[1]))
            with pytest.warns(UserWarning, match=r"run' cannot be written: .*the call goes on without it until it can"):
                same(self.call(tmp_path / "run").table, whole.table)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert os.listdir(tmp_path / "run") == ["call.json"]
        same(self.call(tmp_path / "run").table, whole.table)


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        (IRIS, [np.asfortranarray(IRIS), torch.tensor(IRIS)]),
        (pd.DataFrame({"a": [1.0, np.nan], "b": ["x", None]}), [pd.DataFrame({"a": [1.0, np.nan], "b": ["x", None]})]),
        (pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), []),
        (csr_array(np.eye(3)), [coo_array(np.eye(3))]),
        (["a text", "another"], [("a text", "another")]),
    ],
)
def test_a_checksum_is_of_the_content(rows, others):
    found = rows_in_words(rows)
    assert all(rows_in_words(other) == found for other in others)
    if hasattr(rows, "columns"):
        changed = rows.rename(columns={"b": "c"}) if hasattr(rows, "iloc") else rows.rename({"b": "c"})
        one_less = rows[:1]
    elif isinstance(rows, list):
        changed, one_less = ["a text", "anothel"], rows[:1]
    else:
        changed, one_less = rows * np.nextafter(1, 2), rows[:2]
    assert len({found, rows_in_words(changed), rows_in_words(one_less)}) == 3
