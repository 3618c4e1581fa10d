"""Classes from a few labels: the mixture is chosen by labels that are held out, and rows without one take part.

With one Gaussian per class, unlabelled rows can do harm: where a class has several modes, EM moves its Gaussian to
whatever is dense. So structures, components per class and the weight of a labelled row are chosen by held-out labels.
Components come from the labelled rows of a class, or from a mixture of all rows, whose components get the class that is
most probable for their rows; then few labels suffice for many modes.

The folds are a race: a candidate that is two standard errors behind the best is not fitted again. Among those within
one standard error of the best, which a few labels cannot tell apart, BIC of all rows decides.
Nigam, McCallum, Thrun & Mitchell (2000) for several components per class and weights of unlabelled rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from jensen.data.container import as_array, take
from jensen.evaluate.trial import FAILURES
from jensen.models.factors.mixtures import MixtureOfPPCA
from jensen.models.mixtures.conjugate_prior import ConjugatePrior
from jensen.models.mixtures.discriminant_analysis import DiscriminantAnalysis
from jensen.models.mixtures.gaussian_mixture import GaussianMixture
from jensen.models.mixtures.mixture import Mixture
from jensen.runtime.interrupt import InterruptedFitWarning
from jensen.runtime.messages import levels_inside, own_filters
from jensen.runtime.progress import Bar
from jensen.tasks.clustering.rows import Rows

# Held-out parts of the labels.
N_FOLDS = 5
# Unlabelled rows that take part while candidates are compared.
N_UNLABELLED = {"quick": 1000, "normal": 4000, "thorough": 20_000}
# A labelled row counts as so many unlabelled ones where a component's class is found: these decide only where a
# component has no label.
LABEL_VOTES = 200.0
# EM needs no more precision than labels can tell.
EM: dict[str, Any] = {"tol": 1e-3, "max_iter": 60}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to find classes.

    Args:
        structure: in words.
        n_components: per class.
        label_weight: how much a labelled row counts.
        start: "labels" or "all rows".
        fit: from rows and labels, None where unknown, to a fitted model.
    """

    structure: str
    n_components: int
    label_weight: float
    start: str
    fit: Callable[[Any, np.ndarray], Any]


@dataclass(frozen=True, eq=False)
class Race:
    """What is known of a candidate: of held-out labels how many were tried and right; BIC of all rows; a failure."""

    candidate: Candidate
    n_tried: int = 0
    n_right: int = 0
    bic: float = np.nan
    failure: str = ""

    @property
    def accuracy(self) -> float:
        return self.n_right / self.n_tried if self.n_tried and not self.failure else np.nan


@dataclass(frozen=True, eq=False)
class Chosen:
    """The best candidate, fitted to all rows; the held-out accuracy; a table of all candidates."""

    model: Any
    candidate: Candidate
    accuracy: float
    tried: pd.DataFrame


def choose_classes(rows: Rows, label: np.ndarray, classes: np.ndarray, effort: str, seed: int, bar: Bar) -> Chosen:
    """The candidate that predicts held-out labels best, or as well as can be told, fitted to all rows.

    Args:
        rows: the table.
        label: numbers of classes (n,), -1 where unknown.
        classes: their names.
        effort: "quick", "normal" or "thorough".
        seed: of folds and fits.
        bar: counts fits.
    """
    counts = np.bincount(label[label >= 0], minlength=len(classes))
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()}; give labels of at least two, or y=None for clusters")
    races = [Race(one) for one in candidates(rows, counts, effort, seed)]
    # Of many unlabelled rows some are enough to compare candidates.
    part, seen = rows, np.arange(len(label))
    unknown, n_most = np.flatnonzero(label < 0), N_UNLABELLED[effort]
    if len(unknown) > n_most:
        some = np.random.default_rng(seed).choice(unknown, n_most, replace=False)
        seen = np.sort(np.concatenate([np.flatnonzero(label >= 0), some]))
        part = replace(rows, X=take(rows.X, seen))
    folds = folds_of(label[seen], seed)
    bar.expect(len(races) * max(len(folds), 1))
    try:
        for held_out in folds:
            alive = [race for race in races if race in still_in(races)]
            for race in alive:
                bar.note(race.candidate.structure)
                races[races.index(race)] = tried_on(race, part, label[seen], classes, held_out)
                bar.update()
    except KeyboardInterrupt:
        if not any(race.n_tried for race in races):
            raise
        warnings.warn(
            "the search was interrupted; the best so far is kept", InterruptedFitWarning, stacklevel=levels_inside()
        )
    model, best = fitted_best(races, rows, named(label, classes))
    table = pd.DataFrame(
        {
            "structure": [race.candidate.structure for race in races],
            "components_per_class": [race.candidate.n_components for race in races],
            "label_weight": [race.candidate.label_weight for race in races],
            "start": [race.candidate.start for race in races],
            "accuracy": [race.accuracy for race in races],
            "bic": [race.bic for race in races],
            "n_held_out": [race.n_tried for race in races],
            "failure": [race.failure for race in races],
            "chosen": [race is best for race in races],
        }
    )
    order = [races.index(race) for race in in_order(races)]
    order.sort(key=lambda i: not table["chosen"][i])
    return Chosen(model, best.candidate, best.accuracy, table.iloc[order].reset_index(drop=True))


