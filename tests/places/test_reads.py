"""How often a fit, and a prediction, read the rows of views in memory."""

import numpy as np
import pytest
from scipy import sparse

import omcal.method.anchors
from omcal import OMCAL, Consensus
from omcal.method import graph, scaling
from omcal.views.kinds import SAMPLE_ROWS
from omcal.views.view import View

N, M = 6000, 12
# Unless its tails are cut, the one with exponentials may show groups of its own.
own_groups = pytest.mark.filterwarnings("ignore:view 'positive' contradicts the others")


class Reads:
    """Rows that were asked for in blocks, and one by one, of each view."""

    def __init__(self):
        self.in_blocks = {}
        self.single = {}

    def note(self, view, index):
        kind = self.in_blocks if isinstance(index, slice) else self.single
        size = len(range(*index.indices(N))) if isinstance(index, slice) else len(index)
        kind[view.name] = kind.get(view.name, 0) + size


@pytest.fixture
def reads(monkeypatch):
    """What is read through `View.rows`; a look at all values for itself alone is an error."""
    noted, rows = Reads(), View.rows

    def counted(view, index):
        noted.note(view, index)
        return rows(view, index)

    def refused(view):
        raise AssertionError(f"view {view.name!r} is read once more to be checked")

    monkeypatch.setattr(View, "rows", counted)
    for module in (scaling, graph):
        monkeypatch.setattr(module, "check_finite", refused)
    monkeypatch.setattr(omcal.method.anchors, "SAMPLE_PER_ANCHOR", 40)
    return noted


def views():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 20)) * 4
    X = centres[rng.integers(3, size=N)] + rng.normal(size=(N, 20))
    return {"wide": X, "positive": np.exp(X[:, :7]), "narrow": X[:, :5].astype(np.float32)}


@pytest.mark.sampled
@own_groups
@pytest.mark.parametrize("scale", ["auto", "feature", "unit", "view", "log", "tfidf"])
def test_a_fit_reads_all_rows_twice(reads, scale):
    OMCAL(3, n_anchors=M, scale=scale, random_state=0).fit(views())
    assert set(reads.in_blocks.values()) == {2 * N}  # moments, graphs
    assert max(reads.single.values()) <= SAMPLE_ROWS + 40 * M  # kinds, anchors


def test_a_prediction_reads_all_rows_once(reads):
    X = views()
    model = OMCAL(3, n_anchors=M, random_state=0).fit(X)
    before = dict(reads.in_blocks)
    model.predict(X)
    assert {name: count - before[name] for name, count in reads.in_blocks.items()} == dict.fromkeys(
        X, N
    )


@own_groups
@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("scale", ["auto", "sample", "unit", "tfidf", "log", None])
@pytest.mark.parametrize("row", [0, 3333])  # in the rows by which kinds are told, and not
def test_values_that_are_not_finite_are_refused_by_name(bad, scale, row):
    X = {name: np.abs(view) for name, view in views().items()}
    model = OMCAL(3, n_anchors=M, scale=scale, random_state=0).fit(X)
    X["positive"][row, 3] = bad
    for attempt in (model.predict, model.fit):
        with pytest.raises(ValueError, match=r"'positive' contains .* NaN and .* infinity"):
            attempt(X)


def test_sparse_values_that_are_not_finite_are_refused():
    X = sparse.random_array((500, 200), density=0.05, format="csr", random_state=0)
    model = OMCAL(3, random_state=0).fit([X])
    X.data[7] = np.inf
    for attempt in (model.predict, model.fit, Consensus(OMCAL(3), n_runs=2).fit):
        with pytest.raises(ValueError, match="0 NaN and 1 infinity"):
            attempt([X])
