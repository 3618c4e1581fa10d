"""Explainers return what the mathematics says, and read only what their controls allow."""

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import jensen.studio
from jensen.models.diffusion.space import Space
from jensen.studio import trained
from jensen.studio.answers import plain
from jensen.studio.catalogue import NAMES, described, find

WEB = Path(jensen.studio.__file__).parent / "web"
# Sums of floating-point numbers in another order.
ROUNDING = 1e-9


def at(name, **given):
    return find(name).compute(given)


def test_two_gaussians_have_the_known_sigmoid():
    found = at("sigmoid", mean_1=0, mean_2=1, std=1, share=0.8, x=3)
    assert found["a"] == pytest.approx(1)
    assert found["b"] == pytest.approx(-1.886294, abs=1e-6)
    sigmoid = 1 / (1 + np.exp(found["a"] * found["axis"] + found["b"]))
    assert found["posterior"] == pytest.approx(sigmoid, abs=ROUNDING)
    assert sum(found["joint"]) == pytest.approx(math.exp(found["log_p"]))


def test_any_q_is_below_ln_p_by_its_divergence():
    found = at("bound", q=0.3, x=2, share=0.6)
    joint = np.array([0.6, 0.4]) * norm.pdf(2, [0.0, 1.5])
    assert found["log_p"] == pytest.approx(math.log(joint.sum()))
    assert found["bound"] == pytest.approx([0.3, 0.7] @ np.log(joint / [0.3, 0.7]))
    assert found["bound"] + found["gap"] == pytest.approx(found["log_p"])
    assert found["reconstruction"] - found["kl_prior"] == pytest.approx(found["bound"])
    assert (found["curve"] <= found["log_p"] + ROUNDING).all()
    many = [at("bound", q=0.3, draws=k)["many"] for k in (1, 2, 10, 50)]
    assert many == sorted(many)
    assert many[0] == pytest.approx(found["bound"])
    assert many[-1] < found["log_p"]


@pytest.mark.parametrize("half", [0, 1, 4, 7])
def test_the_bound_of_em_and_its_gap_add_up_to_ln_p(half):
    found = at("em", half=half)
    assert found["bound"] + found["gap"] == pytest.approx(found["log_p"])
    assert (found["gap"] > 1e-6) == (half % 2 == 1), "a gap after the M-step alone"
    assert found["shares"].sum(1) == pytest.approx(np.ones(60))
    assert np.diff(found["history"]).min() > -1e-7
    assert np.diff(found["history_gradient"]).min() > -1e-7
    assert found["history"][found["step"]] == pytest.approx(found["log_p"])
    assert found["history_gradient"][found["step"]] == pytest.approx(found["log_p_gradient"])


def test_an_m_step_moves_to_the_weighted_means():
    found = at("em", half=3)
    q, X = found["shares"], found["points"]
    assert found["model"]["means"] == pytest.approx(q.T @ X / q.sum(0)[:, None])


def test_a_bad_start_ends_in_a_local_maximum():
    ends = [at("em", data="three", start=start, half=40)["log_p"] for start in ("apart", "bad")]
    assert ends[0] > ends[1] + 0.1


def test_points_that_are_dragged_upon_each_other_do_not_collapse():
    points = [[1.0, 1.0]] * 5 + [[-1.0, 0.5], [-1.5, 0.0], [0.0, 2.0]]
    assert math.isfinite(at("em", points=points, half=20)["log_p"])


def test_stores_lie_between_customers_and_depot():
    found = at("stores", k=3, step=8, weight=0.5, rule="assigned")
    X, labels = found["points"], found["labels"]
    for j, store in enumerate(found["stores"]):
        assert store == pytest.approx((X[labels == j].mean(0) + 0.5 * np.array(found["depot"])) / 1.5, abs=1e-6)
    assert found["costs"][-1] == pytest.approx(found["customers"] + found["supply"])
    away = np.square(X - found["stores"][labels]).sum()
    assert found["customers"] == pytest.approx(away)
    costs = at("stores", k=4, step=8)["costs"]
    assert np.diff(costs).max() <= ROUNDING


