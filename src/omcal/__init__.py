"""Multi-view clustering in one step, in time linear in the number of samples."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omcal import baselines as baselines
    from omcal import datasets as datasets
    from omcal import experiments as experiments
    from omcal import metrics as metrics
    from omcal import plots as plots
    from omcal import report as report
    from omcal import select as select
    from omcal import tl as tl
    from omcal.model.consensus import Consensus
    from omcal.model.estimators import OCAL, OMCAL
    from omcal.model.files import load

__version__ = "0.3.0"
__all__ = ["OMCAL", "OCAL", "Consensus", "load", "__version__"]

# Loaded at first access: most programs need few of them, and `omcal --help` none.
_MODULES = ("baselines", "datasets", "experiments", "metrics", "plots", "report", "select", "tl")
_HOMES = {
    "OMCAL": "omcal.model.estimators",
    "OCAL": "omcal.model.estimators",
    "Consensus": "omcal.model.consensus",
    "load": "omcal.model.files",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"omcal.{name}")
    if name in _HOMES:
        globals()[name] = found = getattr(import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'omcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_HOMES})
