"""The common form that every adapter gives to one 2-D input, and the names of its features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from omcal.machine.arrays import Array
from omcal.views.pair import Ids
from omcal.views.view import View

NESTED = (
    "X is made of lists of lists of lists; pass several views as arrays, "
    "fit([numpy.array(A), numpy.array(B)])."
)


@dataclass(frozen=True)
class Table:
    """One 2-D input: its number of columns, and the view that some or all of them form.

    `take(name, columns)` returns the view of these columns (None: of all). Columns and rows have
    `names` and `ids` in some inputs; `named` are columns whose names are texts, not numbers.
    """

    width: int
    take: Callable[[str, slice | Array | None], View]
    names: tuple[str, ...] | None = None
    ids: Ids | None = None
    named: bool = False

    @classmethod
    def of(cls, view: View) -> Table:
        """Return the table of which a view has all columns."""
        require_2d(view.array, view.name)

        def take(part: str, columns: slice | Array | None) -> View:
            return replace(view if columns is None else view.take(columns), name=part)

        return cls(view.width, take, view.columns, named=view.columns is not None)


def is_arrow(data: Any) -> bool:
    """Whether this is a table or record batch of pyarrow; does not import pyarrow."""
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def column_names(data: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame; None for data without any."""
    if is_arrow(data):  # whose `columns` are the data
        return tuple(map(str, data.schema.names))
    return tuple(map(str, data.columns)) if hasattr(data, "columns") else None


def require_numeric(types: Iterable[Any], name: str) -> None:
    """Refuse a view with values of other types than real numbers."""
    for dtype in types:
        if getattr(dtype, "kind", "O") not in "fiub":
            raise ValueError(
                f"view {name!r} holds {dtype} values; a view must be numeric (real numbers)."
            )


def require_2d(array: Any, name: str) -> None:
    """Refuse an input that is not samples by features."""
    shape = tuple(array.shape)
    if len(shape) == 2:
        if not shape[1]:
            raise ValueError(
                f"view {name!r}: Found array with 0 feature(s) (shape={shape}) while a minimum of "
                "1 is required."
            )
        return
    if len(shape) == 3 and name == "X":
        raise ValueError(NESTED)
    kind = type(array).__name__
    remedy = "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample"
    if hasattr(array, "to_frame"):
        remedy = "X.to_frame() for one feature"
    raise ValueError(
        f"view {name!r} is a {kind} of shape {shape}; each view must be 2-D (samples × features). "
        f"Reshape your data: {remedy}."
    )
