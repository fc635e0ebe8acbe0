"""
On a cluster
============

If one machine is too small or too slow, Dask can divide the rows among many. The views
are Dask arrays, or files that every worker can read, and the fit is the same call.
This page starts a small cluster inside its own process, so that it runs anywhere; for a real
cluster only the line with ``Client`` differs.
"""

# %%
# A small cluster
# ---------------
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

cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
)
client = Client(cluster)
print(f"{len(client.scheduler_info()['workers'])} workers")

# %%
# Views in chunks
# ---------------
# A view is a Dask array, cut into blocks of rows. Here they come from memory; usually from files
# on a shared disk or in an object store (``da.from_zarr``, ``dask.dataframe.read_parquet``). All
# views should have the same chunks of rows; otherwise they are rechunked, which moves data, with a
# notice.

data = make_multiview(20_000, n_clusters=6, n_views=2, n_features=(24, 12), random_state=0)
chunked = {name: da.from_array(view, chunks=(5_000, -1)) for name, view in data.views.items()}
print(chunked["view1"])

# %%
# The fit
# -------
# Each worker builds the anchor graphs of its own rows and keeps them. An iteration sends a few
# small matrices to the workers and adds up the small matrices that they return; no data per
# sample is sent. The labels stay on the workers until you compute them.

began = time.perf_counter()
model = OMCAL(n_clusters=6, random_state=0).fit(chunked)
print(f"{time.perf_counter() - began:.1f} s, {model.n_iter_} iterations")
print(type(model.labels_).__module__, model.labels_.chunks)
labels = model.labels_.compute()
print(f"accuracy {evaluate(data.labels, labels)['accuracy']:.3f}")

# %%
# The same as on one machine
# --------------------------
# A distributed fit uses the same algorithm. The sums of the parts add up to those of all rows,
# so that the labels are those of a fit in memory with the same seed.

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
# ``predict`` of a Dask array is lazy: workers can store its result without this process.

predicted = model.predict(chunked)
print(type(predicted).__module__, (predicted.compute() == labels).mean())
client.close()
cluster.close()

# %%
# When to use it
# --------------
# An iteration on two processes takes 38 ms with ten thousand rows, of which the sweep is 1 ms, and
# 114 ms with a million, of which it is 56 ms (``benchmarks/results/scaling_dask.md``). At a million
# rows two processes thus take twice as long for an iteration as one thread with the rows in memory;
# a gain needs more processes or more rows. For data larger than memory a fit from disk is enough.
# A cluster helps if reading the data takes most of the time, or if the data are on the cluster
# already (:doc:`what it costs </scaling>`).
#
# * Begin with one process per core, one thread each, and the extra ``fast`` on every worker.
# * If a worker dies, its rows are computed again elsewhere, and the result is the same.
# * With ``checkpoint=`` a fit whose client died continues from the checkpoint.
# * ``omcal cluster folder --clusters 10 --dask tcp://10.0.0.1:8786`` does all this from the shell.

plt.show()
