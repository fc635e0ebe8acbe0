"""The parameters of OMCAL and OCAL: name, default, constraint, documentation and option of each.

A further parameter is one entry here. `ATTRIBUTES` documents the fitted attributes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from omcal.machine.declaring import Declares, Methods, Range, Words, parameter
from omcal.method.weights import WEIGHTINGS

if TYPE_CHECKING:
    from distributed import Client
    from numpy.typing import ArrayLike
    from torch.distributed import ProcessGroup

    from omcal.machine.arrays import Seed
    from omcal.method.scaling import Scale
    from omcal.views.like import ColumnsLike

    Weighting: TypeAlias = Literal["distinct", "agreement", "adaptive", "uniform"] | ArrayLike
    Anchors: TypeAlias = Literal["kmeans", "kmeans-full", "random"] | Sequence[ArrayLike]
    Start: TypeAlias = Literal["spectral", "random"] | ArrayLike

_SCALES = ("auto", "tfidf", "unit", "log", "standard", "view", "feature", "sample")
ATTRIBUTES = """\
labels_ : array of shape (n,)
        Cluster of each sample, 0 to `n_clusters_` − 1.
    n_clusters_ : int
        Number of clusters.
    selection_ : omcal.select.ClusterNumber or None
        With n_clusters="auto": the numbers that were tried and their scores; not part of files.
    outlier_threshold_ : float or None
        The share `contamination` of the samples has a lower `score_samples`.
    matched_ : list of Match
        With `like`: for each cluster the earlier cluster that it continues, and their overlap.
    cluster_names_ : tuple of str
        Names of the clusters, by default their numbers; can be set.
    view_weights_ : array of shape (n_views,)
        α: how much each view counts, in the order of `view_names_`; the sum is 1.
    basis_ : array of shape (n_anchors, n_clusters)
        G: weight of each anchor in each cluster.
    anchors_ : list of arrays of shape (n_anchors, d_v)
        The anchors in each view, in the scaled space.
    objective_ : array of shape (n_iter,)
        The objective after each iteration.
    n_iter_ : int
        Number of iterations of the start that was kept.
    converged_ : bool
        Whether the objective converged to `tol` before `max_iter`.
    n_undecided_ : int
        Number of samples without a positive entry in F; the least negative entry is their label.
    doubts_ : list
        Reasons to doubt the result, as triples (observation, remedy, kind of warning); `fit`
        warns of each.
    structure_ : omcal.model.structure.Structure or None
        How well the clusters separate a sample, compared with data without clusters. None if it
        was not tested: with fewer than 50 samples, one cluster, or on a device.
    view_scales_ : list
        Scaling of each view, as pairs (name in `scale`, reason).
    n_features_in_ : int
        Sum of the widths of the views.
    n_features_per_view_ : list of int
        Number of features of each view.
    n_missing_ : list of int
        Number of missing cells of each view, which are filled with estimates from their rows.
    view_names_ : list of str
        Names of the views: those of a mapping, else view1, view2 ..."""


def _words(*words: str) -> str:
    return "{" + ", ".join(f'"{word}"' for word in words) + "}"


class SharedParameters(Declares):
    """The parameters of OMCAL and OCAL."""

    n_clusters: int | Literal["auto"] = parameter(
        default=8,
        kind='int or "auto"',
        help="""Number of clusters c. "auto": the suggestion of `omcal.select.n_clusters`;
        `n_clusters_` has the number, `selection_` the reasons.""",
        kw_only=False,
    )
    n_anchors: int | None = parameter(
        default=None,
        help="""Number of anchors m, at least `n_clusters`. By default five per cluster, at least
        c + 10, and at most half of the samples or 500 (2 c where that is more).""",
        option="--anchors",
        brief="Number of anchors.",
        shown="5 per cluster",
        reads=int,
    )
    n_neighbors: int = parameter(
        default=5,
        help="""Number k of nearest anchors a sample is tied to in each view; below
        `n_anchors`.""",
        option="--neighbors",
        brief="Nearest anchors of a sample.",
    )
    beta: float = parameter(
        default=0.3,
        help="Weight of the nuclear norm; more means a consensus graph of lower rank.",
        option="--beta",
    )
    gamma: float = parameter(
        default=0.1,
        # With larger values the objective is a difference of numbers that are equal in all digits.
        constraint=(Range(Real, 0, 1e8, "both"),),
        kind="float",
        help="Weight of the factorisation, at most 1e8; the paper recommends 1e-5 to 1.",
        option="--gamma",
        brief="Weight of the factorisation.",
    )
    scale: Scale = parameter(
        default="auto",
        constraint=(Words(_SCALES), dict, None),
        kind=f"{_words(*_SCALES)}, None or dict",
        help="""How the views are scaled. A dict sets it by view; views that it lacks are "auto".

        - "auto": one of the next five, by the kind of the view; `view_scales_` has the reason;
        - "tfidf": damped, times inverse document frequency, rows of length 1; for counts;
        - "unit": rows of length 1; for mostly zero views with negative values;
        - "log": z-score of log(1 + x / median); for non-negative features with long tails;
        - "view": one factor; for rows of length 1 that are not whole numbers;
        - "standard": z-score of each feature, 0 for constant ones; for other views;
        - "feature", "sample": z-score of each feature or each sample alone; None: unchanged.

        The five give total variance 1. Sparse views stay so unless over two thirds is stored.""",
        option="--scale",
        brief="""How views are scaled: auto (each by its kind), tfidf, unit, log, standard, """
        """feature, sample, view or none; of single views: rna=log,image=none.""",
        metavar="WORD|VIEW=WORD",
        reads=str,
    )
    anchors: Anchors = parameter(
        default="kmeans",
        constraint=(Words(("kmeans", "kmeans-full", "random")), "array-like"),
        kind='{"kmeans", "kmeans-full", "random"} or list of arrays',
        help="""Choice of the anchors. "kmeans": joint k-means of all views on a random sample of
        256·m rows. "kmeans-full": on all rows, from a start that tries up to m points per
        anchor instead of 2 + log m; slower, and in most cases less dependent on the seed.
        "random": random samples. Or one (m, d_v) array per view, in the scaled space.""",
        option="--anchors-by",
        brief="How anchors are chosen; kmeans-full: from all rows.",
    )
    init: Start = parameter(
        default="spectral",
        constraint=(Words(("spectral", "random")), "array-like"),
        kind='{"spectral", "random"} or array of shape (n_anchors, n_clusters)',
        help="""Orthonormal start of G. "spectral": leading eigenvectors of the mixed graph, rotated
        towards an indicator; as good as a random start, often with fewer iterations.
        "random": as in the paper. With given anchors nothing else is random.""",
        option="--init",
        brief="Where the iterations start.",
    )
    n_init: int = parameter(
        default=1,
        help="Number of starts of G, random after the first; the lowest objective is kept.",
        option="--n-init",
        brief="Starts, random after the first; the best is kept.",
    )
    max_iter: int = parameter(
        default=100,
        help="Maximum number of iterations per start.",
        option="--max-iter",
    )
    tol: float = parameter(
        default=1e-5,
        help="""Stop when the relative change of the objective is smaller; 0 runs all `max_iter`
        iterations.""",
        option="--tol",
        brief="Relative change to stop at.",
    )
    accelerate: bool = parameter(
        default=True,
        help="""Reach about the same objective in a half to a third of the passes over the
        samples: repeat the steps that need no pass, and extrapolate the others along their last
        move. k-means of one fit to wide rows uses a few directions. False: the iteration of the
        paper, and k-means in all features.""",
        option="--accelerate/--no-accelerate",
        brief="About the same objective in fewer iterations than the paper's.",
        shown="accelerate",
    )
    device: str = parameter(
        default="cpu",
        constraint=(str,),
        kind='{"cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "mps"}',
        help="""Device of the rows and the work; all but "cpu" need PyTorch (extra "gpu"). Several
        GPUs divide the rows. Tensors that are on a device are used there, and the results are
        tensors.""",
        option="--device",
        brief="cpu, or a device of PyTorch: cuda, cuda:0,cuda:1 …",
        reads=str,
    )
    memory_limit: float | str | None = parameter(
        default=None,
        constraint=(Range(Real, 0, None, "neither"), str, None),
        kind="int or str",
        help="""Limit of the memory, such as ``"4GB"``, for the data that grow with the number of
        samples: the graphs, F and the blocks that are read. Data that do not fit go to files in
        `scratch_dir`. By default half of the free memory if a view is on disk, otherwise no
        limit.""",
        option="--memory-limit",
        brief="""Limit of the memory that grows with the samples, like 4GB; the rest goes to """
        """files. With --dask alone: for all its processes.""",
        metavar="SIZE",
        reads=str,
    )
    scratch_dir: str | os.PathLike[str] | None = parameter(
        default=None,
        constraint=(str, os.PathLike, None),
        kind="path",
        help="""Folder for these files, which are removed at the end of the fit, even after an
        error; by default the system's folder for temporary files.""",
        option="--scratch-dir",
        brief="Folder for these files, which are removed at the end.",
        metavar="DIR",
        reads=Path,
    )
    checkpoint: str | os.PathLike[str] | None = parameter(
        default=None,
        constraint=(str, os.PathLike, None),
        kind="path",
        help="""File for the small state of the fit, saved every five iterations. A fit that finds
        the file continues from it; the file is removed at the end of the fit.""",
        option="--checkpoint",
        brief="Save the state here; a fit that finds it continues.",
        metavar="FILE",
        reads=Path,
    )
    contamination: float = parameter(
        default=0.01,
        constraint=(Range(Real, 0, 0.5, "right"),),
        kind="float",
        help="""Share of the samples of the fit that ``predict(X, outliers=-1)`` labels as
        outliers: the rate of false alarms among new samples of the same kind.""",
    )
    half_life: float | None = parameter(
        default=None,
        constraint=(Range(Real, 0, None, "neither"), None),
        kind="float",
        help="""Number of later samples after which a sample counts half in `partial_fit`. By
        default all samples count the same.""",
    )
    grow: bool = parameter(
        default=False,
        help="""Whether `partial_fit` makes a new cluster of samples that belong to no cluster, if
        they form a stable group. By default it warns of such a group.""",
    )
    warm_start: bool = parameter(
        default=False,
        help="""Whether `fit` starts from the anchors and the basis of the last fit, and keeps the
        numbers of its clusters. The scalings are those of the new data.""",
    )
    client: Client | None = parameter(
        default=None,
        constraint=(Methods(("submit", "compute")), None),
        kind="distributed.Client",
        help="""The Dask cluster for views in Dask, or in files; by default the current client if a
        view is in Dask, otherwise this process.""",
    )
    group: ProcessGroup | str | None = parameter(
        default=None,
        constraint=(Methods(("rank", "size")), str, None),
        kind="torch.distributed.ProcessGroup or str",
        help="""Processes that fit together; "world" is all of them. Each passes its own rows to
        `fit`, possibly none, and ends with the same model and the labels of its rows. Its rows
        may be in memory, in files or on a device. Needs PyTorch (extra "gpu").""",
    )
    random_state: Seed = parameter(
        default=None,
        constraint=("random_state",),
        kind="int, RandomState or None, default=None",
        help="Seed of the anchors and of the start.",
    )
    verbose: int = parameter(
        default=0,
        constraint=("verbose",),
        kind="int",
        help="""1 reports the scaling of each view and each finished run, 2 also each iteration,
        through the logger "omcal".""",
    )


class MultiViewParameters(SharedParameters):
    """The parameters of OMCAL: the shared ones, and those for several views."""

    weighting: Weighting = parameter(
        default="distinct",
        constraint=(Words(WEIGHTINGS.keys()), "array-like"),
        kind=f"{_words(*WEIGHTINGS)} or array of shape (n_views,)",
        help="""How the views are weighted. "agreement": in proportion to the cosine between the
        view's graph and the current clustering. "distinct": the same, where the copies of a view
        share the weight of one. "adaptive": the paper's weights, the mixture of graphs nearest to
        Z. "uniform", or given weights, stay fixed. A view that is the same for all samples has
        weight 0 under every rule.""",
        option="--weighting",
        brief="How views are weighted; "
        + "; ".join(f"{name}: {rule.help}" for name, rule in WEIGHTINGS.items())
        + ".",
    )
    views: ColumnsLike | None = parameter(
        default=None,
        constraint=(None, str, dict, list, tuple),
        kind="str, mapping or list",
        help="""If X is one table: the columns of each view. A list, or a mapping from
        names, of slices, positions or column names; or ``"prefix_"`` for one view per column-name
        prefix.""",
    )
