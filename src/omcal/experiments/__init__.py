"""The experiments of the paper: cells run under limits, their records, tables and figures."""

from omcal.experiments.methods import Method, find_method, methods

__all__ = ["Method", "find_method", "methods"]
