"""The parts of a clustering report, in plain words."""

from __future__ import annotations

import base64
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.model.view_effects import ViewExplanation
from omcal.report.charts import line_chart
from omcal.report.findings import Findings
from omcal.report.html import Cell, Html, Section, TableRow, bar, facts, join, paragraph, table

SCORES = {
    "accuracy": "accuracy",
    "nmi": "NMI (max)",
    "purity": "purity",
    "ari": "ARI",
    "f_score": "F-score",
    "precision": "precision",
}
_WIDE_TABLE = 40  # classes above which only the most frequent of a cluster are listed
_LONGEST_NAME = 80


def all_sections(f: Findings) -> list[Section]:
    """Every section that there is something to say in, from the result to its making."""
    makers: tuple[Callable[[Findings], Section | None], ...] = (
        clusters,
        views,
        classes,
        samples,
        structure,
        convergence,
        data,
        repeat,
    )
    return [section for section in (make(f) for make in makers) if section is not None]


def lead(f: Findings) -> Html:
    """The result in a few sentences, and its numbers."""
    n, c = len(f.labels), len(f.sizes)
    found = int((f.sizes > 0).sum())
    sentences = [
        f"{n:,} samples, seen through {_count(len(f.views), 'view')}, were put into "
        f"{_count(found, 'cluster')}."
    ]
    used = f.sizes[f.sizes > 0]
    sentences.append(
        f"The largest holds {used.max() / n:.0%} of them, the smallest {used.min() / n:.1%}."
    )
    if len(f.views) > 1:
        heavy = max(f.views, key=lambda view: view.weight)
        sentences.append(f"The view that counts most is {heavy.name} (weight {heavy.weight:.2f}).")
    if f.class_table is not None:
        accuracy = f.class_table.scores["accuracy"]
        sentences.append(f"Compared with the known classes, {accuracy:.1%} of them are in place.")
    doubtful = float((f.certainty < 0.1).mean())
    sentences.append(f"{doubtful:.1%} lie between two clusters.")
    parts = [paragraph(" ".join(sentences), "lead")]
    if not f.model.converged_:
        parts.append(
            paragraph(
                f"The fit had not converged after {f.model.n_iter_} iterations; a larger max_iter "
                "may change the result.",
                "warn",
            )
        )
    if found < c:
        parts.append(paragraph(f"{c} clusters were asked for; {c - found} stayed empty.", "warn"))
    numbers = {"samples": f"{n:,}", "views": str(len(f.views)), "clusters": str(found)}
    numbers["anchors"] = str(f.parameters["n_anchors"])
    numbers["iterations"] = str(f.model.n_iter_)
    if f.seconds is not None:
        numbers["seconds"] = f"{f.seconds:.2f}"
    if f.class_table is not None:
        numbers["accuracy"] = f"{f.class_table.scores['accuracy']:.3f}"
    return join(*parts, facts(numbers))


def clusters(f: Findings) -> Section:
    """Sizes, and the map."""
    drawn, n = len(f.map_rows), len(f.labels)
    note = (
        f"All {n:,} samples are drawn."
        if drawn == n
        else f"{drawn:,} of {n:,} samples are drawn: a random choice, with at least ten of every "
        "cluster."
    )
    legend = "".join(
        f'<li><button type="button" data-cluster="{c}" aria-pressed="false">'
        f'<canvas aria-hidden="true"></canvas><span>cluster {c}</span>'
        f'<span class="count">{size:,}</span></button></li>'
        for c, size in enumerate(f.sizes.tolist())
    )
    body = join(
        paragraph(
            "Samples that are tied to the same anchors lie together, and those of a cluster are "
            f"drawn to one another a little; distances between far groups mean little. {note}"
        ),
        Html(
            '<div class="map"><figure><div class="frame">'
            '<canvas id="map" tabindex="0" role="img" aria-label="Map of the samples, coloured by '
            'cluster. Arrow keys go from sample to sample."></canvas>'
            '<div id="tip" class="tip" hidden></div></div>'
            '<figcaption class="screen">Point at a sample, or press Tab and use the arrow keys. '
            "Choose a cluster in the list to see it alone; Escape shows all.</figcaption>"
            '<div id="said" class="skip" aria-live="polite"></div></figure>'
            f'<ul id="legend" class="legend" aria-label="Clusters and their sizes">{legend}</ul>'
            "</div><noscript><p>The map needs JavaScript; everything else is here.</p></noscript>"
        ),
    )
    return Section("clusters", "Clusters and a map of the samples", "Clusters", body)


def views(f: Findings) -> Section | None:
    """Weights, and what each view contributes."""
    weights = table(
        ("view", "weight", ""),
        [(v.name, f"{v.weight:.3f}", bar(v.weight)) for v in f.views],
        "Weight of each view in the consensus graph",
        kind="full",
    )
    body = (
        join(weights, *_effects(f.explanation))
        if len(f.views) > 1
        else paragraph("There is one view; it has all the weight.")
    )
    return Section("views", "What each view contributes", "Views", body)


