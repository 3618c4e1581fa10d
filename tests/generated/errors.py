"""What an error or a warning must be: jensen's own words about an argument, not those of a library underneath."""

from __future__ import annotations

import dis
import re
import warnings
from pathlib import Path
from types import TracebackType

import sklearn
from sklearn.base import BaseEstimator

import jensen

OWN = str(Path(jensen.__file__).parent)
SKLEARN = str(Path(sklearn.__file__).parent)
# Words that a message names beside the arguments of fit and of the constructor: what is asked for.
ARGUMENTS = (
    "X",
    "y",
    "sample_weight",
    "n_samples",
    "n_draws",
    "features",
    "sample\\(s\\)",
    "2D array",
    "feature names",
)


def last_frame(error: BaseException) -> TracebackType:
    at = error.__traceback__
    assert at is not None
    while at.tb_next is not None:
        at = at.tb_next
    return at


def why_undocumented(error: BaseException, model: BaseEstimator) -> str | None:
    """What is wrong with an error that a user sees, or None.

    Documented is a ValueError or TypeError (or a class of jensen's own that is one) that a `raise` of jensen or of
    scikit-learn's validation raises, with a message that names an argument.
    """
    kind = type(error)
    if kind not in (ValueError, TypeError) and not kind.__module__.startswith("jensen."):
        return f"{kind.__name__} is not of jensen"
    if not isinstance(error, ValueError | TypeError):
        return f"{kind.__name__} is neither a ValueError nor a TypeError"
    at = last_frame(error)
    code = at.tb_frame.f_code
    if not code.co_filename.startswith((OWN, SKLEARN)):
        return f"raised in {code.co_filename}"
    raising = {one.opname for one in dis.get_instructions(code) if one.offset == at.tb_lasti}
    if not raising & {"RAISE_VARARGS", "RERAISE"}:
        return f"raised below {code.co_filename}:{at.tb_lineno}, by no raise of its own"
    names = [*ARGUMENTS, *model.get_params()]
    if not re.search(rf"(?<!\w)({'|'.join(names)})(?!\w)", str(error)):
        return "names no argument"
    return None


def why_unlawful(warning: warnings.WarningMessage, caller: str) -> str | None:
    """What is wrong with a warning: only those of jensen and scikit-learn, at the caller's line, are for users."""
    module = warning.category.__module__
    if module.startswith(("jensen.", "sklearn.")):
        return None
    if warning.category is UserWarning and warning.filename == caller:
        return None
    return f"{warning.category.__name__} from {warning.filename}:{warning.lineno}: {warning.message}"
