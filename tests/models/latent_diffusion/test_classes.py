"""A latent diffusion with classes: two clusters on a line, some rows labelled."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import norm

import jensen
from jensen import MLP, VAE, Diffusion, LatentDiffusion, ResidualMLP

DIRECTION = np.array([3.0, 2.0, -2.0])
NAMES = np.array(["left", "right"])


def rows(seed, n=600):
    rng = np.random.default_rng(seed)
    number = (rng.random(n) < 0.7).astype(int)
    return (2 * number - 1)[:, None] * DIRECTION + rng.normal(size=(n, 3)), number


def truth(x):
    """p(right|x) of the two Gaussians."""
    log = np.stack([norm.logpdf(x, s * DIRECTION).sum(1) + np.log(w) for s, w in ((-1, 0.3), (1, 0.7))], 1)
    return np.exp(log[:, 1] - logsumexp(log, axis=1))


def make(**options):
    vae = VAE(1, encoder=MLP(()), decoder=MLP(()), max_epochs=150, learning_rate=0.02)
    small = ResidualMLP(width=32, n_blocks=1)
    given = {"n_steps": 50, "objective": "variational", "network": small, "max_epochs": 150, "learning_rate": 5e-3}
    return LatentDiffusion(vae, Diffusion(**(given | options)), random_state=0)


@pytest.fixture(scope="module")
def labelled():
    x, number = rows(0)
    y = NAMES[number].astype(object)
    y[::3] = None
    return make().fit(x, y)


def test_samples_of_a_class_lie_in_its_cluster(labelled):
    for name, side in (("left", -1), ("right", 1)):
        drawn, z = labelled.sample(400, y=name, random_state=0)
        assert z.shape == (400, 1)
        assert_allclose(drawn.mean(0), side * DIRECTION, atol=0.5)
        # Without a class it is 0.3 and 0.7; a network trained on 400 labels leaves a few on the other side.
        assert (drawn @ DIRECTION * side > 0).mean() > 0.9
    drawn, _ = labelled.sample(4, y=["left", "right", "left", "right"], random_state=0, guidance=1.0)
    assert_array_equal(drawn @ DIRECTION > 0, [False, True, False, True])
    # Without a class both appear, as often as in the data.
    assert (labelled.sample(1000, random_state=0)[0] @ DIRECTION > 0).mean() == pytest.approx(0.7, abs=0.07)


def test_classes_are_told_apart(labelled):
    x, number = rows(1, 300)
    share = labelled.predict_proba(x)
    assert_allclose(share.sum(1), 1, rtol=1e-6)
    assert (labelled.predict(x) == NAMES[number]).mean() > 0.98
    assert np.abs(share[:, 1] - truth(x)).mean() < 0.03
    assert_array_equal(labelled.classes_, NAMES)


def test_the_bound_given_its_class_is_higher_by_what_the_class_is_worth(labelled):
    """ln p(x|y) - ln p(x) = ln p(y|x) - ln p(y), about -ln p(y) where the clusters are far apart."""
    x, number = rows(2, 300)
    own, none = labelled.bound(x, y=NAMES[number]).total, labelled.bound(x).total
    assert_allclose(labelled.bound(x, y=np.full(300, None, dtype=object)).total, none)
    gain = own - none
    for c, weight in ((0, 0.3), (1, 0.7)):
        assert gain[number == c].mean() == pytest.approx(-np.log(weight), abs=0.25)
    joint = labelled.class_bounds(x)
    assert joint.shape == (300, 2)
    counts = np.array(labelled._facts.diffusion.prior)
    assert_allclose(joint[np.arange(300), number] - np.log(counts)[number], own, rtol=1e-5, atol=1e-4)
    # The bound that sums over classes is no looser than that without a class, within the errors of both.
    assert logsumexp(joint, axis=1).mean() > none.mean() - 0.1


def test_a_file_keeps_the_classes(labelled, tmp_path):
    x, _ = rows(1, 20)
    labelled.save(tmp_path / "m.jensen")
    loaded = jensen.load(tmp_path / "m.jensen")
    assert_array_equal(loaded.predict_proba(x), labelled.predict_proba(x))
    assert_array_equal(loaded.sample(5, y="left", random_state=1)[0], labelled.sample(5, y="left", random_state=1)[0])


def test_tensors_missing_values_and_joint_training():
    x, number = rows(0, 200)
    x[::5, 0] = np.nan
    vae = VAE(1, encoder=MLP(()), decoder=MLP(()), max_epochs=3)
    prior = Diffusion(n_steps=10, objective="variational", network=ResidualMLP(width=8, n_blocks=1), max_epochs=2)
    model = LatentDiffusion(vae, prior, training="joint", random_state=0).fit(torch.tensor(x), number)
    share = model.predict_proba(torch.tensor(x))
    assert isinstance(share, torch.Tensor)
    assert share.shape == (200, 2)
    assert isinstance(model.predict(torch.tensor(x)), torch.Tensor)


def test_labels_of_a_scan_are_a_column(tmp_path):
    x, number = rows(0, 200)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame["side"] = NAMES[number]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    vae = VAE(1, encoder=MLP(()), decoder=MLP(()), max_epochs=2)
    prior = Diffusion(n_steps=10, objective="variational", network=ResidualMLP(width=8, n_blocks=1), max_epochs=2)
    scan = jensen.scan(tmp_path / "rows.csv", label="side")
    model = LatentDiffusion(vae, prior, random_state=0).fit(scan)
    assert_array_equal(model.classes_, NAMES)
    assert model.n_features_in_ == 3
    assert model.sample(3, y="left")[0].shape == (3, 3)


def test_what_has_no_classes_says_so(labelled):
    x, _ = rows(0, 100)
    plain = make(max_epochs=1).set_params(vae__max_epochs=1).fit(x)
    with pytest.raises(ValueError, match="y='left' asks for a class, but the model was fitted without labels"):
        plain.sample(1, y="left")
    with pytest.raises(ValueError, match="y asks for classes, but the model was fitted without labels"):
        plain.bound(x[:2], y=["left", "right"])
    with pytest.raises(AttributeError) as error:
        plain.predict(x)
    assert "fitted without labels" in str(error.value.__cause__)
    with pytest.raises(ValueError, match=r"guidance=1\.0 needs a class"):
        labelled.sample(1, guidance=1.0)
    with pytest.raises(ValueError, match="middle"):
        labelled.sample(1, y="middle")
    # A second fit without labels has no classes.
    assert not hasattr(labelled.__class__(plain.vae, plain.diffusion, random_state=0).fit(x), "classes_")
