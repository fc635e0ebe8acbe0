"""Marks of the clusters: ten colours, then six shapes, the same in figures and reports.

The colours differ by at least 17 (CIEDE2000) for normal colour vision and its three deficiencies,
on a white and on a dark page. With the shapes there are 60 marks.
"""

from __future__ import annotations

LIGHT = (
    *("#0000ff", "#eabf15", "#801500", "#40d4ea", "#156a55"),
    *("#808000", "#bf6a95", "#95aa80", "#55406a", "#6a80ff"),
)
DARK = (
    *("#aa80ff", "#955500", "#eaff00", "#006a6a", "#95ffff"),
    *("#95aa00", "#ffbfaa", "#9515d4", "#6aaaaa", "#95806a"),
)
# Shapes as Matplotlib names them -> paths about the origin, of about unit radius.
SHAPES = {
    "o": "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
    "s": "M-.9-.9H.9V.9H-.9Z",
    "^": "M0-1.2L1.1.8H-1.1Z",
    "D": "M0-1.3L1.2 0 0 1.3-1.2 0Z",
    "P": "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
    "v": "M0 1.2L-1.1-.8H1.1Z",
}


def colour_of(cluster: int) -> int:
    """Return the number of the colour of a cluster.

    Examples
    --------
    >>> colour_of(0), colour_of(11), shape_of(11)
    (0, 1, 1)
    """
    return int(cluster) % len(LIGHT)


def shape_of(cluster: int) -> int:
    """Return the number of the shape of a cluster; circles up to the tenth."""
    return int(cluster) // len(LIGHT) % len(SHAPES)
