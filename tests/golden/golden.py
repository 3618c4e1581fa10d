"""Model files that every later version must load, and what each model returned when its file was written.

`python tests/golden/golden.py write` fits the variants that have no file yet and writes them; it never writes a file
again. `python tests/golden/golden.py print > fits.json` fits every variant and prints parameters, scores and
seeded samples with all their digits, so that two versions of the code can be compared: `compare old.json new.json`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits, load_iris

sys.path.insert(0, str(Path(__file__).parents[1]))

import jensen
from cases import CASES, noisy_arc, some_labels, three_clusters
from jensen import (
    MLP,
    VAE,
    Autoencoder,
    Bernoulli,
    Categorical,
    ConjugatePrior,
    ConvDecoder,
    ConvEncoder,
    Depot,
    Diffusion,
    FactorAnalysis,
    Gaussian,
    GaussianMixture,
    KMeans,
    KMedoids,
    LatentCurve,
    LatentDiffusion,
    MixtureOfFactorAnalysers,
    MixtureOfPPCA,
    ProbabilisticPCA,
    ResidualMLP,
    RidgeRegression,
    Schedule,
    UNet,
)

__all__ = ["FOLDER", "VARIANTS", "Variant", "answers", "rows_of"]

FOLDER = Path(__file__).parent
# Rows that answers are about.
N_ROWS = 7


@dataclass(frozen=True)
class Variant:
    """
    Args:
        name: of the files.
        make: an unfitted model.
        x: rows to fit: an array or a data frame.
        y: labels or targets, or None.
        has_missing: whether rows with missing values have a score; if not, they are only imputed.
        rows: rows that answers are about, where those of x will not do.
    """

    name: str
    make: Callable[[], Any]
    x: Any
    y: Any = None
    has_missing: bool = True
    rows: Any = None

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.jensen"

    @property
    def answers_path(self) -> Path:
        return FOLDER / f"{self.name}.npz"

    def fitted(self) -> Any:
        return self.make().fit(self.x, self.y)


def rows_of(variant: Variant) -> tuple[Any, Any]:
    """The first rows of the variant's data, and the same rows with two missing values."""
    rows = (variant.x if variant.rows is None else variant.rows)[:N_ROWS]
    gaps = rows.copy()
    if isinstance(gaps, pd.DataFrame):
        gaps.iloc[1, 0] = gaps.iloc[3, 1] = None
    else:
        gaps.reshape(len(gaps), -1)[[1, 3], [0, -1]] = np.nan
    return (gaps if variant.has_missing else rows), gaps


def stored(rows: tuple[Any, Any]) -> dict[str, np.ndarray]:
    """The rows themselves, where an array holds them: cases may change their data."""
    return dict(zip(("rows", "gaps"), rows, strict=True)) if isinstance(rows[0], np.ndarray) else {}


def answers(model: Any, rows: Any, gaps: Any, y: Any = None) -> dict[str, np.ndarray]:
    """Everything that a fitted model returns about rows, as arrays by name."""
    found: dict[str, np.ndarray] = {}
    if isinstance(model, RidgeRegression):
        found["scores"] = np.asarray(model.score_samples(rows, y[:N_ROWS]))
        found["predict"] = np.asarray(model.predict(rows))
        return found
    if hasattr(model, "score_samples"):
        found["scores"] = np.asarray(model.score_samples(rows))
        bound = model.bound(rows)
        found |= {"reconstruction": bound.reconstruction} | {f"kl {name}": kl for name, kl in bound.kl.items()}
    for name, about in (("predict_proba", rows), ("transform", rows), ("impute", gaps)):
        if hasattr(model, name):
            found[name] = as_numbers(getattr(model, name)(about))
    if hasattr(model, "posterior"):
        posterior = model.posterior(rows)
        parts = ("probs",) if hasattr(posterior, "probs") else ("mean", "variance")
        found |= {f"posterior {part}": getattr(posterior, part).detach().numpy() for part in parts}
    if hasattr(model, "sample"):
        new, hidden = model.sample(3, random_state=0)
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        found["samples"] = as_numbers(new)
        found["hidden"] = as_numbers(hidden)
    return {name: np.asarray(value) for name, value in found.items()}


def as_numbers(values: Any) -> np.ndarray:
    """Numbers of an array, a tensor or a data frame, whose levels become their places in the alphabet."""
    if isinstance(values, pd.DataFrame):
        texts = values.select_dtypes(exclude="number").columns
        levels = {name: values[name].astype(str).map(lambda text: sum(map(ord, text))) for name in texts}
        values = values.assign(**levels)
    return np.asarray(values, dtype=np.float64)


def from_case(case: Any) -> Variant:
    return Variant(case.name, case.make, case.learnt, case.y, has_missing=case.offers("scores_holes"), rows=case.x)


