from __future__ import annotations
from typing import Any
def find_classes(*a: Any) -> Any: raise NotImplementedError
