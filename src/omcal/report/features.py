"""Write a card per cluster with its features, view by view, and small histograms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from omcal.model.feature_effects import ClusterDescription, FeatureEffect
from omcal.report.findings import Findings
from omcal.report.html import (
    Cell,
    Html,
    Section,
    TableRow,
    join,
    paragraph,
    percent,
    sample_link,
    shortened,
)
from omcal.report.html import table as html_table
from omcal.views.mixed import level_titles

MOST_ROWS = 900  # rows of all cards together
_OPEN = 10  # cards that are open at first
_LONGEST = 60
_TYPICAL = 4
_FEW_UNNAMED = 2  # features without names have little meaning


def features(f: Findings) -> Section | None:
    """Return a card per cluster; None if the data were not given."""
    found = f.description
    if found is None:
        return None
    top = max(1, MOST_ROWS // max(len(f.view_names) * len(f.sizes), 1))
    amounts = (
        f" In {', '.join(found.amounts)}, where most values are zero, it is the share of samples "
        "that have the feature at all."
        if found.amounts
        else ""
    )
    words = paragraph(
        "The features in which a cluster differs most from all other samples. The effect is the "
        "difference of the means in standard deviations; “here” and “elsewhere” are the shares of "
        f"samples above the mean of all.{amounts} The small figures show how the values are "
        "distributed, low to high: filled in the cluster, outlined elsewhere."
    )
    order = sorted(range(len(f.sizes)), key=lambda c: -f.sizes[c])
    cards = [_card(f, found, c, top, place < _OPEN) for place, c in enumerate(order) if f.sizes[c]]
    body = Html(
        f'<div class="cards">{join(*cards)}</div><div class="take screen">'
        '<button type="button" id="take-features">All features (CSV)</button></div>'
    )
    return Section("features", "What makes each cluster", "Features", join(words, body), long=True)


def _card(f: Findings, found: ClusterDescription, cluster: int, top: int, shown: bool) -> Html:
    rows: list[TableRow] = []
    for view in f.view_names:
        few = top if view in found.named else min(top, _FEW_UNNAMED)
        best = found.of(cluster, view)[:few]
        rows += [
            [
                # The name is repeated only for readers of a saved table.
                Html(f'<span class="again">{escape(view)}</span>') if k else view,
                Cell(shortened(feature.feature, _LONGEST), "text"),
                _effect(feature),
                percent(feature.share),
                percent(feature.share_elsewhere),
                Cell(distribution(feature), "spark"),
            ]
            for k, feature in enumerate(best)
        ]
    header = ("view", "feature", "effect", "here", "elsewhere", "values")
    listed = html_table(header, rows) if rows else Html("")
    unnamed = [name for name in f.view_names if name not in found.named]
    typical = "".join(
        f'<p class="quiet">Most typical in {escape(name)}: '
        + " ".join(
            sample_link(i, shortened(f.name(i), _LONGEST))
            for i in found.typical[name][cluster][:_TYPICAL]
        )
        + "</p>"
        for name in unnamed
        if found.typical[name][cluster]
    )
    size = f"{f.sizes[cluster]:,} samples, {percent(f.sizes[cluster] / len(f.labels))}"
    first = _summary(found.of(cluster), level_titles(f.model._encoding))
    state = " open" if shown else ""
    return Html(
        f'<details class="card" data-cluster="{cluster}"{state}>'
        f"<summary>{f.cluster_label(cluster)} "
        f'<span class="quiet">{size}{first}</span></summary>{listed}{typical}</details>'
    )


def _summary(found: Sequence[FeatureEffect], levels: Collection[str]) -> str:
    """Return the two largest effects of all views for a closed card; categories by their shares."""
    best = sorted(found, key=lambda feature: -abs(feature.effect))[:2]
    listed = " and ".join(
        f"{escape(shortened(feature.feature, 24))} {feature.share:.0%}, elsewhere "
        f"{feature.share_elsewhere:.0%}"
        if feature.feature in levels
        else f"{'more' if feature.effect > 0 else 'less'} {_named(feature.feature)} "
        f"({escape(shortened(feature.view, 24))})"
        for feature in best
    )
    return f"; {listed}" if listed else ""


def _named(feature: str) -> str:
    """Return the name of a feature for a sentence; features without names have numbers."""
    return escape(shortened(f"feature {feature}" if feature.isdecimal() else feature, 24))


def _effect(feature: FeatureEffect) -> Cell:
    sign, arrow = ("up", "▲") if feature.effect > 0 else ("down", "▼")
    text = f'<span class="{sign}" aria-hidden="true">{arrow}</span> {feature.effect:+.2f}'
    return Cell(Html(text), "heat", min(abs(feature.effect) / 3, 1))


def distribution(feature: FeatureEffect) -> Html:
    """Draw two overlaid histograms, 60 by 18; the tallest bin of both has the full height."""
    top = max(*feature.inside, *feature.outside, 1e-12)
    inside = "".join(
        f"M{6 * k} 18V{18 - round(17 * value / top)}h5V18Z"
        for k, value in enumerate(feature.inside)
        if value > 0
    )
    steps = "".join(
        f"{'M' if k == 0 else 'L'}{6 * k} {18 - round(17 * value / top)}h6"
        for k, value in enumerate(feature.outside)
    )
    return Html(
        f'<svg class="spark" viewBox="0 0 60 19" role="img" aria-label="'
        f'{percent(feature.share)} here, {percent(feature.share_elsewhere)} elsewhere">'
        f'<path class="in" d="{inside}"/><path class="out" d="{steps}"/></svg>'
    )
