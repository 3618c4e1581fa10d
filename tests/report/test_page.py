"""The page of a report: one file that asks nothing of a network, and shows what every model can."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import NotFittedError

import jensen
from jensen.report.panels import widest

VOID = {"meta", "link", "input", "img", "br", "hr"}


class Reader(HTMLParser):
    """Headings, attributes and whether every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.headings, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h2", "h3", "h4"):
            self.headings.append(data)
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def read(path):
    page = Reader()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def iris():
    frame = load_iris(as_frame=True).data
    rng = np.random.default_rng(0)
    return frame.mask(rng.random(frame.shape) < 0.05)


def small(name):
    deep = {"encoder": jensen.MLP((8,)), "decoder": jensen.MLP((8,)), "max_epochs": 120, "random_state": 0}
    diffusion = {"n_steps": 5, "network": jensen.ResidualMLP(8, 1), "max_epochs": 120, "random_state": 0}
    models = {
        "GaussianMixture": lambda: jensen.GaussianMixture(3, random_state=0),
        "KMeans": lambda: jensen.KMeans(3, random_state=0),
        "KMedoids": lambda: jensen.KMedoids(3, random_state=0),
        "ProbabilisticPCA": lambda: jensen.ProbabilisticPCA(2),
        "FactorAnalysis": lambda: jensen.FactorAnalysis(1),
        "MixtureOfPPCA": lambda: jensen.MixtureOfPPCA(2, n_latent=1, max_iter=3, tol=0.0, random_state=0),
        "LatentCurve": lambda: jensen.LatentCurve(max_iter=3, tol=0.0, random_state=0),
        "VAE": lambda: jensen.VAE(2, **deep),
        "Autoencoder": lambda: jensen.Autoencoder(2, **deep),
        "Diffusion": lambda: jensen.Diffusion(**diffusion),
        "LatentDiffusion": lambda: jensen.LatentDiffusion(
            jensen.VAE(2, **deep), jensen.Diffusion(**diffusion, objective="variational")
        ),
    }
    return models[name]()


ALWAYS = {"Terms of the bound", "Samples beside real rows", "Imputations", "Least likely rows"}
LEARNT = {"Training"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GaussianMixture", ALWAYS | LEARNT | {"Components"}),
        ("KMeans", ALWAYS | {"Components"}),
        ("KMedoids", {"Components"}),
        ("ProbabilisticPCA", ALWAYS | {"The latent map"}),
        ("FactorAnalysis", ALWAYS | {"The latent map"}),
        ("MixtureOfPPCA", ALWAYS | LEARNT | {"Components"}),
        ("LatentCurve", ALWAYS | LEARNT | {"The latent map", "The curve"}),
        ("VAE", ALWAYS | LEARNT | {"The latent map"}),
        ("Autoencoder", LEARNT | {"The latent map", "Rows with the largest reconstruction error"}),
        ("Diffusion", ALWAYS | LEARNT | {"Bound by noise level"}),
        ("LatentDiffusion", ALWAYS | LEARNT | {"The latent map"}),
    ],
)
def test_a_model_shows_what_it_can(name, expected, iris, tmp_path):
    X = iris.dropna() if name in ("KMedoids", "Autoencoder", "Diffusion") else iris
    jensen.write_report(small(name).fit(X), X, tmp_path / "page.html", load_iris().target[X.index])
    page = read(tmp_path / "page.html")
    assert {heading for heading in page.headings if not heading.startswith("Rows with missing")} == expected | {name}
    assert "Not available" not in page.text


