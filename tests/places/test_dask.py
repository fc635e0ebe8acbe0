"""Rows on a Dask cluster of two processes: the same result as in memory, for every input."""

import logging
from functools import wraps

import numpy as np
import pytest
import test_exact
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from large_fits import assert_same_fit, mapped, overlapping
from omcal import OCAL, OMCAL
from omcal.cli import main
from omcal.machine.threads import row_blocks

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask
import dask.array as da

from dask_fits import SETTINGS, Distributed, cut

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def expected():
    """The fit in memory."""
    return OMCAL(**SETTINGS).fit(overlapping())


# The solver against Algorithm 1


@pytest.fixture
def make_rows(client):
    def make(graphs, n_clusters):
        return Distributed(client, graphs, n_clusters)

    return make


def few(test, arguments, strategy):
    """The test on a few examples; each iteration of each takes its turn around the cluster.

    They are drawn beforehand: the cluster's threads draw random numbers, too, which Hypothesis
    takes for tests that change from run to run.
    """
    examples = []
    drawn = settings(
        max_examples=8,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],  # of a busy machine
    )
    drawn(given(strategy)(lambda example: examples.append(example)))()

    # Three of them are enough where other tests of the cluster run, too.
    cases = [
        pytest.param(*example, id=str(i), marks=[pytest.mark.long] if i > 2 else [])
        for i, example in enumerate(examples)
    ]

    @pytest.mark.parametrize(arguments, cases)
    @wraps(test.hypothesis.inner_test)
    def on_examples(*args, **kwargs):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_exact, "assume", require)
            test.hypothesis.inner_test(*args, **kwargs)

    return on_examples


def require(condition):
    if not condition:
        pytest.skip("the test does not speak of examples such as this")


test_equals_algorithm_1 = few(
    test_exact.test_equals_algorithm_1,
    ("problem", "weighting"),
    st.tuples(test_exact.problems(), st.sampled_from(["adaptive", "agreement", "fixed"])),
)
test_float32_storage_gives_the_same_labels = few(
    test_exact.test_float32_storage_gives_the_same_labels,
    ("problem",),
    st.tuples(test_exact.problems()),
)
test_objective_never_rises = few(
    test_exact.test_objective_never_rises, ("problem",), st.tuples(test_exact.problems())
)
test_rows_may_be_grouped_in_any_way = test_exact.test_rows_may_be_grouped_in_any_way


# The estimator


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("rows", [6000, 1700, pytest.param(130, marks=pytest.mark.long)])
def test_any_chunking_gives_the_result_of_memory(expected, rows):
    model = OMCAL(**SETTINGS).fit(cut(overlapping(), rows))
    assert isinstance(model.labels_, da.Array)
    assert model.labels_.shape == (6000,)
    assert model.labels_.dtype == np.int32
    assert_same_fit(model, expected)


@pytest.mark.long
@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("scale", ["sample", "view", None])
def test_every_scaling(scale):
    views = overlapping(dtype=np.float64)
    settings = {**SETTINGS, "scale": scale, "n_init": 2}
    found = OMCAL(**settings).fit(cut(views))
    assert_same_fit(found, OMCAL(**settings).fit(views))


@pytest.mark.usefixtures("client")
def test_given_anchors_and_init():
    rng = np.random.default_rng(2)
    views = overlapping()
    settings = {
        **SETTINGS,
        "scale": None,
        "anchors": [rng.normal(size=(9, 6)), rng.normal(size=(9, 4))],
        "init": np.linalg.qr(rng.normal(size=(9, 4)))[0],
    }
    assert_same_fit(OMCAL(**settings).fit(cut(views)), OMCAL(**settings).fit(views))


@pytest.mark.usefixtures("client")
def test_samples_absent_from_a_view():
    A, B = overlapping()
    A[2000:3800], B[::7] = np.nan, np.nan
    A[::7] = overlapping()[0][::7]
    expected = OMCAL(**SETTINGS).fit([A, B])
    assert_same_fit(OMCAL(**SETTINGS).fit(cut([A, B])), expected)
    np.testing.assert_array_equal(expected.predict(cut([A, B])).compute(), expected.predict([A, B]))


