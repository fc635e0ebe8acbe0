"""
Adding a place
==============

The solver does not know where the rows of a fit are: it calls three methods that return sums over
them. Memory, disk, cluster and GPU implement these methods. This page adds a fifth place, where
rows are kept *compressed* in memory and unpacked only while they are used.

Read it if your rows live somewhere new: in a database, on other machines, on another kind of
device. A new place is one file and one line of a table.
"""

# %%
# The interface
# -------------
# Rows hold the anchor graphs and the indicator F of some samples, and have three methods:
#
# ==========  ====================================================================================
# ``gram``    products of the graphs with one another, as small matrices
# ``sweep``   one pass: compute the new F from the old, and return small sums over it
# ``assign``  last pass: return the labels
# ==========  ====================================================================================
#
# The sums of two sets of rows add up. Rows can therefore be cut into parts that are held anywhere:
# ``ChunkedRows`` adds the sums of its parts. A part is rows, or a function that returns a context
# manager: it creates rows when they are needed and releases them afterwards, as ours does.

import time
import zlib
from contextlib import contextmanager

import matplotlib.pyplot as plt
import numpy as np

from omcal import OMCAL
from omcal.datasets import make_multiview
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.places.base import Place, collect
from omcal.places.choose import PLACES
from omcal.places.memory import MemoryRows, join_in_memory, learn_in_memory
from omcal.places.parts import ChunkedRows


class Packed:
    """An array, compressed."""

    def __init__(self, array):
        self.put(array)

    def put(self, array):
        self.shape, self.dtype = array.shape, array.dtype
        self.data = zlib.compress(np.ascontiguousarray(array).tobytes(), level=1)

    def get(self):
        return np.frombuffer(zlib.decompress(self.data), self.dtype).reshape(self.shape).copy()


class PackedPart:
    """The graphs and F of a block of samples, compressed between uses."""

    def __init__(self, graphs, n_clusters):
        self.n_anchors, self.n_clusters = graphs.n_anchors, n_clusters
        self.indices, self.weights = Packed(graphs.indices), Packed(graphs.weights)
        self.F = Packed(np.zeros((graphs.n, n_clusters), graphs.weights.dtype))

    @contextmanager
    def unpacked(self):
        """Rows in memory, for one use; their new F is compressed, the rest is released."""
        graphs = AnchorGraphs(self.indices.get(), self.weights.get(), self.n_anchors)
        rows = MemoryRows(graphs, self.n_clusters, F=self.F.get())
        yield rows
        self.F.put(rows.F)


# %%
# The place
# ---------
# A place is a class with four methods. ``learn`` finds scalings and anchors; ours are found in
# memory, by an existing function. ``build`` makes rows with them, one block of samples after
# another, so that at most one block is unpacked. ``join`` makes the rows of ``Consensus``, which
# are small. ``apply`` labels new samples, which needs no rows. ``supported_options`` names the
# options that have a meaning here; all others are refused by name. ``learn`` and ``apply`` must
# refuse NaN and infinity, as the functions used here do. Everything else (progress, checkpoints,
# ranks) has a default that works.

BLOCK = 4096


class Compressed(Place):
    """Rows in memory, compressed."""

    supported_options = frozenset({"device"})

    def learn(self, settings, random_states):
        return learn_in_memory(self.views, settings, random_states)

    def build(self, models, settings):
        for model in models:
            self.parts = [
                PackedPart(model.graphs(self.views, rows), settings.n_clusters)
                for rows in row_blocks(self.views.n, BLOCK)
            ]
            yield ChunkedRows([part.unpacked for part in self.parts])

    def join(self, runs, n_clusters):
        return join_in_memory(runs, n_clusters)

    def apply(self, rule, wanted, out=None):
        return collect(rule.blocks(self.views), wanted, self.views.n, out)


# %%
# The choice
# ----------
# ``place_for`` in ``omcal/places/choose.py`` is the only function that decides where a fit happens.
# It goes through the table ``PLACES`` and takes the first place that gives a reason to serve the
# views and the request. Our line serves ``device="packed"``.

made = []


def packed(views, asked):
    """Reason to take this place, as error messages state it; None otherwise."""
    return "device='packed'" if asked.device == "packed" else None


class Watched(Compressed):
    """Keeps the place, so that we can look at it below."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        made.append(self)


PLACES.insert(0, (packed, Watched))

data = make_multiview(40_000, n_clusters=8, n_views=3, n_features=12, random_state=0)
began = time.process_time()
plain = OMCAL(n_clusters=8, random_state=0).fit(data.views)
in_memory = time.process_time() - began
began = time.process_time()
other = OMCAL(n_clusters=8, random_state=0, device="packed").fit(data.views)
slower = (time.process_time() - began) / in_memory
new = other.predict({name: view[:1000] for name, view in data.views.items()})
try:
    OMCAL(n_clusters=8, device="packed", memory_limit="1GB").fit(data.views)
except ValueError as error:
    print("refused:", error)

print("labels the same:", (plain.labels_ == other.labels_).all())
print("of new samples: ", (new == plain.labels_[:1000]).all())
print(f"objective off by {np.abs(plain.objective_ / other.objective_ - 1).max():.1e}")

# %%
# No line of the solver, the estimators or the anchors had to change.
#
# Measure it
# ----------
# Measure before you ship. Indices and F compress, since F is mostly zeros; the weights hardly do.

size = {"indices": np.zeros(2), "weights": np.zeros(2), "F": np.zeros(2)}
for part in made[0].parts:
    for name, total in size.items():
        array = getattr(part, name)
        total += np.prod(array.shape) * array.dtype.itemsize / 1e6, len(array.data) / 1e6
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
lines = np.arange(len(size))
for offset, column, label in ((-0.2, 0, "as they are"), (0.2, 1, "compressed")):
    bars = ax.barh(lines + offset, [pair[column] for pair in size.values()], 0.38, label=label)
    ax.bar_label(bars, fmt="%.1f MB", padding=3)
ax.set_yticks(lines, list(size))
ax.margins(x=0.2)
ax.set(xlabel="MB")
ax.invert_yaxis()
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
before, after = sum(size.values())
print(f"{before:.1f} MB became {after:.1f} MB; a fit took {slower:.1f} times the processor's time")

# %%
# The place works but is not worth shipping: the gain is small, and every pass pays for it. Rows on
# disk are the better answer where memory is short.
#
# Into the package
# ----------------
# * A file in ``src/omcal/places/`` and a line of ``PLACES`` in ``choose.py``. If the location
#   of the data decides, the line reads ``views.home``.
# * An entry in ``ROWS`` of ``tests/conftest.py``. Every test that takes ``make_rows`` then runs on
#   your rows, among them the comparison with a slow and plain reference over the whole range of
#   parameters.
# * Sums in float64, whatever F is stored in, and in an order that depends on nothing but the data,
#   so that the same seed gives the same labels twice.
# * Never fall back to another place in silence.

plt.show()
