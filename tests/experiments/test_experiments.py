"""The experiments of the paper: what was published, what is planned, how tables are made."""

import json
import re
from dataclasses import replace
from itertools import chain

import pytest

from experiment_cases import PAPER, record, table_cells, write_records
from omcal.cli import main
from omcal.cli.reproduce import RECORDS
from omcal.experiments.contents import (
    all_figures,
    all_tables,
    best_of_grid_table,
    difference,
    format_measured,
    published_numbers,
)
from omcal.experiments.outputs import write_outputs
from omcal.experiments.plan import Measured, Plan
from omcal.experiments.records import Summary, is_current, made_with
from omcal.experiments.tables import Entry, Table, ranked

# what was published


def test_every_cell_of_every_table_is_there():
    c = PAPER.contents
    assert len(PAPER.datasets) == 9 and len(PAPER.single_datasets) == 3
    assert len(PAPER.metrics) == 6
    assert list(PAPER.published) == list(c["sizes"]) == PAPER.datasets + PAPER.single_datasets
    assert list(c["parameters"]) == PAPER.datasets
    assert all({"m", "beta", "gamma"} <= set(p) for p in c["parameters"].values())
    methods = {dataset: list(rows) for dataset, rows in PAPER.published.items()}
    assert all(methods[dataset] == list(c["complexity"]) for dataset in PAPER.datasets)
    assert all(methods[dataset] == methods["TDT2"] for dataset in PAPER.single_datasets)
    assert (len(methods["Coil"]), len(methods["TDT2"])) == (9, 8)
    for rows in PAPER.published.values():
        assert {len(row) for row in rows.values()} == {6 + 1}
        for text in chain(*rows.values()):
            Measured.parse(text)
    numbers = list(published_numbers(PAPER))
    assert len(numbers) == 486 + 81 + 168
    assert all(PAPER.value(d, row.title, metric) is not None for d, row, metric in numbers)


def tex_rows(tex, label):
    """The rows of a table in the paper's source, less its commands."""
    start = tex.index(r"\midrule", tex.index(rf"\label{{{label}}}"))
    body = tex[start : tex.index(r"\bottomrule", start)]
    body = re.sub(r"\\midrule\[[^]]*\]", "", body)
    body = re.sub(r"\\multirow\{\d+\}\{\*\}", "", body).replace("SL\\_MVGC", "SLMVGC")
    body = re.sub(r"\\(textbf|underline)", "", body)
    rows = [re.sub(r"[{}\s]", "", row).split("&") for row in body.split("\\\\")]
    return [row for row in rows if len(row) > 1]


def test_every_value_is_the_papers(shared):
    tex = (shared / "paper" / "omcal.tex").read_text(encoding="utf-8")
    found = {dataset: {} for dataset in PAPER.published}
    for _, method, *values in tex_rows(tex, "Tab:result"):  # metric by metric, in their order
        for dataset, v in zip(PAPER.datasets, values, strict=True):
            whole = v + ")" * (v.count("(") - v.count(")"))
            found[dataset].setdefault(method, []).append(whole)
    assert [row[0] for row in tex_rows(tex, "Tab:result") if row[0]] == PAPER.metrics
    for dataset, *values in tex_rows(tex, "Tab:running time"):
        for method, seconds in zip(found[dataset], values, strict=True):
            found[dataset][method].append(seconds)
    dataset = ""
    for first, method, *values in tex_rows(tex, "Tab:result_single"):
        dataset = first or dataset
        found[dataset][method] = values
    assert found == PAPER.published
    names = {"MNIST": "Mnist", "Cal101": "Caltech101"}
    for name, m, beta, gamma in tex_rows(tex, "Tab:detail of parameters"):
        printed = PAPER.contents["parameters"][names.get(name, name)]
        assert [printed["m"], printed["beta"], printed["gamma"]] == [
            int(m),
            float(beta),
            float(gamma),
        ]
    for label in ("Tab:detail of datasets", "Tab:detail of single datasets"):
        for name, n, clusters, features in tex_rows(tex, label):
            size = PAPER.sizes[names.get(name, name)]
            listed = [int(d) for d in features.split(",")]
            assert (size["samples"], size["clusters"], size["features"]) == (
                int(n),
                int(clusters),
                listed,
            )


