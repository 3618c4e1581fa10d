"""One torch thread per worker, since the suite runs two workers on two cores; the counts of generated tables."""

import json
import warnings
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning


def pytest_configure(config):
    """The tests of one checkout on the package of another would say nothing about either."""
    source, found = Path(__file__).resolve().parents[1] / "src", find_spec("jensen")
    if found is None or not Path(found.origin).resolve().is_relative_to(source):
        raise pytest.UsageError(
            f"these are the tests of {source / 'jensen'}, but Python finds jensen at {found and found.origin}; run "
            "`make setup` in this checkout, or use the environment of another one with PYTHONPATH=src"
        )


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _short_fits_may_not_converge():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def pytest_terminal_summary(terminalreporter):
    """What became of the generated tables, from the reports of all workers."""
    counts = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "generated" and getattr(report, "when", None) == "call":
                    counts.update(json.loads(value))
    if counts:
        terminalreporter.section("generated tables")
        terminalreporter.write_line(f"{counts.pop('tables', 0)} tables, {counts.pop('fitted', 0)} of them fitted")
        for outcome, n in sorted(counts.items(), key=lambda pair: (": accepted" not in pair[0], -pair[1])):
            terminalreporter.write_line(f"{n:7}  {outcome}")
