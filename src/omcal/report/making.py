"""Write the sections of a report on how its result was made: runs, convergence, data, code."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from omcal.machine.versions import versions
from omcal.model.drift import Drift
from omcal.report.findings import Findings
from omcal.report.html import (
    Cell,
    Html,
    Section,
    TableRow,
    figure,
    join,
    paragraph,
    percent,
    table,
)
from omcal.report.summary import count
from omcal.views.kinds import ASKED, Kind

_LONGEST_VALUE = 80
_WIDTH, _HEIGHT = 440, 230  # so that text stays readable on a screen of 400 pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 14, 40
_MARKED = 30  # points up to which each is marked
_SCALINGS = {
    "feature": "each feature to mean 0 and deviation 1",
    "standard": "each feature to mean 0 and deviation 1, the view to variance 1",
    "log": "logarithm of each feature, to mean 0 and deviation 1, the view to variance 1",
    "tfidf": "damped counts, rare features up, each sample to length 1",
    "unit": "each sample to length 1",
    "sample": "each sample to mean 0 and deviation 1",
    "view": "one factor for the whole view",
    None: "as given",
}


def runs(f: Findings) -> Section | None:
    """Return agreement, objective and weights of each run that was joined; None for one run."""
    joined = getattr(f.model, "joined_by", None)
    if joined is None:
        return None
    similar = joined._similar
    words = (
        f"{len(similar)} runs with other anchors were joined. They agree with the result by an ARI "
        f"of {min(similar):.2f} to {max(similar):.2f}, {joined.stability_:.2f} in the mean: 1 "
        "means the same clusters, 0 no more than chance."
    )
    header = ("run", "ARI", "objective", "iterations", *(f"weight of {v}" for v in f.view_names))
    rows: list[TableRow] = [
        [
            str(number),
            f"{agreement:.3f}",
            f"{run.objective:.6g}",
            str(run.solution.n_iter),
            *map(percent, run.view_weights.tolist()),
        ]
        for number, (run, agreement) in enumerate(zip(joined.runs_, similar, strict=True), start=1)
    ]
    body = join(paragraph(words), table(header, rows, "Each run beside the result", file="runs"))
    return Section("runs", "How the runs differ", "Runs", body)


def convergence(f: Findings) -> Section:
    """Return the objective after each iteration."""
    history = np.asarray(f.model.objective_, dtype=float)
    what = "The run most like the result" if hasattr(f.model, "joined_by") else "It"
    state = f"{what} converged" if f.model.converged_ else f"{what} had not converged"
    words = (
        f"{state} after {count(f.model.n_iter_, 'iteration')}; the objective ended at "
        f"{history[-1]:.6g}."
    )
    weighting = f.parameters.get("weighting")
    if isinstance(weighting, str) and weighting in ("agreement", "distinct"):
        words += (
            " It need not fall: weights by agreement follow the clusters and do not minimise the "
            "objective, which may rise when they change. The fit stops when it changes no more."
        )
    body = join(
        paragraph(words),
        figure(line_chart(history.tolist(), "iteration", "objective"), "convergence"),
    )
    return Section("convergence", "Convergence", "Convergence", body)


def data(f: Findings) -> Section:
    """Return the views: features, samples, scaling."""
    present, n_views = f.graphs.present, len(f.view_names)
    counts = [len(f.labels)] * n_views if present is None else present.sum(axis=0).tolist()
    rows: list[TableRow] = [
        [name, f"{n_features:,}", f"{n_samples:,}", Cell(_scaling(kind), "text")]
        for name, n_features, n_samples, kind in zip(
            f.view_names, f.model.n_features_per_view_, counts, f.model.view_scales_, strict=True
        )
    ]
    source = [paragraph(Html(f"Source: <code>{escape(f.source)}</code>"))] if f.source else []
    body = join(
        *source,
        table(("view", "features", "samples", "scaled"), rows, f"{len(f.labels):,} samples in all"),
    )
    return Section("data", "What was clustered", "Data", body)


def _scaling(kind: Kind) -> str:
    """Return how the values of a view were scaled, in words."""
    reason = "" if kind.reason == ASKED.reason else f" ({kind.reason})"
    return _SCALINGS.get(kind.name, str(kind.name)) + reason


def repeat(f: Findings) -> Section:
    """Return parameters, versions, and the code that fits the model again."""
    code = snippet(f)
    if f.command:
        code = f"{f.command}\n\n# or in Python\n{code}"
    seed = getattr(f.model, "joined_by", f.model).random_state
    sentence = (
        f"The seed was {seed}: the same data, parameters and versions give the same clusters."
        if isinstance(seed, int)
        else "No seed was set: another run may give other clusters. Set random_state to repeat one."
    )
    listed: list[TableRow] = [
        [key, Cell(_value(value), "text")] for key, value in f.parameters.items()
    ]
    body = join(
        paragraph(f"{sentence} What is not listed has its default."),
        Html(
            f'<pre><code id="code">{escape(code)}</code></pre>'
            '<button type="button" class="screen" data-copy="code">Copy</button>'
        ),
        Html("<details><summary>All parameters and versions</summary>"),
        table(("parameter", "value"), listed, "Parameters"),
        table(
            ("library", "version"),
            [[k, Cell(v, "text")] for k, v in versions().items()],
            "Versions",
        ),
        Html("</details>"),
    )
    return Section("repeat", "How to repeat it", "Repeat", body)


def snippet(f: Findings) -> str:
    """Return code that fits the model again, with the parameters that are not the defaults."""
    model = getattr(f.model, "joined_by", f.model)
    names = sorted({type(model).__name__, type(f.model).__name__})
    return f"from omcal import {', '.join(names)}\n\nmodel = {model}\nlabels = model.fit_predict(X)"


def _value(value: object) -> str:
    """Return a value as text; three dots for a long one or one that is not plain."""
    text = repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    plain = isinstance(value, np.ndarray | np.generic | str | int | float | list | tuple | dict)
    return text if len(text) <= _LONGEST_VALUE and (plain or value is None) else "..."


def drift_section(drift: Drift) -> Section:
    """Return the comparisons that are not chance, and whether to fit again."""
    header, *rows = drift._table()
    listed = [table(header, rows, "Differences that are not chance", file="drift")] if rows else []
    body = join(*map(paragraph, drift.remarks()), *listed)
    return Section("drift", "Whether the samples have moved", "Drift", body)


def line_chart(values: Sequence[float], x_title: str, y_title: str) -> Html:
    """Return an SVG line of values over 1, 2, 3 ..., with its first and last value as text."""
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
        + "".join(
            f'<text x="{xs[t - 1]:.1f}" y="{base + 18}" text-anchor="middle">{t}</text>'
            for t in np.unique(np.linspace(1, n, min(n, 6)).round().astype(int))
        )
        + f'<line class="axis" x1="{_LEFT}" y1="{base}" x2="{_LEFT + width}" y2="{base}"/>'
        f'<polyline class="curve" points="{points}"/>{dots}'
        f'<text x="{_LEFT + width / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{x_title}</text>'
        f'<text x="14" y="{_TOP + height / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {_TOP + height / 2})">{y_title}</text></svg>'
    )


def _level(value: float, y: float) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
    )
