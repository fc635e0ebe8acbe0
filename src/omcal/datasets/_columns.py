"""Recognise views, labels and ids by their usual names, and group columns of a table into views.

Names are compared in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from omcal.datasets._data import Contents
from omcal.machine.arrays import Array
from omcal.views.columns import by_prefix, listed
from omcal.views.frames import Columns, is_numeric
from omcal.views.mixed import Plan, has_texts, make_plan, stacked
from omcal.views.pair import (
    DataError,
    Ids,
    as_text,
    is_id_name,
    is_whole,
    numbers_rows,
    require_unique,
)

VIEWS_NAMES = {"x", "fea", "data", "views"}
VIEW_TITLES = {"view_names", "viewnames"}
LABEL_NAMES = {
    *("y", "gt", "gnd", "truth", "truelabel", "truelabels", "true_labels", "groundtruth"),
    *("ground_truth", "label", "labels", "class", "target", "targets", "issuearea"),
    *("cell_type", "celltype", "cell_types", "celltypes", "cell.type", "cell_label"),
}
FEATURE_TITLES = {"vocab", "vocabulary", "feature_names", "terms", "words"}
PRESENT_SUFFIX = ".present"
UNNAMED = "index"  # name to show for an index that pandas wrote without a name

# Splits of one data set, in the order in which they are concatenated.
SPLITS = ("train", "training", "valid", "validation", "val", "test", "t10k")
_SPLIT = "|".join(SPLITS)
_SPLIT_FIRST = re.compile(rf"({_SPLIT})[/_.-](.+)", re.IGNORECASE)
_SPLIT_LAST = re.compile(rf"(.+)[/_.-]({_SPLIT})", re.IGNORECASE)
ALL_COLUMNS = "X"  # the view of all numeric columns


def is_label_name(name: str) -> bool:
    """Whether a name is usual for labels; "rna:cell_type" counts as "cell_type"."""
    return name.lower().rpartition(":")[2] in LABEL_NAMES


def split_of(name: str) -> tuple[str, str] | None:
    """Return the split (train, test …) in a name and the rest of the name; None without one.

    Examples
    --------
    >>> split_of("train/data"), split_of("x_test"), split_of("constrained")
    (('train', 'data'), ('test', 'x'), None)
    """
    if match := _SPLIT_FIRST.fullmatch(name):
        return match[1].lower(), match[2]
    if match := _SPLIT_LAST.fullmatch(name):
        return match[2].lower(), match[1]
    return None


def scale_of_key(key: str) -> str | None:
    """Return the `scale` for a key of `obsm` in AnnData; None: recognise it from the values.

    Keys that begin with ``X_`` hold components, such as those of a PCA. If they were standardised,
    the last component would count as much as the first.

    Examples
    --------
    >>> scale_of_key("X_pca"), scale_of_key("X"), scale_of_key("protein")
    ('view', None, None)
    """
    return "view" if key.startswith("X_") else None


def choose_ids(
    vectors: Mapping[str, Array], wanted: str | bool | None, file_ids: Ids | None = None
) -> Ids | None:
    """Choose ids among vectors of one length: the requested ones, the file's, or the first."""
    if wanted is False:
        return None
    if isinstance(wanted, str):
        column = "" if wanted == UNNAMED and wanted not in vectors else wanted
        if column in vectors:
            ids = Ids(wanted or UNNAMED, as_text(vectors[column]))
            require_unique(ids.values, repr(ids.name))
            return ids
        if file_ids is not None:
            return file_ids
        raise DataError(f"id={wanted!r} is not in it; available: {listed(vectors)}.")
    candidates = [] if file_ids is None else [file_ids]
    candidates += filter(are_usable, id_candidates(vectors))
    if not candidates and wanted is True:
        raise DataError(f"no ids were found; available: {listed(vectors)}. Pass id='name'.")
    return min(candidates, key=lambda ids: ids.numbering, default=None)


def id_candidates(vectors: Mapping[str, Array]) -> list[Ids]:
    """Return every variable whose name and type are those of ids, unique or not."""
    return [
        Ids(name or UNNAMED, as_text(values), not name and numbers_rows(values))
        for name, values in vectors.items()
        if looks_like_ids(name, values)
    ]


