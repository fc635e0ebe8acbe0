"""The fitted state of OMCAL, OCAL and Consensus as parts of a model file.

Values are in the JSON header, each array in a separate member. Nothing that is read is trusted:
every shape and type follows from the header, and a part that does not fit is an error.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from omcal.machine.archive import Archive
from omcal.machine.arrays import Array, on_host
from omcal.method.new_samples import GraphModel, Predictor
from omcal.method.rows import Assignment
from omcal.method.scaling import SCALES, Scaling
from omcal.method.solver import Solution
from omcal.method.updates import ConsensusGraph
from omcal.model import doubts
from omcal.model.consensus import Consensus
from omcal.model.drift import Reference
from omcal.model.numbering import Match
from omcal.model.runs import Run, certainty, run_table
from omcal.model.stream import Strangers, StreamSums
from omcal.model.structure import Structure
from omcal.views.columns import split_columns
from omcal.views.filling import Fill
from omcal.views.kinds import Kind
from omcal.views.mixed import check_encoding
from omcal.views.view import View, Views

Plain = TypeVar("Plain", str, bool, int, float)

_IS_NOT = {
    str: "not a name",
    bool: "neither true nor false",
    int: "not a whole number",
    float: "not a finite number",
}
_SCALING_PARTS = ("center", "factor", "unit", "weight", "mean", "variance")


class ModelError(ValueError):
    """A file is not a usable model, or a model cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import omcal
    >>> from omcal.model.files import ModelError
    >>> path = Path(tempfile.mkdtemp(), "model.omcal")
    >>> _ = path.write_bytes(b"something else")
    >>> try:
    ...     omcal.load(path)
    ... except ModelError:
    ...     print("no model")
    no model
    """


def plain(value: Any, kind: type[Plain], least: float = -math.inf, name: str = "") -> Plain:
    """Return the value if it has exactly this type, is finite and at least `least`; or raise."""
    # In Python True equals 1; JSON tells them apart.
    in_range = not isinstance(value, int | float) or least <= value < math.inf
    if type(value) is not kind or not in_range:
        bound = f" of at least {least}" if least > -math.inf else ""
        raise ValueError(f"{name}{value!r:.80} is {_IS_NOT[kind]}{bound}")
    return value


def column_names(value: Any, width: int) -> list[str] | None:
    """Return the names of `width` columns, or None; raise an error for anything else."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != width:
        raise ValueError(f"it does not name all {width} columns")
    return [plain(name, str) for name in value]


def parts_of(model: Any) -> tuple[Any, dict[str, Any], dict[str, Array]]:
    """Return the run to store, the values for the header, and the arrays by member name."""
    if not isinstance(model, Consensus):
        return model, _run_values(model), _run_arrays(model)
    run, values, arrays = parts_of(model.estimator_)
    values["consensus"] = _joint_values(model)
    return run, values, arrays | _joint_arrays(model)


def _shared_values(model: Any) -> dict[str, Any]:
    """Return the values that both a run and a joint fit have."""
    sums, reference = model._sums, model._reference
    return {
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "n_undecided": int(model.n_undecided_),
        "doubts": doubts.written(model.doubts_),
        "matched": list(map(list, model.matched_)),
        "cluster_names": model._cluster_names,
        "n_sums": None if sums is None else float(sums.n),
        "n_reference": None if reference is None else float(reference.n_fit),
    }


def _shared_arrays(model: Any, prefix: str = "") -> dict[str, Array]:
    """Return the arrays that both a run and a joint fit have."""
    known = {"sums": model._sums, "reference": model._reference}
    sums = {
        f"{prefix}{key}.{number}": part
        for key, found in known.items()
        if found is not None
        for number, part in enumerate(found.parts)
    }
    own = {f"{prefix}labels": on_host(model.labels_), f"{prefix}objective": model.objective_}
    return own | _graph_arrays(prefix, model._rule.consensus) | sums


def _read_shared(model: Any, header: dict[str, Any], archive: Archive, prefix: str = "") -> None:
    """Set the diagnostics, the matches, the names and the sums for later samples."""
    m, c = model._rule.consensus.G.shape
    model.doubts_ = doubts.read(header["doubts"])
    model.matched_ = [
        Match(
            plain(one, int, 0), None if old is None else plain(old, int, 0), plain(share, float, 0)
        )
        for one, old, share in header.get("matched", [])
    ]
    model._cluster_names = column_names(header.get("cluster_names"), c)

    def take(key: str, *shapes: tuple[int, ...]) -> list[Array]:
        return [archive.take(f"{prefix}{key}.{i}", shape) for i, shape in enumerate(shapes)]

    n_sums, n_reference = header.get("n_sums"), header.get("n_reference")  # 0.2 had none
    if n_sums is not None:
        n = plain(n_sums, float, 1)
        model._sums = StreamSums(n, *take("sums", (m, m), (m, c), (c, c)))
    if n_reference is not None:
        n = plain(n_reference, float, 1)
        shape = (len(model.view_names_), c, c)
        model._reference = Reference(n, *take("reference", (c,), shape, shape))


