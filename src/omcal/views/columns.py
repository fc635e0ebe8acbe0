"""Assign the columns of one table to views."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np

from omcal.machine.arrays import Array


def listed(names: Collection[object], most: int = 12) -> str:
    """Format names for a message, at most twelve.

    Examples
    --------
    >>> listed(["a", "b"]), listed("abc", 2), listed([])
    ("'a', 'b'", "'a', 'b' and 1 more", 'nothing')
    """
    more = len(names) - most
    shown = ", ".join(repr(name) for name in list(names)[:most]) or "nothing"
    return shown + (f" and {more} more" if more > 0 else "")


def listed_shapes(matrices: Mapping[str, Any]) -> str:
    """Format names with their shapes for a message, at most twelve.

    Examples
    --------
    >>> import numpy as np
    >>> listed_shapes({"image": np.ones((5, 2)), "text": np.ones((4, 3))})
    "'image': 5 × 2, 'text': 4 × 3"
    """
    words = [f"{name!r}: {' × '.join(map(str, m.shape))}" for name, m in matrices.items()]
    return ", ".join(words[:12]) + (f" and {len(words) - 12} more" if len(words) > 12 else "")


def require_equal_lengths(views: Mapping[str, Any], kind: type[ValueError]) -> None:
    """Refuse views with different numbers of rows."""
    if len({view.shape[0] for view in views.values()}) > 1:
        raise kind(
            f"the views have different numbers of samples ({listed_shapes(views)}); row i must be "
            "the same sample in every view. omcal.datasets.join_views joins tables by an id."
        )


def by_name(mapping: Mapping[Any, Any], what: str) -> dict[str, Any]:
    """Return the members with their names as text; refuse repeated names."""
    named = {str(name): member for name, member in mapping.items()}
    if len(named) < len(mapping):
        names = [str(name) for name in mapping]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} has several views named {twice}; give each a different name.")
    return named


def numbered(arrays: Sequence[Any]) -> dict[str, Any]:
    """Return members without a name as view1, view2 …"""
    return {f"view{i}": array for i, array in enumerate(arrays, start=1)}


def split_columns(
    views: Any, width: int, columns: Sequence[str] | None = None
) -> dict[str, slice | Array]:
    """Resolve `views=` into named sets of columns of one table.

    `views` is a sequence of slices, lists of positions or lists of column names, or a mapping from
    names to them. Or it is ``"prefix_"``: one view per prefix of the column names up to the first
    ``_`` (any separator may follow the word ``prefix``).

    Examples
    --------
    >>> split_columns("prefix_", 3, ["a_1", "a_2", "b_1"])
    {'a': array([0, 1]), 'b': array([2])}
    >>> split_columns([slice(0, 2), [2]], 3)
    {'view1': slice(0, 2, None), 'view2': array([2])}
    """
    if isinstance(views, str):
        return _split_by_prefix(views, columns)
    if isinstance(views, Mapping):
        members = by_name(views, "views=")
    elif isinstance(views, list | tuple):
        members = numbered(views)
    else:
        raise ValueError(
            f"views={views!r} is not understood; give 'prefix_', a list of slices or columns, "
            "or a mapping from view names to them."
        )
    if not members:
        raise ValueError("views= is empty; give at least one set of columns.")
    return {name: _positions(name, member, width, columns) for name, member in members.items()}


def refuse_columns(view: str, missing: list[str], new: list[str]) -> NoReturn:
    """Raise for a table whose columns differ from the fitted columns."""
    problems = [f"{listed(missing, 6)} missing"] if missing else []
    problems += [f"{listed(new, 6)} not in fit"] if new else []
    problems = problems or ["several columns have the same name, in another order than in fit"]
    raise ValueError(
        f"the columns of view {view!r} are not those of fit (feature names): "
        f"{', '.join(problems)}{_similar(missing, new)}. Give the columns of fit by name, in any "
        "order."
    )


def _similar(missing: list[str], known: list[str]) -> str:
    close = [(item, get_close_matches(item, known, 1)) for item in missing[:3]]
    return "".join(f"; {item!r} may be {found[0]!r}" for item, found in close if found)


def _split_by_prefix(rule: str, columns: Sequence[str] | None) -> dict[str, slice | Array]:
    separator = rule.removeprefix("prefix")
    if not rule.startswith("prefix") or not separator:
        raise ValueError(
            f"views={rule!r} is not understood; 'prefix_' groups columns by the part of their "
            "name before the first '_'."
        )
    if columns is None:
        raise ValueError(
            f"views={rule!r} needs column names; pass a data frame, or slices or positions."
        )
    groups, bare = by_prefix(columns, separator)
    if bare:
        raise ValueError(
            f"views={rule!r}: column {columns[bare[0]]!r} has no {separator!r} between two parts "
            "of its name; rename or drop it."
        )
    return {prefix: np.array(positions) for prefix, positions in groups.items()}


def by_prefix(names: Sequence[str], separator: str) -> tuple[dict[str, list[int]], list[int]]:
    """Return the positions of the columns by prefix, and those of columns without a prefix.

    Examples
    --------
    >>> by_prefix(["a_1", "b_1", "age", "a_2", "_x"], "_")
    ({'a': [0, 3], 'b': [1]}, [2, 4])
    """
    groups: dict[str, list[int]] = {}
    bare = []
    for position, name in enumerate(names):
        prefix, _, feature = name.partition(separator)
        if prefix and feature:
            groups.setdefault(prefix, []).append(position)
        else:
            bare.append(position)
    return groups, bare


def _positions(name: str, member: Any, width: int, columns: Sequence[str] | None) -> slice | Array:
    """Return the columns that a slice, or a list of positions or names, selects."""
    wanted = [member] if isinstance(member, str) else member
    if isinstance(wanted, Iterable):
        wanted = list(wanted)
        known = {column: position for position, column in enumerate(columns or [])}
        if all(isinstance(item, str) for item in wanted):
            missing = [item for item in wanted if item not in known]
            if missing:
                have = f"available: {listed(known)}" if known else "X has no names, give positions"
                raise ValueError(
                    f"views: {name!r} names columns that X does not have: {missing}"
                    f"{_similar(missing, list(known))}; {have}."
                )
            wanted = [known[item] for item in wanted]
        elif moved := [item for item in wanted if known.get(str(item), item) != item]:
            raise ValueError(
                f"views: {name!r} has numbers that X has as names at other positions: "
                f"{', '.join(map(str, moved[:12]))}; give names as texts, or slices of positions."
            )
        wanted = np.asarray(wanted, dtype=None if wanted else np.intp)
        if wanted.dtype == bool and len(wanted) != width:
            raise ValueError(
                f"views: the mask of {name!r} has {len(wanted)} entries for {width} columns."
            )
    try:
        picked = np.arange(width)[wanted] if isinstance(wanted, slice | np.ndarray) else None
    except (IndexError, TypeError):
        picked = None
    if picked is None or (isinstance(wanted, slice) and (wanted.stop or 0) > width):
        raise ValueError(
            f"views: {name!r} = {member} is not understood; give a slice of the {width} columns, "
            f"or a list of column names or of positions between 0 and {width - 1}."
        )
    if not picked.size:
        raise ValueError(
            f"views: {name!r} selects no column: {member} selects none of {width} columns."
        )
    return member if isinstance(member, slice) else picked
