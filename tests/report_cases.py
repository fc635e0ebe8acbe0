"""What the tests of the reports have in common: a fitted model, its sections, a hostile name."""

import base64
import json
import re
import tempfile
import zlib
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from omcal import OMCAL
from omcal.datasets import make_multiview

SECTIONS = ["clusters", "features", "views", "classes", "samples", "convergence", "data", "repeat"]
NASTY = '"\'><img src="https://evil.example/x.png" onerror="alert(1)"></script>&amp;\u2028'


def make_data():
    return make_multiview(240, n_clusters=4, n_views=2, n_noise_views=1, random_state=0)


def fit(data):
    return OMCAL(4, n_anchors=20, weighting="agreement", random_state=0).fit(data.views)


def report_with_nasty_names(data, folder):
    """A report in which everything that a user can name is hostile, and the model."""
    views = {f"{name} {NASTY}": X for name, X in data.views.items()}
    model = OMCAL(4, n_anchors=20, weighting="agreement", random_state=0).fit(views)
    first = next(iter(views))
    path = model.report(
        folder / "report.html",
        views,
        [f"{NASTY} {label}" for label in data.labels],
        names=[f"{NASTY} {i}" for i in range(data.n_samples)],
        feature_names={first: [f"{NASTY} {j}" for j in range(views[first].shape[1])]},
        columns={f"age {NASTY}": np.arange(240.0), NASTY: np.array(["a", NASTY] * 120)},
        title=f"Title {NASTY}",
        source=NASTY,
        command=NASTY,
        seconds=1.5,
    )
    return path, model


def payload_of(text):
    """The data of a page, its arrays unpacked."""
    found = json.loads(re.search(r'id="payload">(.*?)</script>', text, re.S)[1])
    if "map" in found:
        raw = zlib.decompress(base64.b64decode(found["map"]["packed"]))
        found["arrays"] = {
            name: json.loads(raw[start : start + length])
            if kind == "text"
            else np.frombuffer(raw, f"<{kind}", length, start)
            for name, (kind, start, length) in found["map"]["layout"].items()
        }
    return found


@cache
def large_report(n):
    """A report of n samples in four views with names; its map is laid out in a hurry."""
    data = make_multiview(n, n_clusters=10, n_views=4, n_features=4, random_state=0)
    model = OMCAL(10, n_anchors=25, max_iter=5, tol=1.0, random_state=0).fit(data.views)
    names = [f"{i:06d}-{i * 7919 % n:x}" for i in range(n)]
    path = Path(tempfile.mkdtemp()) / "large.html"
    with (
        patch("omcal.report.layout._LAID_OUT", 1000),
        patch("omcal.report.findings._LARGEST_CELL", 200),
    ):
        return model.report(path, data.views, data.labels, names=names)
