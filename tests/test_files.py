"""A model file holds values only, is checked when read, and appears whole or not at all."""

import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import jensen
from jensen import ConjugatePrior, GaussianMixture
from jensen.interop.files import decode, encode, place, read_record

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.jensen"
    prior = ConjugatePrior(mean=np.zeros(4))
    model = GaussianMixture(2, prior=prior, means_init=X[:2], freeze=("means",), random_state=0, max_iter=3)
    model.fit(X, np.where(Y == 0, "a", None)).save(path)
    return path


def rewrite(path, change_content=None, change_tensors=None, metadata=None):
    with safe_open(path, framework="pt") as file:
        meta = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    content = json.loads(meta["content"])
    if change_content:
        change_content(content)
    if change_tensors:
        change_tensors(tensors)
    save_file(tensors, path, metadata=meta | {"content": json.dumps(content)} | (metadata or {}))


def test_recipes_arrays_and_labels_survive(path):
    model = jensen.load(path)
    assert isinstance(model.prior, ConjugatePrior)
    assert model.prior.mean.tolist() == [0, 0, 0, 0]
    assert model.freeze == ("means",)
    assert model.means_init.tolist() == X[:2].tolist()
    assert model.classes_.tolist() == ["a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"change_content": lambda c: c.update({"class": "Popen"})}, "there is no model 'Popen'"),
        ({"change_content": lambda c: c["params"]["dict"].update(n_components=-1)}, "'n_components' parameter"),
        ({"change_content": lambda c: c["params"]["dict"].update(colour=1)}, "does not describe a fitted model"),
        ({"change_content": lambda c: c["params"]["dict"]["prior"].update(recipe="Popen")}, "recipe 'Popen'"),
        (
            {"change_content": lambda c: c["fitted"]["dict"]["attributes"]["dict"].update(fit=1)},
            "sets 'fit', which is not a fitted attribute",
        ),
        ({"change_content": lambda c: c.pop("fitted")}, "does not describe a fitted model"),
        (
            {"change_tensors": lambda t: t.update({"fitted.theta.means": torch.zeros(2, 3)})},
            r"means has shape \(2, 3\), but \(2, 4\) is needed",
        ),
        (
            {"change_tensors": lambda t: t.update({"fitted.theta.weights": torch.tensor([2.0, -1.0])})},
            "weights must be 0 or more and sum to 1",
        ),
        (
            {"change_tensors": lambda t: t["fitted.theta.covariances"].fill_(torch.nan)},
            "covariances holds NaN or infinity",
        ),
        (
            {"change_tensors": lambda t: t["fitted.theta.covariances"].neg_()},
            "covariances must be symmetric and positive definite",
        ),
        ({"change_tensors": lambda t: t.pop("fitted.theta.means")}, "is damaged"),
        ({"metadata": {"version": "99"}}, "format version '99'; this jensen reads version 1"),
        ({"metadata": {"format": "pt"}}, "not a jensen model"),
    ],
)
def test_a_file_no_fit_could_have_written_is_refused(path, change, message):
    rewrite(path, **change)
    with pytest.raises(ValueError, match=message):
        jensen.load(path)


MOMENTS = np.array(["2020-01-01", "2021-06-01T12"], dtype="datetime64[ns]")


@pytest.mark.parametrize(
    "classes",
    [
        np.array([b"a", b"\xff"]),
        np.array([b"a", b"b"], dtype=object),
        MOMENTS.astype("datetime64[D]"),
        MOMENTS,
        np.array([1, 5], dtype="timedelta64[h]"),
        np.array([date(2020, 1, 1), date(2021, 1, 1)], dtype=object),
        np.array([datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)], dtype=object),
        np.array([pd.Timestamp(moment) for moment in MOMENTS], dtype=object),
        np.array([timedelta(days=1), timedelta(seconds=1, days=2)], dtype=object),
        np.array([np.int64(3), np.int64(4)], dtype=object),
        np.array([np.str_("a"), np.str_("b")], dtype=object),
        np.array([np.datetime64("2020"), np.datetime64("2021")], dtype=object),
        np.array([10**30, 10**31], dtype=object),
        np.array(["a", "b"], dtype=np.dtypes.StringDType()),
        np.array([False, True]),
    ],
    ids=lambda classes: f"{classes.dtype} of {type(classes[0]).__name__}",
)
def test_labels_of_any_kind_come_back_from_a_file(classes, tmp_path):
    model = GaussianMixture(max_iter=1, random_state=0).fit(X, classes[np.minimum(Y, 1)])
    model.save(tmp_path / "model.jensen")
    loaded = jensen.load(tmp_path / "model.jensen")
    assert model.classes_.tolist() == classes.tolist()
    assert loaded.classes_.dtype == model.classes_.dtype
    assert list(map(type, loaded.classes_)) == list(map(type, model.classes_))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.sample(4, y=loaded.classes_[1])[0], model.sample(4, y=model.classes_[1])[0])