def mixed_table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    n = 60
    kind = rng.integers(3, size=n)
    return pd.DataFrame(
        {
            "length": (kind + rng.normal(size=n) / 3).round(2),
            "town": np.array(["Aarhus", "Bergen", "Turku"])[kind],
            "is_open": (kind + rng.integers(2, size=n)) % 2 == 0,
            "size": pd.Categorical(np.array(["S", "M", "L"])[rng.integers(3, size=n)], ["S", "M", "L"], ordered=True),
        }
    )


def images() -> np.ndarray:
    return load_digits().images[:60, 2:6, 2:6].copy()


SMALL = {"max_epochs": 15, "learning_rate": 0.01, "random_state": 0}
FEW_LEVELS = np.array([0.05, 0.2, 0.4, 0.7])


def small_vae(n_components: int = 1, **arguments: Any) -> VAE:
    networks = {"encoder": MLP((6,)), "decoder": MLP((6,))} | arguments
    return VAE(n_components, evaluation_samples=20, **(SMALL | networks))


def small_diffusion(*schedule: Any, **arguments: Any) -> Diffusion:
    return Diffusion(
        *(schedule or (FEW_LEVELS,)), **(SMALL | {"network": ResidualMLP(width=8, n_blocks=1)} | arguments)
    )


def with_gaps(x: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(2).random(x.shape) < 0.15, np.nan, x)


