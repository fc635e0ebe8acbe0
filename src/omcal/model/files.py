"""Model files: a JSON header and plain arrays, never a pickle.

This module has the format and the parameters; `parts` has the fitted state.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from omcal.machine.archive import Archive, ArchiveError, write_archive
from omcal.machine.arrays import Array
from omcal.machine.files import open_regular
from omcal.machine.versions import versions
from omcal.model.consensus import Consensus
from omcal.model.estimators import OCAL, OMCAL
from omcal.model.parts import ModelError, parts_of, plain, read_consensus, read_run

__all__ = ["ModelError", "load", "save"]

FORMAT = "omcal model"
FORMAT_VERSION = 2

_CLASSES: dict[str, Any] = {"OMCAL": OMCAL, "OCAL": OCAL}
# The place of a fit depends on the machine, and a model file must not name files to write to.
_NOT_STORED = {"device", "memory_limit", "scratch_dir", "checkpoint", "client", "group"}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file; see `FittedModel.save`."""
    check_is_fitted(model)
    getattr(model, "estimator_", model)._require_as_fitted()
    run, values, arrays = parts_of(model)
    name = type(run).__name__
    if _CLASSES.get(name) is not type(run):
        raise ModelError(f"{name} cannot be saved; only {' and '.join(_CLASSES)} can.")
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "class": name,
        "versions": versions(),
        "parameters": {
            key: _encode(value, key, arrays)
            for key, value in run.get_params().items()
            if key not in _NOT_STORED
        },
        **values,
    }
    write_archive(Path(path), header, arrays)


def load(path: str | os.PathLike[str]) -> OMCAL | OCAL | Consensus:
    """Read a model that `save` wrote; it predicts as before.

    Untrusted files are safe: nothing in them is executed, and their size bounds the memory.

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
        If the file is damaged, is not a model, or was written by a newer version.

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
        # Parsers may fail on damaged bytes with any exception: KeyError, struct.error, ...
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(
                f"{path}: cannot be read as a model ({reason}); the file is damaged: get it again."
            ) from error


def _encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """Return a parameter as JSON; arrays become separate members."""
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
    if type(version) is not int or version != FORMAT_VERSION:
        raise ModelError(
            f"it has format_version={version!r:.80}, of which this omcal reads {FORMAT_VERSION}; "
            f"upgrade omcal (the file was written by {header.get('versions')!r:.200})."
        )
    name = header.get("class")
    if name not in _CLASSES:
        raise ModelError(f"it holds a {name!r:.80}, not {' or '.join(_CLASSES)}.")
    model: OMCAL | OCAL | Consensus = _unfitted(_CLASSES[name], header, archive)
    read_run(model, header, archive)
    if "consensus" in header:
        return read_consensus(model, header["consensus"], archive)
    return model


def _unfitted(kind: Any, header: dict[str, Any], archive: Archive) -> Any:
    """Return the estimator with the stored parameters, which are checked as in `fit`."""
    encoded = header["parameters"]
    unknown = sorted(set(encoded) - (set(kind._get_param_names()) - _NOT_STORED))
    if unknown:
        raise ModelError(f"its parameters {unknown!r:.200} are unknown; upgrade omcal.")
    model = kind(**{name: _decode(value, archive) for name, value in encoded.items()})
    model._validate_params()
    # In Python True is the number 1 and would be accepted as one.
    for name, value in model.get_params().items():
        takes_truth = {"boolean", "verbose"} & set(map(str, kind._parameter_constraints[name]))
        if isinstance(value, bool) and not takes_truth:
            raise ModelError(f"its parameter {name}={value} is not a number; the file is damaged.")
    return model


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
            return slice(*(None if end is None else plain(end, int) for end in content))
        case "list":
            return [_decode(item, archive) for item in content]
        case "tuple":
            return tuple(_decode(item, archive) for item in content)
        case "mapping":
            return {plain(key, str): _decode(item, archive) for key, item in content}
    raise ModelError(f"a parameter is of the unknown kind {kind!r:.80}; the file is damaged.")
