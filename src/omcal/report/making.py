"""Write the head of a report, and the sections on its origin: runs, data, code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from omcal.machine.versions import versions
from omcal.model.drift import Drift
from omcal.model.view_effects import Range, sufficient_views
from omcal.report.findings import BETWEEN, Findings
from omcal.report.html import (
    Cell,
    Html,
    Section,
    TableRow,
    facts,
    figure,
    join,
    paragraph,
    percent,
    table,
)
from omcal.views.columns import listed
from omcal.views.kinds import ASKED, Kind

_HALF = 0.5  # with runs, a sample with at most this certainty lies between two clusters
_MANY, _MOST = 0.1, 0.5  # shares of the samples to report
_BEYOND_CHANCE = 0.2  # of the adjusted Rand index with known classes
STEADY = 0.9  # adjusted Rand index from which results count as equal

Diagnostic = tuple[str, str]  # an observation, and a remedy
_LONGEST_VALUE = 80
_WIDTH, _HEIGHT = 440, 230  # text stays readable on a screen of 400 pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 14, 40
_MARKED = 30  # up to this number of points each is marked
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


def lead(f: Findings) -> Html:
    """Return the result in a sentence, the reasons for trust and doubt, and the numbers."""
    n, found = len(f.labels), int((f.sizes > 0).sum())
    used = f.sizes[f.sizes > 0]
    least, most = percent(used.min() / n), percent(used.max() / n)
    sentence = (
        f"{n:,} samples in {count(len(f.view_names), 'view')} were divided into "
        f"{count(found, 'cluster')}, each with {least if least == most else f'{least} to {most}'} "
        "of the samples."
    )
    trusted = "".join(f"<li>{escape(text)}</li>" for text in trust(f))
    doubted = "".join(
        f"<li>{escape(_sentence(what))}"
        + (f' <span class="advice">{escape(_sentence(advice))}</span>' if advice else "")
        + "</li>"
        for what, advice in doubts(f)
    )
    nothing = "<li>No test found a reason to doubt the fit, the views or the clusters.</li>"
    untested = f.model.structure_ is None
    none_passed = (
        "<li>Whether there are clusters at all was not tested: too few samples, or the model was "
        "loaded from a file.</li>"
        if untested
        else "<li>Nothing yet: no test found clusters beyond those of noise.</li>"
    )
    columns = Html(
        '<div class="verdict"><div class="good"><h2>What to trust</h2>'
        f"<ul>{trusted or none_passed}</ul></div>"
        f'<div class="bad"><h2>What to doubt</h2><ul>{doubted or nothing}</ul></div></div>'
    )
    return join(paragraph(sentence, "lead"), columns, facts(_numbers(f)))


def _numbers(f: Findings) -> dict[str, str]:
    numbers = {
        "samples": f"{len(f.labels):,}",
        "views": str(len(f.view_names)),
        "clusters": str(int((f.sizes > 0).sum())),
        "anchors": str(f.parameters["n_anchors"]),
        "iterations": str(f.model.n_iter_),
    }
    if f.seconds is not None:
        numbers["seconds"] = f"{f.seconds:.2f}"
    if f.scores:
        numbers["accuracy"] = percent(f.scores["accuracy"])
    return numbers


def trust(f: Findings) -> list[str]:
    """Return the tests that the result has passed; noise would fail each of them."""
    tested = f.model.structure_
    if tested is None or not tested.found:
        return []
    found = [
        f"The clusters separate neighbours with a score of {tested.separation:.2f} (0: chance, 1: "
        f"perfect); data without clusters reach {tested.null:.2f}."
    ]
    repeated = f.explanation and f.explanation.repeated_range
    if repeated and repeated[0] >= STEADY:
        found.append(
            f"Random resamples of the data give the same clusters: ARI {interval(repeated)}."
        )
    stability = getattr(f.model, "stability_", None)
    if stability is not None and stability >= STEADY:
        found.append(
            f"The {len(f.model.runs_)} runs agree with the result: ARI {stability:.2f} in the mean."
        )
    sufficient = [] if f.explanation is None else sufficient_views(f.explanation)
    if len(sufficient) > 1:
        names = ", ".join(view.name for view in sufficient)
        found.append(f"Each of these views gives the same clusters by itself: {names}.")
    # Two classes reach an accuracy of a half by chance, but no ARI above 0.
    accuracy = f.scores.get("accuracy", 0.0)
    if accuracy >= _MOST and f.scores["ari"] > _BEYOND_CHANCE:
        found.append(f"{percent(accuracy)} of the samples are where their known class says.")
    return found


def doubts(f: Findings) -> Iterator[Diagnostic]:
    """Yield the reasons to doubt the result, each with a remedy."""
    told = f.model.doubts_
    yield from ((doubt.what, doubt.advice) for doubt in told)
    repeated = f.explanation and f.explanation.repeated_range
    if repeated and repeated[0] < STEADY:
        yield (
            f"random resamples of the data give other clusters: ARI {interval(repeated)}.",
            "ask for another number of clusters"
            + ("." if hasattr(f.model, "runs_") else ", or join several runs (Consensus)."),
        )
    tested = f.model.structure_
    if f.explanation is not None and (tested is None or tested.found):
        known = set(map(str, told))
        yield from ((text, "") for text in f.explanation.warnings if text not in known)
        if names := decisive_views(f):
            which = "it" if len(names) == 1 else "any one of them"
            text = f"the result rests on {', '.join(names)}: without {which} the clusters change."
            yield text, "make sure that you trust what it measures."
    # By their ties, or because half of the runs differ.
    between = f.evidence.certainty <= (_HALF if hasattr(f.model, "runs_") else BETWEEN)
    if between.mean() > _MANY:
        yield (
            f"{percent(between.mean())} of the samples lie between two clusters.",
            "look at the doubtful samples below, or ask for fewer clusters.",
        )
    unsure = [c for c, size in enumerate(f.sizes) if size and between[f.labels == c].mean() > _MOST]
    if unsure:
        yield (
            f"most samples of {cluster_list(unsure)} lie between two clusters.",
            "do not read much into it without a look at its samples.",
        )
    accuracy = f.scores.get("accuracy", 1.0)
    if accuracy < _MOST:
        yield (
            f"only {percent(accuracy)} of the samples are where their known class says.",
            "look at the features of the clusters: they may show something else.",
        )
    rule = f.evidence.same_rule
    if rule is not None and rule < 0.9:
        yield (
            f"predict puts only {percent(rule)} of these samples into the cluster that they have "
            "here.",
            "take labels_ for these samples.",
        )


def decisive_views(f: Findings) -> list[str]:
    """Return the views without which the clusters change more than between resamples."""
    found = f.explanation
    if found is None or found.repeated_range is None:
        return []
    low = found.repeated_range[0]
    return [v.name for v in found.views if v.without < low - 0.1]


def count(number: int, what: str) -> str:
    """Return a number and its noun: 1 view, 1,200 samples."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def interval(found: Range) -> str:
    """Return a range as text: 0.50 to 0.75, or one number if both ends are equal."""
    low, high = (f"{end:.2f}" for end in found)
    return low if low == high else f"{low} to {high}"


