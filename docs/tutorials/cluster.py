"""
On a cluster
============

When one machine is too small or too slow, the rows are shared out to many. omcal uses Dask for
that: the views are Dask arrays, or files that every worker can see, and the fit is the same call.
This page starts a small cluster inside this very process, so that it runs anywhere; on a real one
only the line with ``Client`` is another.
"""

# %%
# A cluster to try it on
# ----------------------
# Two workers, which are threads of this process: no port is opened. For a real cluster:
# ``Client("tcp://10.0.0.1:8786")``, or one made by dask-jobqueue or dask-kubernetes.

import importlib.util
import sys
import time

import matplotlib.pyplot as plt

from omcal import OMCAL
from omcal.datasets import make_multiview
from omcal.metrics import evaluate

if importlib.util.find_spec("distributed") is None:
    print("This page needs Dask: pip install 'omcal[dask]'.")
    sys.exit()

import dask.array as da
from distributed import Client, LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)
print(f"{len(client.scheduler_info()['workers'])} workers")

# %%
# Views in chunks
# ---------------
# A view is a Dask array, cut into blocks of rows. Here they come from memory; usually from files
# on a shared disk or in an object store (``da.from_zarr``, ``dask.dataframe.read_parquet``). All
# views should be cut at the same rows, else they are cut anew, which moves data; a notice says so.

data = make_multiview(20_000, n_clusters=6, n_views=2, n_features=(24, 12), random_state=0)
chunked = {name: da.from_array(view, chunks=(5_000, -1)) for name, view in data.views.items()}
print(chunked["view1"])

# %%
# The fit
# -------
# Each worker builds the anchor graphs of its own rows and keeps them. An iteration sends a few
# small matrices out and adds up a few small matrices that come back: nothing with one entry a
# sample travels. The labels stay on the workers until they are asked for.

began = time.perf_counter()
model = OMCAL(n_clusters=6, random_state=0).fit(chunked)
print(f"{time.perf_counter() - began:.1f} s, {model.n_iter_} iterations")
print(type(model.labels_).__module__, model.labels_.chunks)
labels = model.labels_.compute()
print(f"accuracy {evaluate(data.labels, labels)['accuracy']:.3f}")

# %%
# The same as on one machine
# --------------------------
# A distributed fit is not another algorithm. The sums of the parts add up to those of the whole,
# so the labels are those of a fit in memory with the same seed.

alone = OMCAL(n_clusters=6, random_state=0).fit(data.views)
print(f"{(alone.labels_ == labels).mean():.2%} of the labels are the same")

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(alone.objective_, "o-", markersize=8, color="0.7", label="in memory")
ax.plot(model.objective_, ".-", label="on the cluster")
ax.set(xlabel="iteration", ylabel="objective")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)

# %%
# New samples
# -----------
# ``predict`` of a Dask array is lazy: store it where you like, nothing has to come through this
# process.

predicted = model.predict(chunked)
print(type(predicted).__module__, (predicted.compute() == labels).mean())
client.close()
cluster.close()

# %%
# When it pays, and when not
# --------------------------
# An iteration costs a round trip: on two processes 38 ms at ten thousand rows, of which the work
# is 1 ms, and 114 ms at a million, of which it is 56 (``benchmarks/results/scaling_dask.md``). So
# at a million rows two processes take twice as long for an iteration as one thread that has the
# rows in memory; it takes more of them, or more rows, to gain. Data larger than memory are no
# reason either: a fit from disk does with little. A cluster pays where reading the data is the
# long part, or where they lie there anyway (:doc:`what it costs </scaling>`).
#
# * One process a core, one thread each, and the extra ``fast`` on every worker is a good start.
# * A worker that dies is no disaster: its rows are made again elsewhere, and the result is the
#   same.
# * With ``checkpoint=`` a fit whose client died goes on where it was.
# * ``omcal cluster folder --clusters 10 --dask tcp://10.0.0.1:8786`` does all this from the shell.

plt.show()
