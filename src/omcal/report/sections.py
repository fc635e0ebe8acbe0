"""Write the sections of a clustering report: clusters, views, classes, samples."""

from __future__ import annotations

from html import escape

import numpy as np

from omcal.machine.arrays import Array
from omcal.model.view_effects import ViewExplanation
from omcal.report.features import features
from omcal.report.findings import Findings
from omcal.report.html import (
    Cell,
    Html,
    Section,
    TableRow,
    bar,
    facts,
    join,
    mark,
    paragraph,
    percent,
    sample_link,
    shortened,
    table,
    template,
)
from omcal.report.making import (
    STEADY,
    cluster_list,
    convergence,
    data,
    decisive_views,
    interval,
    repeat,
    runs,
)

# Shares are written as percentages, indices and cosines as numbers.
SHARES = {"accuracy": "accuracy", "purity": "purity", "precision": "precision"}
INDICES = {"nmi": "NMI (max)", "ari": "ARI", "f_score": "F-score"}
_WIDE_TABLE = 40  # with more classes, only the most frequent of a cluster are listed
_LEAST_TYPICAL = 12
_FILTERED = 12  # with more clusters, their list can be searched


def all_sections(f: Findings) -> list[Section]:
    """Return the sections that have content, from the result to its origin."""
    result = clusters(f), features(f), views(f), classes(f), samples(f)
    making = runs(f), convergence(f), data(f), repeat(f)
    return [section for section in (*result, *making) if section is not None]


def clusters(f: Findings) -> Section:
    """Return the map and the sizes of the clusters."""
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
    hidden = "" if len(f.sizes) > _FILTERED else " hidden"
    rows: list[TableRow] = [
        [f.cluster_label(c), f"{size:,}", percent(size / n), bar(size / f.sizes.max())]
        for c, size in sorted(enumerate(f.sizes.tolist()), key=lambda pair: -pair[1])
    ]
    body = join(
        paragraph(f"{_map_text(f)} Distances between far groups mean little. {note}"),
        template("map.html", legend=legend, hidden=hidden),
        Html("<h3>Sizes</h3>"),
        table(("cluster", "samples", "share", ""), rows, kind="full", file="cluster-sizes"),
    )
    return Section("clusters", "Clusters and a map of the samples", "Clusters", body, long=True)


def _map_text(f: Findings) -> str:
    """Describe the origin of the map, its trustworthiness, and the clusters it mixes."""
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


def views(f: Findings) -> Section | None:
    """Return the weights, and the contribution of each view."""
    weights = table(
        ("view", "weight", ""),
        [(v, percent(w), bar(w)) for v, w in zip(f.view_names, f.weights, strict=True)],
        "Weight of each view in the consensus graph",
        kind="full",
        file="view-weights",
    )
    body = (
        join(weights, *_effects(f))
        if len(f.view_names) > 1
        else paragraph("There is one view; it has all the weight.")
    )
    return Section("views", "What each view contributes", "Views", body)


