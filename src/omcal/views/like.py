"""Types of views and masks for public signatures."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike


class Table(Protocol):
    """Samples by features: an array, sparse matrix, data frame, tensor, Dask or stored array."""

    @property
    def shape(self) -> Any: ...


class Slices(Protocol):
    """Takes one value per sample by slices: an array, a memory-mapped file, a stored array."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __setitem__(self, rows: slice, values: Any, /) -> None: ...


TableLike: TypeAlias = ArrayLike | Table
ViewsLike: TypeAlias = TableLike | Sequence[TableLike] | Mapping[str, TableLike]
PresentLike: TypeAlias = ArrayLike | Sequence[ArrayLike | None] | Mapping[str, ArrayLike | None]
Columns: TypeAlias = slice | Hashable | Sequence[Hashable]
ColumnsLike: TypeAlias = str | Sequence[Columns] | Mapping[str, Columns]
