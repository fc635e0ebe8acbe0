"""Write the head of a report: tests that were passed, reasons for doubt, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from omcal.model.view_effects import Range, sufficient_views
from omcal.report.findings import BETWEEN, Findings
from omcal.report.html import Html, facts, join, paragraph, percent
from omcal.views.columns import listed

_HALF = 0.5  # certainty over runs up to which a sample lies between two clusters
_MANY, _MOST = 0.1, 0.5  # shares of the samples that are worth a word
_BEYOND_CHANCE = 0.2  # adjusted Rand index with known classes
STEADY = 0.9  # adjusted Rand index from which a result is called the same

Diagnostic = tuple[str, str]  # an observation, and one thing to try


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
    """Return the tests that the result has passed, each of which noise would fail."""
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
    """Yield the reasons to doubt the result, with one thing to try for each."""
    yield from ((doubt.what, doubt.advice) for doubt in f.model.doubts_)
    repeated = f.explanation and f.explanation.repeated_range
    if repeated and repeated[0] < STEADY:
        yield (
            f"random resamples of the data give other clusters: ARI {interval(repeated)}.",
            "ask for another number of clusters"
            + ("." if hasattr(f.model, "runs_") else ", or join several runs (Consensus)."),
        )
    tested = f.model.structure_
    if f.explanation is not None and (tested is None or tested.found):
        yield from ((text, "") for text in f.explanation.warnings)
        if names := decisive_views(f):
            which = "it" if len(names) == 1 else "any one of them"
            text = f"the result rests on {', '.join(names)}: without {which} the clusters change."
            yield text, "make sure that you trust what it measures."
    # By their ties, or as half of the runs differ.
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
    """Return the views without which the clusters change by more than resamples change them."""
    found = f.explanation
    if found is None or found.repeated_range is None:
        return []
    low = found.repeated_range[0]
    return [v.name for v in found.views if v.without < low - 0.1]


def count(number: int, what: str) -> str:
    """Return a number and what it counts: 1 view, 1,200 samples."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def interval(found: Range) -> str:
    """Return a range as text: 0.50 to 0.75, or one number where both ends are the same."""
    low, high = (f"{end:.2f}" for end in found)
    return low if low == high else f"{low} to {high}"


def cluster_list(numbers: list[int]) -> str:
    """Name clusters by their numbers; of many, the first twelve."""
    return ("cluster " if len(numbers) == 1 else "clusters ") + listed(numbers)


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