def test_ridge_adds_bias_and_variance():
    found = at("ridge", power=1)
    assert found["risk"] == pytest.approx(found["bias2"] + found["variance"])
    assert found["bias2_here"] + found["variance_here"] == pytest.approx(found["risk_here"])
    assert found["risk"][0] < found["least_squares"], "a small penalty always helps"
    assert found["risk_here"] == pytest.approx(np.interp(1, found["axis"], found["risk"]), rel=1e-6)


def test_features_that_are_alike_make_least_squares_poor_and_a_penalty_useful():
    apart, alike = at("ridge", common=0), at("ridge", common=4)
    assert alike["least_squares"] > 5 * apart["least_squares"]
    assert alike["best_risk"] / alike["least_squares"] < 0.5 * apart["best_risk"] / apart["least_squares"]
    assert at("ridge", rows=100, noise=0.5)["best"] < 1 < at("ridge", rows=100, noise=2)["best"]


def test_six_stores_that_start_on_the_left_end_at_a_worse_plan():
    costs = [at("stores", k=6, step=8, start=start)["costs"][-1] for start in ("left", "apart")]
    assert costs[0] > 1.2 * costs[1]


def test_a_dear_depot_pulls_stores_and_the_cheapest_store_rule_empties_some():
    def away(weight, rule):
        found = at("stores", k=4, step=8, weight=weight, rule=rule)
        used = np.asarray(found["sizes"]) > 0
        return np.linalg.norm(found["stores"][used] - np.array(found["depot"]), axis=1).mean(), used.sum()

    assert away(2, "nearest")[0] < away(0.5, "nearest")[0] < away(0, "nearest")[0]
    assert away(2, "assigned")[0] < away(0.5, "assigned")[0]
    assert away(2, "assigned")[1] < 4


def test_the_bad_start_of_em_puts_two_components_on_one_cloud():
    means = np.asarray(at("em", data="three", start="bad", half=40)["model"]["means"])[:, 0]
    assert sorted(np.abs(means - 3.4) < 0.5) == [False, True, True]


def test_a_straight_start_ends_lower_and_folds_back():
    assert at("curve", start="pca")["score"] < at("curve", start="geodesic")["score"] - 0.02


@pytest.mark.parametrize("x2", [-0.3, 0.4, 0.8])
def test_a_half_observed_row_has_a_peak_wherever_the_curve_has_its_height(x2):
    found = at("curve", observed="second", x2=x2)
    crossings = (np.diff(np.sign(found["curve"][:, 1] - x2)) != 0).sum()
    p = found["posterior"]
    peaks = (p[1:-1] > p[:-2]) & (p[1:-1] > p[2:]) & (p[1:-1] > 0.1 * p.max())
    assert peaks.sum() == crossings


def test_topics_are_found_and_a_large_prior_spreads_the_shares():
    found = [at("topics", k=k) for k in (1, 5, 10)]
    assert found[2]["found"] == 10
    assert found[0]["completion"] > found[1]["completion"] > found[2]["completion"]

    def spread(prior):
        shares = [at("topics", k=10, prior=prior, document=i)["shares"] for i in range(1, 7)]
        return np.mean([-(share * np.log(share)).sum() for share in shares])

    assert spread(1.0) > spread(0.15)


def test_a_steep_wave_is_worse_for_the_reparametrised_gradient():
    wave, usual = at("reparametrisation", function="wave", std=2), at("reparametrisation")
    assert wave["std_path"] > wave["std_score"]
    assert usual["std_path"] < usual["std_score"]


