"""`reproduction.md` and `report.html`: our numbers beside the paper's, and why they differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from omcal.experiments.contents import beside_table
from omcal.experiments.plan import Plan
from omcal.experiments.records import Record, made_with
from omcal.experiments.summary import NOT_RUN, Summary
from omcal.experiments.tables import Table

TITLE = "Reproduction of the paper's results"


class Figure(NamedTuple):
    """A drawn figure; beside the .svg there is a .png."""

    title: str
    path: Path


class Section(NamedTuple):
    """A part of the page, in the order of reading."""

    title: str
    parts: list[str | Table | Figure]


def markdown(sections: list[Section]) -> str:
    """Return the page in Markdown, with links to the figures beside it."""
    parts = [f"# {TITLE}"]
    for section in sections:
        parts += [f"## {section.title}"] if section.title else []
        for part in section.parts:
            if isinstance(part, Table):
                parts += [part.markdown(), *part.notes]
            elif isinstance(part, Figure):
                parts.append(f"![{part.title}]({part.path.parent.name}/{part.path.stem}.png)")
            else:
                parts.append(part)
    return "\n\n".join(parts) + "\n"


def page_sections(
    plan: Plan, summary: Summary, tables: list[Table], figures: list[Figure]
) -> list[Section]:
    """Return the contents of the page."""
    named = {table.name: table for table in tables}
    reasons = plan.paper.reasons
    by_method = Table("", "", ["method", "reason"], list(reasons["method"].items()))
    general = "\n".join(f"- {reason}" for reason in reasons["general"])
    introduction = (
        "This page is written by `omcal reproduce`; change nothing here by hand. Each entry has "
        "three lines: our mean(standard deviation), the paper's, and the difference; of times the "
        "ratio. `OM` is out of memory and `---` over the time limit, as listed at the end; `-` is "
        "the spread of a single run (MLAN and MCGC use no random numbers and run once), "
        f"`{NOT_RUN}` not run."
    )
    return [
        Section("", [introduction]),
        Section("OMCAL and OCAL in short", [named["headline"], how_it_ran(summary)]),
        Section("Data", [named["datasets"]]),
        Section("Reasons for differences", [general, by_method]),
        Section("Parameters of OMCAL", [named["parameters"]]),
        *dataset_sections(plan, summary),
        Section("Best point of the grid, chosen by labels", [named["grid_by_labels"]]),
        Section("Figures", [*figures]),
        Section("What did not run", [failures(summary)]),
    ]


def table_sections(tables: list[Table]) -> list[Section]:
    """Return the paper's tables with our numbers, which the HTML page has in addition."""
    starts = {
        "Clustering results": ("results_", "times"),
        "Single-view results": ("single_",),
        "Every published number": ("comparison",),
    }
    return [
        Section(title, [table for table in tables if table.name.startswith(names)])
        for title, names in starts.items()
    ]


def how_it_ran(summary: Summary) -> str:
    """Return the machines, versions and limits of the records as a list in Markdown."""
    lines = conditions(summary)
    return "Conditions:\n\n" + "\n".join(f"- {line}" for line in lines)


def conditions(summary: Summary) -> list[str]:
    """Return the machines, versions and limits of the records, each once."""
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


def dataset_sections(plan: Plan, summary: Summary) -> Iterator[Section]:
    """Yield the reasons and the table of each data set."""
    for dataset in (*plan.paper.datasets, *plan.paper.single_datasets):
        if summary.is_present(dataset):
            table = beside_table(plan, summary, dataset)
            reason = plan.paper.reasons["dataset"].get(dataset)
            yield Section(table.title, [reason, table] if reason else [table])


def failures(summary: Summary) -> str:
    """Return the list of cells without a result, with the reason."""
    lines = [
        f"- {record['method']} on {record['dataset']}: {record['status']} ({record['error']})"
        for record in summary.errors()
    ]
    return "\n".join(lines) if lines else "Everything that was started gave a result."
