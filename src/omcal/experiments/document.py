"""`reproduction.md`: our numbers beside the paper's, and why they differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from omcal.experiments.contents import beside_table
from omcal.experiments.plan import Plan
from omcal.experiments.records import Record, made_with
from omcal.experiments.summary import NOT_RUN, Summary
from omcal.experiments.tables import Table


def document(
    plan: Plan, summary: Summary, tables: list[Table], figures: list[tuple[str, Path]]
) -> str:
    """Return the whole page in Markdown, with links to the figures beside it."""
    named = {table.name: table for table in tables}
    reasons = plan.paper.reasons
    parts = [
        "# Reproduction of the paper's results",
        "This page is written by `omcal reproduce`; change nothing here by hand. Each entry has "
        "three lines: our mean(standard deviation), the paper's, and the difference; of times the "
        "ratio. `OM` is out of memory and `---` over the time limit, as listed at the end; `-` is "
        "the spread of a single run (MLAN and MCGC use no random numbers and run once), "
        f"`{NOT_RUN}` not run.",
        "## OMCAL and OCAL in short",
        named["headline"].markdown(),
        how_it_ran(summary),
        "## Data",
        named["datasets"].markdown(),
        "## Reasons for differences",
        "\n".join(f"- {reason}" for reason in reasons["general"]),
        Table("", "", ["method", "reason"], list(reasons["method"].items())).markdown(),
        "## Parameters of OMCAL",
        named["parameters"].markdown(),
        *named["parameters"].notes,
    ]
    for dataset in (*plan.paper.datasets, *plan.paper.single_datasets):
        if summary.is_present(dataset):
            parts += dataset_part(plan, summary, dataset)
    parts += [
        "## Best point of the grid, chosen by labels",
        named["grid_by_labels"].markdown(),
        *named["grid_by_labels"].notes,
        "## Figures",
        *(f"![{title}]({path.parent.name}/{path.stem}.png)" for title, path in figures),
        "## What did not run",
        failures(summary),
    ]
    return "\n\n".join(parts) + "\n"


def how_it_ran(summary: Summary) -> str:
    """Machines, versions and limits of the records, each once."""
    lines = conditions(summary)
    return "Conditions:\n\n" + "\n".join(f"- {line}" for line in lines)


def conditions(summary: Summary) -> list[str]:
    """Machines, versions and limits of the records, each once."""
    if not summary.records:
        return ["There are no records yet."]
    lines = sorted({_conditions(record) for record in summary.records})
    loads = [record["load"] for record in summary.records if "load" in record]
    if loads:
        lines.append(
            f"Load of the machine while it ran: {min(loads):g} to {max(loads):g} processes; where "
            "that is above its number of cores, times are longer than they would be alone"
        )
    return lines


def _conditions(record: Record) -> str:
    limits = record["limits"]
    return (
        f"{made_with(record)}; {record['jobs']} at a time, threads of each: {record['threads']}; "
        f"at most {limits['seconds']:g} s and {limits['gigabytes']:g} GB per cell"
    )


def dataset_part(plan: Plan, summary: Summary, dataset: str) -> Iterator[str]:
    """Yield the heading, the reasons and the table of one data set."""
    reasons = plan.paper.reasons
    table = beside_table(plan, summary, dataset)
    yield f"## {table.title}"
    if dataset in reasons["dataset"]:
        yield reasons["dataset"][dataset]
    yield table.markdown()


def failures(summary: Summary) -> str:
    """Return the list of cells without a result, with the reason."""
    lines = [
        f"- {record['method']} on {record['dataset']}: {record['status']} ({record['error']})"
        for record in summary.errors()
    ]
    return "\n".join(lines) if lines else "Everything that was started gave a result."