def _effects(f: Findings) -> list[Html]:
    found = f.explanation
    if found is None:
        return [paragraph("No two samples are in all views, and the views cannot be compared.")]
    largest = max(0.1, *(1 - view.without for view in found.views))
    rows: list[TableRow] = [
        [
            view.name,
            _shade(view.agreement),
            # Darker if less of the result is left without the view, relative to the darkest.
            Cell(f"{view.without:.3f}", "heat", (1 - view.without) / largest),
            _shade(view.alone),
        ]
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
    """Return the scores and the table of clusters and classes; None without classes."""
    if f.class_table is None:
        return None
    names, order, counts = f.class_table
    shown = {title: percent(f.scores[name]) for name, title in SHARES.items()}
    shown |= {title: f"{f.scores[name]:.3f}" for name, title in INDICES.items()}
    tabled = _cluster_by_class if len(names) <= _WIDE_TABLE else _frequent_classes
    body = join(
        facts(shown),
        tabled(f, [str(name) for name in names], order.tolist(), counts),
        paragraph(
            "Clusters stand in the order of the classes that the best pairing gives them, so that "
            "what is in place is on the diagonal, and accuracy is its share. F-score and precision "
            "count pairs of samples. NMI is the mutual information over the larger of the two "
            "entropies.",
            "quiet",
        ),
    )
    return Section("classes", "Clusters and known classes", "Classes", body, long=True)


def _cluster_by_class(f: Findings, names: list[str], order: list[int], counts: Array) -> Html:
    largest = max(int(counts.max()), 1)
    rows: list[TableRow] = [
        [
            f.cluster_label(c),
            *(_heat(n, largest, place == k) for k, n in enumerate(counts[place].tolist())),
        ]
        for place, c in enumerate(order)
    ]
    header = ("", *(shortened(name, 20) for name in names))
    return table(header, rows, "Samples by cluster and class", file="clusters-and-classes")


def _frequent_classes(f: Findings, names: list[str], order: list[int], counts: Array) -> Html:
    rows: list[TableRow] = []
    for c, row in zip(order, counts, strict=True):
        top = [k for k in np.argsort(-row, kind="stable")[:3] if row[k] > 0]
        share = row.max() / row.sum() if row.sum() else 0.0
        listed = ", ".join(f"{names[k]} ({row[k]})" for k in top)
        rows.append([f.cluster_label(c), f"{f.sizes[c]:,}", percent(share), Cell(listed, "text")])
    header = ("", "samples", "most frequent class", "classes")
    title = f"The most frequent of the {len(names)} classes in each cluster"
    return table(header, rows, title, file="clusters-and-classes")


def samples(f: Findings) -> Section:
    """Return the typical and the doubtful samples of each cluster, and the least typical of all."""
    certainty = f.evidence.certainty
    rows: list[TableRow] = []
    for c, (typical, doubtful) in enumerate(zip(f.typical(), f.doubtful(), strict=True)):
        inside = certainty[f.labels == c]
        unsure = [
            _link(f, i, f" ({percent(certainty[i])}; or {f.evidence.second[i]})") for i in doubtful
        ]
        rows.append(
            [
                f.cluster_label(c),
                f"{len(inside):,}",
                percent(float(inside.mean())) if len(inside) else "",
                Cell(_name_list([_link(f, i) for i in typical]), "text"),
                Cell(_name_list(unsure or [Html("none")]), "text"),
            ]
        )
    header = ("cluster", "samples", "certainty", "typical", "doubtful (certainty; or cluster)")
    runs = getattr(f.model, "runs_", None)
    meaning = (
        "how much stronger the tie of a sample to its own cluster is than to the next, as a share "
        "of all its ties: 100% is sure, 0% a tie between two clusters."
        if runs is None
        else f"the share of the {len(runs)} runs that put a sample into its cluster."
    )
    words = (
        f"Certainty is {meaning} Typical samples are sure and strongly tied; doubtful ones are "
        "worth a second look."
    )
    body = join(
        paragraph(words),
        table(header, rows, "Typical and doubtful samples of each cluster", kind="full stack"),
        *_least_typical(f),
    )
    if f.description is None:
        missing = (
            "The features of the clusters are not here, because the model does not keep its data: "
            "pass them as well, report(path, X)."
        )
        body = join(body, paragraph(missing, "quiet"))
    return Section("samples", "Typical and doubtful samples", "Samples", body, long=True)


def _least_typical(f: Findings) -> list[Html]:
    """List the samples with the lowest scores (`score_samples`), the lowest first."""
    listed = [
        _link(f, i, f" ({f.cluster_title(f.labels[i])})")
        for i in np.argsort(f.evidence.score, kind="stable")[:_LEAST_TYPICAL].tolist()
    ]
    words = (
        "The least typical samples of all, by score_samples: the anchors and the clusters explain "
        "them worst. They may be outliers, errors, or a group too small for a cluster of its own."
    )
    return [Html("<h3>Least typical samples</h3>"), paragraph(words), _name_list(listed)]


def _link(f: Findings, sample: int, more: str = "") -> Html:
    name = str(sample) if f.names is None else shortened(f.names[sample])
    return sample_link(sample, name, more)


def _name_list(listed: list[Html]) -> Html:
    return Html('<div class="names">' + "".join(f"<span>{one}</span>" for one in listed) + "</div>")


def _shade(value: float) -> Cell:
    return Cell(f"{value:.3f}", "heat", max(value, 0.0))


def _heat(number: int, largest: int, diagonal: bool) -> Cell:
    kind = "diagonal" if diagonal else ""
    return (
        Cell(f"{number:,}", f"heat {kind}".strip(), number / largest) if number else Cell("·", kind)
    )
