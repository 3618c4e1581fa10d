"""Types that a user sees: the stub of the package root names what the root loads lazily, and a user's script checks.

After a change of the public names, write the stub anew:

    python tests/test_typing.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jensen

STUB = Path(jensen.__file__).with_suffix(".pyi")

SCRIPT = """
from pathlib import Path

import numpy as np
from typing_extensions import assert_type

import jensen
from jensen import KMeans, GaussianMixture, Mixture, ProbabilisticPCA, VAE, MLP

X = np.random.default_rng(0).normal(size=(50, 3))
model = GaussianMixture(n_components=2, random_state=0).fit(X)
assert_type(model, GaussianMixture)
assert_type(model.score(X), float)
assert_type(model.bic(X), float)
assert_type(model.n_iter_, int)
assert_type(model.bound(X), jensen.Bound)
assert_type(Mixture(2).fit(X), Mixture)
assert_type(KMeans(2).fit(X).inertia_, float)
assert_type(ProbabilisticPCA(1).fit(X).n_parameters_, int)
assert_type(VAE(2, encoder=MLP((4,)), max_epochs=1).fit(X), VAE)
assert_type(jensen.compare(X, effort="quick"), jensen.Leaderboard)
assert_type(jensen.impute(X), jensen.Imputed)
assert_type(jensen.scan("rows/*.parquet"), jensen.Scan)
model.save(Path("m.jensen"))

# Attributes that EM fits.
for found in (
    model.weights_,
    model.means_,
    model.covariances_,
    model.classes_,
    KMeans(2).fit(X).cluster_centers_,
    jensen.KMedoids(2).fit(X).medoid_indices_,
    jensen.PoissonMixture(2).fit(X).rates_,
    jensen.BernoulliMixture(2).fit(X).probabilities_,
    jensen.MixtureOfPPCA(2).fit(X).means_,
    jensen.MixtureOfFactorAnalysers(2).fit(X).loadings_,
    jensen.FactorAnalysis(1).fit(X).components_,
    jensen.LatentCurve().fit(X).points_,
    jensen.LatentDirichletAllocation(2).fit(X).components_,
    jensen.Blend([model]).fit(X).weights_,
    jensen.RidgeRegression().fit(X, X[:, 0]).coef_,
):
    assert_type(found, np.ndarray)
labels: np.ndarray = KMeans(2).fit(X).labels_
assert_type(model.lower_bound_, float)
assert_type(model.converged_, bool)
assert_type(ProbabilisticPCA(1).fit(X).noise_variance_, float)
assert_type(jensen.LatentCurve().fit(X).noise_variance_, float)
model.means_ = np.zeros((2, 3))

# What 0.2 and later versions added.
model.ecll(X, np.full((50, 2), 0.5))
vae = VAE(2, columns={"visits": "count"}, condition_on=["batch"], trainer=jensen.Trainer(max_seconds=60)).fit(X)
vae.sample(3, given={"batch": "b"}, mean=True)
vae.bits_per_dimension(X)
diffusion = jensen.Diffusion(network=jensen.UNet(patch=2)).fit(X, sample_weight=None)
diffusion.score_samples(X, method="ode")
diffusion.ode_log_prob(X, n_draws=4).standard_error
jensen.LatentDiffusion(vae).fit(X, [0] * 50).sample(4, y=0, guidance=2.0)
assert_type(jensen.cluster(X), jensen.Clusters)
assert_type(jensen.outliers(X), jensen.Outliers)
assert_type(jensen.synthesize(X, 10), jensen.Synthetic)
assert_type(jensen.from_diffusers("folder"), jensen.Diffusion)
jensen.DiscriminantAnalysis().fit(X, [0] * 50).predict(X)
jensen.LatentCurve(mapping=X, noise_variance=0.1)
jensen.write_report(model, X, path="report.html")
"""

# What mypy must refuse, and the code of its error. A method that does not exist is not among it: scikit-learn's base
# classes have no types, so mypy allows any attribute of a model.
WRONG = {
    "from jensen import GausianMixture": "attr-defined",
    "import jensen; jensen.GaussianMixture(n_component=2)": "call-arg",
    'import jensen; jensen.scan("x", label=3)': "arg-type",
    "import jensen; jensen.GaussianMixture(2).fit([[0.0]]).means_.columns": "attr-defined",
    'import jensen; jensen.Diffusion().score_samples([[0.0]], methods="ode")': "call-arg",
}


def written() -> str:
    first = '"""The public names, for type checkers and editors; `__init__.py` loads them when they are first used."""'
    homes = sorted((home, name) for name, home in jensen._HOMES.items())
    lines = [first, "", *(f"from {home} import {name} as {name}" for home, name in homes)]
    return "\n".join([*lines, "", "__version__: str", "__all__: list[str]", "_HOMES: dict[str, str]", ""])


def test_the_stub_names_what_the_root_loads():
    assert STUB.read_text(encoding="utf-8") == written()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says about the script, and about every mistake: one run, since most of it is reading the package."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "script.py").write_text(SCRIPT)
    for number, line in enumerate(WRONG):
        (folder / f"wrong_{number}.py").write_text(line + "\n")
    options = ["--strict", "--no-error-summary", "--cache-dir", str(Path(__file__).parents[1] / ".mypy_cache")]
    run = subprocess.run([sys.executable, "-m", "mypy", *options, "."], cwd=folder, capture_output=True, text=True)
    return run.stdout + run.stderr


def test_a_users_script_is_typed(found):
    assert [line for line in found.splitlines() if not line.startswith("wrong_")] == []


@pytest.mark.parametrize(("number", "line"), list(enumerate(WRONG)))
def test_mistakes_are_found(number, line, found):
    about = [one for one in found.splitlines() if one.startswith(f"wrong_{number}.py")]
    assert any(f"[{WRONG[line]}]" in one for one in about)


if __name__ == "__main__":
    STUB.write_text(written(), encoding="utf-8")