def _graph_arrays(prefix: str, Z: ConsensusGraph) -> dict[str, Array]:
    return {f"{prefix}alpha": Z.alpha, f"{prefix}basis": Z.G, f"{prefix}threshold": Z.T}


def _read_graph(
    archive: Archive, sizes: tuple[int, int, int], gamma: float, prefix: str = ""
) -> ConsensusGraph:
    V, m, c = sizes
    shapes = {"alpha": (V,), "basis": (m, c), "threshold": (m, m)}
    alpha, G, T = (archive.take(prefix + name, shape) for name, shape in shapes.items())
    Z = ConsensusGraph(alpha, G, T, gamma)
    if not Z.sound:
        raise ModelError("the weights or the basis of a run are not those of a model.")
    return Z


def _read_labels(archive: Archive, name: str, n: int, c: int, title: str, kind: str = "i") -> Array:
    labels = archive.take(name, (n,), kind)
    if n and not 0 <= labels.min() <= labels.max() < c:
        raise ModelError(f"{title} are not those of a model.")
    return labels


def _run_values(model: Any) -> dict[str, Any]:
    """Return the fitted state of OMCAL or OCAL that is not in arrays."""
    columns_in = getattr(model, "feature_names_in_", None)
    views = zip(
        model.view_names_,
        model.n_features_per_view_,
        model._view_columns,
        model._rule.learned.scalings,
        model._fills,
        model.n_missing_,
        strict=True,
    )
    strangers = model._strangers
    return {
        "n_clusters": model.n_clusters_,
        "n_grown": model._n_grown,
        "strangers": None
        if strangers is None
        else [
            *(len(strangers), strangers.n_seen, strangers.next_test),
            [view.sparse for view in strangers.views],
        ],
        "views": [
            {
                "name": name,
                "width": int(width),
                "columns": None if columns is None else list(columns),
                "row": scaling.row,
                "kind": list(scaling.kind),
                **{part: getattr(scaling, part) is not None for part in _SCALING_PARTS},
                "fill": None if fill is None else [fill.directions.shape[1], fill.least == 0],
                "n_missing": n_missing,
            }
            for name, width, columns, scaling, fill, n_missing in views
        ],
        "columns": None if columns_in is None else [str(name) for name in columns_in],
        "encoding": model._encoding,
        "n_samples": len(model.labels_),
        "n_features": int(model.n_features_in_),
        "n_anchors": len(model.basis_),
        "gamma": float(model._rule.consensus.gamma),
        "outlier_threshold": model.outlier_threshold_,
        "structure": None if model.structure_ is None else list(model.structure_),
        **_shared_values(model),
    }


def _run_arrays(model: Any) -> dict[str, Array]:
    """Return the fitted arrays of OMCAL or OCAL under the names of their members."""
    arrays = {"view_weights": model.view_weights_, **_shared_arrays(model)}
    if model._strangers is not None:
        arrays |= {f"strangers.{name}": part for name, part in model._strangers.arrays.items()}
    for v, scaling in enumerate(model._rule.learned.scalings):
        parts = {part: getattr(scaling, part) for part in _SCALING_PARTS}
        fill = model._fills[v]
        known = None if fill is None else np.vstack([*fill[:2], fill.directions.T])
        parts |= {"anchors": model.anchors_[v], "fill": known}
        arrays |= {f"{name}.{v}": part for name, part in parts.items() if part is not None}
    return arrays