def test_a_regression_shows_coefficients_and_predictions(tmp_path):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = jensen.RidgeRegression(alpha="evidence").fit(X, y)
    jensen.write_report(model, X, tmp_path / "page.html", y)
    page = read(tmp_path / "page.html")
    assert {"Coefficients", "Predictions", "Least likely rows"} <= set(page.headings)
    error = np.sqrt(np.mean((model.predict(X)[:: len(X) // 300 + 1] - y[:: len(X) // 300 + 1]) ** 2))
    told = float(re.search(r"mean squared error is ([\d.]+)", page.text)[1])
    # The page asks about 300 rows, others than these.
    assert told == pytest.approx(error, rel=0.1)


def test_the_least_likely_rows_are_the_ones_with_the_least_score(iris, tmp_path):
    model = small("GaussianMixture").fit(iris)
    jensen.write_report(model, iris, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    rows = re.findall(r'<tr><td data-value="([\d.]+)">', text.partition("Least likely rows</h3>")[2])
    assert [int(float(row)) for row in rows] == np.argsort(model.score_samples(iris))[:8].tolist()


def test_rows_with_holes_are_shown_filled_in(iris, tmp_path):
    model = small("GaussianMixture").fit(iris)
    jensen.write_report(model, iris, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    holes = iris[iris.isna().any(axis=1)].head(6)
    assert text.count('class="filled"') == int(holes.isna().sum().sum())


def test_the_bound_is_told_term_by_term(iris, tmp_path):
    model = small("GaussianMixture").fit(iris)
    jensen.write_report(model, iris, tmp_path / "page.html")
    bound = model.bound(iris)
    text = (tmp_path / "page.html").read_text()
    told = {
        name: float(value)
        for name, value in re.findall(r'data-tip="(reconstruction|− component|bound): ([-\d.]+)"', text)
    }
    # Four digits are written.
    assert told["reconstruction"] == pytest.approx(bound.reconstruction.mean(), rel=1e-3)
    assert told["− component"] == pytest.approx(-bound.kl["component"].mean(), rel=1e-3)
    assert told["bound"] == pytest.approx(bound.total.mean(), rel=1e-3)


def test_a_question_that_the_rows_do_not_allow_has_its_reason(iris, tmp_path):
    complete = iris.dropna()
    model = small("Diffusion").fit(complete)
    jensen.write_report(model, iris, tmp_path / "page.html")
    assert "Not available: X holds NaN" in read(tmp_path / "page.html").text


@pytest.mark.parametrize(
    ("spread", "expected"), [((1, 1.1, 1.2), (0, 1)), ((0.1, 1, 1.2), (1, 2)), ((9, 0.1, 0.2), (0, 2))]
)
def test_a_latent_map_has_the_dimensions_that_say_something(spread, expected):
    assert widest(np.random.default_rng(0).normal(size=(1000, 3)) * spread) == expected


def test_columns_of_text(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["size", "age"]).assign(kind=rng.choice(["<a>", "b"], 60))
    jensen.write_report(small("VAE").fit(frame), frame, tmp_path / "page.html")
    page = read(tmp_path / "page.html")
    assert "<a>" in page.text
    assert ("a", {}) not in page.tags


def test_images(tmp_path):
    X = load_digits().images[:60]
    model = jensen.VAE(2, encoder=jensen.MLP((8,)), decoder=jensen.MLP((8,)), max_epochs=2, random_state=0).fit(X)
    jensen.write_report(model, X, tmp_path / "page.html")
    pictures = [attributes for tag, attributes in read(tmp_path / "page.html").tags if tag == "img"]
    assert len(pictures) == 5
    assert [picture["alt"] for picture in pictures if " of VAE" in picture["alt"]] == [
        "decoder's means of VAE",
        "samples of VAE",
    ]
    assert len({picture["src"] for picture in pictures}) == 5
    assert all(picture["alt"] and picture["src"].startswith("data:image/png;base64,") for picture in pictures)


def test_an_autoencoder_of_images_shows_them_there_and_back(tmp_path):
    X = load_digits().images[:60]
    recipe = jensen.MLP((8,))
    model = jensen.Autoencoder(2, encoder=recipe, decoder=recipe, max_epochs=2, random_state=0).fit(X)
    jensen.write_report(model, X, tmp_path / "page.html")
    assert "Reconstructions" in read(tmp_path / "page.html").headings


def test_a_mixture_of_images_shows_its_centres(tmp_path):
    X = load_digits().images[:100]
    board = jensen.compare(X, {"k-means": jensen.KMeans(4, random_state=0)}, cv=2)
    board.report(tmp_path / "page.html")
    pictures = [attributes["alt"] for tag, attributes in read(tmp_path / "page.html").tags if tag == "img"]
    assert "centres of 4 components" in pictures


def test_a_surface_is_drawn_by_its_lines(iris, tmp_path):
    X = iris.dropna()
    model = jensen.LatentCurve(n_latent=2, max_iter=1, random_state=0).fit(X)
    jensen.write_report(model, X, tmp_path / "page.html")
    assert "The surface" in read(tmp_path / "page.html").headings
    # Fifteen lines each way.
    assert (tmp_path / "page.html").read_text().count('class="line curve"') == 30 + 1


def test_a_row_of_one_column_has_no_plane(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 1))
    jensen.write_report(jensen.GaussianMixture(2, random_state=0).fit(X), X, tmp_path / "page.html")
    # Nothing is hidden where nothing would be left to fill it in from.
    assert set(read(tmp_path / "page.html").headings) >= {"Samples beside real rows", "Components"}
    assert "Imputations" not in read(tmp_path / "page.html").headings


def test_where_all_rows_have_holes_there_is_no_truth_to_hide(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[np.arange(50), np.arange(50) % 3] = np.nan
    jensen.write_report(jensen.GaussianMixture(1).fit(X), X, tmp_path / "page.html")
    page = read(tmp_path / "page.html")
    assert "Every row has missing values" in page.text
    assert "Rows with missing values, imputed" in page.headings


def test_of_many_rows_some_are_drawn(tmp_path):
    X = np.random.default_rng(0).normal(size=(3000, 2))
    jensen.write_report(jensen.ProbabilisticPCA(1).fit(X), X, tmp_path / "page.html")
    assert "1000 of 3000 rows, drawn at random" in read(tmp_path / "page.html").text


def test_the_same_seed_gives_the_same_page(iris, tmp_path):
    model = small("GaussianMixture").fit(iris)
    for name in ("a", "b"):
        jensen.write_report(model, iris, tmp_path / name)
    assert re.sub(r"clip\d+", "", (tmp_path / "a").read_text()) == re.sub(r"clip\d+", "", (tmp_path / "b").read_text())


def test_nothing_is_changed(iris, tmp_path):
    before, model = iris.copy(), small("GaussianMixture").fit(iris)
    jensen.write_report(model, iris, tmp_path / "page.html")
    pd.testing.assert_frame_equal(iris, before)


@pytest.fixture(scope="module")
def path(iris, tmp_path_factory):
    models = {"mixture": small("GaussianMixture"), "<PPCA>": small("ProbabilisticPCA"), "absent": small("KMedoids")}
    path = tmp_path_factory.mktemp("board") / "board.html"
    jensen.compare(iris, models, cv=2).report(path)
    return path


def test_a_density_on_a_grid_is_told_in_the_unit_of_the_table(tmp_path):
    images = load_digits().images[:300] / 16
    board = jensen.compare(images, {"PPCA": jensen.ProbabilisticPCA(5)}, cv=3)
    board.report(tmp_path / "board.html")
    text = (tmp_path / "board.html").read_text()
    told = {name: float(value) for name, value in re.findall(r'data-tip="([^":]+): ([-\d.]+)"', text)}
    # A cell is a sixteenth wide in each pixel that varies; one that does not has a probability of its own.
    n_varying = int((np.ptp(images, axis=0) > 0).sum())
    assert n_varying < 64
    assert told["+ log cell size"] == pytest.approx(-n_varying * np.log(16), abs=0.1)
    first = board.scores["PPCA"].iloc[:100]
    # One draw of the noise beside the mean of four.
    assert told["bound"] == pytest.approx(first.mean(), abs=3 * first.std() / 10)
    assert "a lower bound of ln P(x)" in text


def test_components_have_the_names_of_their_classes(iris, tmp_path):
    model = small("GaussianMixture").fit(iris, load_iris().target_names[load_iris().target])
    jensen.write_report(model, iris, tmp_path / "page.html")
    assert all(f"<td>{name}</td>" in (tmp_path / "page.html").read_text() for name in load_iris().target_names)


def test_rows_without_a_label_are_grey(iris, tmp_path):
    y = np.where(np.arange(150) % 2, load_iris().target, -1)
    jensen.write_report(small("ProbabilisticPCA").fit(iris), iris, tmp_path / "page.html", y)
    assert '<g class="sgrey" data-series="unlabelled">' in (tmp_path / "page.html").read_text()


class TestALeaderboard:
    def test_is_a_table_with_a_row_for_every_model(self, path):
        page = read(path)
        rows = [attributes["data-model"] for tag, attributes in page.tags if tag == "tr" and "data-model" in attributes]
        assert rows == ["mixture", "<PPCA>", "absent"]
        assert "not ranked: " in page.text

    def test_has_a_section_and_a_box_for_every_model_that_did_not_fail(self, path):
        tags = read(path).tags
        assert [a["data-model"] for tag, a in tags if tag == "section" and "data-model" in a] == ["mixture", "<PPCA>"]
        assert [a["data-toggle"] for tag, a in tags if tag == "input"] == ["mixture", "<PPCA>"]

    def test_asks_nothing_of_a_network(self, path):
        text = path.read_text()
        assert not re.search(r"https?://|url\((?!#)|@import|fetch\(", text)
        assert len(text) < 5e6

    def test_can_be_read_aloud(self, path):
        page = read(path)
        assert ("html", {"lang": "en"}) in page.tags
        assert all(a.get("aria-label") for tag, a in page.tags if tag == "svg")
        assert all(a.get("scope") == "col" for tag, a in page.tags if tag == "th")
        assert all(a.get("type") == "button" for tag, a in page.tags if tag == "button")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((jensen.GaussianMixture, [[1.0]]), "GaussianMixture is a class; give a fitted model"),
        (("mixture", [[1.0]]), "'mixture' is not a model; give a fitted one"),
    ],
)
def test_what_is_no_model(arguments, message, tmp_path):
    with pytest.raises(TypeError, match=re.escape(message)):
        jensen.write_report(*arguments, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_not_fitted(iris, tmp_path):
    with pytest.raises(NotFittedError):
        jensen.write_report(small("GaussianMixture"), iris, tmp_path / "page.html")


def test_other_columns(iris, tmp_path):
    with pytest.raises(ValueError, match="X has 2 columns, but the model was fitted on 4; give the same columns"):
        jensen.write_report(small("GaussianMixture").fit(iris), iris.iloc[:, :2], tmp_path / "page.html")


@pytest.mark.parametrize("kind", [pl.DataFrame, torch.tensor, csr_matrix, np.ndarray.tolist], ids=lambda f: f.__name__)
def test_rows_of_any_kind(kind, tmp_path):
    X = load_iris().data
    rows = kind(X)
    jensen.write_report(jensen.KMeans(2, random_state=0).fit(rows), rows, tmp_path / "page.html")
    assert "Not available" not in read(tmp_path / "page.html").text


def test_a_label_for_every_row(iris, tmp_path):
    with pytest.raises(ValueError, match="y has 3 labels, but X has 150 rows"):
        jensen.write_report(small("GaussianMixture").fit(iris), iris, tmp_path / "page.html", [0, 1, 2])
