"""Figures that need a process of their own: growth, memory, first fits and imports.

They are lines of the table that speed.py prints.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def growth(repeats: int):
    """How a fit of 30 iterations grows in each size: a process each, beside what is estimated."""
    base = {"n": 250_000, "m": 40, "c": 10, "V": 2}
    first = _measured(base)
    sizes = ", ".join(f"{name} = {value}" for name, value in base.items())
    yield f"growth: {sizes}: time (s), memory / estimate", _cell(first)
    steps = {"n": 4_000_000, "m": 320, "c": 40, "V": 8}
    for name, last in steps.items():
        value = 2 * base[name]
        while value <= last:
            found = _measured({**base, name: value})
            ratio = found["seconds"] / first["seconds"]
            expected = found["expected_seconds"] / first["expected_seconds"]
            text = f"{ratio:.3g} ({expected:.3g} by the formula); {_memory(found)}"
            yield f"… {name} = {value}: time, memory / estimate", text
            value *= 2
            if found["n"] == 1_000_000:
                tenth = _measured({**base, "n": 100_000})
                ratio = found["seconds"] / tenth["seconds"]
                yield "time, n: 100000 → 1000000", f"{ratio:.3g}"


def _measured(size) -> dict[str, float]:
    return size | json.loads(in_process("growth", json.dumps(size)))


def _cell(found) -> str:
    return f"{found['seconds']:.3g}; {_memory(found)}"


def _memory(found) -> str:
    return f"{found['bytes'] / 1e6:.0f} / {found['expected_bytes'] / 1e6:.0f} MB"


def memory(repeats: int):
    """Peak memory of a fit beyond its input, in a process of its own."""
    found = _measured({"n": 1_000_000, "m": 50, "c": 10, "V": 3})
    yield (
        "peak memory beyond the input, n = 10⁶ × (16, 16, 16) float32, c = 10 (GB)",
        f"{found['bytes'] / 1e9:.3g}",
    )


_SNIPPETS = {
    "first": """
import time, warnings; import numpy as np; warnings.simplefilter("ignore")
from omcal import OMCAL, Consensus
from speed import clustered_views
X, _ = clustered_views(500, (10, 20, 30), 5, dtype=np.float64)
start = time.perf_counter(); OMCAL(5, random_state=0).fit(X)
print(1e3 * (time.perf_counter() - start))
""",
    "import": """
import time
start = time.perf_counter(); import omcal
alone = time.perf_counter() - start
import sklearn.cluster
start = time.perf_counter(); from omcal import OMCAL, Consensus
print(1e3 * alone, 1e3 * (time.perf_counter() - start))
""",
    "growth": """
import json, sys, time, warnings; warnings.simplefilter("ignore")
from pathlib import Path
from omcal import OMCAL, Consensus
from speed import clustered_views
size = json.loads(sys.argv[1])
def model(m=size["m"], c=size["c"]):
    return OMCAL(c, n_anchors=m, max_iter=30, tol=0, random_state=0)
X = clustered_views(size["n"], (16,) * size["V"], 10)[0]
def resident(key):
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(key + ":")[1].split()[0])
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
model().fit(X)  # which also loads what is compiled
peak = resident("VmHWM") - before
start = time.perf_counter()
model().fit(X)
seconds = time.perf_counter() - start
expected = model().estimate(size["n"], [16] * size["V"], dtype="float32")
print(json.dumps({"seconds": seconds, "bytes": peak, "expected_bytes": expected.bytes,
    "expected_seconds": expected.seconds - expected.time.get("loading compiled loops", 0.0)}))
""",
}


def in_process(name: str, *arguments: str) -> str:
    """What a program prints in a process of its own, with bytecode as installed packages have."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""}
        if name == "import":  # once to write the bytecode
            env["PYTHONPYCACHEPREFIX"] = folder
        for _ in range(2 if name == "import" else 1):
            done = subprocess.run(
                [sys.executable, "-c", _SNIPPETS[name], *arguments],
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
    return done.stdout