def _effects(found: ViewExplanation | None) -> list[Html]:
    if found is None:
        return [paragraph("No two samples are in all views, and the views cannot be compared.")]
    rows: list[TableRow] = [
        [view.name, _shade(view.agreement), _shade(view.without), _shade(view.alone)]
        for view in found.views
    ]
    return [
        paragraph(
            "A weight says how much of a view is in the consensus graph, not how useful the view "
            "is. Agreement is the cosine between the graph of the view and the clusters. The "
            "adjusted Rand index (ARI) compares the clusters that are found without the view, and "
            "from it alone, with the result: 1 means the same clusters, 0 no more than chance."
        ),
        table(
            ("view", "agreement", "ARI without it", "ARI alone"),
            rows,
            f"Each view left out, and each view alone, for {found.n_samples:,} samples",
        ),
        paragraph(_verdict(found), "lead"),
        *(paragraph(text[0].upper() + text[1:], "warn") for text in found.warnings),
    ]


def _verdict(found: ViewExplanation) -> str:
    if found.repeated_range is None:
        return "The fits could not be compared."
    low, high = found.repeated_range
    chance = (
        f"With all views, random resamples give the result again up to an ARI of {low:.2f} to "
        f"{high:.2f}; only lower values mean a change."
    )
    # Below what other samples change, a difference says nothing.
    without = {view.name: view.without for view in found.views}
    matters = [name for name, value in without.items() if value is not None and value < low - 0.1]
    if not matters:
        return f"No single view decides the result. {chance}"
    listed, which = ", ".join(matters), "it" if len(matters) == 1 else "any one of them"
    return f"The result rests on {listed}: without {which} the clusters change clearly. {chance}"


def classes(f: Findings) -> Section | None:
    """Clusters against classes."""
    if f.class_table is None:
        return None
    t = f.class_table
    scores = facts({title: f"{t.scores[name]:.3f}" for name, title in SCORES.items()})
    body = [scores]
    if len(t.names) <= _WIDE_TABLE:
        largest = max(int(t.counts.max()), 1)
        rows: list[TableRow] = [
            [f"cluster {c}", *(_heat(count, largest) for count in counts)]
            for c, counts in enumerate(t.counts.tolist())
        ]
        body.append(
            table(
                ("", *(_short(name, 20) for name in t.names)), rows, "Samples by cluster and class"
            )
        )
    else:
        body.append(_frequent_classes(f, t.names, t.counts))
    body.append(
        paragraph(
            "Accuracy counts the samples in place under the best pairing of clusters and classes. "
            "F-score and precision count pairs of samples. NMI is the mutual information over the "
            "larger of the two entropies.",
            "quiet",
        )
    )
    return Section("classes", "Clusters and known classes", "Classes", join(*body), long=True)


def _frequent_classes(f: Findings, names: list[str], counts: NDArray) -> Html:
    rows: list[TableRow] = []
    for c, row in enumerate(counts):
        top = [k for k in np.argsort(-row, kind="stable")[:3] if row[k] > 0]
        share = row.max() / row.sum() if row.sum() else 0.0
        listed = ", ".join(f"{names[k]} ({row[k]})" for k in top)
        rows.append([f"cluster {c}", f"{f.sizes[c]:,}", f"{share:.0%}", Cell(listed, "text")])
    header = ("", "samples", "most frequent class", "classes")
    return table(header, rows, f"The most frequent of the {len(names)} classes in each cluster")


def samples(f: Findings) -> Section:
    """Typical and doubtful samples."""
    rows: list[TableRow] = []
    for c, size in enumerate(f.sizes.tolist()):
        if not size:
            rows.append([_cluster_name(c), "0", "", "", ""])
            continue
        sure = float(f.certainty[f.labels == c].mean())
        typical = _names([_named(f, i) for i in f.typical[c]])
        doubtful = _names(
            [f"{_named(f, d.sample)} ({d.certainty:.2f}; or {d.other})" for d in f.doubtful[c]]
        )
        rows.append(
            [
                _cluster_name(c),
                f"{size:,}",
                f"{sure:.2f}",
                Cell(typical, "text"),
                Cell(doubtful, "text"),
            ]
        )
    header = ("cluster", "samples", "certainty", "typical", "doubtful (certainty; or cluster)")
    body = join(
        paragraph(
            "Certainty is how much stronger the tie of a sample to its own cluster is than to the "
            "next, as a share of all its ties: 1 is sure, 0 a tie between two clusters. Typical "
            "samples are sure and strongly tied; doubtful ones are worth a second look."
        ),
        table(header, rows, "Typical and doubtful samples of each cluster", kind="full stack"),
    )
    return Section("samples", "Typical and doubtful samples", "Samples", body, long=True)


