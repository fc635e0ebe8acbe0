"""Multi-view clustering in one step, in time linear in the number of samples."""

from importlib import import_module
from typing import Any

from omcal.model.estimators import OCAL, OMCAL
from omcal.model.files import load

__version__ = "0.1.0"
__all__ = ["OMCAL", "OCAL", "load", "__version__"]

# Loaded when they are first asked for, as most programs need few of them.
_MODULES = ("baselines", "datasets", "experiments", "metrics", "plots", "report", "select", "tl")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"omcal.{name}")
    raise AttributeError(f"module 'omcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
