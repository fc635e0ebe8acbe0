"""Makes the pictures of gallery.md: python docs/gallery.py"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from omcal import OMCAL, plots
from omcal.datasets import load_digits_views
from omcal.report import model_layout

FOLDER = Path(__file__).parent / "images" / "gallery"


def main() -> None:
    """Draw each figure into a file of its name."""
    data = load_digits_views()
    model = OMCAL(n_clusters=10, random_state=0).fit(data.views)
    described = model.describe_clusters(data.views, top=4)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures = {
        "map": lambda ax: plots.sample_map(model_layout(model), model.labels_, ax),
        "sizes": lambda ax: plots.cluster_sizes(model.labels_, ax),
        "features": lambda ax: plots.cluster_features(described, 0, ax=ax),
        "confusion": lambda ax: plots.confusion(data.labels, model.labels_, ax),
        "certainty": lambda ax: plots.certainty(model.transform(data.views), model.labels_, ax),
        "convergence": lambda ax: plots.convergence(model.objective_, ax),
        "weights": lambda ax: plots.view_weights(model.view_weights_, model.view_names_, ax),
        "effects": lambda ax: plots.view_effects(model.explain_views(n_resamples=2), ax),
    }
    for name, draw in figures.items():
        figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
        draw(ax)
        figure.savefig(FOLDER / f"{name}.png", dpi=100)
        plt.close(figure)


if __name__ == "__main__":
    main()
