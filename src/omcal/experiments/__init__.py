"""Experiments, the paper's and your own: runs under limits, records, tables and figures."""

from omcal.baselines import Method
from omcal.experiments.comparison import Comparison, compare
from omcal.experiments.methods import find_method, methods

__all__ = ["Comparison", "Method", "compare", "find_method", "methods"]