def candidates(rows: Rows, counts: np.ndarray, effort: str, seed: int) -> list[Candidate]:
    """Models of classes that suit the columns; a class needs a label for every component that starts from labels."""
    weights = (1.0, 10.0)
    if not rows.are_numbers:
        names = ("VVI", "EEE", "VVV") if rows.n_numbers > 1 else ("VVI",)
        return [of_columns(name, weight, len(counts), seed) for name in names for weight in weights]
    structures = ("tied", "diag", "full")
    sizes = {"quick": (1, 3), "normal": (1, 2, 3, 5), "thorough": (1, 2, 3, 4, 5, 8)}[effort]
    pairs = [(name, size) for name in structures for size in sizes if size == 1 or name != "full" or not rows.is_wide]
    found = [of_classes(name, size, weight, seed) for name, size in pairs if size <= counts.min() for weight in weights]
    found += [of_all_rows(name, size, len(counts), seed) for name, size in pairs if size > 1]
    if rows.is_wide:
        # A covariance for every component has too many parameters; a subspace has fewer.
        latent = [m for m in (2, 5, 10, 15) if m < rows.n_columns]
        found += [of_subspaces(m, weight, len(counts), seed) for m in latent for weight in weights]
    return found


def of_classes(name: str, size: int, weight: float, seed: int) -> Candidate:
    """Components that start from the labelled rows of their class."""
    model = DiscriminantAnalysis(
        name, components_per_class=size, label_weight=weight, prior=ConjugatePrior(), random_state=seed, **EM
    )
    return Candidate(name, size, weight, "labels", lambda X, y: fresh(model).fit(X, y))


def of_subspaces(n_latent: int, weight: float, n_classes: int, seed: int) -> Candidate:
    """A Gaussian around a subspace for every class."""
    model = MixtureOfPPCA(n_classes, n_latent=n_latent, label_weight=weight, random_state=seed, **EM)
    return Candidate(f"PPCA, {n_latent} dimensions", 1, weight, "labels", lambda X, y: fresh(model).fit(X, y))


def of_columns(name: str, weight: float, n_classes: int, seed: int) -> Candidate:
    """A component for every class, of columns of any kind."""
    model = Mixture(
        n_classes, covariance_type=name, alpha=1.0, label_weight=weight, prior=ConjugatePrior(), random_state=seed, **EM
    )
    return Candidate(name, 1, weight, "labels", lambda X, y: fresh(model).fit(X, y))


def of_all_rows(name: str, size: int, n_classes: int, seed: int) -> Candidate:
    """Components of a mixture of all rows, which then get their classes."""

    def fit(X: Any, y: np.ndarray) -> Any:
        first = DiscriminantAnalysis(name, label_weight=10.0, prior=ConjugatePrior(), random_state=seed, **EM).fit(X, y)
        p = as_array(first.predict_proba(X)).copy()
        is_known = np.array([value is not None for value in y])
        known = np.searchsorted(first.classes_, np.array(y[is_known].tolist()))
        p[is_known] = np.eye(n_classes)[known]
        mixture = GaussianMixture(
            size * n_classes, covariance_type=name, prior=ConjugatePrior(), random_state=seed, **EM
        ).fit(X)
        class_of = classes_of_components(as_array(mixture.predict_proba(X)), p, np.where(is_known, LABEL_VOTES, 1.0))
        model = DiscriminantAnalysis(name, prior=ConjugatePrior(), random_state=seed, **EM)
        return model.fit_from(mixture, class_of, X, y)

    return Candidate(name, size, 1.0, "all rows", fit)


