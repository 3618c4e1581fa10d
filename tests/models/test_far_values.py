"""Numbers that lie farther from the data than networks can compute with."""

import numpy as np
import pandas as pd
import pytest

from cases import CASES
from jensen.contract.gradient import GradientEstimator
from jensen.files.tables import write_dataset
from shell import fail

DEEP = {case.name: case for case in CASES if isinstance(case.make(), GradientEstimator)}
ANSWERS = ("score_samples", "bound", "transform", "predict", "reconstruction_error", "impute", "impute_draws")


@pytest.fixture(scope="module", params=["autoencoder", "vae-labels", "diffusion-labels", "latent-diffusion"])
def fitted(request):
    case = DEEP[request.param]
    frame = pd.DataFrame(case.x, columns=[f"c{j}" for j in range(case.x.shape[1])])
    return case.brief().fit(frame, case.y), frame


@pytest.mark.parametrize("value", [1e20, -1e20, 1e300])
def test_a_value_too_far_away_is_named_by_every_answer(fitted, value):
    model, frame = fitted
    frame = frame.copy()
    frame.iloc[5, 1] = value
    asked = [name for name in ANSWERS if hasattr(model, name)]
    assert len(asked) >= 2
    for name in asked:
        with pytest.raises(ValueError, match=r"X holds -?1e\+\d+ in row 5, column 'c1'.* deviations .*make it missing"):
            getattr(model, name)(frame)


def test_a_far_value_that_networks_can_compute_with_has_answers(fitted):
    model, frame = fitted
    frame = frame.copy()
    frame.iloc[5, 1] = 1e10
    for name in ("score_samples", "transform", "reconstruction_error"):
        if hasattr(model, name):
            assert np.isfinite(getattr(model, name)(frame)).all()
    frame.iloc[5, 0] = np.nan
    if hasattr(model, "impute"):
        assert np.isfinite(model.impute(frame)).all(axis=None)


def test_a_fit_stands_a_single_far_value():
    case = DEEP["vae"]
    far = case.x.copy()
    far[7, 2] = 1e20
    assert np.isfinite(case.brief().fit(far).score_samples(far)).all()


def test_no_command_leaves_an_answer_out(tmp_path, monkeypatch):
    case = DEEP["vae"]
    frame = pd.DataFrame(case.x, columns=["a", "b", "c"])
    model = case.brief().fit(frame)
    model.save(tmp_path / "m.jensen")
    frame.iloc[3, 0] = np.nan
    write_dataset(tmp_path / "holes.csv", frame)
    asked = (tmp_path / "m.jensen", tmp_path / "holes.csv", "-o", tmp_path / "out.csv")
    monkeypatch.setattr(type(model), "impute", lambda self, X: X)
    assert "impute returned no value for 1 of 270 cells, first in row 3, column 'a'" in fail("impute", *asked)
    monkeypatch.setattr(type(model), "score_samples", lambda self, X: np.where(np.arange(len(X)) == 4, np.nan, 0.0))
    assert "score returned no value for 1 of 90 cells, first in row 4" in fail("score", *asked)
    monkeypatch.setattr(type(model), "transform", lambda self, X: np.full((len(X), 1), np.nan))
    assert "transform returned no value for 90 of 90 cells, first in row 0" in fail("transform", *asked)
    monkeypatch.setattr(type(model), "sample", lambda self, n, y, random_state: (frame, None))
    assert "sample returned no value for 1" in fail("sample", tmp_path / "m.jensen", "-o", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    frame.iloc[3, 1] = 1e20
    write_dataset(tmp_path / "holes.csv", frame)
    monkeypatch.undo()
    assert "X holds 1e+20 in row 3, column 'b'" in fail("impute", *asked)