def test_every_complexity_is_the_papers(shared):
    tex = (shared / "paper" / "omcal.tex").read_text(encoding="utf-8")
    found = {}
    method = ""
    for first, part in tex_rows(tex, "Tab:computational complexity compare"):
        method = first or method  # one formula takes two lines
        formula = re.sub(r"\\(mathcalO|left|right)|[$().]", "", part)
        found[method] = found.get(method, "") + formula
    ours = PAPER.contents["complexity"].items()
    assert {name: re.sub(r"[{}]", "", form) for name, form in ours} == found


def test_the_impossible_number_of_anchors_is_replaced_and_said():
    printed = PAPER.contents["parameters"]["XMedia"]
    assert printed["m"] == 40 and PAPER.omcal_parameters("XMedia")["n_anchors"] >= 200
    tables = {t.name: t for t in all_tables(Plan(PAPER, 1), Summary([]))}
    assert any("XMedia" in note and "240" in note for note in tables["parameters"].notes)


def test_each_method_and_data_set_has_a_reason():
    titles = {row.title for dataset in ("Coil", "TDT2") for row in PAPER.rows(dataset)}
    assert titles <= set(PAPER.reasons["method"])


@pytest.mark.parametrize("text", ["", "0.5(", "1.0(0.1", "NA", "0.5 (0.1)"])
def test_what_is_no_published_value(text):
    with pytest.raises(ValueError, match="no published value"):
        Measured.parse(text)


# plan


def test_cells_come_once_and_seed_by_seed():
    cells = Plan(PAPER, 3).cells()
    keys = [cell.key for cell in cells]
    assert len(set(keys)) == len(keys)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    table = [c for c in cells if c.dataset in PAPER.datasets and c.method == "amgl"]
    assert len(table) == 9 * 3
    once = [c for c in cells if c.dataset in PAPER.datasets and c.method == "mlan"]
    assert len(once) == 9  # it uses no random numbers


def test_only_restricts_by_kind():
    plan = Plan(PAPER, 1, only=frozenset({"results", "Coil", "Wiki", "omcal"}))
    assert {(c.dataset, c.method) for c in plan.cells()} == {("Coil", "omcal"), ("Wiki", "omcal")}
    with pytest.raises(ValueError, match=r"'Koil' is unknown.*Coil"):
        Plan(PAPER, 1).limited_to(["Koil"])
    assert Plan(PAPER, 1).limited_to(["RESULTS", "coil", "Wiki", "OMCAL"]) == plan


def test_the_papers_parameters_are_used():
    (cell,) = table_cells("OMCAL", dataset="Wiki")
    expected = {"n_anchors": 30, "beta": 0.1, "gamma": 0.1, "n_neighbors": 5, "max_iter": 60}
    assert expected.items() <= cell.parameters.items()


# tables


def test_mean_and_spread_of_a_sample():
    assert format_measured(Measured.of([0.5, 0.6, 0.7])) == "0.600(0.100)"
    assert format_measured(Measured.of([0.5])) == "0.500(-)"
    assert format_measured(Measured.of([3.14159]), "seconds") == "3.14"
    assert difference(Measured.of([0.6]), Measured(0.594, 0.015)) == "+0.006"
    assert difference(Measured(word="OM"), Measured(0.5, 0.1)) == ""
    assert difference(Measured.of([2.0]), Measured(4.0), "seconds") == "×0.5"


def test_table_in_three_languages():
    row = ["a_b", *ranked(["0.9", "0.8", "0.7"], [0.9, 0.8, 0.7], largest=True)]
    table = Table("t", "Title, 50%", ["method", "x", "y", "z"], [row], ["m ≥ c"])
    assert table.markdown().splitlines()[-1] == "| a_b | **0.9** | <u>0.8</u> | 0.7 |"
    assert table.csv() == "method,x,y,z\na_b,0.9,0.8,0.7\n"
    latex = table.latex()
    assert r"a\_b & \textbf{0.9} & \underline{0.8} & 0.7 \\" in latex
    assert r"Title, 50\%" in latex and r"m $\geq$ c" in latex
    assert Entry("x").rank == 0


