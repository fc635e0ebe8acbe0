"""Every public name has a complete page in the reference."""

import dataclasses
import inspect
import pkgutil
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import omcal
from docstrings import entries, sections
from omcal.datasets import make_multiview

ROOT = Path(__file__).resolve().parents[1]
MODULES = [omcal, *(getattr(omcal, name) for name in omcal._MODULES)]
RESULTS = [  # what the methods of models return
    "omcal.model.cost.Estimate",
    "omcal.model.drift.Drift",
    "omcal.model.drift.Moved",
    "omcal.model.feature_effects.ClusterDescription",
    "omcal.model.feature_effects.FeatureEffect",
    "omcal.model.view_effects.ViewEffect",
    "omcal.model.view_effects.ViewExplanation",
]


AUTOSUMMARY = re.compile(
    r"^.. currentmodule:: ([\w.]+)\n\n.. autosummary::\n(?:   :.*\n)*\n((?:   [\w.]+\n)+)", re.M
)


def public():
    """Everything that users meet: (full name, thing)."""
    for module in MODULES:
        for name in module.__all__:
            if not name.startswith("__"):
                yield f"{module.__name__}.{name}", getattr(module, name)
    for name in RESULTS:
        yield name, pkgutil.resolve_name(name)


def ours(cls):
    """The public methods and properties of a class that come from this package."""
    for name, member in inspect.getmembers(cls):
        home = getattr(getattr(member, "fget", member), "__module__", None) or ""
        if not name.startswith("_") and home.startswith("omcal"):
            yield f"{cls.__name__}.{name}", member


NAMES = dict(public())
FUNCTIONS = {name: thing for name, thing in NAMES.items() if inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in NAMES.items() if inspect.isclass(thing)}
ESTIMATORS = {name: cls for name, cls in CLASSES.items() if hasattr(cls, "fit")}
METHODS = {
    f"{name.rpartition('.')[0]}.{method}": member
    for name, cls in CLASSES.items()
    for method, member in ours(cls)
}


def check_signature(thing, told):
    """Each parameter has its sentence, and nothing else is listed."""
    parameters = [name for name in inspect.signature(thing).parameters if name != "self"]
    described = entries(told.get("Parameters", ""))
    assert list(described) == parameters
    assert not [name for name, text in described.items() if not text], "without a sentence"


@pytest.mark.parametrize("name", [*FUNCTIONS, *METHODS])
def test_functions(name):
    thing = (FUNCTIONS | METHODS)[name]
    told = sections(thing)
    assert told[""].strip()
    if isinstance(thing, property):
        return
    check_signature(thing, told)
    returned = inspect.signature(thing).return_annotation
    assert ("Returns" in told) == (returned not in (None, "None"))
    if "Returns" in told:
        assert re.search(r"^    \S", told["Returns"], flags=re.M), "Returns has no sentence"
    assert name in METHODS or ">>> " in told.get("Examples", "")


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    cls = CLASSES[name]
    told = sections(cls)
    assert told[""].strip()
    assert ">>> " in told.get("Examples", "")
    if dataclasses.is_dataclass(cls):
        described = entries(told.get("Attributes", "") + "\n" + told.get("Parameters", ""))
        assert list(described) == [field.name for field in dataclasses.fields(cls)]
        assert all(described.values())
    elif not issubclass(cls, Exception):
        check_signature(cls.__init__, told)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes(name):
    """What a fit sets is described, and what is described is set."""
    cls = ESTIMATORS[name]
    data = make_multiview(60, n_clusters=3, random_state=0)
    first = omcal.OMCAL(3, n_anchors=12) if cls is omcal.Consensus else 3
    X = np.abs(data.views["view1"]) if getattr(cls, "_single_view", False) else data.views
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(first, random_state=0).fit(X)
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    fitted |= {
        name
        for name in dir(cls)
        if name.endswith("_") and not name.startswith("_") and hasattr(model, name)
    }
    described = entries(sections(cls).get("Attributes", ""))
    assert set(described) == fitted
    assert all(described.values()), "an attribute has no sentence"


def test_ocal_is_described_as_omcal():
    """What both have is said once: the second docstring is that of the first, less a few lines."""
    for section in ("Parameters", "Attributes"):
        of_omcal, of_ocal = (entries(sections(cls)[section]) for cls in (omcal.OMCAL, omcal.OCAL))
        assert of_ocal.items() <= of_omcal.items()


def test_every_name_has_a_page():
    listed = []
    for page in (ROOT / "docs" / "api").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for module, names in AUTOSUMMARY.findall(text):
            listed += [f"{module}.{name}" for name in names.split()]
    assert sorted(listed) == sorted(NAMES)


def test_the_equations_have_their_functions_on_the_page_of_the_code():
    page = (ROOT / "docs" / "api" / "method.md").read_text(encoding="utf-8")
    listed = set()
    for part in page.split(".. currentmodule:: ")[1:]:
        module = part.split()[0]
        listed |= {f"{module}.{name}" for name in re.findall(r"^.. auto\w+:: (\w+)$", part, re.M)}
    for name in listed:
        pkgutil.resolve_name(name)
    mathematics = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
    named = re.findall(r"`(omcal\.(?:method|views)\.\w+\.\w+)[\w.]*`", mathematics)
    assert listed == set(named)
