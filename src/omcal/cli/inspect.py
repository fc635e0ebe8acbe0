"""`omcal inspect`: the contents of a file, and the plan of `omcal cluster` for it."""

from __future__ import annotations

import shlex
from typing import Any

import omcal
from omcal.cli.console import print_table, stdout
from omcal.cli.options import estimate_record, expected_fit, in_options, usual_runs
from omcal.cli.reading import Reading, reads

_SHOWN_VIEWS = 50
_MAPPED = ("NumPy array", "folder of NumPy arrays")


@reads("quiet")
def inspect(reading: Reading) -> None:
    """Describe the views and labels in FILE.

    Also print the plan of `omcal cluster`, and the time and memory that it takes.
    """
    paths, choices = reading.arguments()
    found = omcal.datasets.describe(paths, **choices)
    result = {**found, "cluster": _plan(reading, found)}
    if result["cluster"]["obstacle"] is None:
        for view, scale in zip(found["views"], _scales(reading), strict=True):
            view["scale"] = scale
    reading.print(result, _show)


def _scales(reading: Reading) -> list[str]:
    """Return the default scaling of each view, with the reason."""
    from omcal.views.kinds import ASKED, Kind, sample_of
    from omcal.views.missing import MissingCells, known_values
    from omcal.views.view import View

    data = reading.load()
    known = {name: Kind(scale, "components") for name, scale in data.scales.items()}
    known |= {name: Kind("standard", "with categories") for name in data.views.levels_from}

    def kind_of(name: str) -> Kind:
        sample = sample_of(View(name, data.views[name], present=data.views.present.get(name)))
        return known_values([sample], MissingCells.of(sample)).kind or ASKED

    return [str(known.get(name) or kind_of(name)) for name in data.views]


def _plan(reading: Reading, found: dict[str, Any]) -> dict[str, Any]:
    """Return the command that clusters the files, its estimate, and the obstacle if any."""
    from omcal.views.present import require_enough

    classes = {c["name"]: c["n_classes"] for c in found["label_candidates"]}.get(found["labels"])
    words = shlex.join(["omcal", "cluster", *reading.words()])
    plan = {
        "command": f"{words} --clusters {classes or 'C'}",
        "obstacle": found["problem"],
        "estimate": None,
    }
    if found["n_nowhere"]:
        n = found["n_nowhere"]
        plan["obstacle"] = f"{n} samples are absent from every view; remove them first."
    if plan["obstacle"] is None:
        # Without classes the user chooses the number of clusters: estimate with the default.
        model = omcal.OMCAL(min(classes or omcal.OMCAL().n_clusters, found["n_samples"]))
        try:
            views, mapped = found["views"], found["format"] in _MAPPED
            n_runs, _ = usual_runs(model, views)
            expected = expected_fit(model, views, mapped=mapped, n_runs=n_runs)
            plan["estimate"] = estimate_record(expected)
            n_present = [found["n_samples"] - view["n_missing_rows"] for view in views]
            require_enough([view["name"] for view in views], n_present, expected.n_anchors)
        except ValueError as error:
            plan["obstacle"] = in_options(str(error))
    return plan


def _show(result: dict[str, Any]) -> None:
    console = stdout()
    n = result["n_samples"]
    n_views = len(result["views"])
    views = "1 view" if n_views == 1 else f"{n_views} views"
    size = f"{n} samples in {views}" if n_views else "no views as it is"
    print_table(
        f"{result['name']} ({result['format']}): {size}",
        ("view", "features", "type", "kind", "missing values", "absent samples"),
        [_view_row(view) for view in result["views"][:_SHOWN_VIEWS]],
    )
    if result["columns"]:
        kinds = [(c["name"], c["kind"], str(c["n_missing"] or "")) for c in result["columns"]]
        print_table("Columns", ("column", "taken as", "missing"), kinds)
    if any("scale" in view for view in result["views"]):
        rows = [(view["name"], view["scale"]) for view in result["views"][:_SHOWN_VIEWS]]
        print_table("Scaling by default", ("view", "scaled as"), rows)
    if result["label_candidates"]:
        rows = [
            (c["name"] + (" *" if c["name"] == result["labels"] else ""), str(c["n_classes"]))
            for c in result["label_candidates"]
        ]
        print_table("Possible labels (* taken by default)", ("labels", "classes"), rows)
    if result["ids"] is not None:
        console.print(f"Ids: {result['ids']}")
    plan = result["cluster"]
    if plan["obstacle"] is not None:
        console.print(f"It cannot be clustered as it is: {plan['obstacle']}", soft_wrap=True)
        return
    console.print(f"To cluster it: {plan['command']}", soft_wrap=True)  # to be copied
    console.print(_estimate_text(result), soft_wrap=True)


def _estimate_text(result: dict[str, Any]) -> str:
    """Return a sentence on the views that the command uses, its memory and its time."""
    from omcal.machine.memory import format_bytes

    expected, n_views = result["cluster"]["estimate"], len(result["views"])
    taken = {1: "the view", 2: "both views"}.get(n_views, f"all {n_views} views")
    compared = ""
    if result["labels"] is not None:
        compared = f", and compares the clusters with the classes in {result['labels']}"
    chosen = "" if compared else "C is the number of clusters that you want. "
    absent = any(view["n_missing_rows"] for view in result["views"])
    besides = " Samples that a view lacks are clustered by their other views." if absent else ""
    runs = "one run" if expected["n_runs"] == 1 else f"{expected['n_runs']} joined runs"
    return (
        f"{chosen}It takes {taken}, {runs} with {expected['n_anchors']} anchors{compared}: about "
        f"{format_bytes(expected['bytes'])} of memory beyond the data, at most about "
        f"{expected['seconds_at_most']:.1f} s, the rows in {expected['rows_in']}.{besides}"
    )


def _view_row(view: dict[str, Any]) -> tuple[str, ...]:
    kind = f"sparse, {view['density']:.2%} stored" if view["sparse"] else "dense"
    name, width, dtype = view["name"], str(view["shape"][1]), view["dtype"]
    return name, width, dtype, kind, str(view["n_nan"]), str(view["n_missing_rows"])
