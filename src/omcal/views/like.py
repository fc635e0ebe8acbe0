"""What may be passed as views, as words of public signatures."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike


class Table(Protocol):
    """Samples by features: an array, sparse matrix, data frame, tensor, Dask or stored array."""

    @property
    def shape(self) -> Any: ...


TableLike: TypeAlias = ArrayLike | Table
ViewsLike: TypeAlias = TableLike | Sequence[TableLike] | Mapping[str, TableLike]
PresentLike: TypeAlias = ArrayLike | Sequence[ArrayLike | None] | Mapping[str, ArrayLike | None]
Columns: TypeAlias = slice | Hashable | Sequence[Hashable]
ColumnsLike: TypeAlias = str | Sequence[Columns] | Mapping[str, Columns]
