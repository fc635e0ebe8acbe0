"""Cluster handwritten digits that are described by four views."""

from omcal import OMCAL
from omcal.datasets import load_digits_views
from omcal.metrics import evaluate

data = load_digits_views()
model = OMCAL(n_clusters=10, max_iter=300, random_state=0).fit(data.views)

print("first labels  ", model.labels_[:10])
for name, weight in zip(model.view_names_, model.view_weights_, strict=True):
    print(f"weight of {name:10s} {weight:.3f}")
for name, value in evaluate(data.labels, model.labels_).items():
    print(f"{name:10s} {value:.3f}")
