"""Results with a table: as text, in a notebook, as a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from omcal.machine.optional import require


class Tabular:
    """A result with a row per view, feature or diagnostic, and remarks below the table."""

    def _table(self) -> list[Sequence[str]]:
        """Return the header and the rows, as text."""
        raise NotImplementedError

    def _items(self) -> Sequence[Any]:
        """Return for each row a dict of its attributes, or the dataclass instance with them."""
        raise NotImplementedError

    def remarks(self) -> list[str]:
        """Return the sentences below the table.

        Returns
        -------
        list of str
            One or two sentences per entry.
        """
        return []

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain lists, numbers, texts and None, as for JSON.

        Returns
        -------
        dict
            The attributes by name.
        """
        found: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return found

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row per item.

        Returns
        -------
        pandas.DataFrame
            With the attributes of the items as columns. A range has two columns, such as
            `weight_low` and `weight_high`; an attribute with several values has one column per
            value, such as `inside_0`.
        """
        items = self._items()
        records = [_flat(one if isinstance(one, Mapping) else asdict(one)) for one in items]
        return require("pandas", "data frames").DataFrame(records)

    def __str__(self) -> str:
        rows = self._table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = (map(str.ljust, row, widths) for row in rows)
        lines = ["  ".join(row).rstrip() for row in padded] if len(rows) > 1 else []
        return "\n".join([*lines, "", *self.remarks()] if lines else self.remarks())

    def _repr_html_(self) -> str:
        return html_table(self._table(), self.remarks())


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with a column per value of a tuple."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if name.endswith("_range"):
            low, high = value or (None, None)
            flat |= {name.replace("_range", "_low"): low, name.replace("_range", "_high"): high}
        elif isinstance(value, tuple):
            flat |= {f"{name}_{position}": part for position, part in enumerate(value)}
        else:
            flat[name] = value
    return flat


def html_table(rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> str:
    """Return a table (header first) and paragraphs below it as HTML; no table without rows.

    Examples
    --------
    >>> html_table([["view"], ["a<b"]], ["One view."])
    '<table><tr><th>view</th></tr><tr><td>a&lt;b</td></tr></table><p>One view.</p>'
    """
    lines = [
        "".join(f"<{kind}>{escape(text)}</{kind}>" for text in row)
        for row, kind in zip(rows, ["th", *["td"] * (len(rows) - 1)], strict=True)
    ]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    shown = f"<table>{table}</table>" if len(rows) > 1 else ""
    return shown + "".join(f"<p>{escape(text)}</p>" for text in remarks)
