"""Pack the data of a report's script: arrays, compressed and written as text."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine.arrays import Array
from omcal.plots.palette import LIGHT, SHAPES
from omcal.report.findings import Findings, nearest_samples, to_shades

_MOST_NEAR = 5
# Bytes of a file: 1 MB at 10⁴ samples and 6 MB at 10⁵, less a margin.
_FIXED, _PER_SAMPLE = 400_000, 54


class Packed:
    """Arrays one after another, little-endian, each from a multiple of four bytes on."""

    def __init__(self) -> None:
        self.layout: dict[str, list[Any]] = {}
        self.parts: list[bytes] = []
        self.size: int = 0

    def add(self, name: str, array: Array) -> None:
        """Add an array under a name."""
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self._put(name, array.dtype.str[1:], array.tobytes(), array.size)

    def add_texts(self, name: str, texts: list[str]) -> None:
        """Add texts as JSON."""
        data = json.dumps(texts, separators=(",", ":")).encode()
        self._put(name, "text", data, len(data))

    def _put(self, name: str, kind: str, data: bytes, length: int) -> None:
        self.layout[name] = [kind, self.size, length]
        data += bytes(-len(data) % 4)
        self.parts.append(data)
        self.size += len(data)

    def text(self) -> str:
        """Return everything, compressed, as base64."""
        return base64.b64encode(zlib.compress(b"".join(self.parts))).decode()


def payload(f: Findings, spent: int) -> dict[str, Any]:
    """Return the data of a page of which `spent` bytes are written already."""
    rows, evidence = f.map_rows, f.evidence
    packed = Packed()
    packed.add("xy", np.round(f.map.positions * 65535).astype("u2"))
    packed.add("cluster", _small_codes(f.labels[rows]))
    packed.add("second", _small_codes(evidence.second[rows]))
    packed.add("certainty", to_shades(evidence.certainty[rows], 0, 1))
    packed.add("decision", to_shades(evidence.decision[rows].T, -1, 1))
    packed.add("agreement", to_shades(evidence.agreement[rows].T, -1, 1))
    if len(rows) < len(f.labels):
        packed.add("sample", rows.astype("u4"))
    if f.names is not None:
        packed.add_texts("names", [f.names[i] for i in rows])
    class_names = None
    if f.classes is not None:
        listed, codes = np.unique(np.array(f.classes)[rows], return_inverse=True)
        class_names = listed.tolist()
        packed.add("class", _small_codes(codes))
    for entry, values in f.columns:
        packed.add(entry["array"], values[rows])
    near = _nearest(f, packed, spent)
    packed.add("near", (near & 0xFFFF).astype("u2"))
    if len(rows) >= 0xFFFF:
        # Apart, because nearly all of it is the same and takes no room.
        packed.add("near_high", (near >> 16).astype("u1"))
    return {
        "map": {
            "n": len(rows),
            "n_all": len(f.labels),
            "n_clusters": len(f.sizes),
            "n_near": near.shape[2],
            "sizes": f.sizes.tolist(),
            "views": f.view_names,
            "weights": [round(weight, 4) for weight in f.weights],
            "colours": _colours(f, class_names),
            "layout": packed.layout,
            "packed": packed.text(),
        },
        "marks": {"colours": len(LIGHT), "shapes": list(SHAPES.values())},
    }


def _small_codes(codes: Array) -> Array:
    return codes.astype("u1" if codes.max(initial=0) < 256 else "u2")


def _colours(f: Findings, class_names: list[str] | None) -> list[dict[str, Any]]:
    """Return the choices that the map can be coloured by."""
    clusters = [f.cluster_title(c) for c in range(len(f.sizes))]
    found: list[dict[str, Any]] = [{"title": "cluster", "array": "cluster", "names": clusters}]
    if class_names is not None:
        found.append({"title": "known class", "array": "class", "names": class_names})
    found.append({"title": "certainty", "array": "certainty", "low": 0, "high": 1})
    for v, name in enumerate(f.view_names if len(f.view_names) > 1 else []):
        title = f"agreement of {name}"
        found.append({"title": title, "array": "agreement", "part": v, "low": -1, "high": 1})
    return found + [entry for entry, _ in f.columns]


def _nearest(f: Findings, packed: Packed, spent: int) -> NDArray[np.uint32]:
    """Return as many nearest samples per view as a file of its size has room for."""
    n = len(f.map_rows)
    left = _FIXED + _PER_SAMPLE * n - spent - len(packed.text())
    each = n * len(f.view_names) * (2 if n < 0xFFFF else 2.2) * 4 / 3
    count = min(int(np.clip(left / each, 0, _MOST_NEAR)), max(n - 1, 0))
    rng = np.random.RandomState(f.random_state)
    return nearest_samples(f.model, f.graphs, f.data, f.map_rows, count, rng)
