"""
A million samples on a laptop
=============================

Two tables of a million rows lie on disk. This page clusters them without ever loading them, within
a few hundred megabytes, and puts the labels into a third file.

When this page is built it works on 100 000 rows, so that the build stays short. The million is one
word away: ``python million.py 1000000``. The last section has its cost.
"""

# %%
# Two files
# ---------
# Written block by block, as measurements arrive. Eight clusters, 48 and 16 features in float32; the
# second view cannot tell the last two clusters apart.

import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from omcal import OMCAL
from omcal.metrics import evaluate

n = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100_000
folder = Path(tempfile.mkdtemp(prefix="million-"))
rng = np.random.default_rng(0)
group = rng.integers(8, size=n, dtype=np.int8)
for name, width in {"video": 48, "audio": 16}.items():
    centres = rng.normal(size=(8, width))
    if name == "audio":
        centres[7] = centres[6]
    file = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", "float32", (n, width))
    for start in range(0, n, 50_000):
        rows = slice(start, start + 50_000)
        file[rows] = centres[group[rows]] + 1.5 * rng.normal(size=(len(group[rows]), width))
    file.flush()
print({path.name: f"{path.stat().st_size / 1e6:.0f} MB" for path in sorted(folder.iterdir())})

# %%
# Estimate the cost
# -----------------
# ``estimate`` computes the cost before any data are read: the memory beyond the data, by purpose,
# and a rough time.

print(OMCAL(n_clusters=8).estimate(1_000_000, [48, 16], dtype="float32"))

# %%
# Fit from disk
# -------------
# A memory-mapped file is a view like any other. ``memory_limit`` bounds the memory that grows with
# the number of samples: the graphs, the indicator and the blocks that are read; what does not fit
# goes to scratch files that are removed at the end of the fit. The data are read twice and
# no more, whatever the number of iterations.

views = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("video", "audio")}
model = OMCAL(n_clusters=8, memory_limit="100MB", scratch_dir=folder, random_state=0)
began = time.perf_counter()
model.fit(views)
seconds = time.perf_counter() - began
print(f"{n} rows: {seconds:.1f} s, {model.n_iter_} iterations, converged: {model.converged_}")
print(f"accuracy {evaluate(group, model.labels_)['accuracy']:.3f}")

# %%
# Labels to disk
# --------------
# ``predict`` takes any later file with the same columns, reads it once, and writes the labels as
# they come: nothing of the size of the data is ever in memory.

labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", "int32", (n,))
model.predict(views, out=labels)
print((labels == model.labels_).mean(), "of them are those of the fit")

# %%
# How the time grows
# ------------------
# Everything is linear in the rows: twice the rows, twice as many blocks of the same size. What
# does not grow is the choice of the anchors, which looks at a sample of 256 rows for each of them
# and no more. From 50 000 rows on compiled loops do the work, where Numba is installed: the curve
# bends there. The clock is that of the processor, which other programs on the machine do not
# disturb.

sizes = np.array([n // 8, n // 4, n // 2, n])
times = []
for size in sizes:
    part = {name: view[:size] for name, view in views.items()}
    began = time.process_time()
    model.fit(part)
    times.append(time.process_time() - began)

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(sizes, times, "o-")
ax.set(xlabel="rows", ylabel="CPU seconds of a fit from disk", xlim=(0, None), ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)

# %%
# The million, and five
# ---------------------
# The times above are those of the machine that built this page. The table has measurements on
# two cores, views of 64 and 32 features in float32, 10 clusters, 20 iterations, files out of the
# system's cache (``benchmarks/results/scaling_disk.md``; the memory is beyond that of the
# libraries):
#
# ============  =========  =============  =================  ==========================
# rows          data       from memory    from disk          ``memory_limit="200MB"``
# ============  =========  =============  =================  ==========================
# 500 000       0.19 GB    2.2 s, 0.4 GB  2.6 s, 0.2 GB      2.5 s, 0.2 GB
# 2 million     0.77 GB    7.9 s, 1.1 GB  9.1 s, 0.4 GB      8.9 s, 0.3 GB
# 5 million     1.92 GB    18 s, 2.5 GB   33 s, 0.6 GB       22 s, 0.3 GB
# ============  =========  =============  =================  ==========================
#
# The labels are the same in all three cases. ``memory_limit`` limits the memory that grows with the
# rows; the libraries and the blocks that are being read need memory in addition.
#
# * The extra ``fast`` (Numba) matters here: compiled loops are used from 50 000 rows on.
# * All ways and their limits: :doc:`larger than memory </scaling>`.
# * If the fit takes an hour, give it ``checkpoint="fit.checkpoint"``: after a crash it continues.
# * The same from the shell: ``omcal cluster FOLDER --clusters 8 --memory-limit 100MB``.
# * A CSV file cannot be memory-mapped; ``omcal convert data.csv data`` makes a folder of ``.npy``
#   files.

for path in folder.iterdir():
    path.unlink()
folder.rmdir()
plt.show()