def named(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(x, columns=["width", "height", "weight"])


BLOBS, LABELS = three_clusters(), some_labels()
IRIS = load_iris()
START = {"weights_init": [0.5, 0.3, 0.2], "means_init": BLOBS[[0, 1, 2]]}


def variants() -> list[Variant]:
    """Every case of the laws, and what they leave out: other arguments, other kinds of rows and labels."""
    words = np.array(["red", "green", "blue"], dtype=object)[LABELS]
    words[LABELS < 0] = None
    pixels = images()
    return [
        *(from_case(case) for case in CASES if not case.classes),
        Variant("mixture-prior", lambda: GaussianMixture(3, prior=ConjugatePrior(), random_state=0), BLOBS),
        Variant("mixture-frozen", lambda: GaussianMixture(3, freeze=("weights",), random_state=0, **START), BLOBS),
        Variant(
            "mixture-squarem", lambda: GaussianMixture(2, acceleration="squarem", random_state=0), with_gaps(BLOBS)
        ),
        Variant("mixture-named", lambda: GaussianMixture(4, label_weight=2.0, random_state=0), named(BLOBS), words),
        Variant("mixture-float32", lambda: GaussianMixture(2, random_state=0), BLOBS.astype(np.float32)),
        Variant("kmeans-limits", lambda: KMeans(3, size_limits=(20, 40), random_state=0), BLOBS),
        Variant(
            "kmeans-assigned",
            lambda: KMeans(3, depot=Depot([0.0, 0.0, 0.0], weight=0.5, assignment="assigned"), random_state=0),
            BLOBS,
        ),
        Variant("kmeans-missing", lambda: KMeans(3, random_state=0), with_gaps(BLOBS)),
        Variant(
            "kmedoids-manhattan", lambda: KMedoids(3, metric="manhattan", random_state=0), BLOBS, has_missing=False
        ),
        Variant(
            "kmedoids-mixed",
            lambda: KMedoids(3, metric="gower", metric_params={"weights": {"town": 2.0}}, random_state=0),
            mixed_table(),
        ),
        Variant("mixture-of-ppca-prior", lambda: MixtureOfPPCA(2, 1, prior=ConjugatePrior(), random_state=0), BLOBS),
        Variant(
            "mixture-of-factor-analysers-missing",
            lambda: MixtureOfFactorAnalysers(2, 1, random_state=0),
            with_gaps(BLOBS),
        ),
        Variant("ppca-missing", lambda: ProbabilisticPCA(1, random_state=0), with_gaps(BLOBS)),
        Variant("ppca-prior", lambda: ProbabilisticPCA(1, prior=ConjugatePrior(), random_state=0), BLOBS),
        Variant("ppca-mle", lambda: ProbabilisticPCA("mle"), IRIS.data[::3]),
        Variant("factor-analysis-varimax", lambda: FactorAnalysis(2, rotation="varimax"), IRIS.data[::3]),
        Variant("factor-analysis-missing", lambda: FactorAnalysis(1), with_gaps(BLOBS)),
        Variant(
            "latent-curve-given",
            lambda: LatentCurve(mapping=[[3.0, 0.0], [0.0, 2.0], [-3.0, 0.0]], n_grid=20, random_state=0),
            noisy_arc()[:, :2],
        ),
        Variant("latent-curve-penalty", lambda: LatentCurve(n_grid=20, n_basis=4, random_state=0), noisy_arc()),
        Variant("ridge", lambda: RidgeRegression(2.0), IRIS.data[:50, :3], IRIS.data[:50, 3], has_missing=False),
        Variant("mixture-constant", lambda: GaussianMixture(2, random_state=0), np.insert(BLOBS, 1, 7.5, axis=1)),
        Variant("kmeans-constant", lambda: KMeans(2, random_state=0), np.insert(BLOBS, 0, 7.5, axis=1)),
        Variant(
            "ridge-evidence",
            lambda: RidgeRegression("evidence"),
            IRIS.data[:50, :2],
            IRIS.data[:50, 2:],
            has_missing=False,
        ),
        Variant(
            "autoencoder-denoising",
            lambda: Autoencoder(1, noise=0.1, encoder=MLP((6,)), decoder=MLP((6,)), **SMALL),
            BLOBS,
        ),
        Variant("vae-bernoulli", lambda: small_vae(likelihood="bernoulli"), (BLOBS.mean(0) < BLOBS).astype(float)),
        Variant(
            "vae-categorical",
            lambda: small_vae(likelihood="categorical"),
            (BLOBS.mean(0) < BLOBS) + (BLOBS > 0).astype(float),
        ),
        Variant(
            "vae-recipes",
            lambda: small_vae(likelihood=Gaussian(0.5)),
            named(BLOBS),
        ),
        Variant("vae-full", lambda: small_vae(2, posterior_covariance="full", importance_samples=3), with_gaps(BLOBS)),
        Variant("vae-mixed", small_vae, mixed_table()),
        Variant(
            "vae-mixed-recipes",
            lambda: small_vae(likelihood={"town": Categorical(), "is_open": Bernoulli()}),
            mixed_table(),
        ),
        Variant(
            "vae-images",
            lambda: small_vae(2, encoder=ConvEncoder((4,)), decoder=ConvDecoder((4,))),
            pixels,
        ),
        Variant("vae-class-length", lambda: small_vae(4), BLOBS, words),
        Variant("vae-words", lambda: small_vae(classifier=MLP((6,))), named(BLOBS), words),
        Variant("diffusion-cosine", lambda: small_diffusion(Schedule.cosine(20)), BLOBS, has_missing=False),
        Variant(
            "diffusion-linear", lambda: small_diffusion("linear", 30, prediction="noise"), BLOBS, has_missing=False
        ),
        Variant("diffusion-mixed", small_diffusion, mixed_table(), has_missing=False),
        Variant("diffusion-grid", lambda: small_diffusion("cosine", 20), pixels.reshape(60, -1), has_missing=False),
        Variant(
            "diffusion-images",
            lambda: small_diffusion("cosine", 20, network=UNet(channels=(8,), middle_attention=False)),
            pixels,
            has_missing=False,
        ),
        Variant(
            "latent-diffusion-mixed",
            lambda: LatentDiffusion(small_vae(), small_diffusion(), random_state=0),
            mixed_table(),
            has_missing=False,
        ),
    ]


VARIANTS = variants()


def write() -> None:
    for variant in VARIANTS:
        if not variant.path.exists():
            model = variant.fitted()
            model.save(variant.path)
            loaded = jensen.load(variant.path)
            found = answers(loaded, *rows_of(variant), variant.y)
            np.savez_compressed(variant.answers_path, **found, **stored(rows_of(variant)))
            print(variant.path.name, variant.path.stat().st_size)


def printed() -> dict[str, dict[str, Any]]:
    """Parameters and answers of every variant, fitted anew."""
    found = {}
    for variant in VARIANTS:
        model = variant.fitted()
        values = answers(model, *rows_of(variant), variant.y)
        fitted = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
        values |= {name: value for name in fitted if isinstance(value := getattr(model, name), (float, np.ndarray))}
        if hasattr(model, "module_"):
            values |= {f"network {name}": weight.numpy() for name, weight in model.module_.state_dict().items()}
        found[variant.name] = {
            name: np.asarray(value).tolist() for name, value in values.items() if np.asarray(value).dtype.kind in "fiub"
        }
    return found


def compare(old: Path, new: Path) -> bool:
    """Print what differs by more than 1e-10 between two printed versions; whether nothing does."""
    first, second = (json.loads(path.read_text()) for path in (old, new))
    is_equal = True
    for name in sorted({*first, *second}):
        for part in sorted({*first.get(name, {}), *second.get(name, {})}):
            a, b = first.get(name, {}).get(part), second.get(name, {}).get(part)
            if a is None or b is None or not np.allclose(a, b, rtol=1e-10, atol=1e-10, equal_nan=True):
                print(f"{name}: {part} differs")
                is_equal = False
    return is_equal


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["print"]:
            json.dump(printed(), sys.stdout)
        case ["compare", old, new]:
            sys.exit(not compare(Path(old), Path(new)))
        case _:
            sys.exit(__doc__)
