"""OMCAL as a scikit-learn estimator: its parameters and attributes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from numpy.typing import ArrayLike

from omcal.machine.arrays import Seed
from omcal.machine.scikit import StrOptions
from omcal.method.scaling import Scale
from omcal.method.weights import WEIGHTINGS
from omcal.model.fitting import AnchorClusterer
from omcal.views.like import ColumnsLike

if TYPE_CHECKING:
    from distributed import Client
    from torch.distributed import ProcessGroup

Weighting: TypeAlias = str | ArrayLike  # a key of `WEIGHTINGS`, or the weights
Anchors: TypeAlias = Literal["kmeans", "kmeans-full", "random"] | Sequence[ArrayLike]
Start: TypeAlias = Literal["spectral", "random"] | ArrayLike


class OMCAL(AnchorClusterer):
    """One-step multi-view clustering with adaptive low-rank anchor-graph learning.

    Minimises, over the consensus graph Z, the view weights α, the indicator F and the basis G, ::

        ‖Z − Σ_v α_v S_v‖² + β ‖Z‖_* + γ ‖Z − F Gᵀ‖²
        subject to F ≥ 0, GᵀG = I, α ≥ 0, Σ_v α_v = 1

    where S_v is the graph of view v between the samples and m anchors. The cluster of a sample is
    the largest entry of its row of F. Time and memory are linear in the number of samples.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters c.
    n_anchors : int, optional
        Number of anchors m, at least `n_clusters`. By default five a cluster, at least c + 10, and
        at most half of the samples or 500 (2 c where that is more).
    n_neighbors : int, default=5
        Number k of nearest anchors a sample is tied to in each view; below `n_anchors`.
    beta : float, default=0.3
        Weight of the nuclear norm; more means a consensus graph of lower rank.
    gamma : float, default=0.1
        Weight of the factorisation, at most 1e8; the paper recommends 1e-5 to 1.
    scale : {"auto", "tfidf", "unit", "log", "standard", "view", "feature", "sample"}, None or \
dict, default="auto"
        How the views are scaled. "auto" recognises the kind of each from up to 2048 of its rows
        and says in `view_scales_` what it took, and why: "tfidf" for mostly zero, non-negative
        views and other counts (damped, times inverse document frequency, rows of length 1), "unit"
        for mostly zero ones with negative values (rows of length 1), "view" for rows of length 1
        (one factor), "log" for other non-negative features with long tails (z-score of
        log(1 + x / usual value)), else "standard" (z-score of each feature). These five end with
        total variance 1, so that the width of a view does not decide how much it counts, and can
        be asked for by name. "feature": z-score of each feature alone. "sample": z-score of each
        sample within each view. None: the data as they are. Constant features become 0, sparse
        views stay sparse and are not centred. A dict has one of these by the name of a view; views
        that it does not name are "auto".
    weighting : {"distinct", "agreement", "adaptive", "uniform"} or array of shape (n_views,), \
