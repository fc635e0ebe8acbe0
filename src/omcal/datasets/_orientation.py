"""Recognise tables whose samples are in columns where they cannot be matched with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omcal.datasets._names import listed

_OPTION = "transpose=True (--transpose)"


def remedy_for_ids(tables: Mapping[str, Any]) -> str:
    """Return the remedy where tables cannot be matched: turn them, or name their ids.

    Each table is a `MultiViewData` or a `LabelColumn`, by its name. One is to be turned where its
    columns are called like the samples, or like the columns, of another, or where its width is
    the number of samples of another.
    """
    columns = {name: _column_names(table) for name, table in tables.items()}
    pairs = [(a, b) for a in tables for b in tables if a != b and columns[a]]
    for one, other in pairs:
        ids = getattr(tables[other], "ids", None)
        shared = [] if ids is None else [name for name in ids.tolist() if name in columns[one]]
        if shared:
            return (
                f"columns of {one} are called like samples of {other} ({listed(shared[:3])}): its "
                f"samples are in its columns. Turn it; where all tables are like that, {_OPTION}"
            )
    for one, other in pairs:
        shared = sorted(columns[one] & columns[other])
        if len(shared) > 1 and 2 * len(shared) > len(columns[one]):
            return (
                f"columns of {one} and {other} are called the same ({listed(shared[:3])}): if "
                f"these are the samples, say so with {_OPTION}"
            )
    for one, other in pairs:
        if tables[other].n_samples in tables[one].widths:
            return (
                f"{one} has {tables[other].n_samples} columns: if these are the samples, say so "
                f"with {_OPTION}; otherwise name the column of ids with id= (--id)"
            )
    return "name the column of ids with id= (--id)"


def _column_names(table: Any) -> set[str]:
    titles = getattr(table, "feature_names", None) or {}
    return {str(name) for names in titles.values() for name in names}