def test_a_damaged_label_is_refused(tmp_path):
    path = tmp_path / "model.jensen"
    GaussianMixture(max_iter=1, random_state=0).fit(X, np.array([date(2020, 1, 1)], dtype=object)[0 * Y]).save(path)

    def change(content):
        content["fitted"]["dict"]["attributes"]["dict"]["classes_"]["strings"][0]["label"] = "tomorrow"

    rewrite(path, change)
    with pytest.raises(ValueError, match=r"is damaged: .*'tomorrow' is not a label of the kind 'date'"):
        jensen.load(path)


@pytest.mark.parametrize(
    "names",
    [
        [3, 1, 2, 0],
        [0.5, 1.5, 2.5, 3.5],
        pd.date_range("2020", periods=4),
        [b"a", b"b", b"c", b"d"],
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2.5)]),
        pd.Index([("a", 1), ("a", 2), ("b", 1), ("b", 2)], tupleize_cols=False),
    ],
    ids=["int", "float", "date", "bytes", "levels", "tuples"],
)
def test_column_names_of_any_kind_come_back_from_a_file(names, tmp_path):
    frame = pd.DataFrame(X).mask(np.arange(600).reshape(X.shape) % 7 == 0).set_axis(names, axis=1)
    model = GaussianMixture(max_iter=1, random_state=0).fit(frame)
    model.save(tmp_path / "model.jensen")
    for fitted in (model, jensen.load(tmp_path / "model.jensen")):
        assert list(fitted.impute(frame).columns) == list(frame.columns)
        assert list(fitted.sample(2)[0].columns) == list(frame.columns)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="is not a jensen model file"):
        jensen.load(tmp_path / "text")
    with pytest.raises(ValueError, match="is a directory, not a jensen model file"):
        jensen.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        jensen.load(tmp_path / "nothing")


def test_a_value_that_needs_pickle_is_an_error_before_writing(tmp_path):
    model = GaussianMixture(random_state=np.random.RandomState(0)).fit(X)
    with pytest.raises(TypeError, match=r"params.random_state=.* cannot be saved: .* never pickled objects"):
        model.save(tmp_path / "model.jensen")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    old = path.read_bytes()
    monkeypatch.setattr("jensen.interop.files.save_file", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        jensen.load(path).save(path)
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == ["model.jensen"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        GaussianMixture().fit(X).save(tmp_path / "nowhere" / "model.jensen")


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(Exception, match="not fitted yet"):
        GaussianMixture().save(tmp_path / "model.jensen")


class Net(BaseEstimator):
    def __init__(self, hidden=(2, 3)):
        self.hidden = hidden


def test_a_users_recipe_must_be_given(path):
    tensors: dict = {}
    value = {"net": Net((4, 5)), "list": [1, 2.5, None, float("inf")], "names": np.array(["a", "b"])}
    record = {name: place(json.loads(json.dumps(encode(v, tensors, name))), tensors) for name, v in value.items()}
    with pytest.raises(ValueError, match=r"the recipe 'Net', which is not known; .* never imported from a file"):
        decode(record, {})
    back = decode(record, {"Net": Net})
    assert back["net"].hidden == (4, 5)
    assert back["list"] == value["list"]
    assert back["names"].tolist() == ["a", "b"]
    assert read_record(path)["class"] == "GaussianMixture"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder; give the name of a file"):
        jensen.KMeans(1).fit(np.eye(3)).save(tmp_path)
