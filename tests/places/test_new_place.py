"""A further place is one class and one line of `PLACES`."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omcal import OMCAL, Consensus
from omcal.datasets import make_multiview
from omcal.places import choose
from omcal.places.base import Place, collect
from omcal.places.memory import MemoryRows, join_in_memory, learn_in_memory
from omcal.places.parts import ChunkedRows

MADE = make_multiview(200, n_clusters=3, noise=0.6, random_state=0)


class InHalves(Place):
    """The rows of the first and of the second half, each by itself."""

    supported_options = frozenset({"device"})

    def learn(self, settings, random_states):
        return learn_in_memory(self.views, settings, random_states)

    def build(self, models, settings):
        half = self.views.n // 2
        for model in models:
            halves = [model.graphs(self.views, rows) for rows in (slice(half), slice(half, None))]
            yield ChunkedRows([MemoryRows(graphs, settings.n_clusters) for graphs in halves])

    def join(self, runs, n_clusters):
        return join_in_memory(runs, n_clusters)

    def apply(self, rule, wanted, out=None):
        return collect(rule.blocks(self.views), wanted, self.views.n, out)


@pytest.fixture
def halves(monkeypatch):
    def serves(views, asked):
        return "device='halves'" if asked.device == "halves" else None

    monkeypatch.setattr(choose, "PLACES", [(serves, InHalves), *choose.PLACES])


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    "make", [OMCAL, lambda *a, **k: Consensus(OMCAL(*a, **k), n_runs=3, random_state=0)]
)
def test_a_new_place_fits_and_predicts(make):
    expected = make(3, random_state=0).fit(MADE.views)
    found = make(3, random_state=0, device="halves").fit(MADE.views)
    assert_array_equal(found.labels_, expected.labels_)
    assert_allclose(found.objective_, expected.objective_, rtol=1e-10)
    assert_array_equal(found.predict(MADE.views), expected.predict(MADE.views))


@pytest.mark.usefixtures("halves")
def test_a_new_place_refuses_options_that_it_does_not_support():
    with pytest.raises(ValueError, match="memory_limit cannot be combined with device='halves'"):
        OMCAL(3, device="halves", memory_limit="1GB").fit(MADE.views)


def test_without_its_line_the_device_is_not_known():
    with pytest.raises(ValueError, match="device='halves' is not known; use 'cpu'"):
        OMCAL(3, device="halves").fit(MADE.views)


def test_a_place_has_few_members():
    members = {name for name in vars(Place) if callable(getattr(Place, name)) and name[0] != "_"}
    assert len(members) <= 9
    assert Place.__abstractmethods__ == {"learn", "build", "join", "apply"} < members
