"""The architecture as it is documented."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import omcal

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = ("baselines", "datasets", "experiments", "metrics", "plots", "report", "select", "tl")


def test_public_names():
    assert set(omcal.__all__) == {"OMCAL", "OCAL", "Consensus", "load", "__version__"}
    for name in (*omcal.__all__, *PUBLIC):
        assert getattr(omcal, name)
        assert name in dir(omcal)


def test_few_entries_each_with_a_sentence():
    entries = [p for p in (ROOT / "src" / "omcal").iterdir() if p.name != "__pycache__"]
    assert len(entries) <= 18
    for folder in (p for p in (ROOT / "src" / "omcal").rglob("*") if (p / "__init__.py").exists()):
        name = "omcal." + ".".join(folder.relative_to(ROOT / "src" / "omcal").parts)
        text = importlib.import_module(name).__doc__
        assert text and text.splitlines()[0].endswith("."), name


def test_the_picture_is_that_of_the_contract():
    path = ROOT / "docs" / "draw_architecture.py"
    spec = importlib.util.spec_from_file_location("draw_architecture", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.TARGET.read_text(encoding="utf-8") == module.drawing()


@pytest.mark.process
def test_importing_omcal_loads_nothing_and_gives_everything():
    code = (
        "import sys, omcal, pickle\n"
        "assert 'sklearn' not in sys.modules\n"
        "from omcal import OMCAL, OCAL, Consensus, load\n"
        "assert omcal.OMCAL is OMCAL and {'OMCAL', 'OCAL', 'load', 'datasets'} <= set(dir(omcal))\n"
        "assert type(pickle.loads(pickle.dumps(OMCAL(3)))) is OMCAL\n"
        "names = {}; exec('from omcal import *', names); assert names['OCAL'] is OCAL\n"
        "print([m for m in ('torch', 'dask', 'numba', 'matplotlib') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


def test_files_of_tests_have_different_names():
    """Pytest loads them as modules by their names, whatever their folders are."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert [name for name in set(names) if names.count(name) > 1] == []
