"""Several processes train one model together: what each sees, and that they stay together whatever happens."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import deep_runs
from deep_runs import digits, digits_vae
from jensen import VAE
from jensen.cli.processes import launch
from jensen.engines.sgd.processes import World, choose_device

ALONE = World(torch.device("cpu"))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What the two processes of `deep_runs.together` found, and the folder that they wrote to."""
    folder, here = tmp_path_factory.mktemp("together"), Path(deep_runs.__file__)
    (folder / "rows").mkdir()
    deep_runs.uneven_rows(folder / "rows")
    deep_runs.fit_line(ALONE, 3, folder / "by_one")
    before = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(here.parent), *([before] if before else [])]))
        patch.setenv("OMP_NUM_THREADS", "1")
        code, unheard = launch([sys.executable, str(here), "together", str(folder)], 2)
    assert code == 0, unheard
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)], folder


class TestTwoProcesses:
    def test_every_row_of_an_epoch_is_seen_by_exactly_one_process(self, both):
        """21 rows in batches of 8, four to each process; five rows wait for another epoch."""
        (first, second), _ = both
        assert (first["size"], first["batch_size"], second["batch_size"]) == (2, 4, 4)
        epochs = [[*first["rows"][i : i + 2], *second["rows"][i : i + 2]] for i in (0, 2)]
        for steps in epochs:
            seen = {row for step in steps for row in step}
            assert len(seen) == 16
            assert seen <= set(range(21))
        assert epochs[0] != epochs[1]

    def test_phases_and_parameters_without_a_part_keep_nobody_waiting(self, both):
        (first, second), _ = both
        assert first["phases"] == second["phases"]
        _, a, b = first["phases"]
        # Drawn to 1 and to 2, each in its own rounds.
        assert a == pytest.approx(1, abs=0.1)
        assert 1 < b < 2

    def test_a_loss_that_is_no_number_in_one_process_ends_both_and_is_named(self, both):
        (first, second), _ = both
        assert first["diverged"] == second["diverged"]
        assert "epoch 1, step 1: fit and unused are not finite" in first["diverged"][0]

    def test_ctrl_c_in_one_process_ends_both_with_one_checkpoint_and_one_warning(self, both):
        (first, second), folder = both
        assert first["interrupted"] == [True, 25, 1]
        assert second["interrupted"] == [True, 25, 0]
        assert [path.name for path in folder.glob("run.*")] == ["run.ckpt"]

    def test_both_go_on_from_it(self, both):
        (first, second), _ = both
        assert first["resumed"] == second["resumed"]
        assert first["resumed"][0] == 70

    def test_a_vae_has_the_bound_of_one_process_and_the_same_weights_in_both(self, both):
        """The second process had another seed in mind; the first decides."""
        (first, second), _ = both
        assert first["vae"][::2] == second["vae"][::2]
        alone = digits_vae().fit(digits())
        # Bounds of trainings with other noise have a standard deviation of 0.3.
        assert first["vae"][1] == pytest.approx(alone.bound(digits()).total.mean(), abs=1.0)
        assert first["vae"][2] == pytest.approx(alone.history_["held_out"].max(), abs=1.0)

    def test_labels_and_alternating_phases_go_together_too(self, both):
        (first, second), _ = both
        assert first["labels"] == second["labels"]
        # Twice what guessing one of ten digits would give.
        assert first["labels"][1] > 0.2

    def test_pieces_of_a_batch_make_the_step_of_one_process(self, both):
        (first, second), _ = both
        assert first["pieces"] == second["pieces"]
        # The rows are added up in another order.
        assert first["pieces"] == pytest.approx(deep_runs.fit_line(ALONE, 6), abs=1e-5)

    def test_two_resume_what_one_began(self, both):
        (first, second), _ = both
        assert first["more"] == second["more"]
        assert first["more"] == pytest.approx(deep_runs.fit_line(ALONE, 6), abs=1e-5)

    def test_one_resumes_what_two_began(self, both):
        _, folder = both
        checkpoint = folder / "by_two"
        assert deep_runs.fit_line(ALONE, 3, checkpoint) != pytest.approx(deep_runs.fit_line(ALONE, 6), abs=1e-2)
        assert deep_runs.fit_line(ALONE, 6, checkpoint) == pytest.approx(deep_runs.fit_line(ALONE, 6), abs=1e-5)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_uneven_files_are_shared_and_nobody_waits(self, both):
        (first, second), folder = both
        assert first["scan"] == second["scan"]
        alone = deep_runs.scanned_vae().fit(deep_runs.uneven_rows(folder / "rows"))
        assert first["scan"][2] == alone.n_iter_ == 6
        # Bounds of trainings with other noise have a standard deviation of 0.3.
        assert first["scan"][1] == pytest.approx(alone.bound(digits()).total.mean(), abs=1.5)


class TestWorld:
    def test_alone_everything_is_ones_own(self):
        world = World.of_environment("cpu")
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.mean([1.0, 2.0]) == [1.0, 2.0]
        assert world.any(True)
        assert not world.any(False)
        assert world.agree(3) == 3

    def test_several_processes_without_accelerate_name_the_extra(self, monkeypatch):
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setitem(sys.modules, "accelerate", None)
        with pytest.raises(ImportError, match=r"several processes need accelerate: pip install 'jensen\[scale\]'"):
            World.of_environment("cpu")

    def test_auto_is_what_there_is(self):
        expected = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
        assert choose_device("auto") == expected

    def test_a_device_that_is_not_there_is_named(self):
        with pytest.raises(
            ValueError, match=r"device='tractor' cannot be used: .*device='auto' chooses an available one"
        ):
            VAE(2, device="tractor").fit(np.eye(4))