def test_the_linear_schedule_destroys_the_image_earlier():
    for level in (20, 60, 100, 150):
        linear, cosine = (at("noising", level=level, schedule=name) for name in ("linear", "cosine"))
        assert linear["alpha_bar"] < cosine["alpha_bar"]
        assert linear["images"] > cosine["images"]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_smaller_variance_costs_half_a_nat_at_any_number_of_levels(schedule):
    gaps = [at("levels", levels=n, schedule=schedule, variance="posterior")["gap"] for n in ("40", "200", "1000")]
    assert gaps == sorted(gaps, reverse=True)
    assert 0.5 < gaps[-1] < 0.6 < gaps[0]


def test_pca_splits_the_scatter():
    found = at("pca", angle=33)
    X = found["points"]
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True)) * len(X)
    assert found["error"] + found["spread"] == pytest.approx(values.sum())
    assert found["best_error"] == pytest.approx(values[0])
    assert found["left"] == pytest.approx(values[0])
    assert found["errors"].min() >= values[0] - ROUNDING
    other = at("pca", points=[[0, 0], [2, 2], [4, 4.2]], angle=45)
    assert other["best"] == pytest.approx(45, abs=3)


def test_a_place_on_the_curve_has_a_posterior():
    found = at("curve", observed="second")
    assert found["posterior"].sum() == pytest.approx(1)
    assert found["reconstruction"] - found["kl"] == pytest.approx(found["log_p"])
    assert math.isnan(found["row"][0])
    assert found["imputed"][1] == found["row"][1]
    density = norm.pdf(found["row"][1], found["places"][:, 1], found["std"])
    assert found["posterior"] == pytest.approx(density / density.sum(), abs=1e-6)
    assert at("curve", start="pca")["score"] < at("curve")["score"]


def test_topics_are_found():
    found = at("topics", k=10)
    assert found["found"] >= 9
    assert found["topics"].sum(1) == pytest.approx(np.ones(10))
    assert found["reconstruction"] - sum(found["kl"].values()) == pytest.approx(found["bound"])
    assert found["expected"].sum() == pytest.approx(found["document"].sum())
    assert found["completion"] < at("topics", k=1)["completion"] < 25.5, "25 words, each as likely as the others"


@pytest.mark.parametrize("function", ["likelihood", "wave", "valley"])
def test_both_estimates_of_the_gradient_are_unbiased(function):
    found = at("reparametrisation", function=function, mean=0.5, std=0.8)
    for way in ("score", "path"):
        error = found[f"std_{way}"] / math.sqrt(found["n_draws"])
        assert abs(found[f"mean_{way}"] - found["exact"]) < 4 * error
    shifted = at("reparametrisation", function=function, mean=0.5, std=0.8, shift=10)
    assert shifted["exact"] == pytest.approx(found["exact"])
    assert shifted["std_score"] > found["std_score"]
    assert shifted["std_path"] == pytest.approx(found["std_path"])


def test_the_gradient_of_a_log_likelihood_is_known():
    """∂/∂μ E[-(z-2)²/2] = 2 - μ."""
    assert at("reparametrisation", function="likelihood", mean=0.5)["exact"] == pytest.approx(1.5)


def test_noise_leaves_the_mean_digit_in_the_end():
    first, last = at("noising", level=1), at("noising", level=200)
    assert np.abs(first["noised"] - first["clean"]).max() < 0.3
    assert first["error"] < at("noising", level=120)["error"]
    assert last["alpha_bar"] < 1e-3
    assert 1 <= first["images"] <= last["images"] <= last["n_images"]


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ({"variance": "posterior", "schedule": "linear"}, (2.018e-5, 5.07004, -3.07253, 1.997533)),
        ({"variance": "posterior", "schedule": "cosine"}, (1.2e-9, 5.45416, -3.50076, 1.953396)),
    ],
)
def test_the_bound_by_level_has_the_published_terms(given, terms):
    found = at("levels", levels="1000", **given)
    assert [found[name] for name in ("last", "middle", "first", "total")] == pytest.approx(terms, rel=5e-2, abs=5e-6)
    assert found["total"] == pytest.approx(terms[3], abs=1e-6)
    assert sum(found["groups"]) == pytest.approx(found["middle"])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize("levels", ["40", "1000"])