def cluster_list(numbers: list[int]) -> str:
    """Return the numbers of clusters as text, at most twelve."""
    return ("cluster " if len(numbers) == 1 else "clusters ") + listed(numbers)


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


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
    model = getattr(f.model, "joined_by", f.model)
    names = ", ".join(sorted({type(model).__name__, type(f.model).__name__}))
    # str(model) shows the parameters that differ from the defaults.
    code = f"from omcal import {names}\n\nmodel = {model}\nlabels = model.fit_predict(X)"
    if f.command:
        code = f"{f.command}\n\n# or in Python\n{code}"
    seed = model.random_state
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


def _value(value: object) -> str:
    """Return a value as text; three dots if it is long or not plain."""
    text = repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    plain = isinstance(value, np.ndarray | np.generic | str | int | float | list | tuple | dict)
    return text if len(text) <= _LONGEST_VALUE and (plain or value is None) else "..."


def drift_section(drift: Drift) -> Section:
    """Return the comparisons beyond chance, and whether to fit again."""
    header, *rows = drift._table()
    listed = [table(header, rows, "Differences that are not chance", file="drift")] if rows else []
    body = join(*map(paragraph, drift.remarks()), *listed)
    return Section("drift", "Whether the samples have moved", "Drift", body)


def line_chart(values: Sequence[float], x_title: str, y_title: str) -> Html:
    """Return an SVG line of values over 1, 2, 3 ..., with the first and last value as text."""
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
