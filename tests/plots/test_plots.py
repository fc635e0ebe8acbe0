import io
import sys
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from omcal import OMCAL, plots
from omcal.datasets import make_multiview
from omcal.plots import palette

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


@pytest.mark.slow
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
    with pytest.raises(ImportError, match="pip install matplotlib"):
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


def test_cluster_sizes_are_ordered_and_named(ax):
    plots.cluster_sizes([2, 2, 2, 0, 3, 3], ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["2", "3", "0", "1"]
    assert_allclose([bar.get_width() for bar in ax.patches], [3, 2, 1, 0])
    assert ax.texts[0].get_text() == "3 (50.0%)"


def test_confusion_is_ordered_to_its_diagonal(ax):
    classes = np.repeat(["a", "b", "c"], [5, 6, 7])
    labels = np.array([2] * 5 + [0] * 4 + [2] * 2 + [1] * 7)
    assert plots.confusion(classes, labels, ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["2", "0", "1"]
    assert_allclose(ax.images[0].get_array(), [[5, 2, 0], [0, 4, 0], [0, 0, 7]])
    assert [text.get_text() for text in ax.texts] == ["5", "2", "4", "7"]


def test_certainty_of_an_indicator_is_the_margin_between_clusters(ax):
    F = np.array([[3.0, 1.0], [4.0, 0.0], [1.0, 1.0]])
    plots.certainty(F, [0, 0, 1], ax)
    # Margins 0.5 and 1 in cluster 0, and 0 in cluster 1, which is less sure and comes first.
    edges = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    assert_allclose(edges, [(0, 0), (0.625, 0.875)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "0"]
    given = plots.certainty([0.5, 0.7, 0.1], [0, 0, 1])
    assert [label.get_text() for label in given.get_yticklabels()] == ["1", "0"]


def test_features_of_a_cluster_are_its_effects(ax):
    data = make_multiview(120, n_clusters=3, random_state=0)
    model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    described = model.describe_clusters(data.views, top=3)
    plots.cluster_features(described, 1, ax=ax)
    effects = sorted((f.effect for f in described.of(1)), key=lambda effect: -abs(effect))
    assert_allclose([bar.get_width() for bar in ax.patches], effects)
    one = plots.cluster_features(described, 1, "view2")
    names = [label.get_text() for label in one.get_yticklabels()]
    assert names == [f.feature for f in described.of(1, "view2")]
    with pytest.raises(ValueError, match="cluster=7 has no features"):
        plots.cluster_features(described, 7)


def simulated(colour, matrix):
    """CIELAB of a colour as an eye with this matrix sees it."""
    rgb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(matrix @ linear, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes 2009, full severity.
VISION = {
    "usual": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def ciede2000(first, second):
    """The difference of two colours in CIELAB (Sharma, Wu and Dalal 2005)."""
    (L1, a1, b1), (L2, a2, b2) = first, second
    mean = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    stretch = 1.5 - 0.5 * np.sqrt(mean / (mean + 25.0**7))
    C1, C2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = np.arctan2(b1, stretch * a1), np.arctan2(b2, stretch * a2)
    turn = (h2 - h1 + np.pi) % (2 * np.pi) - np.pi
    L, C, h = (L1 + L2) / 2, (C1 + C2) / 2, np.degrees(h1 + turn / 2) % 360
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.2, 4, -63))
    T = 1 + sum(size * np.cos(np.radians(times * h + shift)) for size, times, shift in waves)
    dL = (L2 - L1) / (1 + 0.015 * (L - 50) ** 2 / np.sqrt(20 + (L - 50) ** 2))
    dC = (C2 - C1) / (1 + 0.045 * C)
    dH = 2 * np.sqrt(C1 * C2) * np.sin(turn / 2) / (1 + 0.015 * C * T)
    lean = np.radians(60 * np.exp(-(((h - 275) / 25) ** 2)))
    R = -np.sin(lean) * 2 * np.sqrt(C**7 / (C**7 + 25.0**7))
    return np.sqrt(dL**2 + dC**2 + dH**2 + R * dC * dH)


def test_the_difference_is_the_published_one():
    assert ciede2000((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert ciede2000((50, 2.49, -0.001), (50, -2.49, 0.0011)) == pytest.approx(7.2195, abs=1e-4)
    assert ciede2000((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514)) == pytest.approx(
        0.9082, abs=1e-4
    )


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK])
def test_ten_colours_stay_apart_for_every_eye(colours, vision):
    seen = [simulated(colour, np.array(VISION[vision])) for colour in colours]
    assert len(colours) == 10
    assert min(ciede2000(a, b) for a, b in combinations(seen, 2)) > 17


def test_shapes_differ_beyond_ten_clusters():
    marks = [(palette.colour_of(c), palette.shape_of(c)) for c in range(60)]
    assert len(set(marks)) == 60
    assert {shape for _, shape in marks[:10]} == {0}
    assert len(set(palette.SHAPES.values())) == len(palette.SHAPES) == 6


def luminance(rgb):
    """Relative luminance of sRGB values from 0 to 1 (WCAG)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_numbers_are_readable_on_every_colour(ax):
    """The box behind a number on the map lets some of the colour through."""
    xy = np.random.RandomState(0).rand(20, 2)
    for text in plots.sample_map(xy, np.repeat(np.arange(10), 2), ax).texts:
        box = text.get_bbox_patch().get_alpha()
        for colour in palette.LIGHT:
            rgb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
            contrast = (luminance(box + (1 - box) * rgb) + 0.05) / 0.05  # of black text
            assert text.get_color() == "black" and contrast >= 4.5


def test_clusters_are_shown_by_name(ax):
    names, labels = ["small", "large"], [1, 1, 0]
    texts = plots.sample_map(np.eye(3, 2), labels, ax, cluster_names=names).texts
    assert [text.get_text() for text in texts] == names
    for draw in (
        lambda: plots.cluster_sizes(labels, cluster_names=names),
        lambda: plots.confusion(["a", "b", "b"], labels, cluster_names=names),
        lambda: plots.certainty([0.1, 0.2, 0.9], labels, cluster_names=names),
    ):
        assert {label.get_text() for label in draw().get_yticklabels()} == set(names)
    with pytest.raises(ValueError, match="cluster_names has 1 names"):
        plots.cluster_sizes(labels, cluster_names=["one"])


@pytest.mark.parametrize(
    "call",
    [
        lambda: plots.parameter_grid([[1.0]], [0.1, 0.2], [1.0]),
        lambda: plots.over_anchors([1, 2], [1.0]),
        lambda: plots.scores_by_method([[1.0]], ["a"], ["x", "y"]),
        lambda: plots.sample_map([[1.0, 2.0]], [0, 1]),
        lambda: plots.cluster_sizes([[1, 2]]),
        lambda: plots.confusion(["a"], [0, 1]),
        lambda: plots.certainty([0.5], [0, 1]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    with pytest.raises(ValueError, match="shape"):
        call()
