"""The page of a cluster tree: levels of clusters, and the samples that move between them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from omcal.plots.palette import LIGHT, colour_of
from omcal.report.html import (
    Html,
    Packed,
    Section,
    facts,
    figure,
    join,
    page,
    paragraph,
    percent,
    table,
)

if TYPE_CHECKING:
    from omcal.select.tree import ClusterTree

_WIDTH, _ROW, _BAR, _TOP = 1000, 78, 22, 16
_TEXT = 15  # height of the line above the bars of a level
_GAP = 3  # largest gap between clusters of a level
# Width of a digit. A cluster shows its number if there is room for it; on a phone, where the chart
# has about a third of the width, if there is room for three numbers.
_DIGIT, _NARROW = 8, 3
_LEAST = 0.002  # edges with a smaller share of all samples are not drawn


def tree_chart(tree: ClusterTree) -> Html:
    """Draw the levels as rows of bars, one per cluster and as wide as its share of the samples.

    Bands between the rows are the samples that two clusters share. Bars and bands are stretched to
    the width of the page, and texts are not.
    """
    order = positions(tree)
    height = _TOP + _ROW * (len(tree.numbers) - 1) + _BAR + 6
    rows = "".join(_level(tree, level, order[level]) for level in range(len(tree.numbers)))
    texts = "".join(_texts(tree, level, order[level]) for level in range(len(tree.numbers)))
    bands = "".join(_bands(tree, level, order) for level in range(len(tree.numbers) - 1))
    return Html(
        f'<svg class="tree" width="100%" height="{height}" role="img" '
        f'aria-label="Clusters of {len(tree.numbers)} levels, from {tree.numbers[0]} to '
        f'{tree.numbers[-1]}, and the samples that go from each to the next">'
        f'<svg width="100%" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'preserveAspectRatio="none">{bands}{rows}</svg>{texts}</svg>'
    )


def positions(tree: ClusterTree) -> list[dict[int, tuple[float, float]]]:
    """Return the start and width of each cluster, by level; branches are side by side."""
    found: list[dict[int, tuple[float, float]]] = []
    for level, sizes in enumerate(tree.sizes):
        keys = {c: (0.0, c) for c in range(len(sizes))}
        if level:
            above = tree.numbers[level - 1]
            for edge in tree.edges:
                if edge.level == above and edge.main:
                    keys[edge.target] = (found[-1][edge.source][0], edge.target)
        gap = min(_GAP, 0.3 * _WIDTH / len(sizes))
        room = _WIDTH - gap * (len(sizes) - 1)
        start, row = 0.0, {}
        for c in sorted(keys, key=keys.__getitem__):
            width = room * sizes[c] / sum(sizes)
            row[c] = start, width
            start += width + gap
        found.append(row)
    return found


def _colour(cluster: int) -> str:
    """Return a CSS class, whose colour depends on the theme, and a colour for notebooks."""
    return f'class="k{colour_of(cluster)}" fill="{LIGHT[colour_of(cluster)]}"'


def _level(tree: ClusterTree, level: int, row: dict[int, tuple[float, float]]) -> str:
    """Return the bars of a level."""
    y, k, parts = _TOP + _ROW * level, tree.numbers[level], []
    for c, (x, width) in row.items():
        sure = tree.cluster_stability[level][c]
        parts.append(
            f'<g tabindex="0" role="button" data-level="{level}" data-cluster="{c}" '
            f'aria-label="cluster {c} of {k}: {tree.sizes[level][c]:,} samples">'
            f"<title>cluster {c} of {k}: {tree.sizes[level][c]:,} samples, stability {sure:.2f}"
            f'</title><rect {_colour(c)} x="{x:.1f}" y="{y}" width="{max(width, 0.8):.1f}" '
            f'height="{_BAR}" fill-opacity="{0.35 + 0.65 * sure:.2f}"/></g>'
        )
    return "".join(parts)


def _texts(tree: ClusterTree, level: int, row: dict[int, tuple[float, float]]) -> str:
    """Return the number of clusters of a level and its stability, and the numbers on its bars."""
    y, k = _TOP + _ROW * level, tree.numbers[level]
    weight = "bold" if k == tree.suggestion else "normal"
    parts = [
        f'<text x="0" y="{y - 4}" font-size="13"><tspan font-weight="{weight}">{k} clusters'
        f"</tspan>, stability {tree.stability[level]:.2f}</text>"
    ]
    for c, (x, width) in row.items():
        needed = _DIGIT * (len(str(c)) + 1)
        if width >= needed:
            tight = "" if width >= _NARROW * needed else " tight"
            parts.append(
                f'<text x="{100 * (x + width / 2) / _WIDTH:.2f}%" y="{y + 15}" font-size="13" '
                f'text-anchor="middle" class="number{tight}" fill="white" stroke="#1b2430" '
                f'stroke-width="2.5" paint-order="stroke" pointer-events="none">{c}</text>'
            )
    return "".join(parts)


def _bands(tree: ClusterTree, level: int, order: list[dict[int, tuple[float, float]]]) -> str:
    """Return the bands from a level to the next; jumps between branches are darker."""
    upper, lower = order[level], order[level + 1]
    sizes, below = tree.sizes[level], tree.sizes[level + 1]
    y = _TOP + _ROW * level + _BAR
    end = y + _ROW - _BAR - _TEXT
    middle = (y + end) / 2
    used_above, used_below = dict.fromkeys(upper, 0.0), dict.fromkeys(lower, 0.0)
    edges = [edge for edge in tree.edges if edge.level == tree.numbers[level]]
    edges.sort(key=lambda edge: (upper[edge.source][0], lower[edge.target][0]))
    parts = []
    for edge in edges:
        a = upper[edge.source][1] * edge.size / sizes[edge.source]
        b = lower[edge.target][1] * edge.size / below[edge.target]
        x0 = upper[edge.source][0] + used_above[edge.source]
        x1 = lower[edge.target][0] + used_below[edge.target]
        used_above[edge.source] += a
        used_below[edge.target] += b
        if edge.size < _LEAST * sum(sizes):
            continue
        opacity = 0.22 if edge.main else 0.6
        words = f"{edge.size:,} samples, {edge.share:.0%} of cluster {edge.source}"
        words += "" if edge.main else "; they jump to another branch"
        parts.append(
            f'<path {_colour(edge.source)} fill-opacity="{opacity}" d="M{x0:.1f} {y}'
            f"C{x0:.1f} {middle} {x1:.1f} {middle} {x1:.1f} {end}H{x1 + b:.1f}"
            f'C{x1 + b:.1f} {middle} {x0 + a:.1f} {middle} {x0 + a:.1f} {y}Z">'
            f"<title>{words}</title></path>"
        )
    return "".join(parts)


def tree_section(tree: ClusterTree) -> Section:
    """Return the chart with the panel of a cluster, and a table of the levels."""
    levels = "".join(
        f'<option value="{i}"{" selected" if k == tree.suggestion else ""}>{k} clusters</option>'
        for i, k in enumerate(tree.numbers)
    )
    listed = table(
        ("clusters", "stability", "min", "max", "jumps"),
        [
            (str(k), f"{tree.stability[i]:.2f}", f"{min(tree.sizes[i]):,}",
             f"{max(tree.sizes[i]):,}", percent(tree.jumps[i]) if i < len(tree.jumps) else "")
            for i, k in enumerate(tree.numbers)
        ],
        "Levels, with the sizes of the smallest and the largest cluster",
        file="levels",
    )  # fmt: skip
    bold = "" if tree.suggestion is None else " The suggested number of clusters is bold."
    body = join(
        paragraph(
            "Each row is one number of clusters, each bar a cluster, as wide as its share of the "
            "samples; a pale bar is a cluster that other runs do not find. Bands are samples that "
            "go from a cluster to the clusters of the next row; strong ones jump to another "
            "branch. A cluster keeps its number and colour along its branch. Jumps are the share "
            f"of samples that change their branch at the next level.{bold}"
        ),
        Html(
            f'<div class="tools screen"><label>Level <select id="level">{levels}</select></label>'
            '<button type="button" id="level-labels">Labels (CSV)</button></div>'
        ),
        figure(tree_chart(tree), "cluster-tree"),
        Html('<div id="node" class="sample" aria-live="polite">Hover or click a cluster.</div>'),
        listed,
    )
    return Section("tree", "How clusters split", "Tree", body, long=True)


def tree_payload(tree: ClusterTree, ids: Collection[object] | None, n: int) -> dict[str, Any]:
    """Return the data of a page of n samples: features of the clusters, labels of all levels."""
    if tree.all_labels.shape[1] != n:
        raise ValueError(f"tree has {tree.all_labels.shape[1]} samples, and the model {n}.")
    packed = Packed()
    for level, k in enumerate(tree.numbers):
        codes = tree.all_labels[level] + 1  # 0: not in the tree
        packed.add(f"level{level}", codes.astype("u1" if k < 255 else "u2"))
    if ids is not None:
        packed.add_texts("ids", [str(one) for one in ids])
    features = [
        [[[f.view, f.name, round(f.deviation, 2)] for f in cluster] for cluster in level]
        for level in tree.features
    ]
    return {
        "tree": {
            "numbers": tree.numbers,
            "views": len({f.view for level in tree.features for some in level for f in some}),
            "sizes": tree.sizes,
            "stability": np.round(np.concatenate(tree.cluster_stability), 3).tolist(),
            "edges": [[e.level, e.source, e.target, e.size, int(e.main)] for e in tree.edges],
            "features": features,
            "layout": packed.layout,
            "packed": packed.text(),
        }
    }


def tree_page(tree: ClusterTree, ids: Collection[object] | None, title: str | None) -> str:
    """Return the page that `ClusterTree.write` writes."""
    n = tree.all_labels.shape[1]
    if ids is not None and len(ids) != n:
        raise ValueError(f"ids has {len(ids)} entries for {n} samples; give one per sample.")
    shown = {"samples": f"{n:,}", "levels": f"{tree.numbers[0]} to {tree.numbers[-1]}"}
    if tree.suggestion is not None:
        shown["suggested"] = f"{tree.suggestion}"
    return page(
        title=title or f"{n:,} samples in {tree.numbers[0]} to {tree.numbers[-1]} clusters",
        kind="Cluster tree",
        lead=facts(shown),
        sections=[tree_section(tree)],
        data=tree_payload(tree, ids, n),
    )
