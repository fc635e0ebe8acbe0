"""Data and views that the tests of the PyTorch backend share."""

from types import SimpleNamespace

import numpy as np
import pytest

from omcal.places.choose import PlaceRequest
from omcal.places.gpu.place import OnDevices
from omcal.places.memory import InMemory
from omcal.views.reading import read_views

torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
torch.set_num_threads(1)  # more would spin while threads of other workers run

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def two_views(seed=0, n=400, widths=(6, 9), clusters=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    member = rng.integers(clusters, size=n)
    return [
        (6 * rng.normal(size=(clusters, d))[member] + rng.normal(size=(n, d)) + 3).astype(dtype)
        for d in widths
    ]


def host_views(arrays):
    return read_views(SimpleNamespace(), arrays)


def tensor_views(arrays, device, dtype=None):
    tensors = [torch.from_numpy(array).to(device=device, dtype=dtype) for array in arrays]
    return read_views(SimpleNamespace(), tensors)


def cut_small(monkeypatch, entries=1000):
    """A few rows make many blocks."""
    from omcal.places.gpu import kmeans, new_samples, plain_pass, views

    for module in (plain_pass, kmeans, views, new_samples):
        monkeypatch.setattr(module, "block_entries", lambda device: entries)


def placed(views, settings, seed=0, devices=None):
    """Rows and what they were made with: on these devices, or without in memory."""
    asked = SimpleNamespace(device=str(devices))
    place = InMemory(views, PlaceRequest()) if devices is None else OnDevices(views, asked)
    (learned,) = place.learn(settings, [np.random.RandomState(seed)])
    (rows,) = place.build([learned], settings)
    return SimpleNamespace(place=place, learned=learned, anchors=learned.anchors, rows=rows)


def applied(rule, views, device, wanted):
    """Labels or F of new samples on a device."""
    return OnDevices(views, SimpleNamespace(device=str(device))).apply(rule, wanted)
