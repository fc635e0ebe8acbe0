"""The fitted state of OMCAL and OCAL as parts of a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine.archive import Archive
from omcal.machine.arrays import Array, on_host
from omcal.method.kinds import Kind
from omcal.method.new_samples import GraphModel, Predictor
from omcal.method.scaling import SCALES, Scaling
from omcal.method.updates import ConsensusGraph
from omcal.model import doubts
from omcal.model.drift import Reference
from omcal.model.header import ModelError, flag, integer, names, number, text
from omcal.model.numbering import read_matches
from omcal.model.stream import StreamSums
from omcal.model.structure import Structure
from omcal.views.columns import split_columns
from omcal.views.mixed import check_encoding

_SCALING_PARTS = ("center", "factor", "unit", "weight", "mean", "variance")


def values_of(model: Any) -> dict[str, Any]:
    """Return the fitted state that is no array."""
    columns_in = getattr(model, "feature_names_in_", None)
    views = zip(
        model.view_names_,
        model.n_features_per_view_,
        model._view_columns,
        model._rule.learned.scalings,
        model._middles,
        model.n_missing_,
        strict=True,
    )
    return {
        "n_clusters": model.n_clusters_,
        "n_grown": model._n_grown,
        "views": [
            {
                "name": name,
                "width": int(width),
                "columns": None if columns is None else list(columns),
                "row": scaling.row,
                "kind": list(scaling.kind),
                **{part: getattr(scaling, part) is not None for part in _SCALING_PARTS},
                "middle": middle is not None,
                "n_missing": n_missing,
            }
            for name, width, columns, scaling, middle, n_missing in views
        ],
        "columns": None if columns_in is None else [str(name) for name in columns_in],
        "encoding": model._encoding,
        "n_samples": len(model.labels_),
        "n_features": int(model.n_features_in_),
        "n_anchors": len(model.basis_),
        "gamma": float(model._rule.consensus.gamma),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "n_undecided": int(model.n_undecided_),
        "doubts": doubts.written(model.doubts_),
        "matched": list(map(list, model.matched_)),
        "cluster_names": model._cluster_names,
        "outlier_threshold": model.outlier_threshold_,
        "structure": None if model.structure_ is None else list(model.structure_),
        **stream_values(model),
    }


def arrays_of(model: Any) -> dict[str, Array]:
    """Return the fitted arrays under the names of their members."""
    Z = model._rule.consensus
    arrays = {
        "labels": on_host(model.labels_),
        "objective": model.objective_,
        "view_weights": model.view_weights_,
        "alpha": Z.alpha,
        "basis": Z.G,
        "threshold": Z.T,
    }
    for v, (anchors, scaling) in enumerate(
        zip(model.anchors_, model._rule.learned.scalings, strict=True)
    ):
        arrays[f"anchors.{v}"] = anchors
        if model._middles[v] is not None:
            arrays[f"middle.{v}"] = model._middles[v]
        for part in _SCALING_PARTS:
            if getattr(scaling, part) is not None:
                arrays[f"{part}.{v}"] = getattr(scaling, part)
    return arrays | stream_arrays(model)


def stream_values(model: Any) -> dict[str, Any]:
    """Return the numbers of samples in the sums for later samples, where there are such sums."""
    sums, reference = model._sums, model._reference
    return {
        "n_sums": None if sums is None else float(sums.n),
        "n_reference": None if reference is None else float(reference.n_fit),
    }


def stream_arrays(model: Any, name: str = "") -> dict[str, Array]:
    """Return the sums for later samples under the names of their members."""
    known = {"sums": model._sums, "reference": model._reference}
    return {
        f"{name}{key}.{number}": part
        for key, sums in known.items()
        if sums is not None
        for number, part in enumerate(sums.parts)
    }


def read_stream(model: Any, header: dict[str, Any], archive: Archive, name: str = "") -> None:
    """Read the sums for later samples; models of earlier versions have none."""
    m, c = model._rule.consensus.G.shape

    def take(key: str, *shapes: tuple[int, ...]) -> list[Array]:
        found = [archive.take(f"{name}{key}.{i}", shape) for i, shape in enumerate(shapes)]
        if not all(np.isfinite(part).all() for part in found):
            raise ModelError(f"its {key} are not finite; the file is damaged.")
        return found

    n_sums, n_reference = header.get("n_sums"), header.get("n_reference")
    if n_sums is not None:
        n = number(n_sums, "n_sums", least=1)
        model._sums = StreamSums(n, *take("sums", (m, m), (m, c), (c, c)))
    if n_reference is not None:
        n = number(n_reference, "n_reference", least=1)
        shape = (len(model.view_names_), c, c)
        model._reference = Reference(n, *take("reference", (c,), shape, shape))


def read_run(model: Any, header: dict[str, Any], archive: Archive) -> None:
    """Read the fitted state, whose sizes all follow from the header."""
    views = header["views"]
    V = len(views)
    c = model.n_clusters_ = integer(header.get("n_clusters", model.n_clusters), least=1)
    model._n_grown = integer(header.get("n_grown", 0))
    if model.n_clusters not in ("auto", c - model._n_grown):
        raise ModelError(f"it has {c} clusters and n_clusters={model.n_clusters}; it is damaged.")
    widths = [integer(view["width"], least=1) for view in views]
    m = integer(header["n_anchors"], least=max(c, model.n_neighbors + 1))
    model.labels_ = archive.take("labels", (integer(header["n_samples"]),), "i")
    model.n_iter_ = integer(header["n_iter"], least=1)
    model.objective_ = archive.take("objective", (model.n_iter_,))
    model.view_weights_ = archive.take("view_weights", (V,))
    Z = ConsensusGraph(
        archive.take("alpha", (V,)),
        archive.take("basis", (m, c)),
        archive.take("threshold", (m, m)),
        number(header["gamma"], "gamma", least=0),
    )
    _check_solution(model, Z)
    learned = GraphModel(
        [_scaling(view, v, archive) for v, view in enumerate(views)],
        [archive.take(f"anchors.{v}", (m, width)) for v, width in enumerate(widths)],
        model.n_neighbors,
    )
    model._set_rule(Predictor(learned, Z))
    model.converged_ = flag(header["converged"])
    model.n_undecided_ = integer(header["n_undecided"])
    model.view_names_ = [text(view["name"]) for view in views]
    if not views or len(set(model.view_names_)) < V:
        raise ModelError("the names of its views are not distinct; the file is damaged.")
    model._encoding = check_encoding(header.get("encoding", {}))
    model.n_features_per_view_ = widths
    model._middles = [
        archive.take(f"middle.{v}", (width,)) if flag(view.get("middle", False)) else None
        for v, (view, width) in enumerate(zip(views, widths, strict=True))
    ]
    model.n_missing_ = [integer(view.get("n_missing", 0)) for view in views]
    # Where views overlap or leave columns out, the table is not as wide as they are together.
    model.n_features_in_ = integer(header["n_features"], least=1)
    columns = [names(view["columns"], width) for view, width in zip(views, widths, strict=True)]
    model._view_columns = [None if one is None else tuple(one) for one in columns]
    of_table = names(header["columns"], model.n_features_in_)
    if of_table is not None:
        model.feature_names_in_ = np.array(of_table, dtype=object)
        if all(one is None for one in columns):  # as files had it before names were kept by view
            model._view_columns = _columns_of_views(model, of_table)
    model.doubts_ = doubts.read(header["doubts"])
    model.matched_ = read_matches(header.get("matched", []))
    model._cluster_names = names(header.get("cluster_names"), c)
    limit = header.get("outlier_threshold")
    model.outlier_threshold_ = None if limit is None else number(limit, "threshold", least=0)
    model.structure_ = _structure(header.get("structure"))  # 0.2 had none
    model.selection_, model._strangers, model._missing, model._gaps = None, None, [], []
    read_stream(model, header, archive)


def _structure(stored: Any) -> Structure | None:
    if stored is None:
        return None
    separation, null, n_samples = stored
    return Structure(number(separation, "separation"), number(null, "null"), integer(n_samples))


def _columns_of_views(model: Any, names: list[str]) -> list[tuple[str, ...]]:
    """Return the names of the columns of each view of a table."""
    rule = getattr(model, "views", None)
    if rule is None:
        return [tuple(names)]
    parts = split_columns(rule, len(names), names)
    return [tuple(np.array(names, dtype=object)[parts[name]]) for name in model.view_names_]


def _check_solution(model: Any, Z: ConsensusGraph) -> None:
    """Raise where a property of every solution fails; it keeps `predict` within bounds."""
    labels = model.labels_
    sound = (
        (len(labels) == 0 or 0 <= labels.min() <= labels.max() < model.n_clusters_)
        and (model.view_weights_ >= 0).all()
        and abs(model.view_weights_.sum() - 1) < 1e-6
        and Z.sound
    )
    if not sound:
        raise ModelError("its weights, basis or labels are not those of a model; it is damaged.")


def _scaling(view: dict[str, Any], v: int, archive: Archive) -> Scaling:
    shape = (view["width"],)
    arrays: dict[str, Any] = {
        part: archive.take(f"{part}.{v}", shape) if flag(view.get(part, False)) else None
        for part in _SCALING_PARTS
    }
    row, (name, reason) = view["row"], view["kind"]
    if row not in ("standard", "unit", None) or name not in SCALES:
        raise ModelError(f"view {v} has the scaling {row!r:.80}, {name!r:.80}; it is damaged.")
    return Scaling(row, **arrays, kind=Kind(name, text(reason)))
