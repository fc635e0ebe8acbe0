"""
Adding a place
==============

The solver does not know where the rows of a fit are. It asks whatever holds them for sums, and
three methods are all it asks. Memory, disk, cluster and GPU are four answers; this page adds a
fifth: rows that are kept *compressed* in memory and unpacked only while they are used. It is
useful where memory is short and there is no disk, and short enough to be read in one go.

You need this page if your rows live somewhere new: a database, a ring of machines, another kind of
device.
"""

# %%
# The seam
# --------
# Rows hold the anchor graphs and the indicator F of some samples, and have three methods:
#
# ==========  ====================================================================================
# ``gram``    the products of the graphs with one another, small matrices
# ``sweep``   one pass: the new F from the old, and sums over it, small matrices as well
# ``assign``  the last pass: the labels
# ==========  ====================================================================================
#
# The sums of two sets of rows add up to those of both. Therefore rows can be cut into parts, and
# the parts can be anywhere: ``ChunkedRows`` adds up, ``RowsOnDemand`` makes rows when they are
# needed and lets them go afterwards. Our rows are those two put together, around the rows in
# memory that exist already.

import time
import zlib
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np

from omcal import OMCAL
from omcal.datasets import make_multiview
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.places import base
from omcal.places.memory import MemoryRows, learn_in_memory
from omcal.places.parts import ChunkedRows, RowsOnDemand


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
        self.rows = None

    def unpack(self):
        """Rows in memory, for one use."""
        graphs = AnchorGraphs(self.indices.get(), self.weights.get(), self.n_anchors)
        self.rows = MemoryRows(graphs, self.n_clusters, F=self.F.get())
        return self.rows

    def pack(self):
        """Keep the new F, and nothing else."""
        self.F.put(self.rows.F)
        self.rows = None


# %%
# The place
# ---------
# A place is a class with three methods. ``learn`` finds scalings and anchors; ours are found in
# memory, so the function for that serves. ``build`` makes rows with them, one block of samples
# after another, so that no more than a block is ever unpacked. ``apply`` labels new samples, which
# needs no rows. ``supported_options`` names the options that mean something here; all others are
# refused, by name, instead of being ignored.

BLOCK = 4096


class Compressed(base.Place):
    """Rows in memory, compressed."""

    supported_options = frozenset()

    def learn(self, settings, random_states):
        return learn_in_memory(self.views, settings, random_states)

    def build(self, learned, settings):
        for one in learned:
            self.parts = [
                PackedPart(one.graphs(self.views, rows), settings.n_clusters)
                for rows in row_blocks(self.views.n, BLOCK)
            ]
            yield ChunkedRows([RowsOnDemand(part.unpack, part.pack) for part in self.parts])

    def apply(self, rule, wanted, out=None):
        return base.collect(rule.blocks(self.views), wanted, self.views.n, out)


# %%
# The choice
# ----------
# In the package a place gets one line in ``_choose`` of ``omcal.places.base``, the only function
# that decides where a fit happens. Here we put it there for the length of a ``with``, and keep an
# eye on the place that is made.

made = []


def choose(views, asked):
    """Every fit is compressed."""

    class Watched(Compressed):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    return Watched, "compressed rows"


data = make_multiview(40_000, n_clusters=8, n_views=3, n_features=12, random_state=0)
began = time.process_time()
plain = OMCAL(n_clusters=8, random_state=0).fit(data.views)
in_memory = time.process_time() - began
with mock.patch.object(base, "_choose", choose):
    began = time.process_time()
    packed = OMCAL(n_clusters=8, random_state=0).fit(data.views)
    slower = (time.process_time() - began) / in_memory
    new = packed.predict({name: view[:1000] for name, view in data.views.items()})
    try:
        OMCAL(n_clusters=8, memory_limit="1GB").fit(data.views)
    except ValueError as error:
        print("refused:", error)

print("labels the same:", (plain.labels_ == packed.labels_).all())
print("of new samples: ", (new == plain.labels_[:1000]).all())
print(f"objective off by {np.abs(plain.objective_ / packed.objective_ - 1).max():.1e}")

# %%
# Not one line of the solver, the estimators or the anchors knows of it.
#
# Was it worth it?
# ----------------
# Look before you ship. Indices and F compress, since F is mostly zeros; the weights are random
# digits and hardly do.

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
# A place that works, then, and not one to ship: the gain is small, and what is saved in memory is
# paid for in every pass. Rows on disk are the better answer where memory is short. But now you
# know where yours goes.
#
# Into the package
# ----------------
# * A file in ``src/omcal/places/``, a line in ``_choose`` of ``base.py``, and what the views need
#   to be recognised by (``views.home``), if it is the data that say where they are.
# * An entry in ``ROWS`` of ``tests/conftest.py``. Every test that takes ``make_rows`` then runs on
#   your rows, among them those that hold the solver to a slow and plain reference over the whole
#   range of parameters. This is the part that finds mistakes.
# * Sums in float64, whatever F is stored in, and in an order that depends on nothing but the data,
#   so that the same seed gives the same labels twice.
# * Never fall back to another place in silence.

plt.show()
