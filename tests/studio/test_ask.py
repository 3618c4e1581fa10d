"""Asking a model: the page returns what the contract's methods return, and opens only files of its folder."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits, load_iris

import jensen
from jensen.studio.ask import Subject
from jensen.studio.folder import Folder

IRIS = load_iris(as_frame=True).data
PAIR = {"model": "mixture.jensen", "table": "iris.csv"}


@pytest.fixture(scope="module")
def mixture(folder):
    return jensen.load(folder.root / "mixture.jensen")


def row(number, **cells):
    one = IRIS.iloc[[number - 1]].copy()
    for j, value in cells.items():
        one.iloc[0, int(j[1:])] = np.nan if value is None else value
    return one


@pytest.mark.parametrize(
    "name",
    [
        "../secret.csv",
        "link.csv",
        "/etc/passwd",
        "..",
        "../open/../secret.csv",
        "./../secret.csv",
        "~/secret.csv",
        "a\0b",
        "",
    ],
)
@pytest.mark.parametrize("which", ["model", "table"])
def test_files_outside_of_the_folder_are_refused(client, name, which):
    """By a path, and by a link that leads out of it."""
    status, message = client.error("api/ask/open", PAIR | {which: name})
    assert status == 400
    assert "outside" in message or "there is no file" in message or "is not the name" in message
    assert "1234" not in message


def test_links_and_paths_that_lead_out_are_named_as_such(folder):
    for name in ("../secret.csv", "link.csv"):
        with pytest.raises(PermissionError, match="outside of the folder"):
            folder.find(name)


def test_a_link_within_the_folder_is_a_file_of_it(client):
    assert client.values("api/ask/open", PAIR | {"table": "inside.csv"})["n_rows"] == 150


def test_the_list_has_no_file_from_outside(client):
    found = client.values("api/files")
    assert found["models"] == ["medoids.jensen", "mixture.jensen", "ppca.jensen"]
    assert found["tables"] == ["inside.csv", "iris.csv", "digits", "iris", "wine"]


def test_a_file_of_the_command_line_may_be_elsewhere(tmp_path, folder):
    other = tmp_path / "elsewhere.csv"
    IRIS.to_csv(other, index=False)
    found = Folder(folder.root, folder.opener, {"elsewhere.csv": other})
    assert found.open("mixture.jensen", "elsewhere.csv").describe()["n_rows"] == 150
    with pytest.raises(PermissionError):
        found.find("../elsewhere.csv")


@pytest.mark.parametrize("name", [3, None, ["iris.csv"]])
def test_a_name_is_a_text(folder, name):
    with pytest.raises(ValueError, match="is not the name of a file"):
        folder.find(name)


def test_a_row_has_the_score_and_the_terms_of_the_model(client, mixture):
    found = client.values("api/ask/row", PAIR | {"row": 7, "cells": {IRIS.columns[2]: 4.0}, "column": IRIS.columns[2]})
    x = row(7, c2=4.0)
    by_hand = sum(
        w * multivariate_normal.pdf(x.to_numpy()[0], m, c)
        for w, m, c in zip(mixture.weights_, mixture.means_, mixture.covariances_, strict=True)
    )
    assert found["log_p"] == pytest.approx(np.log(by_hand), rel=1e-9)
    bound = mixture.bound(x)
    assert found["bound"]["reconstruction"] == pytest.approx(bound.reconstruction[0])
    assert found["bound"]["is_exact"]
    assert found["posterior"]["values"] == pytest.approx(mixture.posterior(x).probs.numpy()[0])
    along = found["along"]
    assert along["log_p"][5] == pytest.approx(mixture.score_samples(row(7, c2=along["values"][5]))[0])
    assert found["imputed"] == []


def test_a_missing_cell_is_imputed_with_an_interval_of_the_conditional(client, mixture):
    found = client.values("api/ask/row", PAIR | {"row": 7, "cells": {IRIS.columns[3]: None}})
    x = row(7, c3=None)
    (one,) = found["imputed"]
    assert one["imputed"] == pytest.approx(mixture.impute(x).iloc[0, 3])
    given = mixture.condition(dict(enumerate(x.to_numpy()[0, :3])))
    draws = np.asarray(given.sample(100_000, random_state=1)[0]).ravel()
    # 200 draws: a quantile at 5 % has a standard error of about 0.15 standard deviations; four of them.
    error = 0.6 * draws.std()
    assert one["low"] == pytest.approx(np.quantile(draws, 0.05), abs=error)
    assert one["high"] == pytest.approx(np.quantile(draws, 0.95), abs=error)
    assert found["log_p"] == pytest.approx(mixture.score_samples(x)[0])


def test_blame_is_what_a_cell_takes_from_the_score(client, mixture):
    found = client.values("api/ask/row", PAIR | {"row": 7, "cells": {IRIS.columns[0]: 7.9}})
    x = row(7, c0=7.9)
    for j, cell in enumerate(found["blame"]):
        without = x.copy()
        without.iloc[0, j] = np.nan
        gain = mixture.score_samples(x)[0] - mixture.score_samples(without)[0]
        assert cell["nats"] == pytest.approx(gain, rel=1e-6)
    assert found["blame"][0]["tail"] < 0.001


def test_blame_without_a_closed_form_is_the_same_difference():
    model = jensen.KMeans(3, random_state=0).fit(IRIS)
    found = Subject(model, IRIS).answer({"row": 3})["blame"]
    without = row(3, c1=None)
    expected = model.score_samples(row(3))[0] - model.score_samples(without)[0]
    assert found[1]["nats"] == pytest.approx(expected)


def test_a_latent_vector_becomes_a_row(client, folder):
    found = client.values("api/ask/decode", {"model": "ppca.jensen", "table": "iris.csv", "z": [0.5, -1.0]})
    model = jensen.load(folder.root / "ppca.jensen")
    assert found["cells"] == pytest.approx(np.asarray(model.inverse_transform([[0.5, -1.0]]))[0])


def test_rows_given_a_cell_have_the_conditional_mean(client, mixture):
    name = IRIS.columns[0]
    found = client.values("api/ask/draw", PAIR | {"n": 3, "cells": {name: 5.0}, "seed": 1})
    assert [line[0] for line in found["rows"]["rows"]] == [5.0] * 3
    given = mixture.condition({0: 5.0})
    draws = np.asarray(given.sample(100_000, random_state=1)[0])
    means = [each["mean"] for each in found["summaries"]]
    # The mean of 200 draws, within five standard errors.
    assert means == pytest.approx(draws.mean(0), abs=5 * draws.std(0).max() / np.sqrt(200))


def test_rows_are_drawn_from_the_model(client, mixture):
    found = client.values("api/ask/draw", PAIR | {"n": 4, "seed": 3})
    assert np.array(found["rows"]["rows"]) == pytest.approx(np.asarray(mixture.sample(4, random_state=3)[0]))


def test_what_a_model_does_not_offer_has_a_reason(client):
    found = client.values("api/ask/row", {"model": "medoids.jensen", "table": "iris.csv", "row": 1})
    for name in ("log_p", "bound", "imputed", "blame"):
        if name == "imputed":
            continue  # no cell is missing
        assert found[name]["reason"]
    assert "no density" in found["log_p"]["reason"]
    assert found["predict"]["value"] in (0, 1, 2)
    offers = client.values("api/ask/open", {"model": "medoids.jensen", "table": "iris.csv"})["offers"]
    assert "no density" in offers["sample"]["reason"]


@pytest.mark.parametrize(
    ("path", "given", "message"),
    [
        ("row", {"row": 0}, "from 1 to 150"),
        ("row", {"row": 151}, "from 1 to 150"),
        ("row", {"row": "1"}, "from 1 to 150"),
        ("row", {"cells": {"age": 3}}, "there is no column 'age'"),
        ("row", {"cells": [1]}, "cells must be a dictionary"),
        ("row", {"cells": {IRIS.columns[0]: "tall"}}, "must be a number"),
        ("draw", {"n": 10**6}, "from 1 to 50"),
        ("draw", {"n": 3, "seed": -1}, "seed=-1"),
        ("draw", {"cells": dict.fromkeys(IRIS.columns, 1.0)}, "leave at least one to draw"),
        ("decode", {"z": [1.0]}, "no inverse_transform"),
        ("decode", {"z": "x"}, "must be a list of numbers"),
        ("save", {}, "there is no question 'save'"),
    ],
)
def test_wrong_questions_are_errors_of_one_line(client, path, given, message):
    status, found = client.error(f"api/ask/{path}", PAIR | given)
    assert status == 400
    assert message in found


def test_a_table_of_all_kinds_of_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"size": rng.normal(size=60), "n": rng.poisson(3, 60), "kind": list("abc") * 20, "is_new": rng.random(60) < 0.5}
    )
    subject = Subject(jensen.Mixture(2, random_state=0).fit(table), table)
    kinds = [column["kind"] for column in subject.describe()["columns"]]
    assert kinds == ["number", "number", "level", "level"]
    found = subject.answer({"row": 2, "cells": {"kind": None, "n": 5, "is_new": "True"}, "column": "kind"})
    expected = subject.model.score_samples(table.iloc[[1]].assign(kind=None, n=5, is_new=True))
    assert found["log_p"] == pytest.approx(expected[0])
    assert sum(share for _, share in found["imputed"][0]["shares"]) == pytest.approx(1)
    assert len(found["along"]["values"]) == 3


def test_images_are_shown_and_not_changed():
    images = load_digits().images[:200]
    subject = Subject(jensen.VAE(2, max_epochs=1, random_state=0).fit(images), images)
    assert subject.describe()["columns"] == []
    found = subject.answer({"row": 1})
    assert found["pixels"]["shape"] == (8, 8)
    assert "not compared" in found["blame"]["reason"]
    with pytest.raises(ValueError, match="cannot be changed one by one"):
        subject.answer({"row": 1, "cells": {"x0": 1}})
    assert subject.decode({"z": [0.0, 0.0]})["pixels"]["shape"] == (8, 8)
    assert len(subject.draw({"n": 3})["pixels"]["images"]) == 3


def test_nothing_that_was_given_is_changed():
    table = IRIS.copy()
    subject = Subject(jensen.GaussianMixture(2, random_state=0).fit(table), table)
    subject.answer({"row": 1, "cells": {IRIS.columns[0]: None}})
    subject.draw({"n": 2, "cells": {IRIS.columns[0]: 5.0}})
    pd.testing.assert_frame_equal(table, IRIS)
