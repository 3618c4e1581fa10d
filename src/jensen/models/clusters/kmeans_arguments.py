"""What k-means can do with its arguments, and which of them it cannot combine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jensen.contract.capabilities import Capabilities

CAN = Capabilities(
    score="bound", missing_in_fit=True, missing_in_score=True, sparse=True, predict=True, weights=True, batches=True
)


def abilities(model: Any) -> Capabilities:
    """What a k-means model can do with its arguments."""
    metric = model._metric
    return replace(
        CAN,
        score=None if metric.no_density else "bound",
        missing_in_fit=metric.takes_missing,
        missing_in_score=metric.takes_missing and not metric.no_density,
        batches=not metric.no_sums and model.size_limits is None,
    )


def has_density(model: Any) -> bool:
    """True, or an error with the reason."""
    if model._metric.no_density:
        raise AttributeError(model._metric.no_density)
    return True


def takes_batches(model: Any) -> bool:
    """True, or an error with the reason."""
    if model._metric.no_sums:
        raise AttributeError(model._metric.no_sums)
    if model.size_limits is not None:
        raise AttributeError(f"size_limits={model.size_limits!r} apply to all rows together, not to a batch: use fit")
    return True


def check_sums(model: Any) -> None:
    """An error for arguments that work with squared distances only."""
    if not model._metric.no_sums:
        return
    given = {"depot": model.depot, "size_limits": model.size_limits}
    wrong = [name for name, value in given.items() if value is not None]
    if model.algorithm != "lloyd":
        wrong.append(f"algorithm={model.algorithm!r}")
    if wrong:
        raise ValueError(f"{wrong[0]} needs metric='euclidean', got metric={model.metric!r}; change one of the two")


def check_streamed(model: Any) -> None:
    """An error for arguments that need all rows at once."""
    if model.size_limits is not None:
        raise ValueError(
            f"size_limits={model.size_limits!r} couples all rows, and a scan never has them at once; leave it out, or "
            "fit an array"
        )
    if model.metric != "euclidean":
        raise ValueError(
            f"metric={model.metric!r} has no sums over blocks of a scan; choose 'euclidean', or fit an array"
        )
