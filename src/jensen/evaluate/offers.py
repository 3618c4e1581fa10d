"""Which criteria apply to a model, and if one does not, why and which others do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sklearn.base import ClusterMixin

from jensen.evaluate.criteria import AUTO, CRITERIA
from jensen.evaluate.criterion import Criterion
from jensen.evaluate.estimators import Estimator


def find_criterion(criterion: str | Criterion, entries: Sequence[Estimator]) -> Criterion:
    if isinstance(criterion, Criterion):
        return criterion
    if criterion == "auto":
        found = [name for name in AUTO if any(name in offered(entry) for entry in entries)]
        if found:
            return CRITERIA[found[0]]
        raise ValueError(
            f"criterion='auto' needs a likelihood, a bound or a reconstruction error, and {type(entries[0]).__name__} "
            f"has none; choose {quoted(offered(entries[0])) or 'a Criterion of your own'}"
        )
    if criterion not in CRITERIA:
        raise ValueError(f"criterion={criterion!r} is unknown; choose among {quoted(['auto', *CRITERIA])}")
    return CRITERIA[criterion]


def lack_of(rule: Criterion, entry: Estimator) -> str:
    """What an estimator lacks for a criterion, why, and the alternatives; empty if it lacks nothing."""
    for need in rule.needs:
        reason = why_absent(entry, need)
        if reason is not None:
            others = quoted(offered(entry))
            because, instead = f": {reason}" if reason else "", f"; use {others}" if others else ""
            return f"criterion={rule.name!r} needs {need}, which {type(entry).__name__} does not have{because}{instead}"
    return ""


def offered(entry: Estimator) -> list[str]:
    return [name for name, rule in CRITERIA.items() if all(why_absent(entry, need) is None for need in rule.needs)]


def why_absent(entry: Estimator, need: str) -> str | None:
    # Attributes of a fit do not exist yet: a clusterer will have them.
    if need.endswith("_") and isinstance(entry, ClusterMixin):
        return None
    try:
        getattr(entry, need)
    except AttributeError as error:
        return str(error.__cause__ or "")
    return None


def quoted(names: Iterable[str]) -> str:
    *first, last = [repr(name) for name in names] or [""]
    return " or ".join([", ".join(first), last] if first else [last])
