"""Rows of a scan for training: every row once per epoch, mixed by a buffer, the same again after an interruption."""

import os
import signal

import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import jensen
from deep_runs import alone, fingerprint, fit_tables
from jensen import MLP, VAE, Autoencoder, Diffusion, LatentDiffusion, Trainer
from jensen.contract.streaming import survey_rows
from jensen.data.rows import ColumnRules, learn_events
from jensen.engines.sgd import loop as sgd
from jensen.engines.sgd.feeds import Order, TensorFeed
from jensen.engines.sgd.loop import Plan, fit_sgd
from jensen.engines.sgd.places import shares_of
from jensen.engines.sgd.processes import World
from jensen.engines.sgd.streams import Stream
from jensen.files.parts import ChangedError

HERE = World(torch.device("cpu"))
N = 6000


def mixed_table(n=N):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n) + 3 * z,
            "zeros": np.where(rng.random(n) < 0.2, 0.0, rng.exponential(size=n)),
            "text": np.array(["x", "y", "w"])[np.where(rng.random(n) < 0.2, rng.integers(0, 3, n), z)],
            "truth": rng.random(n) < 0.3,
            "flag": rng.integers(0, 2, n),
            "whole": rng.integers(0, 40, n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, n), "D"),
            "same": 7.0,
            "id": rng.permutation(n),
        }
    )
    frame.loc[rng.random(n) < 0.1, "a"] = np.nan
    frame.loc[rng.random(n) < 0.1, "text"] = None
    return frame.assign(species=np.where(rng.random(n) < 0.05, z, -1), w=rng.integers(0, 4, n).astype(float)), z


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three Parquet files of the table, sorted by its hidden class, with several row groups each."""
    found = tmp_path_factory.mktemp("rows")
    frame, z = mixed_table()
    ordered = frame.iloc[np.argsort(z, kind="stable")]
    for i in range(3):
        ordered.iloc[i * N // 3 : (i + 1) * N // 3].to_parquet(found / f"{i}.parquet", row_group_size=700)
    return found


def surveyed(scan, shuffle_rows=1500, rules=ColumnRules(atoms=True), world=HERE):  # noqa: B008
    return survey_rows(VAE(2), scan, rules, world, shuffle_rows)


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class TestColumns:
    @pytest.mark.parametrize(
        "rules",
        [
            ColumnRules(atoms=True),
            ColumnRules({"whole": "level", "flag": "number"}, "common", columns={"id": "number"}),
            ColumnRules(scaling="pooled", columns={"zeros": {"kind": "number", "atoms": []}}, atoms=True),
        ],
    )
    def test_of_a_scan_are_those_of_the_table(self, folder, rules):
        scan = jensen.scan(folder, drop=["species", "w"], block_rows=500)
        frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())]).drop(columns=["species", "w"])
        found = surveyed(scan, rules=rules)[0]
        ours, theirs = found.events.table, learn_events(VAE(2), frame, rules)[0].table
        for name in ("names", "kinds", "levels", "atoms", "units", "whole", "left_out", "kept", "n_rows"):
            assert getattr(ours, name) == getattr(theirs, name), name
        for name in ("location", "scale", "ranges", "n_observed"):
            # Sums of other parts round differently.
            assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, err_msg=name)
        assert found.lacks_values()

    @pytest.mark.parametrize(
        ("images", "rules"),
        [
            (np.random.default_rng(0).integers(0, 17, (300, 4, 4)).astype(np.uint8), ColumnRules(data_levels="auto")),
            (np.random.default_rng(0).integers(0, 3, (300, 4, 4)) / 2, ColumnRules("level")),
            (np.random.default_rng(0).random((300, 2, 4, 4)).astype(np.float32), ColumnRules("yes/no")),
            (np.random.default_rng(0).normal(size=(300, 4, 4)), ColumnRules(scaling="feature")),
            (np.random.default_rng(0).normal(size=(300, 4, 4)) + 1e6, ColumnRules()),
        ],
    )
    def test_of_scanned_images_are_those_of_images(self, tmp_path, images, rules):
        np.save(tmp_path / "x.npy", images)
        model, other = VAE(2), VAE(2)
        found, _ = survey_rows(model, jensen.scan(tmp_path / "x.npy", block_rows=70), rules, HERE, 100)
        ours, theirs = found.events.table, learn_events(other, images, rules)[0].table
        assert (ours.kinds, ours.levels) == (theirs.kinds, theirs.levels)
        assert found.events.shape == images.shape[1:]
        assert model.pixel_range_ == other.pixel_range_
        assert_allclose(ours.location, theirs.location, rtol=1e-12)
        assert_allclose(ours.scale, theirs.scale, rtol=1e-9)


class TestRowsOfAnEpoch:
    @pytest.fixture(scope="class")
    def numbers(self, tmp_path_factory):
        """Rows that are their own numbers, in a file with parts of 64 MB and in a function of blocks."""
        x = np.arange(5000.0)[:, None] + [0, 0.5]
        return jensen.scan(lambda: [x[i : i + 333] for i in range(0, 5000, 333)])

    def rows(self, data, batch):
        table = data.events.table
        return (batch.inputs[0][:, 0].double() * table.scale[0] + table.location[0]).round().long().tolist()

    def test_are_all_rows_once_in_another_order_each_epoch_and_none_is_held_out(self, numbers):
        data, _ = surveyed(numbers, 1000)
        training, held_out = data.split(0.1, 3)
        feed, scored = data.training_feed(training, HERE.device), data.feed(held_out, HERE.device)
        assert isinstance(feed, Stream)
        assert isinstance(scored, TensorFeed)  # it fits into the buffer
        epochs = [[self.rows(data, b) for b in feed.batches(Order(0, epoch, 0, 50))] for epoch in (0, 1)]
        held = {row for batch in scored.in_order(100, 0, 1) for row in self.rows(data, batch)}
        assert len(held) == len(held_out)
        assert 400 < len(held) < 600
        for epoch in epochs:
            seen = [row for batch in epoch for row in batch]
            assert len(seen) == len(set(seen)) == len(training) // 50 * 50
            assert not held & set(seen)
            # A batch has rows from all over the buffer of 1000.
            assert np.median([np.ptp(batch) for batch in epoch]) > 500
        assert epochs[0] != epochs[1]
        # Both sides have rows of the whole table.
        assert np.ptp(sorted(held)) > 4800

    def test_resume_within_an_epoch_with_the_same_batches(self, numbers):
        data, _ = surveyed(numbers, 1000)
        feed = data.training_feed(data.split(0.1, 3)[0], HERE.device)
        every = [self.rows(data, b) for b in feed.batches(Order(0, 0, 0, 50))]
        assert [self.rows(data, b) for b in feed.batches(Order(0, 0, 70, 50))] == every[70:]

    @pytest.mark.parametrize("sizes", [[100] * 9, [5000, 10, 10], [700, 300, 500, 400]])
    def test_processes_share_parts_so_that_no_row_is_left_or_taken_twice(self, sizes):
        blocks = [np.arange(n, dtype=float)[:, None] + 10_000 * k for k, n in enumerate(sizes)]
        scan = jensen.scan(lambda: blocks[:1])
        parts = tuple(jensen.scan(lambda own=own: [own]).parts[0] for own in blocks)
        scan = type(scan)(parts, block_rows=64)
        data, _ = surveyed(scan, 80, world=HERE)
        two = type(data)(**{**vars(data), "n_processes": 2})
        training, _ = two.split(0.0, 0)
        feed = two.training_feed(training, HERE.device)
        seen = [
            [row for b in feed.batches(Order(0, 0, 0, 20, rank, 2)) for row in self.rows(two, b)] for rank in (0, 1)
        ]
        # Both take as many steps, or one would wait for the other for ever.
        assert len(seen[0]) == len(seen[1])
        together = seen[0] + seen[1]
        assert len(together) == len(set(together))
        # All but a batch's worth, and what uneven whole parts leave.
        assert sum(sizes) - len(together) <= 20 + 0.05 * sum(sizes)
        if len(sizes) == 9:
            whole = [
                share.part
                for rank in (0, 1)
                for share in shares_of(Order(0, 0, 0, 20, rank, 2), training.all.rows)[0]
                if share.is_whole
            ]
            assert len(set(whole)) == len(whole) == 8

    def test_other_rows_than_in_the_first_sweep_are_an_error(self):
        sweeps = iter(range(100))
        scan = jensen.scan(lambda: [np.random.default_rng(0).normal(size=(3000 - 5 * (next(sweeps) > 2), 2))])
        with pytest.raises(
            ChangedError, match=r"the function had 3000 rows with weight in the first sweep, and now 2995"
        ):
            VAE(1, max_epochs=2, trainer=Trainer(shuffle_rows=500)).fit(scan)


SMALL = {"encoder": MLP((20,)), "decoder": MLP((20,)), "batch_size": 100, "random_state": 0}


def in_csv(frame, folder):
    for i in range(0, len(frame), 400):
        frame.iloc[i : i + 400].to_csv(folder / f"{i:04d}.csv", index=False)
    return folder


def in_parquet(frame, folder):
    frame.to_parquet(folder / "t.parquet", row_group_size=300)
    return folder / "t.parquet"


SOURCES = {
    "csv": in_csv,
    "LazyFrame": lambda frame, folder: pl.scan_parquet(in_parquet(frame, folder)),
    "DuckDB": lambda frame, folder: duckdb.sql(f"select * from '{in_parquet(frame, folder)}'"),
    "dask": lambda frame, folder: dask.dataframe.from_pandas(frame, npartitions=3),
}


class TestFits:
    @pytest.mark.slow
    def test_labels_weights_and_missing_values_as_in_memory(self, folder):
        """Files are sorted by class, and the buffer has a sixth of the rows."""
        frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())])
        z = mixed_table()[1]
        X, truth = frame.drop(columns=["species", "w"]), np.sort(z)
        options = {**SMALL, "max_epochs": 12, "learning_rate": 3e-3}
        held = VAE(2, **options).fit(X, frame.species, frame.w)
        model = VAE(2, trainer=Trainer(shuffle_rows=1000), **options)
        model.fit(jensen.scan(folder, label="species", weight="w"))
        assert model.classes_.tolist() == [0, 1, 2]
        assert model._facts.prior == pytest.approx(held._facts.prior)
        assert model._facts.class_weight == pytest.approx(held._facts.class_weight)
        # Seeds alone move the bound by 0.1 nats.
        assert model.score(X) == pytest.approx(held.score(X), abs=0.4)
        assert (model.predict(X) == truth).mean() > (held.predict(X) == truth).mean() - 0.05

    def test_rows_that_fit_into_the_buffer_train_as_an_array_does(self, tmp_path):
        x = np.random.default_rng(0).normal(size=(500, 3))
        np.save(tmp_path / "x.npy", x)
        options = {**SMALL, "max_epochs": 3, "trainer": Trainer(validation_fraction=0)}
        ours = Autoencoder(2, **options).fit(jensen.scan(tmp_path / "x.npy"))
        theirs = Autoencoder(2, **options).fit(x)
        for a, b in zip(ours.module_.parameters(), theirs.module_.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize(
        "model",
        [
            Autoencoder(2, max_epochs=2, **SMALL),
            Diffusion(n_steps=10, max_epochs=2, batch_size=100, random_state=0, evaluation_levels=4),
            LatentDiffusion(
                VAE(2, max_epochs=2, **SMALL), Diffusion(n_steps=10, max_epochs=2, objective="variational")
            ),
        ],
        ids=["autoencoder", "diffusion", "latent diffusion"],
    )
    def test_of_the_other_models(self, folder, model):
        few = Trainer(shuffle_rows=1000)
        for part in (getattr(model, "vae", None), getattr(model, "diffusion", None), model):
            if hasattr(part, "trainer"):
                part.set_params(trainer=few)
        scan = jensen.scan(folder, label="species", weight="w")
        model.fit(scan)
        assert np.isfinite(model.history_["objective"]).all()
        assert np.isfinite(
            model.score(jensen.scan(lambda: [mixed_table(300)[0].drop(columns=["species", "w"]).dropna()]))
        )

    @pytest.mark.parametrize("name", SOURCES)
    def test_of_every_kind_of_source(self, folder, name, tmp_path):
        """Columns, classes and weights are those of the table in memory, and so are answers."""
        frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())], ignore_index=True)
        frame = frame.iloc[::6].drop(columns=["day", "truth"])  # text files have no types
        X = frame.drop(columns=["species", "w"])
        options = {**SMALL, "max_epochs": 1}
        scan = jensen.scan(SOURCES[name](frame, tmp_path), label="species", weight="w", block_rows=150)
        held = VAE(2, **options).fit(X, frame.species, frame.w)
        model = VAE(2, trainer=Trainer(shuffle_rows=300), **options).fit(scan)
        for attribute in ("names", "kinds", "levels", "atoms", "left_out"):
            assert getattr(model.columns_, attribute) == getattr(held.columns_, attribute), attribute
        # Sums of other parts round differently.
        assert_allclose(model.columns_.scale, held.columns_.scale, rtol=1e-12)
        assert model.classes_.tolist() == [0, 1, 2]
        assert model._facts.prior == pytest.approx(held._facts.prior)
        assert np.isfinite(model.history_["objective"]).all()
        answers = model.transform(scan)
        found = answers.compute() if hasattr(answers, "compute") else answers.collect()
        assert_allclose(np.asarray(found), model.transform(X), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("name", SOURCES)
    def test_of_every_kind_of_source_that_fits_into_the_buffer(self, name, tmp_path):
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=list("abc"))
        options = {**SMALL, "max_epochs": 3, "trainer": Trainer(validation_fraction=0)}
        ours = Autoencoder(2, **options).fit(jensen.scan(SOURCES[name](frame, tmp_path)))
        theirs = Autoencoder(2, **options).fit(frame)
        for a, b in zip(ours.module_.parameters(), theirs.module_.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)

    def test_of_images_of_a_dataset(self, tmp_path):
        images = np.random.default_rng(0).integers(0, 3, (400, 4, 4)).astype(np.float32)
        data = torch.utils.data.TensorDataset(torch.from_numpy(images))
        few = {"max_epochs": 2, "batch_size": 50, "random_state": 0, "trainer": Trainer(shuffle_rows=100)}
        model = VAE(2, likelihood="categorical", encoder=MLP((9,)), decoder=MLP((9,)), **few).fit(jensen.scan(data))
        assert model.row_shape_ == (4, 4)
        assert model.transform(jensen.scan(data)).collect().shape == (400, 2)

    def test_y_beside_a_scan_and_latent_vectors_are_refused(self, folder):
        scan = jensen.scan(folder)
        with pytest.raises(
            ValueError, match=r"y is given beside a scan; name its column, such as jensen.scan\(path, label="
        ):
            VAE(2).fit(scan, y=[1, 2])
        with pytest.raises(
            ValueError, match="fit_decoder has the latent vectors of all rows in memory, and takes no scan"
        ):
            VAE(2).fit_decoder(scan, np.zeros((3, 2)))

    def test_an_error_names_the_part_and_the_rows(self):
        blocks = [np.zeros((50, 2)) + np.arange(50)[:, None], np.full((50, 2), np.inf)]
        with pytest.raises(ValueError, match=r"the function \(rows 50 to 99 of it\): X contains infinity"):
            VAE(1).fit(jensen.scan(lambda: blocks))


class TestResuming:
    def interrupted(self, monkeypatch, n_steps):
        """Ctrl-C in a step of a training."""
        step = sgd.Training.take_step
        done = iter(range(10**6))
        # A shell that runs the tests in the background leaves the signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def counted(self, batch):
            step(self, batch)
            if next(done) == n_steps:
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(sgd.Training, "take_step", counted)

    @pytest.mark.parametrize("n_steps", [20, 55])
    def test_a_run_that_was_interrupted_comes_to_the_same_weights_bit_for_bit(
        self, folder, tmp_path, monkeypatch, n_steps
    ):
        def model(**options):
            return VAE(2, max_epochs=2, trainer=Trainer(shuffle_rows=1000), **SMALL, **options)

        scan = jensen.scan(folder, label="species", weight="w")
        expected = fingerprint(model().fit(scan).module_)
        path = tmp_path / "run.ckpt"
        with monkeypatch.context() as patch:
            self.interrupted(patch, n_steps)
            with pytest.warns(Warning, match="interrupted after step"):
                stopped = model(checkpoint=path).fit(scan)
        assert fingerprint(stopped.module_) != expected
        assert fingerprint(model(checkpoint=path).fit(scan).module_) == expected

    def test_a_run_that_was_killed_comes_to_the_same_weights_bit_for_bit(self, folder, tmp_path):
        (tmp_path / "rows").symlink_to(folder)
        assert alone("killed_in_a_scan", tmp_path) == -signal.SIGKILL
        rows = tmp_path / "rows"
        whole, resumed = fit_tables(rows), fit_tables(rows, checkpoint=str(tmp_path / "run.ckpt"))
        assert fingerprint(resumed.module_) == fingerprint(whole.module_)

    def test_other_rows_are_another_fit(self, folder, tmp_path):
        path, options = tmp_path / "run.ckpt", {**SMALL, "max_epochs": 1}
        VAE(2, checkpoint=path, **options).fit(jensen.scan(folder / "0.parquet"))
        with pytest.raises(ValueError, match=r"was written by another fit, with .*the sum of the means"):
            VAE(2, checkpoint=path, **options).fit(jensen.scan(folder / "1.parquet"))


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = nn.Linear(5, 1)

    def forward(self, x, y):
        return {"fit": -0.5 * (y - self.line(x)[:, 0]).square()}


class TestPieces:
    @pytest.mark.parametrize("weight", [None, torch.linspace(0.5, 1.5, 200).exp()], ids=["equal", "weighted"])
    @pytest.mark.parametrize("n", [3, 32, 100])
    def test_of_a_batch_make_the_step_of_the_batch(self, n, weight):
        x = torch.randn((200, 5), generator=torch.Generator().manual_seed(1))
        y = x.sum(1) + 1

        def trained(accumulate):
            module, trainer = Line(), Trainer(warm_up=0, averaging=None, accumulate=accumulate, clip=0.5)
            plan = Plan(5, 32, 0.01, trainer, seed=0)
            run = fit_sgd(module, TensorFeed((x, y), weight), lambda terms, done: terms["fit"], plan, world=HERE)
            return torch.cat([p.detach().flatten() for p in module.parameters()]), run.history[-1]["fit"]

        ours, one = trained(n), trained(1)
        torch.testing.assert_close(ours[0], one[0], rtol=1e-5, atol=1e-6)
        assert ours[1] == pytest.approx(one[1], rel=1e-5)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"accumulate": 0}, r"Trainer\(accumulate=0\) must be a whole number, 1 or more"),
            ({"accumulate": 1.5}, r"Trainer\(accumulate=1.5\) must be"),
            ({"shuffle_rows": 0}, r"Trainer\(shuffle_rows=0\) must be"),
            ({"shuffle_rows": 2.5}, r"Trainer\(shuffle_rows=2.5\) must be"),
        ],
    )
    def test_impossible_values_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            Trainer(**options).check()
