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
NAMELESS = "index"  # the name here of an index that pandas wrote without one

# Splits of one data set, in the order in which they are concatenated.
SPLITS = ("train", "training", "valid", "validation", "val", "test", "t10k")
_SPLIT = "|".join(SPLITS)
_SPLIT_FIRST = re.compile(rf"({_SPLIT})[/_.-](.+)", re.IGNORECASE)
_SPLIT_LAST = re.compile(rf"(.+)[/_.-]({_SPLIT})", re.IGNORECASE)
WHOLE = "X"  # the view of all numeric columns


def is_label_name(name: str) -> bool:
    """Whether a name is a usual one for labels; "rna:cell_type" counts as "cell_type"."""
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
    """Return the `scale` of a matrix of AnnData by its key in `obsm`; None: by its values.

    Keys that begin with ``X_`` hold components, such as those of a PCA. Standardised, the last
    component would count as much as the first.

    Examples
    --------
    >>> scale_of_key("X_pca"), scale_of_key("X"), scale_of_key("protein")
    ('view', None, None)
    """
    return "view" if key.startswith("X_") else None


def choose_ids(
    vectors: Mapping[str, Array], wanted: str | bool | None, own: Ids | None = None
) -> Ids | None:
    """Choose the ids among vectors of one length: the wanted ones, the file's own, or the first."""
    if wanted is False:
        return None
    if isinstance(wanted, str):
        column = "" if wanted == NAMELESS and wanted not in vectors else wanted
        if column in vectors:
            ids = Ids(wanted or NAMELESS, as_text(vectors[column]))
            require_unique(ids.values, repr(ids.name))
            return ids
        if own is not None:
            return own
        raise DataError(f"id={wanted!r} is not in it; available: {listed(vectors)}.")
    candidates = [] if own is None else [own]
    candidates += filter(are_usable, seeming_ids(vectors))
    if not candidates and wanted is True:
        raise DataError(f"no ids were found; available: {listed(vectors)}. Pass id='name'.")
    return min(candidates, key=lambda ids: ids.numbering, default=None)


def seeming_ids(vectors: Mapping[str, Array]) -> list[Ids]:
    """Return every variable that name and type mark as ids, unique or not."""
    return [
        Ids(name or NAMELESS, as_text(values), not name and numbers_rows(values))
        for name, values in vectors.items()
        if seems_id(name, values)
    ]


def are_usable(ids: Ids) -> bool:
    """Whether no id is empty or repeats."""
    return bool((ids.values != "").all()) and len(np.unique(ids.values)) == len(ids.values)


