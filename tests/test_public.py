"""What users import, and how the package is laid out."""

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import get_type_hints

import pytest

import omcal
from omcal.datasets import load_views
from omcal.datasets.loading import LoadOptions
from omcal.model.drift import Drift
from omcal.report import write_report
from omcal.report.findings import ReportOptions

CLASSES = ["OMCAL", "OCAL", "Consensus"]
MODULES = ["baselines", "datasets", "experiments", "metrics", "plots", "report", "select", "tl"]
FOLDER = Path(omcal.__file__).parent


@pytest.mark.parametrize("name", [*CLASSES, "load"])
def test_names(name):
    found = getattr(omcal, name)
    assert name in omcal.__all__ and name in dir(omcal)
    assert found.__name__ == name
    assert found.__doc__


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module = getattr(omcal, name)
    assert module is import_module(f"omcal.{name}")
    assert name in dir(omcal)
    assert module.__doc__
    for public in getattr(module, "__all__", ()):
        assert getattr(module, public).__doc__, public


def test_nothing_else():
    assert set(omcal.__all__) == {*CLASSES, "load", "__version__"}
    with pytest.raises(AttributeError, match="module 'omcal' has no attribute 'solver'"):
        omcal.solver  # noqa: B018


def test_layout():
    """Few entries at the top, and each folder says what it is for."""
    entries = [path for path in FOLDER.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= 18, sorted(path.name for path in entries)
    for folder in filter(Path.is_dir, entries):
        first = (folder / "__init__.py").read_text(encoding="utf-8")
        assert first.startswith('"""'), folder


@pytest.mark.parametrize(
    ("options", "function"),
    [(ReportOptions, write_report), (LoadOptions, load_views)],
    ids=["report", "describe"],
)
def test_options_that_are_passed_on_are_those_of_the_function(options, function):
    parameters = signature(function).parameters.values()
    later = {"ClusterTree": omcal.select.ClusterTree, "Drift": Drift}  # imported where used
    types = get_type_hints(function, localns=later)
    keywords = {one.name: types[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert get_type_hints(options, localns=later) == keywords