def test_a_standard_normal_has_no_gap(schedule, levels):
    assert at("levels", schedule=schedule, levels=levels)["gap"] == pytest.approx(0, abs=ROUNDING)
    assert at("levels", schedule=schedule, levels=levels, factor=1.3)["gap"] > 0.01


@pytest.mark.slow
def test_a_place_of_the_latent_map_decodes():
    found = at("latent_map", z1=0.5, z2=-1)
    model = trained.trained("digits-vae")
    assert found["decoded"] == pytest.approx(np.asarray(model.inverse_transform([[0.5, -1.0]]))[0])
    assert found["reconstruction"] - found["kl"] == pytest.approx(found["bound"])
    assert found["bound"] < found["many"], "importance samples close a part of the gap"
    assert np.ptp(model.noise_variance_) == 0, "one σ² for all pixels, as in the formula"


@pytest.mark.slow
def test_digits_are_drawn_and_classified():
    drawn, alike = (at("generate", digit=4, guidance=w) for w in (0, 4))
    assert min(drawn["agreed"], alike["agreed"]) > 0.7
    assert alike["spread"] < drawn["spread"], "guidance makes images more alike"
    assert at("generate", sampler="ddim")["n_steps"] == 25
    (space,) = [part for part in trained.trained("digits-diffusion").module_.modules() if isinstance(part, Space)]
    assert (space.prediction, space.level_variance) == ("levels", "own"), "as in the formula"
    found = at("classifier", image=3)
    assert found["probabilities"].sum() == pytest.approx(1)
    assert found["evaluations"] <= found["most_evaluations"]
    right = [at("classifier", image=i)["predicted"] == at("classifier", image=i)["truth"] for i in range(1, 21)]
    assert np.mean(right) > 0.7
    many = [at("classifier", image=i, budget=100) for i in range(1, 7)]
    assert all(each["evaluations"] < 0.9 * each["most_evaluations"] for each in many), "classes are dropped"
    simple = [at("classifier", image=i, weighting="simple")["predicted"] for i in range(1, 7)]
    assert np.mean([a == b["predicted"] for a, b in zip(simple, many, strict=True)]) > 0.8


def test_every_explainer_has_a_view_and_every_view_an_explainer():
    assert {path.stem for path in (WEB / "views").glob("*.js")} == set(NAMES)
    modules = {path.stem for path in (WEB.parent / "explainers").glob("[a-z]*.py")}
    assert modules == set(NAMES)
    assert [find(name).name for name in NAMES] == list(NAMES)


