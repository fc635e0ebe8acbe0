"""Fits on a Dask cluster, and fits by several ranks that torchrun has started."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal

if TYPE_CHECKING:
    from omcal.places.ranks import Ranks
    from omcal.views.adapt import NamedViews

Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="[ADDRESS]",
        help="Work on the Dask cluster at this address; without one, on the cores of this machine.",
    ),
]

Collective = Annotated[
    bool,
    typer.Option(
        "--collective", help="Divide the rows among the processes that torchrun has started."
    ),
]

_LOCAL = "local"
_ADDRESS = re.compile(r"(\w+://.+|[\w.\-\[\]:]+:\d+)")
_CHUNK_BYTES = 1 << 26


def with_dask_address(args: Sequence[str]) -> list[str]:
    """Return the arguments with `--dask=local` in place of a `--dask` without an address.

    Examples
    --------
    >>> with_dask_address(["cluster", "--dask", "data.npz"])
    ['cluster', '--dask=local', 'data.npz']
    >>> with_dask_address(["--dask", "tcp://10.0.0.1:8786"])
    ['--dask', 'tcp://10.0.0.1:8786']
    """
    following = [*args[1:], ""]
    return [
        f"--dask={_LOCAL}" if word == "--dask" and not _ADDRESS.fullmatch(after) else word
        for word, after in zip(args, following, strict=False)
    ]


def fit_on_dask(model: Any, views: NamedViews, dask: str) -> None:
    """Fit the model on a Dask cluster, which is closed at the end."""
    inner: Any = getattr(model, "estimator", model)  # inside a Consensus
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError('--dask needs Dask: pip install "dask[array]" distributed') from error
    import numpy as np

    with ExitStack() as stack:
        address: Any = dask
        if dask == _LOCAL:
            address = stack.enter_context(
                LocalCluster(**_local_workers(inner._asked().memory_limit, views))
            )
            inner.set_params(memory_limit=None)
        client = stack.enter_context(Client(address, timeout="15s"))
        stack.callback(_detach, model, inner)
        inner.set_params(client=client)
        here = views.present
        model.fit({name: _in_chunks(name, view, here.get(name)) for name, view in views.items()})
        model.labels_ = np.asarray(model.labels_)


def fit_together(model: Any, views: NamedViews) -> None:
    """Fit the model with the other ranks that torchrun has started, each to its rows.

    All ranks end with the labels of all rows.
    """
    inner: Any = getattr(model, "estimator", model)
    ranks = _join_group(inner.device)
    n = views.shape[0]
    inner.set_params(group="world")
    try:
        model.fit(views[ranks.rank * n // ranks.size : (ranks.rank + 1) * n // ranks.size])
        _gather_labels(model, ranks)
    finally:
        _detach(model, inner)


def _join_group(device: str) -> Ranks:
    """Join PyTorch's default group, as torchrun describes it in the environment."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        raise ValueError(
            "--collective is for processes that are started together; start them with torchrun "
            "--nproc-per-node 2 -m omcal cluster ... --collective, or leave it out."
        )
    from omcal.machine import torch
    from omcal.places.ranks import Ranks, start_group

    if device.startswith("cuda"):
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    start_group()
    # If the group still exists when Python exits, its threads abort the process.
    atexit.register(torch.distributed.destroy_process_group)
    return Ranks("world")


def _gather_labels(model: Any, ranks: Ranks) -> None:
    """Gather the labels and certainties of all ranks."""
    from dataclasses import replace

    import numpy as np

    def gathered(local: Any) -> Any:
        return np.concatenate(ranks.each(lambda: np.asarray(local)))

    model.labels_ = gathered(model.labels_)
    if hasattr(model, "runs_"):
        model.certainty_ = gathered(model.certainty_)
        model.runs_ = [replace(run, labels=gathered(run.labels)) for run in model.runs_]
        model.estimator_.labels_ = gathered(model.estimator_.labels_)


def _detach(*models: Any) -> None:
    """Remove the client and the group from the models and their runs."""
    for model in models:
        for holder in (model, getattr(model, "estimator_", model)):
            if "client" in holder.get_params():
                holder.set_params(client=None, group=None)


def _local_workers(memory_limit: int | None, views: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a local cluster: one process per core, if memory allows."""
    workers = os.cpu_count() or 1
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    if memory_limit is None:
        return {**options, "n_workers": workers}
    from omcal.machine.memory import format_bytes

    per_worker = _least_memory(views)
    if memory_limit < per_worker:
        least_mb = int(1.05 * per_worker / 10**6) + 1  # the measured memory varies
        raise ValueError(
            f"--memory-limit {format_bytes(memory_limit)} is too little for a Dask worker, which "
            f"would be restarted again and again; give at least {least_mb}MB, or "
            "leave out --dask, as a fit without Dask needs less."
        )
    workers = min(workers, memory_limit // per_worker)
    return {**options, "n_workers": workers, "memory_limit": memory_limit // workers}


def _least_memory(views: Mapping[str, Any]) -> int:
    """Return the memory of one worker: the loaded libraries and some blocks."""
    import dask
    import numpy as np
    import psutil  # type: ignore[import-untyped]

    arrays = [view for view in views.values() if isinstance(view, np.ndarray)]
    sizes = [array.nbytes for array in arrays]
    in_memory = sum(array.nbytes for array in arrays if not isinstance(array, np.memmap))
    libraries = psutil.Process().memory_info().rss - in_memory
    # Three copies of a block: as read, scaled, and in the sample for the anchors.
    blocks = 3 * sum(min(size, _CHUNK_BYTES) for size in sizes)
    # A worker that uses more than this share of its memory pauses.
    share = dask.config.get("distributed.worker.memory.pause", None) or 1.0
    return int((max(libraries, 0) + blocks) / share)


def _in_chunks(name: str, view: Any, present: Any = None) -> Any:
    """Return a view that workers can read: a file unchanged, an array in chunks of rows.

    Samples that are not `present` become rows of NaN, since chunks carry no mask.
    """
    import numpy as np

    if isinstance(view, np.memmap):
        return view
    if not isinstance(view, np.ndarray):
        raise omcal.datasets.DataError(
            f"view {name!r} is sparse; make it dense for --dask, or leave out --dask."
        )
    import dask.array as da

    if present is not None and not present.all():
        view = np.where(present[:, None], view, np.nan)
    rows = max(1, _CHUNK_BYTES // max(1, view.shape[1] * view.itemsize))
    return da.from_array(view, chunks=(rows, -1))
