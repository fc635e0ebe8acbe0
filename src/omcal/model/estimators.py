"""OMCAL, and OCAL for one view, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, ClassVar

from omcal.model.fitting import AnchorClusterer
from omcal.model.parameters import MultiViewParameters


class OMCAL(MultiViewParameters, AnchorClusterer):
    """One-step multi-view clustering with adaptive low-rank anchor-graph learning.

    Minimises, over the consensus graph Z, the view weights α, the indicator F and the basis G, ::

        ‖Z − Σ_v α_v S_v‖² + β ‖Z‖_* + γ ‖Z − F Gᵀ‖²
        subject to F ≥ 0, GᵀG = I, α ≥ 0, Σ_v α_v = 1

    where S_v is the graph of view v between the samples and m anchors. The cluster of a sample is
    the largest entry of its row of F. Time and memory are linear in the number of samples.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

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

    _published: ClassVar[dict[str, Any]] = {"scale": "sample", "weighting": "adaptive"}


class OCAL(AnchorClusterer):
    """OMCAL for data with one view: one-step clustering by low-rank anchor-graph learning.

    With one view there is nothing to weigh: α = 1, and the objective of :class:`OMCAL` is that of
    Eq. 28 of the paper.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from omcal import OCAL
    >>> X, y = make_blobs(200, centers=3, random_state=0)
    >>> OCAL(n_clusters=3, random_state=0).fit_predict(X).shape
    (200,)
    """

    _single_view = True
    _published: ClassVar[dict[str, Any]] = {"scale": None}
