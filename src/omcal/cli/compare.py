"""`omcal compare`: several methods on the data of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import omcal
from omcal.cli import options
from omcal.cli.console import cell_progress, print_table, report_line, stdout
from omcal.cli.options import ConsensusRuns, runs_of_consensus, with_scales
from omcal.cli.outputs import Outputs
from omcal.cli.reading import Reading, reads, remarks, suggested

MethodNames = Annotated[
    str | None,
    typer.Option(
        "--methods",
        "-m",
        metavar="A,B",
        help="Methods by name, as in docs/baselines.md; all: each that takes the data.",
        show_default="those that are linear in n",
    ),
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds per method.")]
TableFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="TABLE",
        help="Write the table: .md, .tex, .csv, .html or - (CSV).",
    ),
]
RecordsFile = Annotated[
    Path | None,
    typer.Option(
        "--records",
        metavar="JSONL",
        help="Save each finished run here; a comparison that finds it continues. By default beside "
        "--out, as NAME.records.jsonl.",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option("--time-limit", metavar="S", min=0.01, help="Time limit per run in seconds."),
]
MemoryLimit = Annotated[
    str,
    typer.Option("--memory-limit", metavar="SIZE", help="Memory limit per run, beyond the data."),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", min=1, help="Number of runs at a time; more than one makes each slower."
    ),
]


@reads()
def compare(
    reading: Reading,
    clusters: options.Clusters = "auto",
    methods: MethodNames = None,
    seeds: Seeds = 5,
    out: TableFile = None,
    records: RecordsFile = None,
    time_limit: TimeLimit = 600,
    memory_limit: MemoryLimit = "8GB",
    runs: ConsensusRuns = None,
    jobs: Jobs = 1,
) -> None:
    """Compare methods on the data of FILE, each with several seeds.

    If FILE holds classes: six scores, mean(standard deviation), and the mean rank. Without
    classes: stability of the clusters, their agreement with the views, and the time. Methods that
    do not support the data are left out, with a message. The same command continues an interrupted
    comparison, and repeats runs that ended with an error. `omcal cluster` computes the clusters of
    the method consensus with seed 0.
    """
    from omcal.experiments.comparison import DEFAULT_METHODS, supported_methods, table_format

    given = options.cluster_number(clusters)
    outputs = Outputs(reading, {"--out": out})
    if out is not None and not outputs.to_stdout:
        table_format(out)
        records = records or out.with_suffix(".records.jsonl")
    data = reading.load()
    chosen, left_out = supported_methods(methods or DEFAULT_METHODS, data)
    for name, reason in left_out.items():
        report_line(f"{name} is left out: it {reason}")
    n_clusters, suggestion = suggested(given, data, with_scales({}, data), 0)
    try:
        with cell_progress(reading.quiet) as observer:
            found = omcal.experiments.compare(
                data,
                n_clusters,
                [method.name for method in chosen],
                seeds=seeds,
                records=records,
                time_limit=time_limit,
                memory_limit=memory_limit,
                jobs=jobs,
                n_runs=runs_of_consensus(runs),
                observer=observer,
            )
    except KeyboardInterrupt:
        if records is not None:
            report_line(f"the finished runs are in {records}; the same command continues")
        raise
    path = outputs.write("--out", found.write)
    result = {
        "n_clusters": n_clusters,
        "suggestion": suggestion,
        "out": path,
        "records": None if records is None else str(records),
        "notes": remarks(data),
        "left_out": left_out,
        "runs": [{k: v for k, v in r.items() if k != "labels"} for r in found.records],
    }

    def show(_: object) -> None:
        # Without the leading 0 of the deviations, so that six scores fit the screen.
        rows = [
            [cell if isinstance(cell, str) else cell.text.replace("(0.", "(.") for cell in row]
            for row in found.table.rows
        ]
        print_table(found.table.title, found.table.header, rows)
        ends = found.table.notes if path is None else [*found.table.notes, f"Table: {path}"]
        stdout().print(*ends, sep="\n", soft_wrap=True)

    outputs.print(result, show)