def test_words_for_what_gave_no_number():
    cells = table_cells("AMGL", "MLAN", "MCGC")
    states = ("timeout", "memory", "error")
    summary = Summary([record(c, s) for c, s in zip(cells, states, strict=True)])
    words = [format_measured(summary.measure(cell, "ACC")) for cell in cells]
    assert words == ["---", "OM", "error"]
    (not_run,) = table_cells("FSMSC")
    (absent,) = table_cells("FSMSC", dataset="Cifar10")
    assert summary.measure(not_run, "ACC").word == "·"
    assert summary.measure(absent, "ACC").word == "absent"


def test_a_later_record_of_the_same_cell_counts():
    (cell,) = table_cells("AMGL")
    better = record(cell, scores=dict.fromkeys(PAPER.metrics, 0.9))
    assert Summary([record(cell), better]).measure(cell, "ACC").mean == 0.9
    assert Summary([record(cell, "timeout"), better]).measure(cell, "ACC").mean == 0.9
    other = record(cell, "error", file_print="2")
    assert Summary([better, other]).measure(cell, "ACC").word == "error"


def test_points_of_a_curve_have_one_seed():
    plan = Plan(PAPER, 2, False, frozenset())
    shared = plan.table_cell("Coil", PAPER.row("OMCAL"), 0)
    other = replace(shared, seed=1)
    summary = Summary(
        record(cell, scores=dict.fromkeys(PAPER.metrics, value))
        for cell, value in ((shared, 0.5), (other, 0.9))
    )
    assert summary.measure(shared, "ACC").mean == pytest.approx(0.7)
    assert summary.points([shared], "Coil", "ACC") == [(shared, 0.5)]
    assert best_of_grid_table(plan, summary).rows[2][1] == "0.500"  # Coil


@pytest.mark.slow
def test_from_records_alone(tmp_path):
    write_records(tmp_path / RECORDS)
    words = ["--from-records", "--quick", "--quiet", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *words])
    assert end.value.code == 0
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"convergence", "anchors", "anchors_time", "grid_coil", "structure_coil"}
    for name in names:
        assert (tmp_path / "figures" / f"{name}.svg").read_text().count("<path") > 5
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    tables = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {f"results_acc.{kind}" for kind in ("md", "tex", "csv")} <= tables
    comparison = (tmp_path / "tables" / "comparison.csv").read_text().splitlines()
    assert len(comparison) == 1 + 735
    assert "Coil,OMCAL,ACC,0.500(-),1,1.000(0.000),-0.500,the paper's file" in comparison
    assert "Cifar10,OMCAL,ACC,absent,0,0.970(0.004),,absent" in comparison
    page = (tmp_path / "reproduction.md").read_text()
    assert "put Cifar10.mat into the folder" in page and "## Coil: the paper's file" in page
    assert "## Cifar10" not in page
    html = (tmp_path / "report.html").read_text()
    assert html.count('<img src="data:image/svg+xml') == len(names) and "https://" not in html
    linked = re.findall(r"\]\(([^)]+)\)", page)
    assert len(linked) == 5 and all((tmp_path / link).exists() for link in linked)
    assert "| Coil | 0.500(-)<br>1.000(0.000)<br>-0.500 |" in page


def test_figures_need_records():
    assert list(all_figures(Plan(PAPER, 1), Summary([]))) == []


def test_records_of_another_minor_version_do_not_count(tmp_path):
    (cell,) = table_cells("OMCAL")
    old = {**record(cell), "versions": {"omcal": "0.1.0"}}
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(old) + "\n")
    with pytest.raises(ValueError, match=r"all 1 records in .* are of another version"):
        write_outputs(Plan(PAPER, 1), path, tmp_path, None)
    assert not is_current(old) and not is_current({}) and made_with({}) == "not recorded"
    assert is_current(record(cell))
