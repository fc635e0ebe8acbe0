"""Multi-view clustering in one step, in time linear in the number of samples."""

from omcal.estimators import OCAL, OMCAL

__version__ = "0.1.0"
__all__ = ["OMCAL", "OCAL", "__version__"]