def are_usable(ids: Ids) -> bool:
    """Whether all ids are different and none is empty."""
    return bool((ids.values != "").all()) and len(np.unique(ids.values)) == len(ids.values)


def looks_like_ids(name: str, values: Array) -> bool:
    """Whether a variable has the name and type of ids, unique or not."""
    is_text = values.dtype.kind in "UST"
    if is_label_name(name) or not (is_text or is_whole(values)):
        return False
    return name == "" or is_id_name(name, text=is_text)


def group_columns(
    contents: Contents,
    views: Sequence[str] | None,
    labels: str | bool | None,
    ids: str | bool | None = None,
) -> Contents:
    """Group the columns of a table into views, by the prefixes of their names.

    ``v1_mean`` belongs to the view ``v1``. The separator is ":" if each name has one, else "_". If
    no prefix is shared, all columns are the single view ``X``; it can also be requested by name,
    unless some columns have the prefix ``X``. A column of lists is a view of its own. A view with
    texts or dates is a mixed table, which `omcal.views.mixed` encodes; free texts do not affect the
    prefixes. Labels stay unchanged; ids are never a feature.
    """
    columns = contents.variables
    lists = {name: value for name, value in columns.items() if value.ndim == 2}
    vectors = {name: value for name, value in columns.items() if name not in lists}
    chosen = choose_ids(vectors, ids, contents.ids)
    features = {
        name: values
        for name, values in vectors.items()
        if name != labels and (not is_label_name(name) or is_coordinate(name, vectors))
    }
    # Columns with a name of ids, whatever their values, or with row numbers.
    named_ids = {
        name
        for name, values in features.items()
        if ids is not False
        if is_id_name(name) or numbers_rows(values) or (not name and looks_like_ids(name, values))
    }
    no_feature = {"", *named_ids, chosen.name if chosen else ""}
    table = Columns({name: v for name, v in features.items() if name not in no_feature})
    plan = make_plan(table, ids=False)
    kept = [name for name, how in plan.items() if how["kind"] != "left out"]
    groups, without_prefix = _grouped(kept)
    texts = [name for name in without_prefix if not is_numeric(vectors[name])]
    notes: list[str] = []
    if views is not None:
        default = list(views)
    elif lists:
        default = list(lists)
    elif groups and without_prefix and texts == without_prefix:
        default = [*groups, ALL_COLUMNS]
        groups = {**groups, ALL_COLUMNS: without_prefix}
    else:
        default = _default(groups, without_prefix, has_texts(table.take(kept)), notes)
    if ALL_COLUMNS in default and ALL_COLUMNS not in {*groups, *lists} and table.values:
        groups = {**groups, ALL_COLUMNS: list(table.values)}
    groups = _with_left_out(groups, plan)
    taken = {name for view in default for name in groups.get(view, ())}
    others = {name: value for name, value in vectors.items() if name not in taken}
    joined = {name: partial(stacked, table.take(names)) for name, names in groups.items()}
    unprefixed = without_prefix if lists and views is None else []
    numeric = {n: names for n, names in groups.items() if not has_texts(table.take(names))}
    return replace(
        contents,
        variables={**{name: value for name, value in others.items() if name}, **joined, **lists},
        table=False,
        default_views=tuple(default),
        feature_names={name: np.array(names) for name, names in numeric.items()},
        ids=chosen,
        notes=(*contents.notes, *notes, *_left_out(others, named_ids, unprefixed, labels, chosen)),
    )


def _with_left_out(groups: dict[str, list[str]], plan: Plan) -> dict[str, list[str]]:
    """Return the columns of each view, including those of its prefix that are not encoded."""
    separator = separator_of([name for names in groups.values() for name in names])

    def owner(name: str) -> str:
        prefix = name.partition(separator)[0]
        return prefix if prefix in groups else ALL_COLUMNS

    left_out = {name for name, how in plan.items() if how["kind"] == "left out"}
    return {
        view: [n for n in plan if n in names or (n in left_out and owner(n) == view)]
        for view, names in groups.items()
    }


