"""Options of the commands: those they share, and the parameters of OMCAL by their declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import omcal
from omcal.machine.declaring import Declared, Words, declared
from omcal.model.parameters import MultiViewParameters

if TYPE_CHECKING:
    from omcal import OMCAL, Consensus
    from omcal.datasets import MultiViewData
    from omcal.model.cost import Estimate

Command = Callable[..., None]

PARAMETERS: dict[str, Declared] = {
    name: one for name, one in declared(MultiViewParameters).items() if one.option
}

_OPTIONS = {name: str(one.option).split("/")[0] for name, one in PARAMETERS.items()}
_OPTIONS |= {"n_clusters": "--clusters", "random_state": "--seed", "n_resamples": "--resamples"}
# Parameter names that cannot be words of a sentence.
_NAMES = "|".join(name for name in _OPTIONS if "_" in name or name in ("beta", "gamma", "tol"))

# Attributes and methods in Python, and what the command line has instead of them.
_ELSEWHERE = {
    "estimate(n, dims)": "--dry-run",
    "explain_views()": "`omcal explain`",
    "view_scales_": "how the views are scaled",
    "certainty_": "the certainty in a --report",
}

ViewNames = Annotated[
    str | None, typer.Option("--views", "-v", metavar="A,B", help="Use these views only.")
]
Clusters = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-c",
        "--n-clusters",
        "-k",
        metavar="N|auto",
        help="Number of clusters; auto, or left out: suggested by the data.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        *("--seed", "-s", "--random-state"),
        min=0,
        max=2**32 - 1,
        metavar="N",
        help="Seed of the random numbers.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", "-j", help="Print one JSON object instead of tables.")
]
Certainty = Annotated[
    bool | None,
    typer.Option(
        "--certainty/--no-certainty",
        help="With --out: add the probability of the cluster, and the second choice.",
        show_default="certainty",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
]

USUAL_RUNS = 10
_SECONDS = 15.0  # with a longer estimate for all of USUAL_RUNS, one run is the default
_ITERATIONS = 20  # iterations of a usual run, for the estimate; a fit does at most max_iter


def _annotation(name: str) -> Any:
    """Return the option of the parameter `name` for typer; its Python name is an alias."""
    declaration = PARAMETERS[name]
    alias = "--" + name.replace("_", "-")
    others = {declared.option for declared in PARAMETERS.values()} | {_OPTIONS[name]}
    words = [rule.words for rule in declaration.constraint if isinstance(rule, Words)]
    kind: Any = declaration.reads or (Literal[*words[0]] if words else type(declaration.default))
    default = "" if declaration.default is None else str(declaration.default)
    option = typer.Option(
        *(str(declaration.option), *({alias} - others)),
        help=declaration.brief,
        show_default=(default if declaration.shown is None else declaration.shown) or False,
        metavar=declaration.metavar,
        rich_help_panel="Parameters of OMCAL",
    )
    return Annotated[kind | None, option]


def takes(*names: str) -> Callable[[Command], Command]:
    """Give a command options for the named parameters, by default those of the estimator.

    The command receives the options that the user passed as one mapping, `parameters`, for OMCAL.
    """

    def given(**chosen: Any) -> Any:
        plain = {n: str(v) if isinstance(v, Path) else v for n, v in chosen.items()}
        return nullcontext({n: value for n, value in plain.items() if value is not None})

    return gathers("parameters", {name: (_annotation(name), None) for name in names}, given)


def gathers(
    name: str,
    options: Mapping[str, tuple[Any, Any]],
    value_of: Callable[..., AbstractContextManager[Any]],
) -> Callable[[Command], Command]:
    """Replace the parameter `name` of a command by options, from which `value_of` computes it.

    `options` has their types and defaults.
    """

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters

        @wraps(command)
        def call(**given: Any) -> None:
            with value_of(**{option: given.pop(option) for option in options}) as value:
                command(**{name: value}, **given)

        kind = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(option, kind, default=default, annotation=annotation)
            for option, (annotation, default) in options.items()
        ]
        # New arguments take the position of the parameter; new options follow those of the command.
        arguments = [one for one in added if one.default is inspect.Parameter.empty]
        shown = [one.replace(kind=kind) for one in own.values()]
        place = list(own).index(name)
        shown[place : place + 1] = arguments
        shown += [one for one in added if one not in arguments]
        call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in shown}
        return call

    return decorate


def words_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the command-line arguments that set the parameters.

    Examples
    --------
    >>> words_of({"n_anchors": 20, "scale": None, "accelerate": False})
    ['--anchors', '20', '--scale', 'none', '--no-accelerate']
    """
    words = []
    for name, value in parameters.items():
        yes, _, no = str(PARAMETERS[name].option).partition("/")
        words.append(no if value is False else yes)
        if not isinstance(value, bool):
            words.append("none" if value is None else str(value))
    return words


