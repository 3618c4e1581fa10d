"""Warnings point at the user's own line."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import jensen
from jensen import MLP, VAE, GaussianMixture, KMeans, select
from jensen.files.datasets import read_dataset

ROOT = Path(jensen.__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))


def vae(**options):
    return VAE(1, encoder=MLP((4,)), decoder=MLP((4,)), max_epochs=1, **options)


def names():
    vae().fit(pd.DataFrame({"a": X[:, 0], "name": [f"n{i}" for i in range(40)]}))


def channels_last():
    VAE(1, max_epochs=1).fit(RNG.random((8, 8, 8, 3)))


def rising_gap():
    corners = 8.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    rows = np.repeat(corners, 10, 0) + 0.1 * RNG.normal(size=(40, 2))
    select(KMeans(random_state=0), rows, {"n_clusters": [2, 3, 4]}, "gap")


@pytest.fixture
def numbers(tmp_path):
    (tmp_path / "x.csv").write_text("1.5,2.5\n3.5,4.5\n")
    return tmp_path / "x.csv"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (names, "identify rows or hold free text, which are left out: 'name'"),
        (channels_last, "read as images with 8 channels"),
        (lambda: GaussianMixture(1).fit(X, np.repeat([-1, 1], 20)), "y holds only -1 and 1"),
        (lambda: vae().fit(TensorDataset(torch.from_numpy(X)), np.repeat([-1, 1], 20)), "y holds only -1 and 1"),
        (lambda: KMeans(2, init=X[:2], n_init=3).fit(X), "Explicit initial center position passed"),
        (rising_gap, "the gap still rises at the end of the grid"),
    ],
)
def test_a_warning_points_here(ask, message):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ask()
    (found,) = (one for one in heard if message in str(one.message))
    assert found.filename == __file__


def test_so_does_one_of_a_file(numbers):
    with pytest.warns(UserWarning, match="there is no line of column names") as heard:
        read_dataset(numbers)
    assert [one.filename for one in heard] == [__file__]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_warning_counts_its_callers_by_hand(path):
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    for call in calls:
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "warnings.warn":
            (level,) = (keyword.value for keyword in call.keywords if keyword.arg == "stacklevel")
            assert ast.unparse(level) == "levels_inside()"
