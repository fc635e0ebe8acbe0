"""How clusters are told apart: six colours, then six shapes, the same in figures and reports.

The colours differ by at least 30 (CIE 1976) for usual colour vision and for each of its three
deficiencies, on white as on a dark page; with the shapes there are 36 marks.
"""

from __future__ import annotations

from dataclasses import dataclass

LIGHT = ("#001d47", "#d76900", "#007758", "#925499", "#1cb0ff", "#512300")
DARK = ("#2f67da", "#d74404", "#3dd681", "#ba5d95", "#dcf5ff", "#f9d40d")


@dataclass(frozen=True)
class Shape:
    """A shape as Matplotlib names it, and as a path about the origin, of about unit radius."""

    marker: str
    path: str


SHAPES = (
    Shape("o", "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z"),
    Shape("s", "M-.9-.9H.9V.9H-.9Z"),
    Shape("^", "M0-1.2L1.1.8H-1.1Z"),
    Shape("D", "M0-1.3L1.2 0 0 1.3-1.2 0Z"),
    Shape("P", "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z"),
    Shape("v", "M0 1.2L-1.1-.8H1.1Z"),
)


def colour_of(cluster: int) -> int:
    """Which of the colours a cluster has.

    Examples
    --------
    >>> colour_of(0), colour_of(7), shape_of(7)
    (0, 1, 1)
    """
    return int(cluster) % len(LIGHT)


def shape_of(cluster: int) -> int:
    """Which of the shapes a cluster has."""
    return int(cluster) // len(LIGHT) % len(SHAPES)
