"""Pair the rows of tables; only this module decides which rows are the same sample.

The rule for `fit`, `predict`, `join_views`, `load_views` and the command line:

1. Ids decide where there are any: a column of ids, barcodes, the index of a data frame. They are
   compared as text. An index that merely numbers the rows from 0 says nothing if every table has
   one; beside other ids it counts as ids.
2. Without ids rows pair by position, and the tables must be equally long.
3. If some tables have ids and some have none, rows pair by position where all tables are equally
   long and the ids are the same row by row; else the tables are refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

from omcal.machine.arrays import Array
from omcal.views.columns import listed

How = Literal["same", "outer", "inner"]

ID_OPTION = "name the column of ids with id= (--id)"
_OPTION = "transpose=True (--transpose)"
_REMEDIES: dict[str, str] = {
    "same": "omcal.datasets.join_views keeps them all; .loc[...] picks those in both; "
    ".reset_index(drop=True) of every frame pairs the rows by position.",
    "join": f"{ID_OPTION}, or make the tables equally long and in the same order, without ids.",
}
_FEW = 0.5  # share of the smaller table; with fewer shared ids their spelling is checked

# Usual names of ids, in lower case. TEXT_ID_NAMES are names of ids for columns of text only.
ID_NAMES = {
    *("id", "ids", "index", "idx", "key", "uid", "uuid", "guid", "barcode", "barcodes"),
    *("sample", "samples", "sampleid", "subject", "patient", "cell", "cellid", "row", "rowid"),
    *("rownames", "record", "obs_names", "unnamed: 0"),
}
TEXT_ID_NAMES = {"name", "names", "file", "filename", "path", "url", "document", "image"}
_ENDS_IN_ID = re.compile(r"[_. -](?:id|ID|Id)s?$|[a-z](?:ID|Id)$")


class DataError(ValueError):
    """A file or a set of views cannot be used; the message has the reason and a remedy.

    Examples
    --------
    >>> from omcal.datasets import DataError, load_views
    >>> try:
    ...     load_views("nothing.mat")
    ... except DataError as error:
    ...     print(error)
    nothing.mat: there is no such file or folder; check the path.
    """


class PairingError(DataError):
    """Tables whose rows cannot be paired."""


@dataclass(frozen=True)
class Ids:
    """The names of the rows of a table."""

    name: str  # of the column or index of the ids
    values: Any  # an array of text, or an index of pandas
    numbering: bool = False  # whether they are row numbers without a name

    def text(self) -> Array:
        """Return the ids as text."""
        values = self.values
        return as_text(values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values))

    def same(self, other: Ids) -> bool:
        """Whether two tables have the same ids, row by row."""
        if hasattr(self.values, "equals") and hasattr(other.values, "equals"):
            return bool(self.values.equals(other.values))
        return np.array_equal(self.text(), other.text())


@dataclass(frozen=True)
class Member:
    """A table to pair: its name, length and ids; its columns for the messages."""

    name: str
    n: int
    ids: Ids | None = None
    columns: Collection[str] = ()


@dataclass(frozen=True)
class Pairing:
    """The rows of each table that form the samples."""

    rows: dict[str, Array]  # of each table; -1 for an absent sample
    ids: Array | None  # the names of the samples; None if there are none or they repeat
    n: int  # number of samples
    shared: int  # number of samples in every table
    by_ids: bool  # whether rows were paired by id; else by position
    hint: str = ""  # a warning about ids that differ in spelling


def pair(members: Sequence[Member], how: How = "same") -> Pairing:
    """Pair the rows of tables; refuse tables that cannot be paired.

    "same" refuses tables of different samples, "outer" takes all samples, "inner" those in every
    table.

    Examples
    --------
    >>> one = Member("a", 2, Ids("id", np.array(["x", "y"])))
    >>> two = Member("b", 2, Ids("id", np.array(["y", "z"])))
    >>> pairing = pair([one, two], "outer")
    >>> pairing.ids.tolist(), pairing.rows["b"].tolist()
    (['x', 'y', 'z'], [-1, 0, 1])
    """
    known = [(member, member.ids) for member in members if member.ids is not None]
    identifying = [ids for _, ids in known if not ids.numbering]
    if len({str(ids.values[0]) for _, ids in known if ids.numbering and len(ids.values)}) > 1:
        identifying = [
            ids for _, ids in known
        ]  # one begins with 0, another with 1: a row was removed
    equally_long = len({member.n for member in members}) == 1
    if equally_long and all(known[0][1].same(ids) for _, ids in known[1:]):
        names = identifying[0].text() if identifying and how != "same" else None
        unique = names is not None and len(np.unique(names)) == len(names)
        n = members[0].n
        by_ids = unique and len(known) == len(members)
        as_they_stand = dict.fromkeys([member.name for member in members], np.arange(n))
        return Pairing(as_they_stand, names if unique else None, n, n, by_ids)
    remedy = _REMEDIES["same" if how == "same" else "join"]
    if not identifying or len(known) < len(members):
        lacking = [m.name for m in members if m.ids is None] or [m.name for m, _ in known]
        sizes = ", ".join(f"{member.name}: {member.n}" for member in members)
        why = "there is none in it" if identifying or not known else "they merely number their rows"
        raise PairingError(
            f"{listed(lacking)} cannot be joined by id, because {why}, and the rows do not match "
            f"({sizes} samples); {_transposed(members) or remedy}"
        )
    return _by_ids([member for member, _ in known], [ids.text() for _, ids in known], how, remedy)


def _by_ids(members: Sequence[Member], ids: list[Array], how: How, remedy: str) -> Pairing:
    for member, values in zip(members, ids, strict=True):
        require_unique(values, f"the ids of {member.name!r}")
    every = [values.tolist() for values in ids]
    index = [{name: row for row, name in enumerate(values)} for values in every]
    shared = set(index[0]).intersection(*index[1:])
    _require_overlap(members, index, remedy)
    if how == "same":
        _require_same_samples(members, index, remedy)
    samples = list(dict.fromkeys(chain.from_iterable(every)))
    if how == "inner":
        samples = [name for name in samples if name in shared]
        if not samples:
            raise PairingError("no id is in every table; leave join='inner' out.")
    few = len(shared) < _FEW * min(map(len, index))
    rows = {
        member.name: np.array([places.get(name, -1) for name in samples], dtype=np.intp)
        for member, places in zip(members, index, strict=True)
    }
    hint = _differently_written(index) if few else ""
    return Pairing(rows, np.array(samples), len(samples), len(shared), True, hint)


def require_unique(ids: Array, where: str) -> None:
    """Refuse ids that are empty or repeat."""
    n_empty = int((ids == "").sum())
    if n_empty:
        raise PairingError(f"{n_empty} of {len(ids)} rows have no id in {where}; give them one.")
    different, counts = np.unique(ids, return_counts=True)
    twice = different[counts > 1].tolist()
    if twice:
        raise PairingError(
            f"{len(twice)} ids are there more than once in {where}: {listed(twice[:12])}; keep "
            "one row of each."
        )


def _require_overlap(
    members: Sequence[Member], index: Sequence[Mapping[str, int]], remedy: str
) -> None:
    """Refuse a table that shares no id with any other."""
    for i, member in enumerate(members):
        others = set().union(*(index[j] for j in range(len(members)) if j != i))
        if others and not others & set(index[i]):
            raise PairingError(
                f"no id of {member.name} is in another table: it has "
                f"{listed(list(index[i])[:3])}, the others have {listed(sorted(others)[:3])}; "
                f"{_differently_written(index) or _transposed(members) or remedy}"
            )


def _transposed(members: Sequence[Member]) -> str:
    """Return advice to transpose tables that seem to have samples in columns, or an empty text.

    The columns of such a table have the names of the samples or columns of another table, or they
    are as many as its samples.
    """
    # Numbers without a name prove nothing.
    titles = {m.name: {title for title in m.columns if not title.isdigit()} for m in members}
    pairs = [(one, other) for one in members for other in members if one is not other]
    for one, other in pairs:
        ids = () if other.ids is None else other.ids.text().tolist()
        shared = [name for name in ids if name in titles[one.name]]
        if shared:
            return (
                f"columns of {one.name} are called like samples of {other.name} "
                f"({listed(shared[:3])}): its samples are in its columns. Transpose it (frame.T); "
                f"where all tables are like that, {_OPTION}."
            )
    if all(member.ids is None for member in members):  # numbers may be names of samples, too
        titles = {member.name: set(member.columns) for member in members}
    for one, other in pairs:
        shared = sorted(titles[one.name] & titles[other.name])
        if len(shared) > 1 and 2 * len(shared) > len(titles[one.name]):
            return (
                f"columns of {one.name} and {other.name} are called the same "
                f"({listed(shared[:3])}): if these are the samples, say so with {_OPTION}; if the "
                "rows are samples of one kind, put them into one table."
            )
    for one, other in pairs:
        if titles[one.name] and other.n == len(one.columns):
            return (
                f"{one.name} has {other.n} columns: if these are the samples, say so with "
                f"{_OPTION}; otherwise {ID_OPTION}."
            )
    return ""


def _require_same_samples(
    members: Sequence[Member], index: Sequence[Mapping[str, int]], remedy: str
) -> None:
    first, mine = members[0].name, set(index[0])
    for member, its in zip(members[1:], index[1:], strict=True):
        both = len(mine & set(its))
        if both < max(len(mine), len(its)):
            raise PairingError(
                f"{first!r} and {member.name!r} have different ids: {both} samples are in both, "
                f"{len(mine) - both} only in {first!r}, {len(its) - both} only in "
                f"{member.name!r}. {remedy} {_differently_written(index)}".rstrip()
            )


def _differently_written(index: Sequence[Mapping[str, int]]) -> str:
    """Return a hint with examples of ids that differ only in spelling, or an empty text."""
    found: list[str] = []
    plain = {_plain(name): name for name in index[0]}
    for other in index[1:]:
        for name in other:
            match = plain.get(_plain(name))
            if match is not None and match != name and match not in other and name not in index[0]:
                found.append(f"{match!r} and {name!r}")
    if not found:
        return ""
    return (
        f"{len(found)} ids differ only by case, leading zeros, spaces or Unicode form "
        f"({'; '.join(found[:3])}); write them alike."
    )


def _plain(name: str) -> str:
    """Return an id in lower case, without padding, leading zeros and Unicode variants."""
    text = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)


def is_id_name(name: str, *, text: bool = False) -> bool:
    """Whether a name is usual for ids; columns of `text` have more such names.

    Examples
    --------
    >>> [is_id_name(name) for name in ("ID", "sample_id", "imageId", "humid", "name")]
    [True, True, True, False, False]
    """
    usual = name.lower() in ID_NAMES or _ENDS_IN_ID.search(name) is not None
    return usual or (text and name.lower() in TEXT_ID_NAMES)


def numbers_rows(values: Array) -> bool:
    """Whether the values are 0, 1, 2 … or 1, 2, 3 …; False for fewer than three numbers."""
    if len(values) < 3 or not is_whole(values):
        return False
    return values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values)))


def is_whole(values: Array) -> bool:
    """Whether all values are whole numbers, none missing."""
    if values.dtype.kind == "f":
        return bool((np.isfinite(values) & (values == np.round(values))).all())
    return values.dtype.kind in "iu"


def as_text(values: Array) -> Array:
    """Return ids as text: whole numbers without a point, a missing one as an empty text."""
    if values.dtype.kind == "f":
        return np.array(
            ["" if np.isnan(x) else f"{x:.0f}" if x == round(x) else str(x) for x in values], str
        )
    if values.dtype == object:
        return np.array(["" if is_gap(value) else str(value) for value in values], str)
    return values.astype(str)


def is_gap(value: Any) -> bool:
    """Whether a cell has no value: None, NaN, or a missing value of pandas."""
    missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(value, float | np.floating) and bool(value != value))