def in_options(message: str) -> str:
    """Return a message of the estimator with parameters written as command-line options.

    Examples
    --------
    >>> in_options("n_clusters=121 must be at most 120; raise n_anchors.")
    '--clusters 121 must be at most 120; raise --anchors.'
    >>> in_options("The 'beta' parameter of OMCAL must be a float in the range [0.0, inf).")
    '--beta must be a number in the range [0.0, inf).'
    """
    message, checked = re.subn(
        r"The '(\w+)' parameter of \w+ must be",
        lambda found: f"{_OPTIONS.get(found[1], found[1])} must be",
        message,
    )
    if checked:
        message = message.replace(" an int ", " a whole number ").replace(" a float ", " a number ")
    for python_name, replacement in _ELSEWHERE.items():
        message = message.replace(python_name, replacement)
    message = re.sub(
        rf"(?<![\w-])({'|'.join(_OPTIONS)})=(\S*[^\s;,.)])?",
        lambda found: " ".join(filter(None, (_OPTIONS[found[1]], found[2]))),
        message,
    )
    return re.sub(rf"(?<![\w-])({_NAMES})\b", lambda found: _OPTIONS[found[1]], message)


def names(text: str | None) -> list[str] | None:
    """Return the names in a list such as "a,b"; None for an empty list.

    Examples
    --------
    >>> names("pixels, edges")
    ['pixels', 'edges']
    """
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def cluster_number(given: str) -> int | None:
    """Return the number of clusters that --clusters gives; None for "auto".

    Examples
    --------
    >>> cluster_number("10"), cluster_number("auto")
    (10, None)
    """
    if given.lower() == "auto":
        return None
    try:
        return int(given)
    except ValueError as error:
        raise ValueError(f"--clusters {given!r} must be a whole number, or auto.") from error


def with_scales(parameters: Mapping[str, Any], data: MultiViewData) -> dict[str, Any]:
    """Return the parameters of OMCAL with `scale` resolved for the views of `data`.

    A view without a scaling, or with "auto", takes that of its source (`MultiViewData.scales`).
    """
    whole, single = parse_scale(parameters.get("scale", "auto"))
    unknown = [view for view in single if view not in data.views]
    if unknown:
        available = ", ".join(map(repr, data.views))
        raise ValueError(f"--scale names the view {unknown[0]!r}; available: {available}.")
    others = data.scales if whole == "auto" else {}
    words = {view: single.get(view, others.get(view, whole)) for view in data.views}
    scales = {view: None if word == "none" else word for view, word in words.items()}
    same = len(set(scales.values())) == 1
    return {**parameters, "scale": next(iter(scales.values())) if same else scales}


def parse_scale(text: str) -> tuple[str, dict[str, str]]:
    """Return the scaling for all views, and the scalings of single views by name.

    Examples
    --------
    >>> parse_scale("log")
    ('log', {})
    >>> parse_scale("standard,rna=log,image=none")
    ('standard', {'rna': 'log', 'image': 'none'})
    """
    from omcal.method.scaling import SCALES

    allowed = ["none" if scale is None else scale for scale in SCALES]
    found: dict[str, str] = {}
    for part in names(text) or []:
        view, _, word = part.rpartition("=")
        if word not in allowed:
            raise ValueError(f"--scale {word!r} is unknown; use one of {', '.join(allowed)}.")
        if view in found:
            what = f"names the view {view!r} twice" if view else "has two words for all views"
            raise ValueError(f"--scale {text!r} {what}; give one, or VIEW=WORD.")
        found[view] = word
    return found.pop("", "auto"), found


