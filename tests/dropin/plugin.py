"""A pytest plugin that runs scikit-learn's own tests of the models that jensen replaces on jensen's classes.

While the tests are imported, `sklearn.mixture.GaussianMixture` and its kin are jensen's. A test known to fail is a
strict xfail, so that one which starts to pass is noticed; so is an entry of the tables that no test answers to. For
`make test-dropin`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest
import sklearn.cluster
import sklearn.decomposition
import sklearn.mixture

from dropin.expected import EXPECTED_FAILURES, NOT_OURS, WITHIN_ROUNDING
from jensen import FactorAnalysis, GaussianMixture, KMeans, LatentDirichletAllocation

__all__ = ["pytest_collection", "pytest_collection_modifyitems"]

SWAPS = (
    (sklearn.mixture, GaussianMixture),
    (sklearn.cluster, KMeans),
    (sklearn.decomposition, FactorAnalysis),
    (sklearn.decomposition, LatentDirichletAllocation),
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    with pytest.MonkeyPatch.context() as patch:
        for package, ours in SWAPS:
            patch.setattr(package, ours.__name__, ours)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    check_swapped(items)
    # A run of single tests, given as module::test, leaves most entries unanswered.
    if not any("::" in argument for argument in config.args):
        check_answered({**EXPECTED_FAILURES, **NOT_OURS}, items)
    for item in items:
        if reason := reason_for(item, EXPECTED_FAILURES):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=reason not in WITHIN_ROUNDING))
    config.hook.pytest_deselected(items=[item for item in items if reason_for(item, NOT_OURS)])
    items[:] = [item for item in items if not reason_for(item, NOT_OURS)]


def check_swapped(items: list[pytest.Function]) -> None:
    for module in {item.module for item in items}:
        if not any(getattr(module, ours.__name__, None) is ours for _, ours in SWAPS):
            raise pytest.UsageError(f"{module.__name__} was imported before the swap and tests scikit-learn's class")


def check_answered(entries: Mapping[str, str], items: list[pytest.Function]) -> None:
    stale = [entry for entry in entries if not any(matches(entry, item) for item in items)]
    if stale:
        raise pytest.UsageError(
            f"dropin/expected.py names {', '.join(stale)}, but scikit-learn {sklearn.__version__} has no such test"
        )


def reason_for(item: pytest.Function, table: Mapping[str, str]) -> str | None:
    return next((reason for entry, reason in table.items() if matches(entry, item)), None)


def matches(entry: str, item: pytest.Function) -> bool:
    # Only * is a wildcard: brackets hold a test's parameters.
    return entry == item.originalname or fnmatchcase(item.name, entry.replace("[", "[[]"))
