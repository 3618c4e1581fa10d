"""Sweeps in other processes: the same parameters, bit for bit, whoever computes and whoever is done first."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

import jensen
from jensen.engines.em import checkpoint
from jensen.engines.em.streamed import WorkersLostError
from jensen.runtime import workers
from jensen.runtime.interrupt import InterruptedFitWarning

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 3000)
    rows = rng.normal(size=(3000, 3)) + 3 * z[:, None]
    frame = pd.DataFrame(np.where(rng.random(rows.shape) < 0.05, np.nan, rows), columns=["a", "b", "c"])
    return frame.assign(kind=np.array(["u", "v", "w"])[z])


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    found = tmp_path_factory.mktemp("rows") / "t.parquet"
    table.to_parquet(found, row_group_size=400)
    return found


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as found:
        yield found


def model():
    return jensen.Mixture(3, random_state=0, max_iter=8, tol=1e-6)


def bits(fitted):
    return {name: value.numpy().tobytes() for name, value in checkpoint.leaves(fitted.theta_).items()}


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_threads_and_spawned_processes(path):
    rows = jensen.scan(path)
    here = model().fit(rows)
    with ThreadPoolExecutor(2) as executor:
        assert bits(model().fit(rows, executor=executor)) == bits(here)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert bits(model().fit(rows, executor=executor)) == bits(here)


def test_an_executor_is_for_scans(table):
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=r"give X as jensen\.scan\(path\)"):
        model().fit(table, executor=executor)


def test_an_executor_can_submit(path):
    with pytest.raises(TypeError, match=r"executor=2 has no submit\(\); give an executor such as ProcessPoolExecutor"):
        model().fit(jensen.scan(path), executor=2)


def test_labels_beside_a_scan_name_the_way_out(path, table):
    with pytest.raises(ValueError, match=r"y is given beside a scan; name its column, .*label="):
        model().fit(jensen.scan(path), table["kind"])


def test_labels_beside_a_dask_collection_become_a_column():
    import dask.array as da
    import dask.dataframe as dd

    x, y = np.random.default_rng(0).normal(size=(100, 2)), np.repeat([0, 1], 50)
    X = da.from_array(x, chunks=(30, 2))
    rows = r"jensen\.scan\(da\.hstack\(\[X, y\[:, None\]\]\)\.rechunk\(\{1: -1\}\), label='2'\)"
    with pytest.raises(ValueError, match=rows):
        jensen.NaiveBayes().fit(X, y)
    labelled = jensen.scan(da.hstack([X, y[:, None]]).rechunk({1: -1}), label="2")
    whole = jensen.NaiveBayes().fit(x, y)
    assert jensen.NaiveBayes().fit(labelled).predict(x).tolist() == whole.predict(x).tolist()
    frame = dd.from_pandas(pd.DataFrame(x, columns=["a", "b"]), npartitions=2)
    with pytest.raises(ValueError, match=r"jensen\.scan\(X\.assign\(y=y\), label='y'\)"):
        jensen.NaiveBayes().fit(frame, y)


class TestDask:
    def test_paths_that_workers_read(self, path, client):
        here = model().fit(jensen.scan(path))
        assert bits(model().fit(jensen.scan(path), executor=client.get_executor())) == bits(here)
        assert client.submit(workers.about, torch.get_num_threads, 0).result() == 1

    def test_a_data_frame_whose_partitions_stay(self, path, table, client):
        import dask.dataframe as dd

        frame = dd.read_parquet(path)[["a", "b", "c"]]
        found = jensen.GaussianMixture(3, random_state=0).fit(frame)
        whole = jensen.GaussianMixture(3, random_state=0).fit(table[["a", "b", "c"]])
        # The same rows in other blocks.
        np.testing.assert_allclose(found.means_, whole.means_, rtol=1e-6)
        lazy = found.impute(frame)
        assert hasattr(lazy, "dask")
        pd.testing.assert_frame_equal(lazy.compute().reset_index(drop=True), found.impute(table[["a", "b", "c"]]))

    def test_an_array(self, table, client):
        import dask.array as da

        x = table[["a", "b", "c"]].dropna().to_numpy()
        lazy = da.from_array(x, chunks=(500, 3))
        found, whole = (jensen.KMeans(3, random_state=0).fit(rows) for rows in (lazy, x))
        assert found.inertia_ == pytest.approx(whole.inertia_, rel=1e-9)
        scores = found.score_samples(lazy)
        assert isinstance(scores, da.Array)
        np.testing.assert_allclose(scores.compute(), whole.score_samples(x), rtol=1e-7)
        with pytest.raises(ValueError, match=r"rechunk it: X\.rechunk"):
            jensen.KMeans(3).fit(da.from_array(x, chunks=(500, 2)))


class TestKindsOfDask:
    """Collections as people have them."""

    def mixed(self, table):
        rng = np.random.default_rng(1)
        n = len(table)
        return table.assign(
            level=pd.Categorical(rng.choice(["x", "y"], n)),
            count=pd.array(np.where(rng.random(n) < 0.1, None, rng.poisson(3, n)), dtype="Int64"),
            flag=pd.array(rng.random(n) < 0.3, dtype="boolean"),
            other=pd.array(rng.choice(["aa", "bb"], n), dtype="string"),
        )

    def test_columns_of_all_types_and_empty_partitions(self, table):
        import dask.dataframe as dd

        rows = self.mixed(table.iloc[:600])
        frame = dd.from_pandas(rows, npartitions=3, sort=False).clear_divisions()
        frame = dd.concat([frame[frame["a"] > 1e9], frame])
        with dask.config.set(scheduler="threads"):
            found, whole = model().fit(frame), model().fit(rows)
            assert found.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)
            assert found.score(frame) == pytest.approx(whole.score(rows), rel=1e-7)
            for verb in ("predict", "predict_proba", "score_samples"):
                lazy = getattr(found, verb)(frame)
                np.testing.assert_allclose(own := lazy.compute(), getattr(found, verb)(rows), rtol=1e-9)
                assert own.dtype == lazy.dtype
            lazy = found.impute(frame)
            own, expected = lazy.compute(), found.impute(rows)
            assert list(lazy.dtypes) == list(own.dtypes)
            # dask holds texts in a type of its own.
            pd.testing.assert_frame_equal(own, expected, check_dtype=False)

    def test_chunks_of_unknown_size_and_empty_ones(self, table):
        import dask.array as da

        x = table[["a", "b", "c"]].dropna().to_numpy()[:600]
        lazy = da.from_array(x, chunks=(200, 3))
        unknown = da.concatenate([lazy[lazy[:, 0] > 1e9], lazy[lazy[:, 0] < 1e9]])
        with dask.config.set(scheduler="threads"):
            found, whole = (jensen.GaussianMixture(3, random_state=0).fit(rows) for rows in (unknown, x))
            np.testing.assert_allclose(found.means_, whole.means_, rtol=1e-7)
            assert found.predict(unknown).compute().tolist() == whole.predict(x).tolist()

    def test_partitions_that_are_persisted_on_another_cluster(self, table):
        import dask.dataframe as dd

        options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "processes": False}
        rows = table[["a", "b", "c"]].iloc[:600]
        whole = jensen.GaussianMixture(3, random_state=0).fit(rows)
        with distributed.LocalCluster(**options) as one, distributed.Client(one) as owner:
            frame = owner.persist(dd.from_pandas(rows, npartitions=3))
            with distributed.LocalCluster(**options) as other, distributed.Client(other):
                found = jensen.GaussianMixture(3, random_state=0).fit(frame)
            np.testing.assert_allclose(found.means_, whole.means_, rtol=1e-7)
        with pytest.raises(ValueError, match=r"persisted on a cluster whose client is closed.*keep the client open"):
            found.predict(frame)

    def test_topics(self):
        import dask.dataframe as dd

        counts = np.random.default_rng(0).poisson(1, (120, 6))
        rows = pd.DataFrame(counts, columns=[f"w{j}" for j in range(6)])
        frame = dd.from_pandas(rows, npartitions=3)
        with dask.config.set(scheduler="threads"):
            found, whole = (
                jensen.LatentDirichletAllocation(2, random_state=0, max_iter=5).fit(own) for own in (frame, rows)
            )
            np.testing.assert_allclose(found.components_, whole.components_, rtol=1e-7)
            np.testing.assert_allclose(found.transform(frame).compute(), whole.transform(rows), rtol=1e-7)
            assert found.score(frame) == pytest.approx(whole.score(rows), rel=1e-9)


class Deadly(ThreadPoolExecutor):
    """Workers that are gone after some tasks."""

    def __init__(self, n_tasks):
        super().__init__(2)
        self.left = n_tasks

    def submit(self, *given):
        self.left -= 1
        if self.left < 0:
            from concurrent.futures.process import BrokenProcessPool

            raise BrokenProcessPool("a child process was terminated")
        return super().submit(*given)


def test_all_workers_lost_keeps_the_checkpoint(path, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    rows, whole = jensen.scan(path), model().set_params(tol=0).fit(jensen.scan(path))
    with (
        Deadly(6 * len(rows.parts)) as executor,
        pytest.raises(WorkersLostError, match=r"BrokenProcessPool.*the fit resumes"),
    ):
        model().set_params(tol=0).fit(rows, executor=executor, checkpoint=tmp_path / "run.ckpt")
    assert bits(model().set_params(tol=0).fit(rows, checkpoint=tmp_path / "run.ckpt")) == bits(whole)


class Hanging(ThreadPoolExecutor):
    """A worker that never returns from one task in some."""

    def __init__(self, every=10):
        super().__init__(2)
        self.n, self.every, self.hung = 0, every, []

    def submit(self, *given):
        self.n += 1
        if self.n % self.every:
            return super().submit(*given)
        self.hung.append(Future())
        return self.hung[-1]


def test_a_task_that_hangs_is_computed_again(path, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    rows = jensen.scan(path)
    with Hanging() as executor:
        assert bits(model().fit(rows, executor=executor)) == bits(model().fit(rows))
    assert executor.hung
    assert all(future.cancelled() for future in executor.hung)


def test_sweeps_are_compared_with_those_before(tmp_path, monkeypatch):
    """A single part has no others to be compared with; the first sweeps and the first EM sweep do not hang here."""
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(200, 2)))
    rows = jensen.scan(tmp_path / "x.npy")
    with Hanging(every=5) as executor:
        assert bits(model().fit(rows, executor=executor)) == bits(model().fit(rows))
    assert executor.hung


class Interrupting(ThreadPoolExecutor):
    """Ctrl-C while some tasks of a sweep wait for their turn."""

    def __init__(self, n_tasks):
        super().__init__(1)
        self.left, self.futures, self.may_end = n_tasks, [], threading.Event()

    def submit(self, *given):
        self.left -= 1
        if self.left > 0:
            return super().submit(*given)
        if self.left == 0:
            return super().submit(self.may_end.wait)
        if self.left == -3:
            raise KeyboardInterrupt
        self.futures.append(super().submit(*given))
        return self.futures[-1]


def test_ctrl_c_cancels_what_waits_and_keeps_the_last_parameters(path):
    rows = jensen.scan(path)
    with Interrupting(8 * len(rows.parts) + 2) as executor:
        with pytest.warns(InterruptedFitWarning, match="after . EM steps"):
            found = model().set_params(tol=0).fit(rows, executor=executor)
        assert [future.cancelled() for future in executor.futures] == [True, True]
        executor.may_end.set()
    assert 0 < found.n_iter_ < 8
    assert bits(found) == bits(model().set_params(tol=0, max_iter=found.n_iter_).fit(rows))


@pytest.mark.slow
class TestFailingClusters:
    """Workers that are killed, stopped or lost in the middle of a fit, and a scheduler that is restarted."""

    OPTIONS: ClassVar = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}

    @pytest.fixture(autouse=True)
    def _every_step_is_written(self, monkeypatch):
        monkeypatch.setattr(checkpoint, "EVERY", 0.0)

    @pytest.fixture
    def after_steps(self, monkeypatch):
        """Have a function called after the fifth step of a fit; returns a list with an entry per step."""
        run = checkpoint.write

        def have(function):
            written = []

            def then(*given):
                run(*given)
                written.append(1)
                if len(written) == 5:
                    function()

            monkeypatch.setattr(checkpoint, "write", then)
            return written

        yield have
        monkeypatch.setattr(checkpoint, "write", run)

    def fit(self, rows, **options):
        return jensen.GaussianMixture(3, random_state=0, max_iter=10, tol=0).fit(rows, **options)

    def rows(self, path):
        return jensen.scan(path, columns=["a", "b", "c"], block_rows=50)

    @pytest.mark.parametrize("signal_sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
    @pytest.mark.parametrize("kind", ["executor", "frame"])
    def test_a_worker_in_the_middle(self, path, tmp_path, after_steps, monkeypatch, kind, signal_sent):
        monkeypatch.setattr(workers, "PATIENCE", 1.0)
        with distributed.LocalCluster(**self.OPTIONS) as cluster, distributed.Client(cluster) as client:
            if kind == "frame":
                import dask.dataframe as dd

                rows, options = dd.read_parquet(path)[["a", "b", "c"]].repartition(npartitions=6), {}
            else:
                rows, options = self.rows(path), {"executor": client.get_executor(retries=3)}
            whole = self.fit(rows, **options)
            victim = next(iter(client.run(os.getpid).values()))
            written = after_steps(lambda: os.kill(victim, signal_sent))
            found = self.fit(rows, checkpoint=tmp_path / "run.ckpt", **options)
            os.kill(victim, signal.SIGCONT) if signal_sent == signal.SIGSTOP else None
        assert len(written) > 8
        assert bits(found) == bits(whole)

    def test_all_workers_lost(self, path, tmp_path, after_steps, monkeypatch):
        monkeypatch.setattr(workers, "PATIENCE", 1.0)
        monkeypatch.setattr(workers, "NOBODY", 2.0)
        rows, place = self.rows(path), tmp_path / "run.ckpt"
        whole = self.fit(rows)
        with distributed.LocalCluster(**self.OPTIONS) as cluster, distributed.Client(cluster) as client:
            after_steps(lambda: cluster.scale(0))
            with pytest.raises(WorkersLostError, match=r"no worker for 2 seconds.*the fit resumes"):
                self.fit(rows, executor=client.get_executor(), checkpoint=place)
        assert place.exists()
        assert bits(self.fit(rows, checkpoint=place)) == bits(whole)

    def test_a_scheduler_that_is_restarted(self, path, tmp_path, after_steps):
        rows, place = self.rows(path), tmp_path / "run.ckpt"
        whole = self.fit(rows)
        with distributed.LocalCluster(**self.OPTIONS) as cluster, distributed.Client(cluster) as client:
            written = after_steps(cluster.close)
            with pytest.raises(WorkersLostError, match="the fit resumes"):
                self.fit(rows, executor=client.get_executor(), checkpoint=place)
            assert len(written) == 5
        with distributed.LocalCluster(**self.OPTIONS) as cluster, distributed.Client(cluster) as client:
            found = self.fit(rows, executor=client.get_executor(), checkpoint=place)
        assert bits(found) == bits(whole)