def _runs_option(text: str, default: str) -> Any:
    option = typer.Option(
        *("--runs", "-r", "--n-runs"), min=1, metavar="N", help=text, show_default=default
    )
    return Annotated[int | None, option]


Runs = _runs_option(
    "Number of runs, each with other anchors, to combine into one result.",
    "10 if they take seconds, else 1",
)
ConsensusRuns = _runs_option(
    "Number of runs that the method consensus combines; omcal is one run.", "10"
)


def chosen_runs(
    model: OMCAL, requested: int | None, data: MultiViewData, *, elsewhere: bool = False
) -> tuple[int, list[str]]:
    """Return the number of runs for a fit, and a note if the user has not set it.

    The default is one run on a GPU, with a checkpoint, and `elsewhere` (Dask, several processes):
    the time of ten runs is not estimated there.
    """
    if requested is not None:
        return requested, []
    if elsewhere or model.device != "cpu" or model.checkpoint is not None:
        return 1, []
    runs, note = usual_runs(model, omcal.datasets.describe(data)["views"])
    return runs, [note]


def combined(model: OMCAL, runs: int) -> OMCAL | Consensus:
    """Return the model that combines this number of runs of `model`."""
    if runs == 1:
        return model
    return omcal.Consensus(model, n_runs=runs, random_state=model.random_state)


def runs_of_consensus(requested: int | None) -> int:
    """Return the number of runs of the method `consensus`."""
    if requested == 1:
        raise ValueError("the method consensus combines runs; give --runs 2 or more.")
    return requested or USUAL_RUNS


def usual_runs(model: OMCAL, views: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """Return the default number of runs for views that `omcal.datasets.describe` described."""
    from sklearn.base import clone

    short = clone(model).set_params(max_iter=min(model.max_iter, _ITERATIONS))
    seconds = expected_fit(short, views, mapped=False, n_runs=USUAL_RUNS).seconds
    if seconds > _SECONDS:
        return 1, (
            f"one run; {USUAL_RUNS} combined (--runs {USUAL_RUNS}) are less sensitive to the seed "
            f"and would take about {seconds:.0f} s"
        )
    return USUAL_RUNS, f"{USUAL_RUNS} runs are combined (--runs 1 for one)"


def expected_fit(
    model: OMCAL, views: Sequence[dict[str, Any]], *, mapped: bool, n_runs: int
) -> Estimate:
    """Estimate `n_runs` runs for views that `omcal.datasets.describe` described.

    Memory-mapped views stay in their files; rows that do not fit into memory go to files, too.
    """
    import numpy as np
    from sklearn.base import clone

    from omcal.machine.memory import available_memory

    if mapped and model.memory_limit is None:
        model = clone(model).set_params(memory_limit=available_memory() // 2)
    return combined(model, n_runs).estimate(
        views[0]["shape"][0],
        [view["shape"][1] for view in views],
        dtype=np.result_type(*(np.dtype(view["dtype"]) for view in views)),
        density=[view["density"] for view in views],
    )


def estimate_record(expected: Estimate) -> dict[str, Any]:
    """Return the estimate as plain numbers."""
    from omcal.machine.memory import available_memory

    return {
        "n_anchors": expected.n_anchors,
        "n_runs": expected.n_runs,
        "rows_in": expected.rows_in,
        "bytes": round(expected.bytes),
        "bytes_available": available_memory(),
        "memory": {
            stage: {part: round(size) for part, size in parts.items()}
            for stage, parts in expected.memory.items()
        },
        "seconds_at_most": expected.seconds,
        "time": expected.time,
    }