def read_run(model: Any, header: dict[str, Any], archive: Archive) -> None:
    """Set the fitted state of OMCAL or OCAL, whose sizes all follow from the header."""
    views = header["views"]
    V = len(views)
    c = model.n_clusters_ = plain(header.get("n_clusters", model.n_clusters), int, 1)
    model._n_grown = plain(header.get("n_grown", 0), int, 0)
    if model.n_clusters not in ("auto", c - model._n_grown):
        raise ModelError(f"it has {c} clusters and n_clusters={model.n_clusters}; it is damaged.")
    widths = [plain(view["width"], int, 1) for view in views]
    m = plain(header["n_anchors"], int, max(c, model.n_neighbors + 1))
    n = plain(header["n_samples"], int, 0)
    labels = _read_labels(archive, "labels", n, c, "its labels")
    history = archive.take("objective", (plain(header["n_iter"], int, 1),)).tolist()
    weights = archive.take("view_weights", (V,))
    if (weights < 0).any() or abs(weights.sum() - 1) >= 1e-6:
        raise ModelError("the weights of its views are not those of a model.")
    Z = _read_graph(archive, (V, m, c), plain(header["gamma"], float, 0, "gamma="))
    learned = GraphModel(
        [_scaling(view, v, archive) for v, view in enumerate(views)],
        [archive.take(f"anchors.{v}", (m, width)) for v, width in enumerate(widths)],
        model.n_neighbors,
    )
    best = Solution(weights, Z, history, plain(header["converged"], bool))
    assignment = Assignment(labels, plain(header["n_undecided"], int, 0))
    model._publish(Predictor(learned, Z), best, assignment)
    model.view_names_ = [plain(view["name"], str) for view in views]
    if not views or len(set(model.view_names_)) < V:
        raise ModelError("the names of its views are not distinct; the file is damaged.")
    model._encoding = check_encoding(header.get("encoding", {}))
    model.n_features_per_view_ = widths
    model._fills = [_fill(view, v, archive) for v, view in enumerate(views)]
    model.n_missing_ = [plain(view.get("n_missing", 0), int, 0) for view in views]
    # If views overlap or omit columns, the table is not as wide as all views together.
    model.n_features_in_ = plain(header["n_features"], int, 1)
    columns = [
        column_names(view["columns"], width) for view, width in zip(views, widths, strict=True)
    ]
    model._view_columns = [None if one is None else tuple(one) for one in columns]
    of_table = column_names(header["columns"], model.n_features_in_)
    if of_table is not None:
        model.feature_names_in_ = np.array(of_table, dtype=object)
        if all(one is None for one in columns):  # an older file, without names by view
            model._view_columns = _columns_of_views(model, of_table)
    limit = header.get("outlier_threshold")
    model.outlier_threshold_ = None if limit is None else plain(limit, float, 0)
    model.structure_ = _structure(header.get("structure"))  # 0.2 had none
    model.selection_, model._strangers, model._missing, model._gaps = None, None, [], []
    if header.get("strangers") is not None:
        model._strangers = _strangers(model, header["strangers"], archive)
    _read_shared(model, header, archive)


def _strangers(model: Any, stored: Any, archive: Archive) -> Strangers:
    """Return the stored strangers of updates, a group of which may become a cluster later."""
    n, n_seen, next_test, thin = stored
    n = plain(n, int, 1)
    parts = model.view_names_, model.n_features_per_view_, model._view_columns, thin
    views = [
        View(name, _rows(archive, f"strangers.{v}", (n, width), plain(one, bool)), columns)
        for v, (name, width, columns, one) in enumerate(zip(*parts, strict=True))
    ]
    keys = archive.take("strangers.keys", (n,))
    numbers = plain(n_seen, int, n), plain(next_test, float, 0)
    return Strangers.kept(keys, *numbers, Views(views))


def _rows(archive: Archive, name: str, shape: tuple[int, int], thin: bool) -> Any:
    """Return the rows of a view, dense or sparse."""
    if not thin:
        return archive.take(f"{name}.0", shape, "fiu")
    data, indices = archive.take(f"{name}.0", None, "fiu"), archive.take(f"{name}.1", None, "i")
    array = sparse.csr_array(
        (data, indices, archive.take(f"{name}.2", (shape[0] + 1,), "i")), shape=shape
    )
    array.check_format(full_check=True)
    return array


def _structure(stored: Any) -> Structure | None:
    if stored is None:
        return None
    separation, null, n_samples = stored
    return Structure(plain(separation, float), plain(null, float), plain(n_samples, int, 0))


def _columns_of_views(model: Any, names: list[str]) -> list[tuple[str, ...]]:
    """Return the names of the columns of each view of a table."""
    rule = getattr(model, "views", None)
    if rule is None:
        return [tuple(names)]
    parts = split_columns(rule, len(names), names)
    return [tuple(np.array(names, dtype=object)[parts[name]]) for name in model.view_names_]


def _fill(view: dict[str, Any], v: int, archive: Archive) -> Fill | None:
    """Return the values for missing cells."""
    if view.get("fill") is None:
        return None
    n_directions, nonnegative = view["fill"]
    rows = 2 + plain(n_directions, int, 0)
    mean, deviation, *V = archive.take(f"fill.{v}", (rows, view["width"]))
    directions = np.array(V).reshape(rows - 2, view["width"]).T
    return Fill(mean, deviation, directions, 0.0 if plain(nonnegative, bool) else -np.inf)


