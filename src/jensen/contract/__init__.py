"""The contract: the methods of every model, and the two ways to fit one.

LatentVariableModel -> EMEstimator | GradientEstimator -> final classes. Some of these share an abstract
class: mixtures, one Gaussian around a subspace, models that are fitted by EM alone.

Names are looked up when they are used, so that `contract.capabilities` can be imported without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jensen.contract.em import EMEstimator
    from jensen.contract.model import LatentVariableModel, not_offered, warn_unused, whole_number
    from jensen.contract.problem import Answers, Problem, Stream
    from jensen.contract.rows import Rows

__all__ = [
    "Answers",
    "EMEstimator",
    "LatentVariableModel",
    "Problem",
    "Rows",
    "Stream",
    "not_offered",
    "warn_unused",
    "whole_number",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jensen.contract' has no attribute {name!r}")
    homes = {"EMEstimator": "em", "Rows": "rows", **dict.fromkeys(("Answers", "Problem", "Stream"), "problem")}
    return getattr(import_module(f"jensen.contract.{homes.get(name, 'model')}"), name)
