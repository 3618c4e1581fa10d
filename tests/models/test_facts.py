"""The facts of a fit are typed records, and files keep the names that they have always had."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from jensen import VAE, Autoencoder, Diffusion, LatentDiffusion
from jensen.files.records import read_record

X, y = load_iris(return_X_y=True)
OF_VAE = ["n_latent", "n_classes", "has_holes", "start", "condition_on", "covariates"]
OF_DIFFUSION = [
    *("prediction", "variance", "level_variance", "largest_beta", "least_signal", "n_classes", "start"),
    *("is_told", "channels", "patch"),
]
PRIOR = Diffusion(n_steps=20, objective="variational", max_epochs=1)
FITS = {
    "autoencoder": (Autoencoder(2, max_epochs=1, random_state=0), None, ["n_latent", "has_holes"]),
    "vae": (VAE(2, max_epochs=1, random_state=0), None, OF_VAE),
    "vae with labels": (VAE(2, max_epochs=1, random_state=0), y, [*OF_VAE, "prior", "class_weight", "class_length"]),
    "diffusion": (Diffusion(n_steps=20, max_epochs=1, random_state=0), None, [*OF_DIFFUSION, "has_holes", "clip"]),
    "diffusion with labels": (
        Diffusion(n_steps=20, max_epochs=1, random_state=0),
        y,
        [*OF_DIFFUSION, "has_holes", "clip", "prior"],
    ),
    "latent diffusion": (
        LatentDiffusion(VAE(2, max_epochs=1), PRIOR, random_state=0),
        None,
        ["vae", "stage", "diffusion", "location", "scale"],
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_files_have_the_names_of_earlier_versions(name, tmp_path):
    model, labels, names = FITS[name]
    model.fit(X, labels).save(tmp_path / "model")
    facts = read_record(tmp_path / "model")["fitted"]["theta"]["facts"]
    assert sorted(facts) == sorted(names)
    if name == "latent diffusion":
        assert sorted(facts["vae"]) == sorted(OF_VAE)
        assert sorted(facts["diffusion"]) == sorted(OF_DIFFUSION)
        assert sorted(facts["stage"]) == ["history", "lower_bound", "n_iter"]
    again = model._facts_from(model._facts.record())
    assert again.record().keys() == facts.keys()
    assert_array_equal(model._build(again).state_dict().keys(), model.module_.state_dict().keys())


def test_facts_cannot_change():
    facts = VAE(2, max_epochs=1, random_state=0).fit(X)._facts
    with pytest.raises(AttributeError, match="cannot assign to field"):
        facts.n_latent = 3
