"""The parts of a clustering report, in plain words."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from omcal.model.view_effects import ViewExplanation
from omcal.report.charts import line_chart
from omcal.report.features import features
from omcal.report.findings import ClassTable, Findings, changed
from omcal.report.html import (
    Cell,
    Html,
    Section,
    TableRow,
    bar,
    facts,
    figure,
    join,
    mark,
    paragraph,
    percent,
    sample_link,
    shortened,
    table,
)
from omcal.report.runs import runs
from omcal.report.summary import STEADY, cluster_list, count, decisive_views, interval

# Shares are written as percentages, indices and cosines as numbers.
SHARES = {"accuracy": "accuracy", "purity": "purity", "precision": "precision"}
INDICES = {"nmi": "NMI (max)", "ari": "ARI", "f_score": "F-score"}
_WIDE_TABLE = 40  # classes above which only the most frequent of a cluster are listed
_LONGEST_NAME = 80
_FILTERED = 12  # clusters above which the list of them can be searched


def all_sections(f: Findings) -> list[Section]:
    """Every section that there is something to say in, from the result to its making."""
    makers: tuple[Callable[[Findings], Section | None], ...] = (
        clusters,
        features,
        views,
        classes,
        samples,
        runs,
        convergence,
        data,
        repeat,
    )
    return [section for section in (make(f) for make in makers) if section is not None]


def clusters(f: Findings) -> Section:
    """The map, and the sizes."""
    drawn, n = len(f.map_rows), len(f.labels)
    note = (
        f"All {n:,} samples are drawn."
        if drawn == n
        else f"{drawn:,} of {n:,} samples are drawn: a random choice, with at least ten of every "
        "cluster."
    )
    legend = "".join(
        f'<li><button type="button" data-code="{c}" aria-pressed="false">{mark(c)}'
        f"<span>{escape(f.cluster_title(c))}</span>"
        f'<span class="count">{size:,}</span></button></li>'
        for c, size in enumerate(f.sizes.tolist())
    )
    search = (
        '<input id="filter" class="screen" type="search" placeholder="Filter the list" '
        f'aria-label="Filter the list"{"" if len(f.sizes) > _FILTERED else " hidden"}>'
    )
    body = join(
        paragraph(f"{_of_map(f)} Distances between far groups mean little. {note}"),
        Html(
            f'<div class="map"><figure>{_TOOLS}'
            '<div class="frame"><canvas id="map" tabindex="0" role="application" '
            'aria-label="Map of the samples. Arrow keys go from sample to sample, Enter opens '
            'one, plus and minus zoom."></canvas><div id="tip" class="tip" hidden></div>'
            '<div id="box" class="box" hidden></div></div>'
            '<figcaption class="screen">Click a sample to see what speaks for its cluster. Drag '
            "to move, pinch, or hold Ctrl and scroll, to zoom; hold Shift and drag, or press "
            "Select, to mark samples. With the keyboard: arrows go from sample to sample, Enter "
            "opens one, Shift and arrows move, + and − zoom, 0 shows all.</figcaption>"
            f'{_TAKE}<div id="said" class="skip" aria-live="polite"></div></figure>'
            f'<div class="side"><div id="card" class="sample" tabindex="-1" hidden></div>'
            f'<div id="marked" class="sample" hidden></div>{search}<div id="scale" hidden></div>'
            f'<ul id="legend" class="legend" aria-label="Clusters and their sizes">{legend}</ul>'
            "</div></div><noscript><p>The map needs JavaScript; everything else is here.</p>"
            "</noscript>"
        ),
        Html("<h3>Sizes</h3>"),
        _sizes(f),
    )
    return Section("clusters", "Clusters and a map of the samples", "Clusters", body, long=True)


def _sizes(f: Findings) -> Html:
    """Return the sizes of the clusters as bars, the largest first."""
    largest, n = max(int(f.sizes.max()), 1), len(f.labels)
    rows: list[TableRow] = [
        [
            f.cluster_label(c),
            f"{f.sizes[c]:,}",
            percent(f.sizes[c] / n),
            bar(f.sizes[c] / largest),
        ]
        for c in np.argsort(-f.sizes, kind="stable").tolist()
    ]
    return table(("cluster", "samples", "share", ""), rows, kind="full", file="cluster-sizes")


def _of_map(f: Findings) -> str:
    """How the map was made, how far it can be trusted, and the clusters it does not separate."""
    made = {
        "views": "Samples that are neighbours in the scaled views lie together; the clusters have "
        "no influence on the positions.",
        "graphs": "Samples that are tied to the same anchors lie together; the clusters have no "
        "influence on the positions. A map of the data themselves needs X: report(path, X).",
        "given": "The positions were given.",
    }[f.map.source]
    trust = f.map.trust
    if trust is not None:
        against = "the anchor graphs" if f.map.source == "graphs" else "the views"
        made += (
            f" Its trustworthiness is {trust:.2f}: 1 means that neighbours on the map are "
            f"neighbours in {against}, 0.5 that they are random."
        )
    if len(f.map.mixed) == len(f.sizes):
        made += " All clusters are mixed with one another on the map."
    elif f.map.mixed:
        made += (
            f" On the map {cluster_list(f.map.mixed)} {'is' if len(f.map.mixed) == 1 else 'are'} "
            "mixed with others: most neighbours there are of other clusters."
        )
    return made


_TOOLS = (
    '<div class="tools screen"><label>Colour by <select id="colour"></select></label>'
    '<span class="find"><input id="find" type="search" placeholder="Find a sample" '
    'aria-label="Find a sample by its id" autocomplete="off"><ul id="hits" hidden></ul></span>'
    '<span class="keys"><button type="button" id="in" aria-label="Zoom in">+</button>'
    '<button type="button" id="out" aria-label="Zoom out">−</button>'
    '<button type="button" id="all">Show all</button>'
    '<button type="button" id="select" aria-pressed="false">Select</button></span></div>'
)
_TAKE = (
    '<div class="take screen"><button type="button" id="labels">Labels (CSV)</button>'
    '<button type="button" id="map-png">Map (PNG)</button>'
    '<button type="button" id="map-svg">Map (SVG)</button></div>'
)


def views(f: Findings) -> Section | None:
    """Weights, and what each view contributes."""
    weights = table(
        ("view", "weight", ""),
        [(v.name, percent(v.weight), bar(v.weight)) for v in f.views],
        "Weight of each view in the consensus graph",
        kind="full",
        file="view-weights",
    )
    body = (
        join(weights, *_effects(f))
        if len(f.views) > 1
        else paragraph("There is one view; it has all the weight.")
    )
    return Section("views", "What each view contributes", "Views", body)


def _effects(f: Findings) -> list[Html]:
    found = f.explanation
    if found is None:
        return [paragraph("No two samples are in all views, and the views cannot be compared.")]
    largest = max(1 - view.without for view in found.views)
    rows: list[TableRow] = [
        [view.name, _shade(view.agreement), _importance(view.without, largest), _shade(view.alone)]
        for view in found.views
    ]
    return [
        paragraph(
            "A weight says how much of a view is in the consensus graph, not how useful the view "
            "is. Agreement is the cosine between the graph of the view and the clusters. The "
            "adjusted Rand index (ARI) compares the clusters that are found without the view, and "
            "from it alone, with the result: 1 means the same clusters, 0 no more than chance. "
            "The stronger the colour, the more the view matters: without it less is left, alone "
            "it gives more."
        ),
        table(
            ("view", "agreement", "ARI without it", "ARI alone"),
            rows,
            f"Each view left out, and each view alone, for {found.n_samples:,} samples",
            file="view-effects",
        ),
        paragraph(_verdict(f, found), "lead"),
    ]


def _verdict(f: Findings, found: ViewExplanation) -> str:
    if found.repeated_range is None:
        return "The fits could not be compared."
    chance = (
        "With all views, random resamples agree with the result by an ARI of "
        f"{interval(found.repeated_range)}; only lower values mean a change."
    )
    matters = decisive_views(f)
    changed = min(view.without for view in found.views) < STEADY
    if not matters and changed and found.repeated_range[0] < STEADY:
        return f"The result is too unstable to say which view decides it. {chance}"
    if not matters:
        return f"No single view decides the result. {chance}"
    listed, which = ", ".join(matters), "it" if len(matters) == 1 else "any one of them"
    return f"The result rests on {listed}: without {which} the clusters change clearly. {chance}"


def classes(f: Findings) -> Section | None:
    """Clusters against classes."""
    if f.class_table is None:
        return None
    t = f.class_table
    shown = {title: percent(t.scores[name]) for name, title in SHARES.items()}
    shown |= {title: f"{t.scores[name]:.3f}" for name, title in INDICES.items()}
    body = [
        facts(shown),
        _crossed(f, t) if len(t.names) <= _WIDE_TABLE else _frequent_classes(f, t),
    ]
    body.append(
        paragraph(
            "Clusters stand in the order of the classes that the best pairing gives them, so that "
            "what is in place is on the diagonal, and accuracy is its share. F-score and precision "
            "count pairs of samples. NMI is the mutual information over the larger of the two "
            "entropies.",
            "quiet",
        )
    )
    return Section("classes", "Clusters and known classes", "Classes", join(*body), long=True)


def _crossed(f: Findings, t: ClassTable) -> Html:
    largest = max(int(t.counts.max()), 1)
    rows: list[TableRow] = [
        [
            f.cluster_label(c),
            *(_heat(n, largest, place == k) for k, n in enumerate(t.counts[place].tolist())),
        ]
        for place, c in enumerate(t.order)
    ]
    names = ("", *(shortened(name, 20) for name in t.names))
    return table(names, rows, "Samples by cluster and class", file="clusters-and-classes")


def _frequent_classes(f: Findings, t: ClassTable) -> Html:
    rows: list[TableRow] = []
    for c, row in zip(t.order, t.counts, strict=True):
        top = [k for k in np.argsort(-row, kind="stable")[:3] if row[k] > 0]
        share = row.max() / row.sum() if row.sum() else 0.0
        listed = ", ".join(f"{t.names[k]} ({row[k]})" for k in top)
        rows.append(
            [
                f.cluster_label(c),
                f"{f.sizes[c]:,}",
                percent(share),
                Cell(listed, "text"),
            ]
        )
    header = ("", "samples", "most frequent class", "classes")
    title = f"The most frequent of the {len(t.names)} classes in each cluster"
    return table(header, rows, title, file="clusters-and-classes")


def samples(f: Findings) -> Section:
    """Typical and doubtful samples."""
    rows: list[TableRow] = []
    for c, size in enumerate(f.sizes.tolist()):
        if not size:
            rows.append([f.cluster_label(c), "0", "", "", ""])
            continue
        sure = float(f.certainty[f.labels == c].mean())
        typical = _names([sample_link(i, _named(f, i)) for i in f.typical[c]])
        doubtful = _names(
            [
                sample_link(
                    d.sample, _named(f, d.sample), f" ({percent(d.certainty)}; or {d.other})"
                )
                for d in f.doubtful[c]
            ]
            or [Html("none")]
        )
        rows.append(
            [
                f.cluster_label(c),
                f"{size:,}",
                percent(sure),
                Cell(typical, "text"),
                Cell(doubtful, "text"),
            ]
        )
    header = ("cluster", "samples", "certainty", "typical", "doubtful (certainty; or cluster)")
    body = join(
        paragraph(
            f"{f.certainty_words} Typical samples are sure and strongly tied; doubtful ones are "
            "worth a second look."
        ),
        table(header, rows, "Typical and doubtful samples of each cluster", kind="full stack"),
        *_least_typical(f),
        *(
            []
            if f.description is not None
            else [
                paragraph(
                    "The features of the clusters are not here, because the model does not keep "
                    "its data: pass them as well, report(path, X).",
                    "quiet",
                )
            ]
        ),
    )
    return Section("samples", "Typical and doubtful samples", "Samples", body, long=True)


def _least_typical(f: Findings) -> list[Html]:
    """List the samples with the lowest scores (`score_samples`), the lowest first."""
    listed = [
        sample_link(i, _named(f, i), f" ({f.cluster_title(int(f.labels[i]))})")
        for i in f.least_typical
    ]
    words = (
        "The least typical samples of all, by score_samples: the anchors and the clusters explain "
        "them worst. They may be outliers, errors, or a group too small for a cluster of its own."
    )
    return [Html("<h3>Least typical samples</h3>"), paragraph(words), _names(listed)]


def convergence(f: Findings) -> Section:
    """The objective after each iteration."""
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
    """What was clustered."""
    rows: list[TableRow] = [
        [v.name, f"{v.n_features:,}", f"{v.n_samples:,}", Cell(v.scaling, "text")] for v in f.views
    ]
    source = [paragraph(Html(f"Source: <code>{escape(f.source)}</code>"))] if f.source else []
    rule, share = [], f.evidence.same_rule
    if share is not None:
        words = (
            f"The rule for new samples (predict) puts {percent(share)} of these samples into the "
            "cluster that they have here."
        )
        rule = [paragraph(words, "quiet")]
    body = join(
        *source,
        table(("view", "features", "samples", "scaled"), rows, f"{len(f.labels):,} samples in all"),
        *rule,
    )
    return Section("data", "What was clustered", "Data", body)


def repeat(f: Findings) -> Section:
    """Parameters, versions, and the code to do it again."""
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
            [[k, Cell(v, "text")] for k, v in f.versions.items()],
            "Versions",
        ),
        Html("</details>"),
    )
    return Section("repeat", "How to repeat it", "Repeat", body)


def snippet(f: Findings) -> str:
    """Code that fits the model again; only what differs from the defaults is in it."""
    model = getattr(f.model, "joined_by", f.model)
    names = [type(model).__name__]
    if model is not f.model:
        names.append(type(f.model).__name__)
    return (
        f"from omcal import {', '.join(sorted(names))}\n\nmodel = {_written(model)}\n"
        "labels = model.fit_predict(X)"
    )


def _written(model: Any) -> str:
    given = (
        f"{key}={_written(value) if hasattr(value, 'get_params') else _value(value)}"
        for key, value in changed(model).items()
    )
    return f"{type(model).__name__}({', '.join(given)})"


def _value(value: object) -> str:
    """As it is written in code; what is too long or no plain value is three dots."""
    text = repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    plain = isinstance(value, np.ndarray | np.generic | str | int | float | list | tuple | dict)
    return text if len(text) <= _LONGEST_NAME and (plain or value is None) else "..."


def _named(f: Findings, sample: int) -> str:
    return str(sample) if f.names is None else shortened(f.name(sample))


def _names(listed: list[Html]) -> Html:
    return Html('<div class="names">' + "".join(f"<span>{one}</span>" for one in listed) + "</div>")


def _shade(value: float) -> Cell:
    return Cell(f"{value:.3f}", "heat", max(value, 0.0))


def _importance(without: float, largest: float) -> Cell:
    """Return a cell that is darker the less is left without a view, relative to the darkest."""
    return Cell(f"{without:.3f}", "heat", (1 - without) / max(largest, 0.1))


def _heat(number: int, largest: int, diagonal: bool) -> Cell:
    kind = " diagonal" if diagonal else ""
    return (
        Cell(f"{number:,}", "heat" + kind, number / largest) if number else Cell("·", kind.strip())
    )
