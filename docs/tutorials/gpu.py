"""
On a GPU
========

``device="cuda"`` moves a fit to a GPU. This page shows three ways to use a GPU, compares the result
with that of the CPU, and ends with measurements.

The page runs on any machine. Without a GPU it uses PyTorch's tensors on the CPU, which is slower
than NumPy and only shows that the results agree. Without PyTorch it shows the recorded figures.
"""

# %%
# Three ways to use it
# --------------------
# ::
#
#     OMCAL(n_clusters=10, device="cuda").fit([X1, X2])            # arrays, sent in blocks
#     OMCAL(n_clusters=10).fit([T1, T2])                           # tensors, used where they are
#     OMCAL(n_clusters=10, device="cuda:0,cuda:1").fit([X1, X2])   # rows divided between two GPUs
#
# Tensors on the GPU are not copied, and labels have the type of the input. The embeddings of a
# neural network can thus be clustered without leaving the GPU.

import importlib.util

import matplotlib.pyplot as plt
import numpy as np

import omcal
from omcal import OMCAL
from omcal.datasets import make_multiview

data = make_multiview(20_000, n_clusters=10, n_features=(32, 16), n_views=2, random_state=0)
views = [view.astype(np.float32) for view in data.views.values()]
on_cpu = OMCAL(n_clusters=10, random_state=0).fit(views)

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed (extra gpu): nothing is run here, see the figures below.")
else:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"PyTorch {torch.__version__}, tensors on {device!r}")
    tensors = [torch.from_numpy(view).to(device) for view in views]
    on_device = OMCAL(n_clusters=10, random_state=0).fit(tensors)
    agree = (on_device.labels_.cpu().numpy() == on_cpu.labels_).mean()
    print(f"labels are a {type(on_device.labels_).__name__}; {agree:.2%} as on the CPU")

# %%
# The same seed draws the same anchors on every device. Sums are computed in another order there, so
# that a sample exactly between two clusters may get another label. In ``benchmarks/gpu.py`` all
# labels of fits with the same anchors agree.
#
# Measurements
# ------------
# Measured on an NVIDIA H200 with the data on the GPU and 30 iterations (``benchmarks/gpu.py``).
# k-means is Lloyd's algorithm in plain PyTorch, also 30 iterations. All figures:
# :doc:`performance </performance>`.

import json
from pathlib import Path

results = Path(omcal.__file__).resolve().parents[2] / "benchmarks" / "results" / "gpu.json"
if not results.exists():
    print("omcal is not installed from its repository: the recorded figures are not here.")
    cases = {}
else:
    recorded = json.loads(results.read_text(encoding="utf-8"))
    cases = recorded["cases"]
    print(recorded["device"], "PyTorch", recorded["torch"])

figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
rows = np.arange(len(cases))
times = {
    "OMCAL.fit": [case["model.fit"]["s"] for case in cases.values()],
    "k-means": [case["kmeans_s"] for case in cases.values()],
}
for offset, (label, seconds) in zip((-0.2, 0.2), times.items(), strict=True):
    bars = ax.barh(rows + offset, [1000 * s for s in seconds], 0.38, label=label)
    ax.bar_label(bars, fmt="%.0f ms", padding=3)
ax.set_yticks(rows, list(cases))
ax.set(xlabel="milliseconds", xscale="log", xlim=(5, 10_000))
ax.invert_yaxis()
figure.legend(frameon=False, loc="outside upper center", ncols=2)
ax.spines[["top", "right"]].set_visible(False)

# %%
# Ten million samples of 448 features take less than a tenth of a second. Sixty thousand are too
# few to keep the GPU busy, and plain k-means takes about as long there.
#
# When it does not fit
# --------------------
# A fit needs about a hundred bytes per sample in addition to the data. If the GPU is full, the
# error names the memory that is needed, the free memory, and remedies. There is no silent fall back
# to the CPU, and options without a meaning on a GPU are refused:

try:
    OMCAL(n_clusters=10, device="cuda", memory_limit="4GB").fit(views)
except (ValueError, ImportError) as error:
    print(f"{type(error).__name__}: {error}")

plt.show()
