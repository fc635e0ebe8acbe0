"""Scale the views as asked for, and end with k-means."""

from __future__ import annotations

from scipy import sparse

from omcal.baselines._base import MultiViewBaseline, copy_bytes
from omcal.baselines._distances import as_floats, squared_norms
from omcal.machine.declaring import Words, parameter
from omcal.method.scaling import Scale, Scaling
from omcal.views.view import Matrix, View, Views


class ScaledViews(MultiViewBaseline):
    """Base class of methods that scale the features and end with k-means."""

    scale: Scale = parameter(
        default="feature",
        constraint=(Words(("feature", "sample", "view")), None),
        kind='{"feature", "sample", "view"} or None, default="feature"',
        help=""""feature": z-score of each feature, constant ones to 0. "sample": z-score of each
        sample in each view. "view": one factor that gives each view the same total variance.
        None: the views as they are. Sparse views are divided but not centred, so that they stay
        sparse.""",
    )
    n_init: int = 10

    def _scaled(self, X: Matrix) -> Matrix:
        """Return the features of one view in float64, scaled."""
        X = as_floats(X)
        squared_norms(X)  # raises on overflow
        scaled = Scaling.fit(View("X", X), self.scale).apply(X)
        return as_floats(scaled) if sparse.issparse(scaled) else scaled

    def _memory_needed(self, views: Views) -> float:
        return 2.0 * copy_bytes(views)
