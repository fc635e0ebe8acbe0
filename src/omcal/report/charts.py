"""A line chart as SVG, in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omcal.report.html import Html

_WIDTH, _HEIGHT = 440, 230  # so that text stays readable on a screen of 400 pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 14, 40
_MARKED = 30  # points up to which each is marked


def line_chart(values: Sequence[float], x_title: str, y_title: str) -> Html:
    """Return a line of values over 1, 2, 3 ..., with its first and last value as text.

    Examples
    --------
    >>> "polyline" in line_chart([3.0, 2.0, 1.9], "iteration", "objective").text
    True
    """
    y = np.asarray(values, dtype=float)
    n = len(y)
    low, high = float(y.min()), float(y.max())
    span = (high - low) or max(abs(high), 1.0) * 1e-3
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    xs = _LEFT + (np.arange(n) / max(n - 1, 1)) * width
    ys = _TOP + (high - y) / span * height
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(xs, ys, strict=True))
    dots = "".join(
        f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3"/>'
        for a, b in zip(xs, ys, strict=True)
        if n <= _MARKED
    )
    base = _TOP + height
    return Html(
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{y_title} from {y[0]:.4g} at the first to {y[-1]:.4g} at the last of {n}">'
        + "".join(_level(low + span * part, base - height * part) for part in (0, 0.5, 1))
        + "".join(_tick(t, xs[t - 1], base) for t in _ticks(n))
        + f'<line class="axis" x1="{_LEFT}" y1="{base}" x2="{_LEFT + width}" y2="{base}"/>'
        f'<polyline class="curve" points="{points}"/>{dots}'
        f'<text x="{_LEFT + width / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{x_title}</text>'
        f'<text x="14" y="{_TOP + height / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {_TOP + height / 2})">{y_title}</text></svg>'
    )


def _ticks(n: int) -> list[int]:
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    step = next((s for s in steps if n / s <= 7), n)
    inner = [t for t in range(step, n + 1, step) if n - t >= step / 2 or t == n]
    return sorted({1, *(t for t in inner if t - 1 >= step / 2), n})


def _level(value: float, y: float) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
    )


def _tick(number: int, x: float, base: float) -> str:
    return f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{number}</text>'
