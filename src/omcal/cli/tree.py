"""`omcal tree`: how clusters split as their number grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import omcal
from omcal.cli import options
from omcal.cli.console import report_line, stdout
from omcal.cli.options import with_scales
from omcal.cli.outputs import Outputs, require_ending
from omcal.cli.reading import Reading, reads, remarks
from omcal.cli.tune import parse_numbers

Page = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="HTML", help="Write the tree to this page.")
]
Levels = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Numbers of clusters; left out: around the suggested one."),
]


@reads("labels")
def tree(
    reading: Reading,
    out: Page = None,
    levels: Levels = None,
    seed: options.Seed = 0,
) -> None:
    """Show how the clusters of FILE split as their number grows.

    The page shows for each cluster its features, and has the labels of each level to download.
    """
    listed = None if levels is None else parse_numbers("--levels", levels, int)
    require_ending(out, "--out", (".html", ".htm"))
    outputs = Outputs(reading, {"--out": out})
    data = reading.load(labels=False)
    found = omcal.select.cluster_tree(
        data.views,
        listed,
        random_state=seed,
        progress=(lambda text: None) if reading.quiet else report_line,
        **with_scales({}, data),
    )
    path = outputs.write("--out", lambda p: found.write(p, ids=data.ids, title=reading.title))
    found_levels = zip(found.numbers, found.sizes, found.stability, strict=True)
    result = {
        "suggestion": found.suggestion,
        "levels": [
            {"n_clusters": k, "sizes": sizes, "stability": s} for k, sizes, s in found_levels
        ],
        "jumps": found.jumps,
        "edges": [edge._asdict() for edge in found.edges],
        "out": path,
        "notes": remarks(data),
    }

    def show(_: object) -> None:
        stdout().print(str(found), soft_wrap=True)
        if found.suggestion is not None:
            stdout().print(f"Suggested: {found.suggestion} clusters.")
        stdout().print(f"Page: {path}" if path else "The page was not saved; add --out tree.html.")

    outputs.print(result, show)
