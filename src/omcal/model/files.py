"""Models on disk: parameters and fitted state as a JSON header and plain arrays, never a pickle.

Every shape and type follows from the header, and what does not fit is an error, never a guess.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from omcal.machine.archive import Archive, ArchiveError, write_archive
from omcal.machine.arrays import Array, on_host
from omcal.machine.files import open_regular
from omcal.machine.versions import versions
from omcal.method.kinds import Kind
from omcal.method.new_samples import GraphModel, Predictor
from omcal.method.scaling import SCALES, Scaling
from omcal.method.updates import ConsensusGraph
from omcal.model import doubts
from omcal.model.consensus import Consensus
from omcal.model.consensus_files import parts_of, read_consensus
from omcal.model.estimators import OCAL, OMCAL
from omcal.model.header import flag, integer, names, number, optional_integer, text
from omcal.views.columns import split_columns

__all__ = ["ModelError", "load", "save"]

FORMAT = "omcal model"
FORMAT_VERSION = 2
_WITHOUT_CHECKSUM = 1  # the version before; it is read, too

_CLASSES: dict[str, type[OMCAL] | type[OCAL]] = {"OMCAL": OMCAL, "OCAL": OCAL}

# Where a fit works belongs to a machine, and a file must not name other files to write to.
_NOT_STORED = {"device", "memory_limit", "scratch_dir", "checkpoint", "client", "group"}


_SCALING_PARTS = ("center", "factor", "unit", "weight")


class ModelError(ValueError):
    """A file that is no usable model, or a model that cannot be written.

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


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file; `load` reads it.

    The file appears under its name only when it is complete. It holds parameters, scaling,
    anchors, weights, basis, threshold matrix, names and labels, not the data or their graphs, and
    not the parameters that say where a fit works: `device`, `memory_limit`, `scratch_dir`,
    `checkpoint` and `client` are the defaults again after loading.

    Parameters
    ----------
    model : OMCAL, OCAL or Consensus
        Fitted. A `random_state` must be an integer or None.
    path : str or path-like
        Any name; ``.omcal`` is usual.

    Examples
    --------
    >>> import tempfile, omcal
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(200, n_clusters=3, random_state=0)
    >>> model = omcal.OMCAL(n_clusters=3, random_state=0).fit(data.views)
    >>> path = Path(tempfile.mkdtemp()) / "made.omcal"
    >>> save(model, path)
    >>> bool((load(path).predict(data.views) == model.predict(data.views)).all())
    True
    """
    check_is_fitted(model)
    joined: dict[str, Any] = {}
    more: dict[str, Array] = {}
    if isinstance(model, Consensus):
        joined["consensus"], more = parts_of(model)
        model = model.estimator_
    name = type(model).__name__
    if _CLASSES.get(name) is not type(model):
        raise ModelError(f"{name} cannot be saved; only {' and '.join(_CLASSES)} can.")
    arrays = _fitted_arrays(model) | more
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "class": name,
        "versions": versions(),
        "parameters": {
            key: _encode(value, key, arrays)
            for key, value in model.get_params().items()
            if key not in _NOT_STORED
        },
        **_fitted_values(model),
        **joined,
    }
    write_archive(Path(path), header, arrays)


def load(path: str | os.PathLike[str]) -> OMCAL | OCAL | Consensus:
    """Read a model that `save` wrote; it predicts as before.

    The file may come from anywhere: nothing in it is executed, and no more memory is taken than
    its size justifies.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    OMCAL, OCAL or Consensus
        Fitted.

    Raises
    ------
    ModelError
        Where the file is damaged, is no model, or was written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> import omcal
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> model = omcal.OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> folder = tempfile.mkdtemp()
    >>> model.save(f"{folder}/model.omcal")
    >>> again = omcal.load(f"{folder}/model.omcal")
    >>> bool((again.predict(data.views) == model.labels_).mean() > 0.99)
    True
    """
    with open_regular(path) as stream:
        try:
            with Archive.open(stream, "saved model") as archive:
                return _read_model(archive)
        except (ArchiveError, ModelError) as error:
            raise ModelError(f"{path}: {error}") from error.__cause__
        # Damaged bytes make the parsers fail in any way they can: KeyError, struct.error, ...
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(
                f"{path}: cannot be read as a model ({reason}); the file is damaged: get it again."
            ) from error


def _fitted_values(model: OMCAL | OCAL) -> dict[str, Any]:
    """The fitted state that is no array."""
    columns_in = getattr(model, "feature_names_in_", None)
    views = zip(
        model.view_names_,
        model.n_features_per_view_,
        model._view_columns,
        model._rule.learned.scalings,
        strict=True,
    )
    return {
        "views": [
            {
                "name": name,
                "width": int(width),
                "columns": None if columns is None else list(columns),
                "row": scaling.row,
                "kind": list(scaling.kind),
                **{part: getattr(scaling, part) is not None for part in _SCALING_PARTS},
            }
            for name, width, columns, scaling in views
        ],
        "columns": None if columns_in is None else [str(name) for name in columns_in],
        "n_samples": len(model.labels_),
        "n_features": int(model.n_features_in_),
        "n_anchors": len(model.basis_),
        "gamma": float(model._rule.consensus.gamma),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "n_undecided": int(model.n_undecided_),
        "doubts": doubts.written(model.doubts_),
    }


def _fitted_arrays(model: OMCAL | OCAL) -> dict[str, Array]:
    """The fitted arrays under the names of their members."""
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
        for part in _SCALING_PARTS:
            if getattr(scaling, part) is not None:
                arrays[f"{part}.{v}"] = getattr(scaling, part)
    return arrays


def _encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A parameter as JSON; arrays go to members of their own."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        arrays[f"parameter.{name}"] = value
        return {"array": f"parameter.{name}"}
    if isinstance(value, slice):
        return {
            "slice": [_encode(end, name, arrays) for end in (value.start, value.stop, value.step)]
        }
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]}
    if isinstance(value, dict):
        pairs = enumerate(value.items())
        return {"mapping": [[str(k), _encode(v, f"{name}.{i}", arrays)] for i, (k, v) in pairs]}
    raise ModelError(
        f"{name}={value!r} cannot be saved; give plain numbers, text, lists or arrays of numbers, "
        f"for instance model.set_params({name.partition('.')[0]}=None)."
    )


def _read_model(archive: Archive) -> OMCAL | OCAL | Consensus:
    header = archive.header
    if header.get("format") != FORMAT:
        raise ModelError("this archive is not a saved model.")
    version = header.get("format_version")
    if type(version) is not int or version not in (_WITHOUT_CHECKSUM, FORMAT_VERSION):
        raise ModelError(
            f"it has format_version={version!r:.80}, of which this omcal reads {FORMAT_VERSION}; "
            f"upgrade omcal (the file was written by {header.get('versions')!r:.200})."
        )
    if version > _WITHOUT_CHECKSUM and not archive.has_checksum:
        raise ModelError("its checksum is missing; the file is damaged: get it again.")
    if header.get("class") not in _CLASSES:
        raise ModelError(f"it holds a {header.get('class')!r:.80}, not {' or '.join(_CLASSES)}.")
    model: Any = _unfitted(header, archive)
    _set_fitted(model, header, archive)
    if "consensus" in header:
        model = read_consensus(model, header["consensus"], archive)
    archive.require_none_left()
    read: OMCAL | OCAL | Consensus = model
    return read


def _unfitted(header: dict[str, Any], archive: Archive) -> OMCAL | OCAL:
    """The estimator with the stored parameters, which are checked as in `fit`."""
    kind = _CLASSES[header["class"]]
    encoded = header["parameters"]
    unknown = sorted(set(encoded) - (set(kind._get_param_names()) - _NOT_STORED))
    if unknown:
        raise ModelError(f"its parameters {unknown!r:.200} are unknown; upgrade omcal.")
    model = kind(**{name: _decode(value, archive) for name, value in encoded.items()})
    model._validate_params()
    # To Python true is the number 1, and would pass for one.
    for name, value in model.get_params().items():
        if isinstance(value, bool) and not {"boolean", "verbose"} & _words(kind, name):
            raise ModelError(f"its parameter {name}={value} is no number; the file is damaged.")
    return model


def _words(kind: type[OMCAL] | type[OCAL], name: str) -> set[str]:
    """The constraints of a parameter that are single words."""
    return {rule for rule in kind._parameter_constraints[name] if isinstance(rule, str)}


def _decode(value: Any, archive: Archive) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ModelError("a parameter is malformed; the file is damaged.")
        return value
    ((kind, content),) = value.items()
    match kind:
        case "array":
            return archive.take(content, None, "biuf")
        case "slice":
            return slice(*(optional_integer(end) for end in content))
        case "list":
            return [_decode(item, archive) for item in content]
        case "tuple":
            return tuple(_decode(item, archive) for item in content)
        case "mapping":
            return {text(key): _decode(item, archive) for key, item in content}
    raise ModelError(f"a parameter is of the unknown kind {kind!r:.80}; the file is damaged.")


def _set_fitted(model: OMCAL | OCAL, header: dict[str, Any], archive: Archive) -> None:
    """Read the fitted state, whose sizes all follow from the header."""
    views = header["views"]
    V, c = len(views), model.n_clusters
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
    model.n_features_per_view_ = widths
    # Where views overlap or leave columns out, the table is not as wide as they are together.
    model.n_features_in_ = integer(header["n_features"], least=1)
    columns = [names(view["columns"], width) for view, width in zip(views, widths, strict=True)]
    model._view_columns = [None if one is None else tuple(one) for one in columns]
    of_table = names(header["columns"], model.n_features_in_)
    if of_table is not None:
        model.feature_names_in_ = np.array(of_table, dtype=object)
        if all(one is None for one in columns):  # as files had it before names were kept by view
            model._view_columns = _columns_of_views(model, of_table)
    # The first version had none; without the graphs not all of them can be found again.
    model.doubts_ = doubts.read(header["doubts"]) if "doubts" in header else model._doubts()


def _columns_of_views(model: OMCAL | OCAL, names: list[str]) -> list[tuple[str, ...]]:
    """Return the names of the columns of each view of a table."""
    rule = getattr(model, "views", None)
    if rule is None:
        return [tuple(names)]
    parts = split_columns(rule, len(names), names)
    return [tuple(np.array(names, dtype=object)[parts[name]]) for name in model.view_names_]


def _check_solution(model: OMCAL | OCAL, Z: ConsensusGraph) -> None:
    """What holds for every solution; it keeps `predict` within bounds."""
    labels = model.labels_
    sound = (
        (len(labels) == 0 or 0 <= labels.min() <= labels.max() < model.n_clusters)
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
    if "per_sample" in view:  # the first version knew no other step
        return Scaling("standard" if flag(view["per_sample"]) else None, **arrays)
    row, (name, reason) = view["row"], view["kind"]
    if row not in ("standard", "unit", None) or name not in SCALES:
        raise ModelError(f"view {v} has the scaling {row!r:.80}, {name!r:.80}; it is damaged.")
    return Scaling(row, **arrays, kind=Kind(name, text(reason)))
