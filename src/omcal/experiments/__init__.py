"""Experiments: runs under limits, their records, tables and figures; the paper's, and your own."""

from omcal.experiments.comparison import Comparison, compare
from omcal.experiments.methods import Method, find_method, methods

__all__ = ["Comparison", "Method", "compare", "find_method", "methods"]