def seems_id(name: str, values: Array) -> bool:
    """Whether name and type mark a variable as ids, unique or not."""
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
    """Join the columns of a table to views, by the prefixes of their names.

    ``v1_mean`` belongs to the view ``v1`` (the separator is ":" where each name has one, else
    "_"). Where the names have no common prefixes, all columns are the single view ``X``, which can
    also be asked for by name, unless some have the prefix ``X``. A column that holds lists is a
    view of its own. Texts and dates make a view a mixed table, which `omcal.views.mixed` encodes;
    free texts do not affect the prefixes. Labels stay as they are; ids are never a feature.
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
    # Called like ids, whatever they hold, or numbers of the rows.
    named_ids = {
        name
        for name, values in features.items()
        if ids is not False
        if is_id_name(name) or numbers_rows(values) or (not name and seems_id(name, values))
    }
    no_feature = {"", *named_ids, chosen.name if chosen else ""}
    table = Columns({name: v for name, v in features.items() if name not in no_feature})
    plan = make_plan(table, ids=False)
    kept = [name for name, how in plan.items() if how["kind"] != "left out"]
    groups, bare = _grouped(kept)
    texts = [name for name in bare if not is_numeric(vectors[name])]
    notes: list[str] = []
    if views is not None:
        default = list(views)
    elif lists:
        default = list(lists)
    elif groups and bare and texts == bare:
        default = [*groups, WHOLE]
        groups = {**groups, WHOLE: bare}
    else:
        default = _default(groups, bare, has_texts(table.take(kept)), notes)
    if WHOLE in default and WHOLE not in {*groups, *lists} and table.values:
        groups = {**groups, WHOLE: list(table.values)}
    groups = _with_left_out(groups, plan)
    taken = {name for view in default for name in groups.get(view, ())}
    others = {name: value for name, value in vectors.items() if name not in taken}
    joined = {name: partial(stacked, table.take(names)) for name, names in groups.items()}
    spare = bare if lists and views is None else []
    numeric = {n: names for n, names in groups.items() if not has_texts(table.take(names))}
    return replace(
        contents,
        variables={**{name: value for name, value in others.items() if name}, **joined, **lists},
        table=False,
        default_views=tuple(default),
        feature_names={name: np.array(names) for name, names in numeric.items()},
        ids=chosen,
        notes=(*contents.notes, *notes, *_left_out(others, named_ids, spare, labels, chosen)),
    )


def _with_left_out(groups: dict[str, list[str]], plan: Plan) -> dict[str, list[str]]:
    """Return the columns of each view, with columns of its prefix that an encoding leaves out."""
    separator = separator_of([name for names in groups.values() for name in names])

    def owner(name: str) -> str:
        prefix = name.partition(separator)[0]
        return prefix if prefix in groups else WHOLE

    left_out = {name for name, how in plan.items() if how["kind"] == "left out"}
    return {
        view: [n for n in plan if n in names or (n in left_out and owner(n) == view)]
        for view, names in groups.items()
    }


def turned_table(contents: Contents, ids: str | bool | None) -> Contents:
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
        variables={WHOLE: np.ascontiguousarray(np.asarray(stacked(Columns(samples))).T)},
        table=False,
        default_views=(WHOLE,),
        feature_names={} if titles is None else {WHOLE: titles.values},
        ids=Ids("sample", np.array(list(samples))),
        notes=(*contents.notes, "turned: the columns of the table are the samples"),
    )


def _left_out(
    others: dict[str, Array],
    named_ids: set[str],
    spare: list[str],
    labels: str | bool | None,
    chosen: Ids | None,
) -> tuple[str, ...]:
    """Return a note on the columns that are in no view."""
    taken = {labels, chosen.name if chosen else None}
    numbers = {n for n in named_ids & set(others) if others[n].dtype.kind in "biuf"}
    unused = [
        name
        for name, values in others.items()
        if (name or name in numbers)
        and not taken & {name, name or NAMELESS}
        and not (is_label_name(name) and could_be_labels(values))
    ]
    if not unused + spare:
        return ()
    shown = listed([name or NAMELESS for name in unused + spare])
    remedy = " (--id none, id=False: take ids as features)" if numbers & set(unused) else ""
    return (f"columns that are neither features nor labels: {shown}{remedy}",)


def is_coordinate(name: str, columns: Mapping[str, Array]) -> bool:
    """Whether a column is y beside x, which else holds labels: there is z, or it has fractions."""
    others = {other.lower() for other in columns}
    if name.lower() != "y" or "x" not in others or not is_numeric(columns[name]):
        return False
    return "z" in others or not could_be_labels(columns[name])


def could_be_labels(values: Array) -> bool:
    """Whether values can be classes: text or whole numbers, apart from gaps."""
    if values.dtype.kind != "f":
        return True
    known = values[~np.isnan(values)]
    return len(known) > 0 and bool((known == np.round(known)).all())


def separator_of(names: Sequence[str]) -> str:
    """Return the separator of view and feature: ":" where each name has one, else "_"."""
    return ":" if names and all(":" in name for name in names) else "_"


def _grouped(names: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Group columns by prefix, and list columns without one; no group where no prefix is shared."""
    separator = separator_of(names)
    places, others = by_prefix(names, separator)
    groups = {prefix: [names[j] for j in positions] for prefix, positions in places.items()}
    bare = [names[j] for j in others]
    # A ":" in every name is a separator; an occasional "_" is not.
    meant = separator == ":" and not bare
    if not meant and (len(groups) < 2 or all(len(members) == 1 for members in groups.values())):
        return {}, names
    return groups, bare


def views_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the views that numeric columns with these names form by default."""
    groups, bare = _grouped(list(names))
    if not groups and bare:
        return {WHOLE: list(names)}
    return groups if not bare else {}


def _default(
    groups: dict[str, list[str]], bare: list[str], mixed: bool, notes: list[str]
) -> list[str]:
    """Return the views to take: the groups, or all columns as one; refuse ambiguous names."""
    if not groups:
        return [WHOLE] if bare else []
    if not bare:
        return list(groups)
    if sum(len(members) > 1 for members in groups.values()) < 2:
        return [WHOLE]  # an occasional "_" is no separator
    if mixed:
        notes.append(
            f"one table: prefixes ({listed(groups)}) form no views where other columns have none"
        )
        return [WHOLE]
    raise DataError(
        f"some columns have a prefix ({listed(groups)}) and some have none ({listed(bare)}); "
        f"choose the views with views=[...], where {WHOLE!r} is all numeric columns."
    )
