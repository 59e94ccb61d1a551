"""Modules imported at their first use: of all workers of a run, one needs them."""

import importlib
from typing import Any


class LazyModule:
    """Stands for a module by its name until something of the module is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