@pytest.mark.usefixtures("client")
def test_predict_and_transform_stay_in_dask(expected):
    views = overlapping(seed=1)
    labels, F = expected.predict(cut(views)), expected.transform(cut(views, 999))
    assert isinstance(labels, da.Array) and isinstance(F, da.Array)
    np.testing.assert_array_equal(labels.compute(), expected.predict(views))
    np.testing.assert_array_equal(F.compute(), expected.transform(views))
    with pytest.raises(ValueError, match=r"out= is not for X in Dask"):
        expected.predict(cut(views), out=np.empty(6000))


@pytest.mark.usefixtures("client")
def test_views_cut_at_different_rows(expected, caplog):
    A, B = overlapping()
    model = OMCAL(**SETTINGS)
    with caplog.at_level(logging.WARNING, logger="omcal"):
        model.fit([da.from_array(A, chunks=(2000, 5)), da.from_array(B, chunks=(900, 2))])
    assert "view 'view2' has 7 chunks of rows and another view 3; it is cut anew" in caplog.text
    assert_same_fit(model, expected)


@pytest.mark.usefixtures("client")
def test_data_frames(expected):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    A, B = overlapping()
    columns = [f"a_{i}" for i in range(6)] + [f"b_{i}" for i in range(4)]
    frame = dd.from_pandas(pd.DataFrame(np.hstack([A, B]), columns=columns), npartitions=4)
    frame = frame[frame.a_0 > -1e9]  # nobody knows any longer how many rows there are
    model = OMCAL(**SETTINGS, views="prefix_").fit(frame)
    assert model.view_names_ == ["a", "b"]
    assert_same_fit(model, expected)
    assert_same_fit(OMCAL(**SETTINGS).fit([frame[columns[:6]], frame[columns[6:]]]), expected)
    named = {"a": frame[columns[:6]], "b": frame.assign(b_3="x")[columns[6:]]}
    with pytest.raises(ValueError, match=r"view 'b' holds .* values; a view must be numeric"):
        OMCAL(**SETTINGS).fit(named)


@pytest.mark.usefixtures("client")
def test_lists_of_delayed_blocks(expected):
    A, B = overlapping()
    blocks = [[dask.delayed(X[rows]) for rows in row_blocks(6000, 2500)] for X in (A, B)]
    assert_same_fit(OMCAL(**SETTINGS).fit(blocks), expected)
    assert_same_fit(OMCAL(**SETTINGS).fit({"view1": blocks[0], "view2": blocks[1]}), expected)
    one = OCAL(**SETTINGS).fit(blocks[0])
    np.testing.assert_array_equal(np.asarray(one.labels_), OCAL(**SETTINGS).fit(A).labels_)
    with pytest.raises(ValueError, match=r"view 'view2': its blocks have the shapes .*same number"):
        OMCAL(**SETTINGS).fit([blocks[0], [blocks[1][0], blocks[0][0]]])


def test_files_that_the_workers_read(client, expected, tmp_path):
    files = mapped(tmp_path, overlapping())
    assert_same_fit(OMCAL(**SETTINGS, client=client).fit(files), expected)
    with pytest.raises(ValueError, match=r"view 'view1' is in the memory of this process"):
        OMCAL(**SETTINGS, client=client).fit(overlapping())


@pytest.mark.parametrize("where", ["there", pytest.param("here", marks=pytest.mark.long)])
def test_command_line(client, tmp_path, capsys, where):
    """On a running cluster, and on one that lives as long as the command."""
    np.savez(tmp_path / "data.npz", a=overlapping()[0], b=overlapping()[1])
    command = ["cluster", str(tmp_path / "data.npz"), "--clusters=4", "--runs=2", "--json"]
    places = {
        "there": ["--dask", client.scheduler.address],
        "here": ["--memory-limit=4GB", "--dask"],
    }
    found = []
    for options in ([], places[where]):
        out = tmp_path / "labels.csv"
        with pytest.raises(SystemExit) as end:
            main([*command, f"--out={out}", *options])
        assert end.value.code == 0, capsys.readouterr().err
        found.append([line.split(",")[:2] for line in out.read_text().splitlines()])
    assert found[0] == found[1]  # certainty is not known on a cluster


def test_a_client_is_shared_by_clones_and_left_out_of_pickles(client):
    import pickle

    model = OMCAL(**SETTINGS, client=client)
    assert clone(model).client is client
    assert pickle.loads(pickle.dumps(model)).client is None
    assert model.client is client
