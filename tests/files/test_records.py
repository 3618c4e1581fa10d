"""A model file holds values only, is checked when read, and appears whole or not at all."""

import json
import time
import warnings
from datetime import UTC, date, datetime, timedelta
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import jensen
from altered import contents, rewrite
from jensen import MLP, VAE, ConjugatePrior, Diffusion, GaussianMixture, ResidualMLP, UNet
from jensen.files.records import MIGRATIONS, VERSION, checksum, decode, encode, place, read_record

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.jensen"
    prior = ConjugatePrior(mean=np.zeros(4))
    model = GaussianMixture(2, prior=prior, means_init=X[:2], freeze=("means",), random_state=0, max_iter=3)
    model.fit(X, np.where(Y == 0, "a", None)).save(path)
    return path


def test_recipes_arrays_and_labels_survive(path):
    model = jensen.load(path)
    assert isinstance(model.prior, ConjugatePrior)
    assert model.prior.mean.tolist() == [0, 0, 0, 0]
    assert model.freeze == ("means",)
    assert model.means_init.tolist() == X[:2].tolist()
    assert model.classes_.tolist() == ["a"]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"list": [value]}
    return value


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
        ({"change_tensors": lambda t: t.update(more=torch.zeros(2))}, r"nothing names the tensors \['more'\]"),
        (
            {"change_tensors": lambda t: t.update({"fitted.theta.means": t["fitted.theta.means"].float()})},
            r"means is torch.float32 of shape \(2, 4\) in the file, but torch.float64",
        ),
        (
            {"change_tensors": lambda t: t["fitted.theta.means"].resize_(4, 2), "describes": False},
            "fitted.theta.means is described as .*'shape': .2, 4.*, but its tensor has .*'shape': .4, 2",
        ),
        ({"change_content": lambda c: c["params"]["dict"].update(tol=nested(40))}, "nested more than 32 deep"),
        (
            {"change_content": lambda c: c["fitted"]["dict"]["attributes"]["dict"].update(n_features_in_=10**9)},
            r"means has shape \(2, 4\), but \(2, 1000000000\) is needed",
        ),
        ({"metadata": {"version": "99"}}, "format version '99', of a newer jensen; this one reads up to 4"),
        ({"metadata": {"version": "two"}}, "'two' is not a format version"),
        ({"metadata": {"format": "pt"}}, "not a jensen model"),
    ],
)
def test_a_file_no_fit_could_have_written_is_refused(path, change, message):
    rewrite(path, **change)
    with pytest.raises(ValueError, match=message):
        jensen.load(path)


def test_a_file_is_refused_that_does_not_have_its_checksum(path):
    meta, tensors = contents(path)
    tensors["fitted.theta.means"][0, 0] += 1e-9
    save_file(tensors, path, metadata=meta)
    with pytest.raises(ValueError, match="is damaged: its content does not match its checksum"):
        jensen.load(path)
    del meta["sha256"]
    save_file(tensors, path, metadata=meta)
    with pytest.raises(ValueError, match="is damaged: it has no checksum, but files of version 4 have one"):
        jensen.load(path)


def test_a_key_that_appears_twice_is_refused(path):
    meta, tensors = contents(path)
    meta["content"] = meta["content"].replace('"n_components":', '"n_components": 3, "n_components":', 1)
    save_file(tensors, path, metadata=meta | {"sha256": checksum(meta, tensors)})
    with pytest.raises(ValueError, match="the key 'n_components' appears twice"):
        jensen.load(path)


def test_nesting_beyond_what_python_reads_is_refused(path):
    meta, tensors = contents(path)
    meta["content"] = meta["content"].replace('"tol": 0.001', '"tol": ' + '{"list": [' * 100_000 + "]}" * 100_000)
    save_file(tensors, path, metadata=meta | {"sha256": checksum(meta, tensors)})
    with pytest.raises(ValueError, match=r"is damaged: .*RecursionError"):
        jensen.load(path)


def as_version_1(path):
    """The same model as jensen wrote it before there were checksums."""
    meta, tensors = contents(path)

    def undescribed(value):
        if isinstance(value, dict):
            is_array = "array" in value
            return {k: undescribed(v) for k, v in value.items() if not (is_array and k in ("type", "shape"))}
        return [undescribed(item) for item in value] if isinstance(value, list) else value

    content = json.dumps(undescribed(json.loads(meta["content"])))
    save_file(tensors, path, metadata={"format": "jensen", "version": "1", "content": content})


def test_a_file_of_version_1_loads_with_a_warning_that_saving_again_ends(path):
    before = jensen.load(path).score_samples(X)
    as_version_1(path)
    with pytest.warns(UserWarning, match=r"has no checksum, .*; save the model again") as told:
        model = jensen.load(path)
    assert [str(one.filename) for one in told] == [__file__]
    np.testing.assert_array_equal(model.score_samples(X), before)
    model.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jensen.load(path)


def as_version_2(path):
    """The same model as jensen wrote it when columns were continuous, binary or categorical, and no more was known."""
    words = {"number": "continuous", "yes/no": "binary", "level": "categorical"}

    def change(content):
        columns = content["fitted"]["dict"]["theta"]["dict"]["columns"]["dict"]
        for name in columns.keys() - {"names", "kinds", "levels", "location", "scale", "dtypes", "container"}:
            del columns[name]
        columns["kinds"] = {"tuple": [words[kind] for kind in columns["kinds"]["tuple"]]}

    rewrite(path, change, metadata={"version": "2"})


