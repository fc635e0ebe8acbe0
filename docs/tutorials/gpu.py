"""
On a GPU
========

One word moves a fit to a graphics card: ``device="cuda"``. This page shows the three ways to say
it, proves on the spot that the result is the same as on the CPU, and ends with figures of a large
card.

It runs anywhere. With a GPU it uses it; with PyTorch alone it goes the same way with tensors on
the CPU, which is slower than NumPy and good for nothing but to show that the results agree;
without PyTorch it says so and shows the recorded figures.
"""

# %%
# Three ways to say it
# --------------------
# ::
#
#     OMCAL(n_clusters=10, device="cuda").fit([X1, X2])            # arrays, sent in blocks
#     OMCAL(n_clusters=10).fit([T1, T2])                           # tensors, used where they are
#     OMCAL(n_clusters=10, device="cuda:0,cuda:1").fit([X1, X2])   # rows shared out to two cards
#
# Tensors that are on the card already are not copied, and labels come back as what was passed in.
# That is the way after a neural network: its embeddings never leave the card.

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
# The same seed draws the same anchors on every device. Sums are taken in another order there, so
# that a sample that lies exactly between two clusters may come out otherwise; given the same
# anchors, all labels of the fits that ``benchmarks/gpu.py`` compares agree.
#
# What it gains
# -------------
# Recorded on a large card, data on the card, 30 iterations (``benchmarks/gpu.py`` measures it, its
# results are in the repository). k-means is Lloyd's algorithm in plain PyTorch, 30 iterations as
# well. More is on the page about :doc:`performance </performance>`.

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
for offset, key, label in ((-0.2, "omcal", "omcal, whole fit"), (0.2, "kmeans_s", "k-means")):
    seconds = [case["fit"]["s"] if key == "omcal" else case[key] for case in cases.values()]
    bars = ax.barh(rows + offset, [1000 * s for s in seconds], 0.38, label=label)
    ax.bar_label(bars, fmt="%.0f ms", padding=3)
ax.set_yticks(rows, list(cases))
ax.set(xlabel="milliseconds", xscale="log", xlim=(5, 10_000))
ax.invert_yaxis()
figure.legend(frameon=False, loc="outside upper center", ncols=2)
ax.spines[["top", "right"]].set_visible(False)

# %%
# Ten million samples of 448 features take less than a tenth of a second. Sixty thousand are too
# few to keep the card busy, and plain k-means takes about as long there.
#
# When it does not fit
# --------------------
# A fit needs some hundred bytes a sample beside the data. A card that is full is answered with
# what is needed, what is free and what would work. Nothing falls back to the CPU in silence, and
# options that mean nothing there are refused:

try:
    OMCAL(n_clusters=10, device="cuda", memory_limit="4GB").fit(views)
except (ValueError, ImportError) as error:
    print(f"{type(error).__name__}: {error}")

plt.show()
