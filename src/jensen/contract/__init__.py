"""The contract: what every model answers, and the two ways of fitting one.

Persistent -> LatentVariableModel -> EMEstimator | GradientEstimator -> final classes, some of which share an abstract
class of their kind: mixtures, one Gaussian around a subspace, models that are fitted by EM alone.
"""

from jensen.contract.em import Answers, EMEstimator, Problem, Stream
from jensen.contract.model import (
    LatentVariableModel,
    Persistent,
    Rows,
    not_offered,
    warn_unused,
    whole_number,
)

__all__ = [
    "Answers",
    "EMEstimator",
    "LatentVariableModel",
    "Persistent",
    "Problem",
    "Rows",
    "Stream",
    "not_offered",
    "warn_unused",
    "whole_number",
]
