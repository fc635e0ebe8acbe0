"""Complete the docstrings of the baselines with the entries that they share.

The docstring of a class has the parameters and attributes of its own. Those that its methods have
in common, the heading of a section without any, and a plain example are added from here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace

from omcal.machine.declaring import Declared

_PARAMETERS = {
    "max_iter": "Most iterations.",
    "n_init": "k-means runs, of which the one with the least inertia is kept.",
    "n_neighbors": "Neighbours per sample in every graph; reduced to n - 2 where there are fewer.",
    "tol": "Stop where the objective changes by at most this fraction; 0 runs all iterations.",
}
# Name, parameter that a method with this attribute has, type, text.
_FIRST = (
    ("labels_", "", "array of shape (n,)", "Cluster of each sample, 0 to n_clusters − 1."),
    ("anchor_indices_", "n_anchors", "array of shape (m,)", "The samples that serve as anchors."),
)
_LAST = (
    ("objective_", "max_iter", "array of shape (n_iter,)", "The objective after each iteration."),
    ("n_iter_", "max_iter", "int", "Number of iterations."),
    ("n_features_in_", "", "int", "Number of features of all views."),
    ("n_features_per_view_", "", "list of int", "Number of features of each view."),
    (
        "n_missing_",
        "",
        "list of int",
        "Missing cells of each view, which counted as the middle of their feature.",
    ),
    (
        "view_names_",
        "",
        "list of str",
        "Names of the views, in the order of all attributes with one entry per view.",
    ),
)
_EXAMPLE = """\
>>> from omcal.baselines import {name}
>>> from omcal.datasets import make_multiview
>>> from omcal.metrics import clustering_accuracy
>>> data = make_multiview(60, n_clusters=3, n_features=20, random_state=0)
>>> labels = {name}(n_clusters=3, random_state=0).fit_predict(data.views{key})
>>> clustering_accuracy(data.labels, labels)
1.0
"""


def completed(
    text: str, name: str, parameters: Mapping[str, Declared], *, single_view: bool
) -> str:
    """Return the docstring of the class `name` with all parameters, all attributes, an example."""
    head, *parts = re.split(r"^([A-Z]\w+)\n-+\n", inspect.cleandoc(text), flags=re.M)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    own = _entries(sections.pop("Parameters", ""))
    listed = {}
    for key, one in parameters.items():
        entry = replace(one, help=one.help or _PARAMETERS.get(key, "")).entry
        listed[key] = own.get(key) or f"{key} : {entry}"
    shown = _entries(sections.pop("Attributes", ""))
    first, last = (
        {
            key: f"{key} : {kind}\n    {told}"
            for key, needed, kind, told in table
            if not needed or needed in parameters
        }
        for table in (_FIRST, _LAST)
    )
    attributes = first | shown | {key: shown.get(key, last[key]) for key in last}
    example = _EXAMPLE.format(name=name, key='["view1"]' if single_view else "")
    made = {"Parameters": "\n".join(listed.values()), "Attributes": "\n".join(attributes.values())}
    made |= {**sections, "Examples": sections.get("Examples", example)}
    body = (f"{key}\n{'-' * len(key)}\n{told.strip()}\n" for key, told in made.items())
    return head + "\n".join(body)


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the names that they begin with."""
    texts = re.split(r"^(?=\S)", section, flags=re.M)[1:]
    return {text.split(" : ")[0]: text.rstrip() for text in texts}
