"""`omcal reproduce`: the tables and figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli.console import cell_progress, report_line, stdout
from omcal.cli.options import Quiet, names

if TYPE_CHECKING:
    from omcal.experiments.plan import Cell, Plan

RECORDS = "records.jsonl"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Folder with the data sets; --from-records needs none."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for records and results.")
]
Only = Annotated[
    str | None,
    typer.Option(
        "--only",
        metavar="A,B",
        help="Experiments (results, singleview, grid, anchors, structure, transfer), data sets "
        "and methods to run.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Few seeds, short limits, 15 minutes at most.")
]
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, help="Number of seeds per cell.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Number of cells at a time.")]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="S", min=0.01, help="Time limit per cell in seconds."),
]
MemoryLimit = Annotated[
    float | None,
    typer.Option("--memory-limit", metavar="GB", min=1e-3, help="Memory limit per cell."),
]
AsPublished = Annotated[
    bool,
    typer.Option("--published-limits", help="The paper's limits: 6 hours and 128 GB per cell."),
]
FromRecords = Annotated[
    bool,
    typer.Option("--from-records", help="Run nothing; make tables and figures from the records."),
]


def reproduce(
    data: Data = None,
    out: Out = Path("reproduction"),
    only: Only = None,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    published_limits: AsPublished = False,
    from_records: FromRecords = False,
    quiet: Quiet = False,
) -> None:
    """Run the experiments of the paper.

    Tables and figures show our numbers beside the published ones.

    Every finished cell is saved at once to records.jsonl in --out. The same command
    continues a run that was stopped; cells that ended with an error are repeated.
    """
    from omcal.experiments.outputs import write_outputs
    from omcal.experiments.plan import Plan, load_paper
    from omcal.machine.optional import require

    paper = load_paper()
    settings = paper.run | (paper.quick if quick else {})
    settings |= paper.run["published"] if published_limits else {}
    given = {"seeds": seeds, "jobs": jobs, "time_limit": time_limit, "memory_limit": memory_limit}
    settings |= {name: value for name, value in given.items() if value is not None}
    plan = Plan(paper, settings["seeds"], quick).limited_to(names(only) or ())
    require("matplotlib", "figures")  # fail before hours of work, not after them
    out.mkdir(parents=True, exist_ok=True)
    left = [] if from_records else _run(plan, data, out, settings, quiet)
    try:
        written = write_outputs(plan, out / RECORDS, out, data)
    except OSError as error:
        raise OSError(
            f"cannot write tables and figures to {out} ({error.strerror or error}); the records "
            "are whole: mend that, then use --from-records."
        ) from error
    if left:
        report_line(
            f"{len(left)} cells are left: the time of a quick run is spent; the same command "
            "again goes on with them."
        )
    if not quiet:
        console = stdout()
        for path in written:
            console.print(str(path))


def _run(
    plan: Plan, data: Path | None, out: Path, settings: dict[str, Any], quiet: bool
) -> list[Cell]:
    """Run the cells of a plan; return the cells that are left."""
    import joblib

    from omcal.experiments.runner import run_cells
    from omcal.experiments.worker import Limits, PaperData
    from omcal.machine.memory import available_memory
    from omcal.machine.threads import thread_count

    if data is None:
        raise omcal.datasets.DataError(
            "name the folder with the data sets: --data DIR (or --from-records)."
        )
    if not data.is_dir():
        raise omcal.datasets.DataError(f"--data {data}: there is no such folder.")
    gigabytes = settings["memory_limit"]
    # One cell per core, if the memory allows it.
    fitting = int(available_memory() // (gigabytes * 1e9))
    jobs = settings.get("jobs") or max(1, min(int(joblib.cpu_count()), fitting))
    limits = Limits(settings["time_limit"], gigabytes, max(1, thread_count() // jobs))
    cells, budget = plan.cells(), settings.get("budget", float("inf"))
    with cell_progress(quiet) as observer:
        return run_cells(
            cells, PaperData(data), limits, out / RECORDS, jobs, budget=budget, observer=observer
        )