default="distinct"
        "agreement": in proportion to the cosine between the view's graph and the current
        clustering. "distinct": the same, where the copies of a view share the weight of one.
        "adaptive": the paper's weights, the mixture of graphs nearest to Z. "uniform", or given
        weights, stay fixed. A view that is the same for all samples has weight 0 under each.
    anchors : {"kmeans", "kmeans-full", "random"} or list of arrays, default="kmeans"
        "kmeans": joint k-means of all views on a random sample of 256·m rows. "kmeans-full": on
        all rows, from a start that tries up to m points for each anchor where the other tries
        2 + log m; slower, and mostly less dependent on the seed. "random": random samples. Or one
        (m, d_v) array a view, in the scaled space.
    init : {"spectral", "random"} or array of shape (n_anchors, n_clusters), default="spectral"
        Orthonormal start of G. "spectral": leading eigenvectors of the mixed graph, turned towards
        an indicator; as good as a random one and often there in fewer iterations. "random": as in
        the paper. With given anchors only a random start has chance in it.
    n_init : int, default=1
        Number of starts of G, random after the first; the lowest objective wins.
    max_iter : int, default=100
        Most iterations of each start.
    tol : float, default=1e-5
        Stop when the objective changes by at most this, relatively; 0 runs all iterations.
    accelerate : bool, default=True
        Reach about the same objective in a half to a third of the passes over the samples, by
        repeating the steps that need no pass and running the others ahead along their last move.
        False is the paper's iteration.
    views : optional
        Where X is one table: which columns form which view. A list, or a mapping from names, of
        slices, positions or column names; or ``"prefix_"`` for one view a column-name prefix.
    device : {"cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "mps"}, default="cpu"
        Where the rows live and the work is done; other than "cpu" needs PyTorch (extra "gpu").
        Several GPUs share the rows out. Tensors that are on a device already are used there, and
        the results are tensors.
    memory_limit : int or str, optional
        Most bytes of memory, such as ``"4GB"``, for what grows with the number of samples: the
        graphs, F and the blocks that are read. What does not fit goes to files in `scratch_dir`.
        By default half of what is free where a view lies on disk, and no limit otherwise.
    scratch_dir : path, optional
        Folder for these files, which vanish when the fit ends, however it ends; by default the
        system's for temporary files.
    checkpoint : path, optional
        File that the small state of the fit is saved to every five iterations. A fit that finds
        it goes on from there; it is removed when the fit has ended.
    client : distributed.Client, optional
        The cluster that views in Dask, or files, are worked on by; by default the current client
        where a view is in Dask, and this process otherwise.
    group : torch.distributed.ProcessGroup or str, optional
        Processes that fit together, each to the rows that it passes to `fit`, which may be none;
        "world" is all of them. Every process ends with the same model, and with the labels of its
        own rows. Its rows are worked on at any of the other places; needs PyTorch (extra "gpu").
    random_state : int, RandomState or None, default=None
        Seed of the anchors and of the start.
    verbose : int, default=0
        1 reports how each view is scaled and each run that is joined, 2 each iteration too,
        through the logger "omcal".

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each sample, 0 to n_clusters − 1.
    view_weights_ : array of shape (n_views,)
        α: how much each view counts, in the order of `view_names_`; the sum is 1.
    basis_ : array of shape (n_anchors, n_clusters)
        G: what each cluster looks like over the anchors.
    anchors_ : list of arrays of shape (n_anchors, d_v)
        The anchors in each view, in the scaled space.
    objective_ : array of shape (n_iter,)
        The objective after each iteration.
    n_iter_ : int
        Number of iterations of the start that was kept.
    converged_ : bool
        Whether the objective came to rest within `tol` before `max_iter`.
    n_undecided_ : int
        Samples without a positive entry in F; their label is the least negative one.
    doubts_ : list
        What makes the result doubtful, as triples (what was seen, what to try, kind of warning);
        `fit` warns of each.
    structure_ : omcal.model.structure.Structure or None
        How well the clusters separate a sample, and how well data without clusters is separated;
        None where it was not tested (fewer than 50 samples, one cluster, a loaded model).
    view_scales_ : list
        What was done to each view and why, as pairs (name in `scale`, reason).
    n_features_in_ : int
        Sum of the widths of the views.
    n_features_per_view_ : list of int
        Number of features of each view.
    view_names_ : list of str
        Names of the views: those of a mapping, else view1, view2 ...

    References
    ----------
    Xue, Yang, Zhang, Wang, Lin: One-step Multi-view Clustering With Adaptive Low-rank
    Anchor-graph Learning, arXiv 2509.14724.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(300, n_clusters=3, random_state=0)
    >>> model = OMCAL(n_clusters=3, random_state=0).fit(data.views)
    >>> model.labels_.shape, model.view_weights_.shape
    ((300,), (3,))
    >>> bool((model.predict(data.views) == model.labels_).mean() > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AnchorClusterer._parameter_constraints,
        "weighting": [StrOptions(WEIGHTINGS.keys()), "array-like"],
        "views": [None, str, dict, list, tuple],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_anchors: int | None = None,
        n_neighbors: int = 5,
        beta: float = 0.3,
        gamma: float = 0.1,
        scale: Scale = "auto",
        weighting: Weighting = "distinct",
        anchors: Anchors = "kmeans",
        init: Start = "spectral",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-5,
        accelerate: bool = True,
        views: ColumnsLike | None = None,
        device: str = "cpu",
        memory_limit: float | str | None = None,
        scratch_dir: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        client: Client | None = None,
        group: ProcessGroup | str | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.beta = beta
        self.gamma = gamma
        self.scale = scale
        self.weighting = weighting
        self.anchors = anchors
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.views = views
        self.device = device
        self.memory_limit = memory_limit
        self.scratch_dir = scratch_dir
        self.checkpoint = checkpoint
        self.client = client
        self.group = group
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, n_clusters: int = 8, **changes: Any) -> Self:
        """An estimator with the published settings, as far as the paper states them.

        Weights by Eq. 27, c + 10 anchors, a random start and the plain iteration; samples are
        standardised, which is how its results on Coil and Wiki come about.

        Parameters
        ----------
        n_clusters : int, default=8
            Number of clusters c.
        **changes
            Other parameters of the class, or other values of these.

        Returns
        -------
        estimator
            Not fitted.

        Examples
        --------
        >>> from omcal import OMCAL
        >>> OMCAL.paper(20, beta=0.1).n_anchors
        30
        """
        settings: dict[str, Any] = {
            "n_anchors": n_clusters + 10,
            "scale": "sample",
            "weighting": "adaptive",
            "init": "random",
            "tol": 1e-6,
            "accelerate": False,
        }
        return cls(n_clusters, **{**settings, **changes})