def _scaling(view: dict[str, Any], v: int, archive: Archive) -> Scaling:
    shape = (view["width"],)
    arrays: dict[str, Any] = {
        part: archive.take(f"{part}.{v}", shape) if plain(view.get(part, False), bool) else None
        for part in _SCALING_PARTS
    }
    row, (name, reason) = view["row"], view["kind"]
    if row not in ("standard", "unit", None) or name not in SCALES:
        raise ModelError(f"view {v} has the scaling {row!r:.80}, {name!r:.80}; it is damaged.")
    return Scaling(row, **arrays, kind=Kind(name, plain(reason, str)))


def _joint_values(model: Consensus) -> dict[str, Any]:
    """Return the state of a joint fit and of its runs that is not in arrays."""
    values = {
        "n_runs": model.n_runs,
        "random_state": model.random_state if isinstance(model.random_state, int) else None,
        "runs": [[run.solution.converged, run.objective] for run in model.runs_],
        **_shared_values(model),
    }
    # Labels do not determine them if other processes shared the fit.
    if any(found.sum() != len(model.labels_) for found in model._tables):
        values["tables"] = [found.tolist() for found in model._tables]
    return values


def _joint_arrays(model: Consensus) -> dict[str, Array]:
    """Return the arrays of a joint fit and of its runs, which share their scalings."""
    arrays = _shared_arrays(model, "joint.")
    for b, (rule, run) in enumerate(zip(model._rule.runs, model.runs_, strict=True)):
        arrays |= {f"run.{b}.labels": run.labels, f"run.{b}.weights": run.view_weights}
        arrays |= _graph_arrays(f"run.{b}.", rule.consensus)
        arrays |= {f"run.{b}.anchors.{v}": A for v, A in enumerate(rule.learned.anchors)}
    return arrays


def read_consensus(inner: Any, header: dict[str, Any], archive: Archive) -> Consensus:
    """Return the joint model of `header`, given the run that was already read."""
    n, c, V = len(inner.labels_), inner.n_clusters_, len(inner.view_weights_)
    m, gamma = len(inner.basis_), inner._rule.consensus.gamma
    rules, runs = [], []
    for b, (converged, objective) in enumerate(header["runs"]):
        labels = _read_labels(archive, f"run.{b}.labels", n, c, "the labels of a run", "u")
        weights = archive.take(f"run.{b}.weights", (V,))
        anchors = [
            archive.take(f"run.{b}.anchors.{v}", A.shape) for v, A in enumerate(inner.anchors_)
        ]
        Z = _read_graph(archive, (V, m, c), gamma, f"run.{b}.")
        learned = GraphModel(inner._rule.learned.scalings, anchors, inner.n_neighbors)
        rules.append(Predictor(learned, Z))
        history = [plain(objective, float, name="objective of a run=")]
        runs.append(Run(labels, Solution(weights, Z, history, plain(converged, bool))))
    n_runs, seed = plain(header["n_runs"], int, 0), header["random_state"]
    seed = None if seed is None else plain(seed, int)
    model = Consensus(inner, n_runs=n_runs, random_state=seed)
    model._validate_params()
    model.n_clusters_ = c
    history = archive.take("joint.objective", (plain(header["n_iter"], int, 1),)).tolist()
    labels = _read_labels(archive, "joint.labels", n, c, "the labels")
    tables = _tables(header, runs, labels, c)
    Z = _read_graph(archive, (1, len(runs) * c, c), gamma, "joint.")
    model._publish(
        rules,
        runs,
        tables,
        Solution(np.ones(1), Z, history, plain(header["converged"], bool)),
        Assignment(labels, plain(header["n_undecided"], int, 0)),
        certainty([run.labels for run in runs], labels, tables),
    )
    model._keep_most_similar(inner)
    model.structure_, model.outlier_threshold_ = inner.structure_, inner.outlier_threshold_
    _read_shared(model, header, archive, "joint.")
    return model


def _tables(header: dict[str, Any], runs: list[Run], labels: Array, c: int) -> list[Array]:
    """Return the tables of samples by cluster of run and result: stored, or from labels."""
    if "tables" not in header:
        return [run_table(run.labels, labels, c) for run in runs]
    tables = [np.array(found, dtype=np.int64) for found in header["tables"]]
    sound = all(found.shape == (c, c) and found.min() >= 0 for found in tables)
    if len(tables) != len(runs) or not sound:
        raise ValueError("the tables of the runs are not those of a model")
    return tables
