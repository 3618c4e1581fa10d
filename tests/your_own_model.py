"""The model that docs/your-own-model.md builds, as a module."""

import re
import sys
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "your-own-model.md"


def built() -> ModuleType:
    """The first block of code of the page, run as a module; dataclasses and copies find it by its name."""
    name = "jensen_your_own_model"
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S).group(1)
        exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return sys.modules[name]


ExponentialMixture = built().ExponentialMixture