def test_columns_of_version_2_get_the_words_of_this_one(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0], "species": pd.Series(list("abc"))[Y].to_numpy(), "flag": X[:, 1] > 3})
    model = VAE(1, max_epochs=1, random_state=0, encoder=MLP((4,)), decoder=MLP((4,))).fit(frame)
    model.save(tmp_path / "model.jensen")
    as_version_2(tmp_path / "model.jensen")
    back = jensen.load(tmp_path / "model.jensen")
    assert back.columns_.kinds == model.columns_.kinds == ("number", "level", "yes/no")
    assert back.columns_.n_rows == 0
    np.testing.assert_array_equal(back.score_samples(frame), model.score_samples(frame))
    back.save(tmp_path / "model.jensen")
    assert str(jensen.load(tmp_path / "model.jensen").columns_) == str(back.columns_)


def test_every_older_version_has_a_way_to_this_one():
    assert sorted(MIGRATIONS) == [*range(1, VERSION)]


def test_a_migration_is_taken_step_by_step(path, monkeypatch):
    """A record of version 1 goes through every later one."""
    as_version_1(path)
    monkeypatch.setattr("jensen.files.records.VERSION", 3)
    monkeypatch.setitem(MIGRATIONS, 2, lambda record: record | {"class": record["class"].lower()})
    assert read_record(path)["class"] == "gaussianmixture"


@cache
def fitted(kind):
    if kind == "diffusion":
        return Diffusion(n_steps=10, network=ResidualMLP(8, 1), max_epochs=1).fit(X)
    if kind == "images":
        return Diffusion(n_steps=10, network=UNet((4,)), max_epochs=1).fit(X[:8].reshape(8, 2, 2))
    return VAE(2, encoder=MLP((4,)), decoder=MLP((4,)), max_epochs=1).fit(X)


def set_param(*names, to):
    def change(content):
        params = content["params"]["dict"]
        for name in names[:-1]:
            params = params[name]["params"]
        params[names[-1]] = to

    return change


def many_levels(content):
    """As many columns as the first of them has levels: each is in the file, but a table of both is not."""
    n, fitted = 20_000, content["fitted"]["dict"]
    columns = fitted["theta"]["dict"]["columns"]["dict"]
    first, other = {"tuple": list(range(n))}, {"tuple": [0, 1, 2]}
    columns["names"], columns["kinds"] = {"tuple": list(range(n))}, {"tuple": ["level"] * n}
    columns["levels"], columns["dtypes"] = {"tuple": [first] + [other] * (n - 1)}, {"tuple": [""] * n}
    for name in ("location", "scale", "bounds", "support", "ranges", "n_observed"):
        columns[name] = {"array": name, "numpy": False}
    for name, value in (("atoms", {"tuple": []}), ("units", ""), ("whole", False), ("categories", {"tuple": []})):
        columns[name] = {"tuple": [value] * n}
    columns["kept"] = {"tuple": list(range(n))}
    fitted["theta"]["dict"]["shape"], fitted["attributes"]["dict"]["n_features_in_"] = {"list": [n]}, n


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("diffusion", set_param("n_steps", to=10**8), "n_steps=100000000 is more than 1000000 levels"),
        ("diffusion", set_param("network", "width", to=10**9), r"ask for a tensor of shape \(1000000000"),
        ("diffusion", set_param("network", "n_blocks", to=10**9), "or for more tensors, than its weights have"),
        ("diffusion", set_param("network", "n_blocks", to=2), "network.blocks.1.* is missing from the file"),
        ("images", set_param("network", "n_blocks", to=10**9), "or for more tensors, than its weights have"),
        ("images", set_param("network", "channels", to={"tuple": [2**20]}), "ask for a tensor of shape"),
        ("vae", many_levels, r"ask for a tensor of shape \(20000, 20000\)"),
        ("vae", set_param("encoder", "hidden", to={"tuple": [10**9]}), r"ask for a tensor of shape \(1000000000"),
        ("vae", set_param("decoder", "hidden", to={"tuple": [5]}), r"is torch.float32 of shape .* not torch.float32"),
        ("vae", lambda c: facts(c).update(n_latent=10**9), "ask for a tensor of shape"),
        ("vae", lambda c: facts(c).update(n_classes=10**9), "damaged|does not describe"),
        ("vae", lambda c: c["fitted"]["dict"]["theta"]["dict"].update(shape={"list": [10**9]}), "is not that of 4 col"),
    ],
)
def test_sizes_that_the_tensors_do_not_have_are_refused_before_anything_is_built(tmp_path, kind, change, message):
    fitted(kind).save(tmp_path / "model.jensen")
    zeros, limits = torch.zeros(20_000).double(), torch.zeros(20_000, 2).double()
    more = {"location": zeros, "scale": zeros + 1, "bounds": limits, "ranges": limits + 1, "n_observed": zeros.long()}
    more["support"] = torch.tensor([-torch.inf, torch.inf]).double().repeat(20_000, 1)
    rewrite(tmp_path / "model.jensen", change, (lambda t: t.update(more)) if change is many_levels else None)
    begun = time.process_time()
    with pytest.raises(ValueError, match=message):
        jensen.load(tmp_path / "model.jensen")
    assert time.process_time() - begun < 2


def facts(content):
    return content["fitted"]["dict"]["theta"]["dict"]["facts"]["dict"]


def test_texts_of_one_width_take_no_more_room_than_they_need():
    """One long text among many short ones would be as many long ones."""
    with pytest.raises(ValueError, match="100000 texts, one of them 100000 long"):
        place({"strings": ["a"] * 99_999 + ["b" * 100_000], "dtype": "U"}, {})


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
        # numpy 1 has no such type.
        *([np.array(["a", "b"], dtype=np.dtypes.StringDType())] if hasattr(np.dtypes, "StringDType") else []),
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
    monkeypatch.setattr("jensen.files.records.save", lambda *a, **k: 1 / 0)
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
