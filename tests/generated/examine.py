"""One generated table, and every method of one model: a documented error or lawful output, each counted."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jensen
from cases import Case
from generated import lawful
from generated.errors import why_undocumented, why_unlawful
from generated.tables import Given, frame_of


class UnlawfulError(AssertionError):
    """Output or an error that the contract does not allow."""


class Examination:
    """
    Args:
        case: whose model is examined.
        given: what it is called with.
        counts: a number for each outcome, (method, "accepted" or the kind of error): added to.
    """

    def __init__(self, case: Case, given: Given, counts: Counter[str]) -> None:
        self.case, self.given, self.counts, self.model = case, given, counts, brief(case)

    def run(self) -> None:
        given = self.given
        before = {name: lawful.copied(getattr(given, name)) for name in ("X", "other", "y", "weight")}
        fitted = self.ask("fit", lambda: self.model.fit(given.X, given.y, sample_weight=given.weight))
        if fitted is not None:
            self.counts["fitted"] += 1
            self.examine_answers()
        self.counts["tables"] += 1
        for name, value in before.items():
            lawful.assert_unchanged(getattr(given, name), value, name)

    def ask(self, verb: str, call: Callable[[], Any], check: Callable[[Any], None] | None = None) -> Any:
        """The answer, checked, or None after a documented error."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                found = lawful.collected(call())
            except Exception as error:
                reason = why_undocumented(error, self.model)
                if reason is not None:
                    raise UnlawfulError(
                        f"{self.case.name}.{verb}: {reason}: {type(error).__name__}: {error}"
                    ) from error
                self.counts[f"{verb}: {type(error).__name__}: {outline(str(error))}"] += 1
                return None
        for warning in heard:
            reason = why_unlawful(warning, __file__)
            if reason is not None:
                raise UnlawfulError(f"{self.case.name}.{verb}: {reason}")
        try:
            if check is not None:
                check(found)
        except AssertionError as error:
            raise UnlawfulError(f"{self.case.name}.{verb}: {error}") from error
        self.counts[f"{verb}: accepted"] += 1
        return found

    def examine_answers(self) -> None:
        model, rows = self.model, self.given.other
        n = lawful.n_rows(rows)
        whole = frame_of(rows)
        for verb, call, check in self.questions(rows, whole, n):
            if hasattr(model, verb):
                self.ask(verb, call, check)
        if hasattr(model, "bound"):
            scores = self.scores(whole)
            self.ask("bound", lambda: model.bound(whole), lambda b: lawful.check_bound(self.case, b, scores, n))
        self.ask("save", self.reload)
        if hasattr(model, "partial_fit"):
            more = self.ask("partial_fit", lambda: model.partial_fit(rows))
            if more is not None and hasattr(model, "score_samples"):
                self.ask("score_samples", lambda: model.score_samples(rows), self.scores_of(whole, n))

    def scores(self, rows: Any) -> np.ndarray | None:
        """Scores to compare a bound with, once more and in silence."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return lawful.numbers(self.model.score_samples(rows))
            except (ValueError, TypeError):
                return None

    def questions(self, rows: Any, whole: Any, n: int) -> list[tuple[str, Callable[[], Any], Any]]:
        model = self.model
        unknown = left_out(model, self.given.X)

        def completed(found: Any) -> None:
            lawful.check_completed(found, whole, unknown)

        def finite(found: Any) -> None:
            assert len(found) == n, f"{len(found)} rows for {n}"
            assert np.isfinite(lawful.numbers(found)).all(), "not finite"

        def all_completed(found: list[Any]) -> None:
            assert len(found) == 2, f"{len(found)} tables for 2"
            for table in found:
                completed(table)

        return [
            ("score_samples", lambda: model.score_samples(rows), self.scores_of(whole, n)),
            ("score", lambda: model.score(rows), is_number),
            ("posterior", lambda: model.posterior(whole), lambda found: lawful.check_posterior(found, n)),
            ("predict", lambda: model.predict(rows), lambda found: lawful.check_predictions(model, found, n)),
            ("predict_proba", lambda: model.predict_proba(rows), lambda found: lawful.check_probabilities(found, n)),
            ("transform", lambda: model.transform(rows), finite),
            ("impute", lambda: model.impute(rows), completed),
            ("impute_draws", lambda: model.impute_draws(whole, 2, random_state=0), all_completed),
            (
                "sample",
                lambda: model.sample(3),
                lambda drawn: lawful.check_sample(drawn, frame_of(self.given.X), 3, unknown),
            ),
        ]

    def scores_of(self, rows: Any, n: int) -> Callable[[Any], None]:
        def check(found: Any) -> None:
            lawful.check_scores(found, n, may_be_impossible(self.case, self.model, rows, n))

        return check

    def reload(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.jensen"
            self.model.save(path)
            loaded = jensen.load(path, self.case.classes)
            if hasattr(loaded, "sample"):
                one, other = (lawful.columns_of(model.sample(2, random_state=0)[0]) for model in (loaded, self.model))
                assert repr(one) == repr(other), f"{self.case.name}: samples of the file differ"


def may_be_impossible(case: Case, model: Any, rows: Any, n: int) -> np.ndarray | None:
    """Rows that may have probability 0 by law."""
    cells = list(zip(*lawful.columns_of(rows), strict=True))
    if case.name == "poisson-mixture":
        # A rate of 0, fitted to zeros, gives no probability to other counts, and no rate does to what is no count.
        has_zero = bool((np.asarray(model.rates_) == 0).any())
        return np.array([has_zero or any(cell < 0 or cell % 1 for cell in row) for row in cells])
    if case.name == "bernoulli-mixture":
        return np.array([any(cell not in (0, 1) for cell in row) for row in cells])
    impossible = ~np.asarray(model.can_score(rows), dtype=bool)
    if case.name in ("mixture-columns", "mixture-bounds", "naive-bayes"):
        # Without a prior, each component may give probability 0 to a level of the row; the numbers have no part in it.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            impossible |= np.asarray(model.score_samples(without_numbers(model, rows))) == -np.inf
    return impossible


def without_numbers(model: Any, rows: Any) -> Any:
    """The same rows, whose numbers and dates are missing."""
    columns = model.columns_
    places = [place for place, kind in zip(columns.kept, columns.kinds, strict=True) if kind in ("number", "date")]
    if lawful.names_of(rows) is None:
        levels = np.column_stack(lawful.columns_of(rows)).astype(np.float64)
        levels[:, places] = np.nan
        return levels
    frame = rows.copy() if hasattr(rows, "iloc") else rows.to_pandas()
    for j in places:
        frame.isetitem(j, frame.iloc[:, j].where(np.zeros(len(frame), dtype=bool)))
    return frame


def is_number(found: Any) -> None:
    assert isinstance(found, float | np.floating | int), f"score is a {type(found)}"
    assert not np.isnan(found), "score is NaN"


def left_out(model: Any, rows: Any) -> list[int]:
    """Columns that a model of columns does not know, and neither fills nor draws: names of rows, and empty ones."""
    if not hasattr(model, "columns_"):
        return []
    return [j for j in range(len(lawful.columns_of(frame_of(rows)))) if j not in model.columns_.kept]


def brief(case: Case) -> Any:
    """A model of which a fit takes a few steps."""
    model = case.brief()
    few = {"vae__max_epochs": 1, "diffusion__max_epochs": 1, "max_epochs": 1, "evaluation_samples": 4}
    few |= {"max_doc_update_iter": 20}
    return model.set_params(**{name: n for name, n in few.items() if name in model.get_params()})


def outline(message: str) -> str:
    """The words of a message without its values, which sorts errors by cause."""
    words = message.split(";")[0].split()
    return " ".join(word for word in words if word.isalpha())[:60]
