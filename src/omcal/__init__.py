"""Multi-view clustering in one step, in time linear in the number of samples."""

from omcal import tl
from omcal.estimators import OCAL, OMCAL
from omcal.persistence import load

__version__ = "0.1.0"
__all__ = ["OMCAL", "OCAL", "load", "tl", "__version__"]
