"""The one choice of a place: all views with all wishes work, or are refused in one line."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from large_fits import mapped, overlapping
from omcal import OMCAL
from omcal.places.choose import PlaceRequest, place_for
from omcal.views.reading import read_views

WISHES = {
    "device": "cuda",
    "memory_limit": 10**6,
    "scratch_dir": "there",
    "client": SimpleNamespace(submit=None, compute=None),
    "group": SimpleNamespace(rank=None, size=None),
}
SETS = [wished for size in range(6) for wished in combinations(WISHES, size)]
HOMES = ["memory", "files", "Dask", pytest.param("tensors", marks=pytest.mark.torch)]

# What works, and where; every other combination is refused.
WORKS = {
    "memory": {
        (): "InMemory",
        ("scratch_dir",): "InMemory",
        ("memory_limit",): "OnDisk",
        ("memory_limit", "scratch_dir"): "OnDisk",
        ("device",): "OnDevices",
    },
    "files": {
        (): "OnDisk",
        ("scratch_dir",): "OnDisk",
        ("memory_limit",): "OnDisk",
        ("memory_limit", "scratch_dir"): "OnDisk",
        ("device",): "OnDevices",
        ("client",): "OnCluster",
    },
    "Dask": {(): "OnCluster", ("client",): "OnCluster"},
    "tensors": {(): "OnDevices", ("device",): "OnDevices"},
}
# With a group a rank may have its rows at any place but a Dask cluster.
for works in WORKS.values():
    works |= {
        (*wished, "group"): "OnRanks" for wished, place in works.items() if place != "OnCluster"
    }


@pytest.fixture(scope="module")
def at_home(tmp_path_factory):
    """Views that are at this home."""
    arrays = overlapping(300)

    def make(home):
        if home == "files":
            return mapped(tmp_path_factory.mktemp("files"), arrays)
        if home == "Dask":
            pytest.importorskip("distributed", reason="the extra dask is not installed")
            import dask.array as da

            return [da.from_array(view, chunks=(100, -1)) for view in arrays]
        if home == "tensors":
            torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
            return [torch.from_numpy(view) for view in arrays]
        return arrays

    return make


def chosen(X, wished):
    if "client" in wished:
        pytest.importorskip("distributed", reason="the extra dask is not installed")
    return place_for(
        read_views(OMCAL(), X), PlaceRequest(**{name: WISHES[name] for name in wished})
    )


@pytest.mark.parametrize("wished", SETS, ids=lambda wished: "+".join(wished) or "nothing")
@pytest.mark.parametrize("home", HOMES)
def test_every_combination(at_home, home, wished):
    X = at_home(home)
    expected = WORKS[home].get(wished)
    if expected:
        assert type(chosen(X, wished)).__name__ == expected
        return
    with pytest.raises(ValueError) as refusal:
        chosen(X, wished)
    message = str(refusal.value)
    assert "\n" not in message
    named = [word for word in (*wished, home) if word in message]
    assert len(named) >= 2, message


def test_nothing_is_missing_from_the_table():
    """A wish added to `PlaceRequest` needs its rows here."""
    assert set(PlaceRequest().__dataclass_fields__) == set(WISHES)


@pytest.mark.sampled
@pytest.mark.parametrize("home", ["memory", "files"])
@pytest.mark.parametrize("wished", [(), ("memory_limit",), ("scratch_dir",)])
def test_the_result_is_the_same_wherever_it_is_worked_out(at_home, home, wished, tmp_path):
    wishes = {"memory_limit": 30_000, "scratch_dir": tmp_path}
    model = OMCAL(4, random_state=0, **{name: wishes[name] for name in wished})
    expected = OMCAL(4, random_state=0).fit(at_home("memory"))
    found = model.fit(at_home(home))
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-10)


@pytest.mark.parametrize("order", [1, -1])
def test_views_of_several_homes(at_home, order):
    """Which view comes first does not matter; workers can read files, but not this memory."""
    files, blocks, arrays = at_home("files"), at_home("Dask"), at_home("memory")
    assert type(chosen([files[0], arrays[1]][::order], ())).__name__ == "OnDisk"
    assert type(chosen([files[0], blocks[1]][::order], ())).__name__ == "OnCluster"
    with pytest.raises(ValueError, match=r"view 'view[12]' is in the memory .* workers cannot"):
        chosen([arrays[0], blocks[1]][::order], ())


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_a_refusal_leaves_the_model_as_it_was(at_home, method):
    model = OMCAL(4, random_state=0).fit(at_home("memory"))
    before = model.labels_
    if method == "fit":
        model.set_params(device="cuda", memory_limit="1GB")
        with pytest.raises(ValueError, match=r"memory_limit cannot be combined with device='cuda'"):
            model.fit(at_home("memory"))
    else:
        with pytest.raises(ValueError, match=r"out has shape \(3,\); X has 300 samples"):
            model.predict(at_home("memory"), out=np.empty(3))
    assert model.labels_ is before


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:0,cpu", "CUDA", ""])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match=rf"device={device!r} is not known; use 'cpu', 'cuda'"):
        OMCAL(4, device=device).fit(overlapping(300))