def test_what_is_told_of_explainers_is_json_and_complete():
    for told in described():
        json.dumps(plain(told), allow_nan=False)
        assert told["lead"].endswith(".")
        assert len(told["tries"]) >= 2
        for control in told["controls"]:
            assert control["label"]
            assert control["value"] is None or control["kind"] == "choice" or control["low"] <= control["value"]
            if control["kind"] == "choice":
                assert set(control["still"]) <= set(control["options"])
            if control["kind"] == "slider":
                assert all(control["low"] <= stop <= control["high"] for stop in control["still"])


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("em", {"data": "four"}, "data='four' must be one of two, three"),
        ("em", {"data": 3}, "must be one of"),
        ("em", {"points": [[0, 0]]}, "a list of 2 to 200 points"),
        ("em", {"points": [[0, 0], [0, 1e9]]}, "not a pair of numbers within ±100"),
        ("em", {"points": [[0, 0], [0, "1"]]}, "not a pair"),
        ("em", {"points": "x"}, "a list of 2 to 200 points"),
        ("em", {"half": 41}, "half=41 must be from 0 to 40"),
        ("stores", {"k": 5, "points": [[0, 0], [1, 1]]}, "k=5 stores need at least 5 customers, got 2"),
        ("bound", {"what": 1}, "has no control 'what'; there are q, x, share, draws"),
    ],
)
def test_wrong_parameters_are_errors(name, given, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        at(name, **given)


def test_a_file_of_the_page_is_not_long():
    long = {path.name: n for path in WEB.rglob("*.*") if (n := len(path.read_text().splitlines())) > 350}
    assert not long


class Fits:
    """A small model in place of those of digits."""

    def __init__(self, monkeypatch, folder):
        self.n = 0
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        monkeypatch.setattr(trained, "READY", {})
        monkeypatch.setattr(trained, "RUNNING", {})
        monkeypatch.setattr(trained, "THREADS", {})
        monkeypatch.setitem(trained.FITS, "digits-vae", ("a small model", self.fit))

    def fit(self):
        self.n += 1
        return jensen.GaussianMixture(1, verbose=1).fit(np.eye(3))

    def restarted(self, monkeypatch):
        monkeypatch.setattr(trained, "READY", {})


@pytest.fixture
def fits(monkeypatch, tmp_path):
    yield Fits(monkeypatch, tmp_path)
    # What still trains would otherwise find the true models in place of these.
    trained.stop_trainings()


def test_a_model_is_trained_once_and_kept(fits, monkeypatch, tmp_path):
    first = trained.trained("digits-vae")
    assert first.verbose == 0
    fits.restarted(monkeypatch)
    again = trained.trained("digits-vae")
    assert fits.n == 1
    assert np.array_equal(first.means_, again.means_)
    assert [path.suffix for path in (tmp_path / "jensen" / "studio").iterdir()] == [".jensen"]


def test_a_damaged_file_is_trained_again(fits, monkeypatch):
    trained.trained("digits-vae")
    trained.place_of("digits-vae").write_bytes(b"no model")
    fits.restarted(monkeypatch)
    trained.trained("digits-vae")
    assert fits.n == 2


def test_a_cache_that_cannot_be_written_is_no_error(fits, monkeypatch, tmp_path):
    (tmp_path / "jensen").write_text("a file in place of the folder")
    trained.trained("digits-vae")
    assert fits.n == 1


def test_the_page_shows_how_far_a_training_is(fits):
    first = trained.progress_of(("digits-vae",))
    assert first is None or "Training a small model, which is done once and kept." in first["text"]
    for thread in trained.THREADS.values():
        thread.join(60)
    assert trained.progress_of(("digits-vae",)) is None
    assert fits.n == 1


def test_a_training_that_is_stopped_ends_after_its_step(fits, monkeypatch):
    def fit():
        return jensen.VAE(2, max_epochs=10**6, random_state=0, verbose=1).fit(np.eye(3))

    monkeypatch.setitem(trained.FITS, "digits-vae", ("a small model", fit))
    trained.progress_of(("digits-vae",))
    watch, thread = trained.RUNNING["digits-vae"], trained.THREADS["digits-vae"]
    while not watch.steps and thread.is_alive():
        time.sleep(0.01)
    assert watch.end is None
    assert trained.progress_of(("digits-vae",))["done"] > 0
    trained.stop_trainings()
    assert not thread.is_alive()
    assert watch.end == "it was stopped"
    assert trained.READY == {}


def test_a_training_that_fails_is_an_error_and_can_be_tried_again(fits, monkeypatch):
    def fail():
        raise RuntimeError("no memory")

    monkeypatch.setitem(trained.FITS, "digits-vae", ("a small model", fail))
    trained.progress_of(("digits-vae",))
    trained.THREADS["digits-vae"].join(60)
    with pytest.raises(ValueError, match="a small model could not be trained: RuntimeError: no memory"):
        trained.progress_of(("digits-vae",))
    assert trained.progress_of(("digits-vae",)) is not None