def transposed_table(contents: Contents, ids: str | bool | None) -> Contents:
    """Transpose a table of features by samples; the names of its columns are the ids."""
    vectors = {name: value for name, value in contents.variables.items() if value.ndim == 1}
    titles = choose_ids(vectors, ids)
    samples = {
        name: value
        for name, value in vectors.items()
        if is_numeric(value) and not (titles and name in ("", titles.name))
    }
    if not samples:
        raise DataError("the table has no numeric column that could be a sample.")
    return replace(
        contents,
        variables={ALL_COLUMNS: np.ascontiguousarray(np.asarray(stacked(Columns(samples))).T)},
        table=False,
        default_views=(ALL_COLUMNS,),
        feature_names={} if titles is None else {ALL_COLUMNS: titles.values},
        ids=Ids("sample", np.array(list(samples))),
        notes=(*contents.notes, "transposed: the columns of the table are the samples"),
    )


def _left_out(
    others: dict[str, Array],
    named_ids: set[str],
    unprefixed: list[str],
    labels: str | bool | None,
    chosen: Ids | None,
) -> tuple[str, ...]:
    """Return a note on the columns that are neither in a view nor labels or ids."""
    taken = {labels, chosen.name if chosen else None}
    numbers = {n for n in named_ids & set(others) if others[n].dtype.kind in "biuf"}
    unused = [
        name
        for name, values in others.items()
        if (name or name in numbers)
        and not taken & {name, name or UNNAMED}
        and not (is_label_name(name) and could_be_labels(values))
    ]
    if not unused + unprefixed:
        return ()
    shown = listed([name or UNNAMED for name in unused + unprefixed])
    remedy = " (--id none, id=False: take ids as features)" if numbers & set(unused) else ""
    return (f"columns that are neither features nor labels: {shown}{remedy}",)


def is_coordinate(name: str, columns: Mapping[str, Array]) -> bool:
    """Whether a column y is a coordinate, not labels: there are x, and z or fractions in y."""
    others = {other.lower() for other in columns}
    if name.lower() != "y" or "x" not in others or not is_numeric(columns[name]):
        return False
    return "z" in others or not could_be_labels(columns[name])


def could_be_labels(values: Array) -> bool:
    """Whether values can be classes: texts or whole numbers; gaps are allowed."""
    if values.dtype.kind != "f":
        return True
    known = values[~np.isnan(values)]
    return len(known) > 0 and bool((known == np.round(known)).all())


def separator_of(names: Sequence[str]) -> str:
    """Return the separator of view and feature: ":" if each name has one, else "_"."""
    return ":" if names and all(":" in name for name in names) else "_"


def _grouped(names: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Group columns by prefix, and list those without one; no groups if no prefix is shared."""
    separator = separator_of(names)
    places, others = by_prefix(names, separator)
    groups = {prefix: [names[j] for j in positions] for prefix, positions in places.items()}
    unprefixed = [names[j] for j in others]
    # A ":" in every name is a separator; an occasional "_" is not.
    certain = separator == ":" and not unprefixed
    if not certain and (len(groups) < 2 or all(len(members) == 1 for members in groups.values())):
        return {}, names
    return groups, unprefixed


def views_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the default views of numeric columns with these names."""
    groups, unprefixed = _grouped(list(names))
    if not groups and unprefixed:
        return {ALL_COLUMNS: list(names)}
    return groups if not unprefixed else {}


def _default(
    groups: dict[str, list[str]], unprefixed: list[str], mixed: bool, notes: list[str]
) -> list[str]:
    """Return the views to take: the groups, or all columns as one; refuse ambiguous names."""
    if not groups:
        return [ALL_COLUMNS] if unprefixed else []
    if not unprefixed:
        return list(groups)
    if sum(len(members) > 1 for members in groups.values()) < 2:
        return [ALL_COLUMNS]  # an occasional "_" is no separator
    if mixed:
        notes.append(
            f"one table: prefixes ({listed(groups)}) are ignored, because other columns have none"
        )
        return [ALL_COLUMNS]
    raise DataError(
        f"some columns have a prefix ({listed(groups)}) and some have none ({listed(unprefixed)}); "
        f"choose the views with views=[...]; {ALL_COLUMNS!r} stands for all numeric columns."
    )
