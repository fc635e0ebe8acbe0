import io
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from omcal import plots

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_convergence_draws_each_iteration_counted_from_one(ax):
    assert plots.convergence([5.0, 3.0, 2.5], ax) is ax
    (line,) = ax.lines
    assert_allclose(line.get_xdata(), [1, 2, 3])
    assert_allclose(line.get_ydata(), [5.0, 3.0, 2.5])


@pytest.mark.parametrize("objective", [[], [[1.0, 2.0]], 3.0])
def test_convergence_refuses_what_is_no_history(objective):
    with pytest.raises(ValueError, match="objective"):
        plots.convergence(objective)


def test_view_weights_draws_named_bars_from_the_top(ax):
    assert plots.view_weights([0.7, 0.3], ["pixels", "edges"], ax) is ax
    assert_allclose([bar.get_width() for bar in ax.patches], [0.7, 0.3])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["pixels", "edges"]
    assert [text.get_text() for text in ax.texts] == ["0.700", "0.300"]
    bottom, top = ax.get_ylim()
    assert bottom > top
    assert ax.get_xlim()[1] > 0.7


def test_view_weights_needs_a_name_for_each_weight():
    with pytest.raises(ValueError, match="3 names"):
        plots.view_weights([0.5, 0.5], ["a", "b", "c"])


def test_similarity_draws_the_matrix_and_a_pair_of_lines_at_each_boundary(ax):
    B = np.diag([1.0, 2.0, 3.0, 4.0])
    assert plots.similarity(B, boundaries=[1, 3], ax=ax) is ax
    (image,) = ax.images
    assert_allclose(image.get_array(), B)
    assert sorted(line.get_xdata()[0] for line in ax.lines if line.get_xdata()[0] > 0) == [0.5, 2.5]
    assert sorted(line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] > 0) == [0.5, 2.5]


def test_similarity_colours_are_not_set_by_a_few_large_values(ax):
    B = np.ones((20, 20))
    B[0, 0] = 1000.0
    plots.similarity(B, ax=ax)
    assert ax.images[0].get_clim() == (0.0, 1.0)


@pytest.mark.parametrize("B", [np.ones((2, 3)), np.ones(3), np.ones((0, 0))])
def test_similarity_needs_a_square_matrix(B):
    with pytest.raises(ValueError, match="square"):
        plots.similarity(B)


def test_similarity_of_nothing_similar_can_be_drawn(ax):
    plots.similarity(np.zeros((3, 3)), ax=ax)
    ax.figure.savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.convergence([2.0, 1.0]),
        lambda: plots.view_weights([1.0], ["only"]),
        lambda: plots.similarity(np.eye(3)),
    ],
)
def test_without_axes_a_new_figure_is_made(draw):
    drawn = draw()
    assert drawn.figure.number in plt.get_fignums()


def test_sample_similarity_is_S_over_column_sums_times_S_transposed():
    S = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
    expected = S @ np.diag(1 / S.sum(axis=0)) @ S.T
    assert_allclose(plots.sample_similarity(S), expected)
    # For a graph whose rows sum to 1 the similarities of a sample do so too.
    assert_allclose(plots.sample_similarity(S).sum(axis=1), 1.0)


def test_sample_similarity_survives_unused_anchors_and_cancelling_columns():
    S = np.array([[1.0, 0.0, 2.0], [0.5, 0.0, -2.0]])
    B = plots.sample_similarity(S)
    assert np.isfinite(B).all()
    assert_allclose(B, [[1 / 1.5 + 1.0, 0.5 / 1.5 - 1.0], [0.5 / 1.5 - 1.0, 0.25 / 1.5 + 1.0]])


def test_sample_similarity_needs_a_matrix():
    with pytest.raises(ValueError, match="samples × anchors"):
        plots.sample_similarity([1.0, 2.0])


def test_overview_has_the_four_panels_and_leaves_pyplot_alone(tmp_path):
    figure = plots.overview([3.0, 2.0], [0.6, 0.4], ["a", "b"], np.eye(4), np.eye(4), [2])
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == [
        "Convergence",
        "View weights",
        "Similarity before learning",
        "Similarity after learning",
    ]
    assert plt.get_fignums() == []
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"omcal\[plot\]"):
        plots.convergence([1.0])


def test_parameter_grid_leaves_what_is_unknown_empty(ax):
    values = [[0.5, np.nan, 1.0], [0.2, 0.3, 0.4]]
    assert plots.parameter_grid(values, [0.1, 0.5], [1e-5, 0.2, 1e5], ax) is ax
    assert [text.get_text() for text in ax.texts] == ["0.50", "1.00", "0.20", "0.30", "0.40"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["$10^{-5}$", "0.2", "$10^{5}$"]


def test_over_anchors_draws_scores_from_0_to_1_and_times_from_0(ax):
    plots.over_anchors([10, 20], [0.4, 0.5], ax=ax)
    assert_allclose(ax.lines[0].get_xdata(), [10, 20])
    assert ax.get_ylim() == (0, 1.02)
    assert plots.over_anchors([1, 2], [3.0, 90.0], "seconds").get_ylim()[1] > 90


def test_scores_by_method_draws_a_bar_each(ax):
    plots.scores_by_method([[0.5, 0.6], [np.nan, 0.7]], ["SMC", "SMC-OCL"], ["ACC", "NMI"], ax)
    assert_allclose([bar.get_height() for bar in ax.patches], [0.5, 0.6, 0.0, 0.7])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["SMC", "SMC-OCL"]


def test_sample_map_names_each_cluster_at_one_of_its_samples(ax):
    xy = np.array([[0.0, 0.0], [0.1, 0.0], [0.05, 0.0], [1.0, 1.0]])
    plots.sample_map(xy, [0, 0, 0, 9], ax)
    assert {text.get_text(): text.get_position() for text in ax.texts} == {
        "0": (0.05, 0.0),
        "9": (1.0, 1.0),
    }


def test_class_table_shows_counts(ax):
    plots.class_table([[5, 0], [1, 4]], ["cat", "dog"], ax)
    assert [text.get_text() for text in ax.texts] == ["5", "1", "4"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: plots.parameter_grid([[1.0]], [0.1, 0.2], [1.0]),
        lambda: plots.over_anchors([1, 2], [1.0]),
        lambda: plots.scores_by_method([[1.0]], ["a"], ["x", "y"]),
        lambda: plots.sample_map([[1.0, 2.0]], [0, 1]),
        lambda: plots.class_table([[1, 2]], ["only one"]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    with pytest.raises(ValueError, match="shape"):
        call()
