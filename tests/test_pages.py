"""Pages of measured numbers are made from records of this minor version."""

import gzip
import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from omcal import __version__
from omcal.experiments.contents import all_tables
from omcal.experiments.outputs import markdown, page_sections
from omcal.experiments.plan import Plan, load_paper
from omcal.experiments.records import Summary, is_current, read_records

DOCS = Path(__file__).parents[1] / "docs"
BENCHMARKS = DOCS.parent / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def stale(text):
    """Return the versions of a page's records that are not of this minor version."""
    lines = [line for line in text.splitlines() if re.match(r"- .*(cores; |not recorded)", line)]
    found = [re.search(r"omcal (\d+\.\d+\.\w+)", line) for line in lines]
    versions = {match[1] if match else "not recorded" for match in found} or {"no conditions"}
    return {v for v in versions if not is_current({"versions": {"omcal": v}})}


@pytest.mark.parametrize("name", ["results.md", "baselines.md", "reproduction.md"])
def test_a_page_is_of_this_minor_version(name):
    assert not stale(page(name))


def test_other_versions_are_found():
    line = "- Linux, Some Processor, 4 cores; omcal {}, python 3.11\n"
    assert stale(line.format(__version__)) == set()
    assert stale(line.format(__version__) + line.format("0.1.0")) == {"0.1.0"}
    assert stale("- transfer.json: not recorded") == {"not recorded"}
    assert stale("no list at all") == {"no conditions"}


def test_the_page_of_results_is_made_of_the_stored_records(benchmarks):
    numbers = import_module("paper_numbers")
    records = json.loads(numbers.RECORDS.read_text())
    assert all(map(is_current, records))
    assert numbers.filled(page("results.md"), records) == page("results.md")
    records[0]["accuracy"] += 0.1
    assert numbers.filled(page("results.md"), records) != page("results.md")


def test_the_page_of_baselines_is_made_of_the_stored_records(benchmarks, monkeypatch):
    tables = import_module("baselines_page")
    assert all(is_current(record) for name in tables.RECORDS for record in tables.records(name))
    assert tables.filled(page("baselines.md")) == page("baselines.md")
    monkeypatch.setattr(tables, "seconds", lambda rows: "123.4")
    assert tables.filled(page("baselines.md")) != page("baselines.md")


def test_the_page_of_the_reproduction_is_made_of_the_stored_records(tmp_path):
    stored = BENCHMARKS / "results" / "reproduction.jsonl.gz"
    file = tmp_path / "records.jsonl"
    file.write_bytes(gzip.decompress(stored.read_bytes()))
    records = read_records(file)
    assert records
    assert all(map(is_current, records))
    paper = load_paper()
    plan, summary = Plan(paper, paper.run["seeds"]), Summary(records)
    made = markdown(page_sections(plan, summary, list(all_tables(plan, summary)), []))
    drawn = re.compile(r"(?<=\n## Figures\n).*?(?=\n## )", re.S)
    assert drawn.sub("", made).strip() == drawn.sub("", page("reproduction.md")).strip()


def test_times_on_a_gpu_are_those_of_the_records():
    measured = json.loads((BENCHMARKS / "results" / "gpu.json").read_text(encoding="utf-8"))
    text = page("performance.md")
    for runs in measured["sizes"].values():
        cells = []
        for name in ("one run", "ten runs joined"):
            least, middle, most = (1000 * runs[name][key] for key in ("least_s", "s", "most_s"))
            cells.append(f"{middle:.0f} ms ({least:.0f} to {most:.0f})")
        assert " | ".join(cells) in text


def test_methods_of_this_package_beside_others_are_of_this_minor_version():
    table = BENCHMARKS / "results" / "other_packages.md"
    (version,) = re.findall(r"omcal (\d+\.\d+\.\w+)", table.read_text(encoding="utf-8"))
    assert is_current({"versions": {"omcal": version}})
