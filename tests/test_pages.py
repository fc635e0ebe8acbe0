"""Pages of measured numbers are made from records of this minor version."""

import re
from pathlib import Path

import pytest

from omcal import __version__
from omcal.experiments.records import is_current

DOCS = Path(__file__).parents[1] / "docs"


def stale(text):
    """Return the versions of a page's records that are not of this minor version."""
    lines = [line for line in text.splitlines() if re.match(r"- .*(cores; |not recorded)", line)]
    found = [re.search(r"omcal (\d+\.\d+\.\w+)", line) for line in lines]
    versions = {match[1] if match else "not recorded" for match in found} or {"no conditions"}
    return {v for v in versions if not is_current({"versions": {"omcal": v}})}


@pytest.mark.parametrize("name", ["results.md", "baselines.md", "reproduction.md"])
def test_a_page_is_of_this_minor_version(name):
    assert not stale((DOCS / name).read_text(encoding="utf-8"))


def test_other_versions_are_found():
    line = "- Linux, Some Processor, 4 cores; omcal {}, python 3.11\n"
    assert stale(line.format(__version__)) == set()
    assert stale(line.format(__version__) + line.format("0.1.0")) == {"0.1.0"}
    assert stale("- transfer.json: not recorded") == {"not recorded"}
    assert stale("no list at all") == {"no conditions"}


def test_methods_of_this_package_beside_others_are_of_this_minor_version():
    page = DOCS.parent / "benchmarks" / "results" / "other_packages.md"
    (version,) = re.findall(r"omcal (\d+\.\d+\.\w+)", page.read_text(encoding="utf-8"))
    assert is_current({"versions": {"omcal": version}})
