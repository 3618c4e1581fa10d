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
"""

# What mypy must refuse, and the code of its error. A method that does not exist is not among it: scikit-learn's base
# classes have no types, so mypy allows any attribute of a model.
WRONG = {
    "from jensen import GausianMixture": "attr-defined",
    "import jensen; jensen.GaussianMixture(n_component=2)": "call-arg",
    'import jensen; jensen.scan("x", label=3)': "arg-type",
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
