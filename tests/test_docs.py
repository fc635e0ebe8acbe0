"""What the documents say exists, and what they show runs."""

import importlib.util
import inspect
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import omcal
import omcal.baselines
import omcal.datasets
import omcal.metrics
from omcal.experiments.plan import load_paper

ROOT = Path(__file__).resolve().parents[1]
MADE = {"_build", "auto_tutorials", "generated"}
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not MADE.intersection(page.parts)
)
FENCE = re.compile(r"^( *)```(.*)$")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def lines(page):
    """Each line and the language of the fenced block it is in: None in the text and on fences."""
    indent = language = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if fence := FENCE.match(line):
            indent, language = (fence[1], fence[2].strip()) if language is None else (None, None)
            yield None, ""
        else:
            yield language, line.removeprefix(indent or "")


def text(page):
    """The page without its fenced blocks, in which brackets may mean anything."""
    return "\n".join(line for language, line in lines(page) if language is None)


def links(page):
    prose = re.sub(r"`[^`\n]*`", "", text(page))
    targets = re.findall(r"\]\(([^)\s]+)[^)]*\)", prose)
    targets += re.findall(r'(?:src|href)="([^"]+)"', prose)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def heading_anchors(page):
    """The names that a heading can be linked by: lower case, hyphens for spaces, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", text(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@each_page
def test_links_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name} links to {link}, which does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in heading_anchors(target), f"no heading #{anchor} in {target.name}"


@each_page
def test_named_things_exist(page):
    for name in set(re.findall(r"`(omcal(?:\.\w+)+)(?:\(\))?`", text(page))):
        pkgutil.resolve_name(name)


def test_every_equation_has_its_function():
    table = text(ROOT / "docs" / "mathematics.md")
    numbers = re.findall(r"^\| (\d+) \|.*`omcal\.", table, flags=re.MULTILINE)
    assert numbers == ["2", "10", "13", "20", "23", "27", "28"]


def python_of(page):
    """The runnable blocks of a page, each line at its own number so that errors point into it."""
    return "\n".join(line if language == "python" else "" for language, line in lines(page))


# Front pages run with every run of the tests.
FRONT = {"README.md", "index.md", "install.md"}


@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=[] if page.name in FRONT else [pytest.mark.long],
            id=str(page.relative_to(ROOT)),
        )
        for page in PAGES
        if python_of(page).strip()
    ],
)
def test_python_blocks_run(page, tmp_path):
    """The blocks of a page run in order, as one program in an empty folder."""
    (tmp_path / page.name).write_text(python_of(page), encoding="utf-8")
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, page.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.process
def test_commands_about_formats(tmp_path):
    """In the order of the page, where its first two blocks have made the files."""
    page = ROOT / "docs" / "formats.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    commands = [line for language, line in lines(page) if language == "sh"]
    assert len(commands) >= 7 and all(line.startswith("omcal ") for line in commands)
    program = "\n".join(
        [*blocks[:2], "from omcal.cli import main"]
        + [
            f"try: main({shlex.split(line)[1:]})\nexcept SystemExit as end: assert end.code == 0"
            for line in commands
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    data = {"digits.npz", "digits.csv", "digits.mat", "digits.h5ad", "pixels.csv", "profiles.csv"}
    results = {"labels.csv", "joined.csv", "digits.omcal", "predicted.csv"}
    assert set(os.listdir(tmp_path)) == data | results


def public_names():
    """Classes and functions that users import; data have no docstring of their own."""
    metrics = [
        name
        for name, thing in vars(omcal.metrics).items()
        if inspect.isfunction(thing) and not name.startswith("_")
    ]
    places = [(module, module.__all__) for module in (omcal, omcal.baselines, omcal.datasets)]
    return [
        f"{module.__name__}.{name}"
        for module, names in [*places, (omcal.metrics, metrics)]
        for name in names
        if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
    ]


@pytest.mark.parametrize("name", public_names())
def test_public_names_are_documented(name):
    thing = pkgutil.resolve_name(name)
    documented = thing.__doc__ or ""
    assert documented.strip()
    assert not documented.startswith(f"{thing.__name__}("), "dataclasses write this by themselves"


@each_page
def test_make_commands_are_targets(page):
    shell = {"sh", "bash", "shell", "console", ""}
    # Blocks may also be indented by four spaces.
    commands = [line for language, line in lines(page) if language in shell or line[:4] == "    "]
    commands += re.findall(r"`([^`\n]+)`", text(page))
    used = {word for line in commands for word in re.findall(r"^\s*(?:\$ )?make ([\w-]+)", line)}
    targets = set(
        re.findall(
            r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    )
    assert used <= targets


def test_the_front_page_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_newest_change_is_this_version():
    headings = re.findall(
        r"^## \[?(\d[^\]\s]*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[0] == omcal.__version__


def test_citation_is_of_this_version():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == omcal.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert {"type", "title", "authors", "doi"} <= set(citation["preferred-citation"])


def test_the_conda_recipe_is_of_this_version_and_its_libraries():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert recipe["context"]["version"] == omcal.__version__
    assert f">={recipe['context']['python_min']}" == project["requires-python"]
    needed = {word.replace(" ", "") for word in recipe["requirements"]["run"][1:]}
    assert needed == set(project["dependencies"])


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{n}.md" for n in ("defaults", "performance", "results"))]
)
def test_tables_of_the_pages_are_those_of_the_benchmarks(page):
    path = ROOT / "benchmarks" / "front_page.py"
    spec = importlib.util.spec_from_file_location("front_page", path)
    front_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(front_page)
    shown = (ROOT / page).read_text(encoding="utf-8")
    for name in front_page.PAGES[page]:
        assert front_page.with_tables(shown, front_page.printed(name)) == shown


def test_reasons_on_the_page_of_the_reproduction_are_those_that_the_program_writes():
    shown = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    reasons = load_paper().reasons
    listed = reasons["general"] + list(reasons["method"].values())
    assert len(listed) > 20
    assert [reason for reason in listed if reason not in shown] == []


@pytest.mark.parametrize("results", ["weighting", "weighting_sample"])
def test_means_of_the_study_of_weights_are_those_of_the_benchmark(results):
    printed = (ROOT / "benchmarks" / "results" / f"{results}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:mean|furthest below the best rule) (\|.*)$", printed, re.MULTILINE)
    of_conditions, furthest = rows[:3], rows[-1]
    shown = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    for row in (*of_conditions, furthest):
        cells = re.findall(r"\| 0(\.\d+)", row)
        assert len(cells) == 6
        assert f"| {' | '.join(cells)} |" in shown


def test_differences_on_the_page_on_choosing_are_those_of_the_benchmark():
    printed = (ROOT / "benchmarks" / "results" / "choices.md").read_text(encoding="utf-8")
    measured = set(re.findall(r"[+-]0\.\d{3} ± 0\.\d{3}", printed))
    shown = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    cited = re.findall(r"([+−]?)\.(\d{3}) ± \.(\d{3})", shown)
    assert len(cited) > 20
    for sign, mean, error in cited:
        assert f"{'-' if sign == '−' else '+'}0.{mean} ± 0.{error}" in measured


def test_the_table_of_other_packages_is_that_of_the_benchmark():
    printed = (ROOT / "benchmarks" / "results" / "other_packages.md").read_text(encoding="utf-8")
    summary = printed[printed.index("| method |") :].strip()
    shown = (ROOT / "docs" / "which_method.md").read_text(encoding="utf-8")
    assert summary in shown


# Sentences that cite accuracies of a set: page -> text with {set/method}.
CITED = {
    "choosing": (
        "CiteSeer {CiteSeer/OMCAL} in one run, {CiteSeer/Consensus} combined; "
        "Cora {Cora/OMCAL} and {Cora/Consensus}; BBC {BBC4view/OMCAL} and {BBC4view/Consensus}.",
        "HW2sources {HW2sources/OMCAL} (k-means {HW2sources/k-means, all views}, "
        "spectral {HW2sources/spectral, all views})",
        "OMCAL {CESC/OMCAL}, Consensus {CESC/Consensus}, AMGL {CESC/AMGL}, SLMVGC {CESC/SLMVGC}",
        "OMCAL {Prokaryotic/OMCAL}, FSMSC {Prokaryotic/FSMSC}.",
        "OMCAL {Dermatology/OMCAL}, Consensus {Dermatology/Consensus}",
    ),
    "which_method": (
        "is {mean/Consensus} for Consensus, {mean/OMCAL} for OMCAL, {mean/FSMSC} for FSMSC",
        "Handwritten {Handwritten/spectral, all views} against {Handwritten/OMCAL}, "
        "Dermatology {Dermatology/spectral, all views} against {Dermatology/OMCAL}",
    ),
    "faq": ("a mean of {mean/OMCAL} against {mean/OMCAL.paper} over 17 data sets",),
}


@pytest.mark.parametrize("page", CITED)
def test_accuracies_in_sentences_are_those_of_the_benchmark(page):
    printed = (ROOT / "benchmarks" / "results" / "defaults.md").read_text(encoding="utf-8")
    sets, methods = (part.splitlines() for part in printed.strip().split("\n\n"))
    titles = [title.strip() for title in sets[0].split("|")[2:-1]]
    accuracy = {}
    for row in sets[2:]:
        name, *cells = [cell.strip(" *") for cell in row.split("|")[1:-1]]
        accuracy |= {f"{name}/{t}": cell[1:5] for t, cell in zip(titles, cells, strict=True)}
    for row in methods[2:]:
        title, mean = [cell.strip() for cell in row.split("|")[1:3]]
        accuracy[f"mean/{title}"] = mean[1:5]
    shown = " ".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split())
    for sentence in CITED[page]:
        assert re.sub(r"{(.*?)}", lambda found: accuracy[found[1]], sentence) in shown