def classes_of_components(q: np.ndarray, p: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """The class of every component (K,), by probabilities of components q (n, K) and classes p (n, C), and votes (n,).

    A class that no component has gets the one with most of its votes.
    """
    mass = (q * votes[:, None]).T @ p
    class_of: np.ndarray = mass.argmax(1)
    for c in range(p.shape[1]):
        if not (class_of == c).any():
            class_of[mass[:, c].argmax()] = c
    if len(np.unique(class_of)) < p.shape[1]:
        raise ValueError("a class has no component of the mixture of all rows; give more labels")
    return class_of


def folds_of(label: np.ndarray, seed: int) -> list[np.ndarray]:
    """Labelled rows to hold out, in turn; a class with one label keeps it."""
    rng = np.random.default_rng(seed)
    parts: list[list[int]] = [[] for _ in range(N_FOLDS)]
    offset = 0
    for c in range(int(label.max()) + 1):
        own = rng.permutation(np.flatnonzero(label == c))
        if len(own) < 2:
            continue
        for i, row in enumerate(own):
            parts[(i + offset) % N_FOLDS].append(int(row))
        offset += len(own)
    return [np.array(part) for part in parts if part]


def tried_on(race: Race, rows: Rows, label: np.ndarray, classes: np.ndarray, held_out: np.ndarray) -> Race:
    """The race with the results of one more fold."""
    hidden = label.copy()
    hidden[held_out] = -1
    with own_filters():
        warnings.simplefilter("ignore")
        try:
            model = race.candidate.fit(rows.X, named(hidden, classes))
            p = as_array(model.predict_proba(take(rows.X, held_out)))
            bic = float(model.bic(rows.X))
        except FAILURES as error:
            return replace(race, failure=" ".join(str(error).split()))
    truth = label[held_out]
    return replace(
        race,
        n_tried=race.n_tried + len(truth),
        n_right=race.n_right + int((p.argmax(1) == truth).sum()),
        bic=bic,
    )


def still_in(races: list[Race], n_errors: float = 2.0) -> list[Race]:
    """Those that are not so many standard errors behind the best."""
    good = [race for race in races if not race.failure]
    best = max((race.accuracy for race in good if race.n_tried), default=np.nan)
    if np.isnan(best):
        return good
    n = max(race.n_tried for race in good)
    error = np.sqrt(max(best * (1 - best), 1 / n) / n)
    return [race for race in good if race.accuracy >= best - n_errors * error]


def in_order(races: list[Race]) -> list[Race]:
    """The best first: those within one standard error of the greatest accuracy by their BIC, then the others.

    A hundred labels cannot tell such candidates apart, and thousands of rows without one can.
    """
    n_most = max(race.n_tried for race in races)
    finished = [race for race in races if race.n_tried == n_most and not race.failure]
    lead = still_in(finished, 1.0)
    return sorted(lead, key=lambda race: race.bic) + sorted(
        (race for race in races if race not in lead), key=lambda race: np.nan_to_num(-race.accuracy, nan=1.0)
    )


def fitted_best(races: list[Race], rows: Rows, y: np.ndarray) -> tuple[Any, Race]:
    """The first in the order of the race that can be fitted to all rows."""
    # Where no label can be held out, the order is that of the candidates, the simplest first.
    for race in in_order(races) if any(race.n_tried for race in races) else races:
        if race.failure:
            continue
        with own_filters():
            warnings.simplefilter("ignore")
            try:
                return race.candidate.fit(rows.X, y), race
            except FAILURES:
                continue
    reasons = [race.failure for race in races if race.failure]
    raise ValueError(f"no model of the classes can be fitted: {reasons[0] if reasons else 'every fit failed'}")


def named(label: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels by their names, None where unknown."""
    names = classes.tolist()
    return np.array([None if number < 0 else names[number] for number in label], dtype=object)


def fresh(model: Any) -> Any:
    """An unfitted copy."""
    return type(model)(**model.get_params(deep=False))
