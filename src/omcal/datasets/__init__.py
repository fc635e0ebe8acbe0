"""Files of views, the data sets of the paper, and built-in and artificial ones."""

from omcal.datasets._data import MultiViewData
from omcal.datasets.describing import describe
from omcal.datasets.loading import join_views, load_views
from omcal.datasets.made import load_digits_views, make_multiview
from omcal.datasets.registry import PAPER_DATASETS, load_paper_dataset
from omcal.datasets.writers import save_views
from omcal.views.pair import DataError

__all__ = [
    "DataError",
    "MultiViewData",
    "PAPER_DATASETS",
    "describe",
    "join_views",
    "load_digits_views",
    "load_paper_dataset",
    "load_views",
    "make_multiview",
    "save_views",
]