def structure(f: Findings) -> Section:
    """Consensus structure before and after learning."""
    side = len(f.structure.before)
    body = join(
        paragraph(
            f"How similar {side} {'randomly chosen ' if side < len(f.labels) else ''}samples are, "
            f"{f.structure.sorted_by} by {f.structure.sorted_by}: dark is similar. Good clusters "
            "are dark blocks on the diagonal; learning should clear what lies between them."
        ),
        Html(
            '<div class="two"><figure><canvas id="before" class="matrix" role="img" '
            'aria-label="Similarity before learning"></canvas><figcaption>Before learning'
            '</figcaption></figure><figure><canvas id="after" class="matrix" role="img" '
            'aria-label="Similarity after learning"></canvas><figcaption>After learning'
            "</figcaption></figure></div>"
        ),
    )
    return Section("structure", "Consensus structure", "Structure", body)


def convergence(f: Findings) -> Section:
    """The objective after each iteration."""
    history = np.asarray(f.model.objective_, dtype=float)
    state = "It converged" if f.model.converged_ else "It had not converged"
    body = join(
        paragraph(
            f"{state} after {_count(f.model.n_iter_, 'iteration')}; the objective ended at "
            f"{history[-1]:.6g}."
        ),
        Html(f"<figure>{line_chart(history.tolist(), 'iteration', 'objective')}</figure>"),
    )
    return Section("convergence", "Convergence", "Convergence", body)


def data(f: Findings) -> Section:
    """What was clustered."""
    rows: list[TableRow] = [[v.name, f"{v.n_features:,}", f"{v.n_samples:,}"] for v in f.views]
    scale = f.parameters.get("scale")
    words = {
        "feature": "Every feature was brought to mean 0 and deviation 1.",
        "sample": "Every sample was brought to mean 0 and deviation 1 within each view.",
        "view": "Every view was divided by one factor, so that all have the same variance.",
        None: "The values were used as they are.",
    }
    source = [paragraph(Html(f"Source: <code>{escape(f.source)}</code>"))] if f.source else []
    body = join(
        *source,
        table(("view", "features", "samples"), rows, f"{len(f.labels):,} samples in all"),
        paragraph(words.get(scale, "")),
        paragraph(
            f"The rule for new samples (predict) puts {f.same_rule:.1%} of these samples into the "
            "cluster that they have here.",
            "quiet",
        ),
    )
    return Section("data", "What was clustered", "Data", body)


def repeat(f: Findings) -> Section:
    """Parameters, versions, and the code to do it again."""
    name = type(f.model).__name__
    given = {k: v for k, v in f.parameters.items() if not isinstance(v, np.ndarray | list | tuple)}
    shown = ", ".join(f"{k}={v!r}" for k, v in given.items() if k not in ("verbose", "device"))
    code = f"from omcal import {name}\n\nmodel = {name}({shown})\nlabels = model.fit_predict(X)"
    if f.command:
        code = f"{f.command}\n\n# or in Python\n{code}"
    seed = f.parameters.get("random_state")
    sentence = (
        f"The seed was {seed}: the same data, parameters and versions give the same clusters."
        if isinstance(seed, int)
        else "No seed was set: another run may give other clusters. Set random_state to repeat one."
    )
    listed: list[TableRow] = [[key, Cell(repr(value), "text")] for key, value in given.items()]
    body = join(
        paragraph(sentence),
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


def payload(f: Findings) -> dict[str, Any]:
    """What the script of the page draws: the map and the two matrices."""
    rows = f.map_rows
    positions = np.round(f.map_positions * 65535).astype("<u2")
    class_names, codes = (None, None)
    if f.classes is not None:
        names, found = np.unique([f.classes[i] for i in rows], return_inverse=True)
        class_names, codes = [_short(str(name)) for name in names], found.tolist()
    drawn = {
        "positions": base64.b64encode(positions.tobytes()).decode(),
        "clusters": f.labels[rows].tolist(),
        "samples": rows.tolist(),
        "names": None if f.names is None else [_short(f.names[i]) for i in rows],
        "certainty": np.round(100 * f.certainty[rows]).astype(int).tolist(),
        "classes": codes,
        "class_names": class_names,
        "n_clusters": len(f.sizes),
    }
    s = f.structure
    return {
        "map": drawn,
        "structure": {
            "side": len(s.before),
            "before": base64.b64encode(s.before.tobytes()).decode(),
            "after": base64.b64encode(s.after.tobytes()).decode(),
            "boundaries": s.boundaries,
        },
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _short(text: str, limit: int = _LONGEST_NAME) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _named(f: Findings, sample: int) -> str:
    return str(sample) if f.names is None else _short(f.name(sample))


def _names(listed: list[str]) -> Html:
    return Html(
        '<div class="names">' + "".join(f"<span>{escape(n)}</span>" for n in listed) + "</div>"
    )


def _cluster_name(c: int) -> Html:
    return Html(f'<span class="swatch" style="background:var(--c{c % 7})"></span>cluster {c}')


def _shade(value: float | None) -> Cell:
    return Cell("") if value is None else Cell(f"{value:.3f}", "heat", max(value, 0.0))


def _heat(count: int, largest: int) -> Cell:
    return Cell(
        f"{count:,}" if count else "·", "heat" if count else "", count / largest if count else None
    )
