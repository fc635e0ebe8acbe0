"""What the tests of the reports have in common: a fitted model, its sections, a hostile name."""

from omcal import OMCAL
from omcal.datasets import make_multiview

SECTIONS = ["clusters", "views", "classes", "samples", "structure", "convergence", "data", "repeat"]
NASTY = '<img src="https://evil.example/x.png" onerror="alert(1)">'


def make_data():
    return make_multiview(240, n_clusters=4, n_views=2, n_noise_views=1, random_state=0)


def fit(data):
    return OMCAL(4, n_anchors=20, weighting="agreement", random_state=0).fit(data.views)


def report_with_nasty_names(model, data, folder):
    names = [f"{NASTY} {i}" for i in range(data.n_samples)]
    return model.report(
        folder / "report.html",
        data.views,
        data.labels,
        names=names,
        title=f"Title {NASTY}",
        seconds=1.5,
    )
