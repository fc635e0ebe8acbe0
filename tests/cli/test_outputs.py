"""What commands write: tried before the work, nothing overwritten, nothing lost on a full disk."""

import io
import json
import os
import sys
from collections import namedtuple
from contextlib import suppress

import numpy as np
import pytest

import omcal
from omcal.cli import main
from omcal.cli.console import visible
from omcal.datasets import make_multiview, save_views
from omcal.datasets.loading import read_labels
from small_disk import small_disk

Ended = namedtuple("Ended", "code out err")

MADE = make_multiview(400, n_clusters=3, random_state=0)


@pytest.fixture
def omcal_command(capsys):
    def call(*args):
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        return Ended(end.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **MADE.views, y=MADE.labels)
    return path


@pytest.fixture
def no_fit(monkeypatch):
    """Any fit is a mistake: the outputs are looked at before it."""

    def fit(*args, **kwargs):
        raise AssertionError("the fit began")

    monkeypatch.setattr(omcal.OMCAL, "fit", fit)


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("ending", ["", ".zarr"])
@pytest.mark.parametrize("option", ["--out", "--save-model", "--report", "--checkpoint"])
def test_no_output_goes_into_the_input(tmp_path, omcal_command, no_fit, option, ending):
    if ending:
        pytest.importorskip("zarr")
    source = tmp_path / f"data{ending}"
    save_views(source, MADE)
    before = listing(source)
    victim = source / ("view1.npy" if not ending else "view1/0.0")
    (tmp_path / "link").symlink_to(source)
    for path in (victim, source / "new.csv", tmp_path / "link" / "new.csv"):
        ended = omcal_command("cluster", source, "--clusters", 3, option, path)
        assert ended.code == 2 and "lies in the input" in ended.err and option in ended.err
    ended = omcal_command("convert", source, source / "copy.npz")
    assert ended.code == 2 and "lies in the input" in ended.err
    assert listing(source) == before


def test_two_outputs_are_not_one_file(tmp_path, file, omcal_command, no_fit):
    (tmp_path / "there").write_text("old")
    (tmp_path / "twin").hardlink_to(tmp_path / "there")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    pairs = [("same", "same"), ("there", "twin"), ("new", "link"), ("same", "./same")]
    for one, other in pairs:
        for options in (
            ("--out", "--save-model"),
            ("--report", "--out"),
            ("--out", "--checkpoint"),
        ):
            paths = (tmp_path / one, f"{tmp_path}/{other}")
            words = [word for pair in zip(options, paths, strict=True) for word in pair]
            ended = omcal_command("cluster", file, "--clusters", 3, *words)
            assert ended.code == 2 and "are both" in ended.err, (one, other, ended)
    hard = tmp_path / "hard.npz"
    hard.hardlink_to(file)
    ended = omcal_command("cluster", file, "--clusters", 3, "--out", hard)
    assert ended.code == 2 and "is the input" in ended.err


@pytest.mark.parametrize("option", ["--out", "--save-model", "--report", "--checkpoint"])
def test_every_output_is_tried_before_the_fit(tmp_path, file, omcal_command, no_fit, option):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "absent" / "file")
    before = listing(tmp_path)
    for name in ("x" * 300, "folder", "pipe", "loop", "dangling", "absent/file", "data.npz/file"):
        path = tmp_path / name
        ended = omcal_command("cluster", file, "--clusters", 3, option, path)
        assert (ended.code, ended.out) == (2, ""), name
        assert "cannot write" in ended.err and ended.err.count("\n") == 1, (name, ended.err)
    assert listing(tmp_path) == before


@pytest.mark.slow
def test_a_name_that_is_no_utf8(tmp_path, file, omcal_command):
    odd = os.fsdecode(b"\xff\xfe")
    source = tmp_path / f"{odd}.npz"
    file.rename(source)
    outputs = {"--out": "labels", "--save-model": "model", "--report": "page"}
    words = [w for option, name in outputs.items() for w in (option, tmp_path / (name + odd))]
    ended = omcal_command("cluster", source, "--clusters", 3, *words)
    assert ended.code == 0, ended.err
    assert len(read_labels(tmp_path / f"labels{odd}").labels) == 400
    assert r"\udcff" in (tmp_path / f"page{odd}").read_text("utf-8")


@pytest.mark.process
def test_a_full_disk_costs_no_other_file(tmp_path, file, omcal_command, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spare"))
    (tmp_path / "spare").mkdir()
    with small_disk(tmp_path / "disk", kilobytes=4) as disk:
        (disk / "ballast").write_bytes(bytes(4000))
        words = ["--out", disk / "labels.csv", "--json"]
        words += ["--save-model", tmp_path / "model", "--report", tmp_path / "page.html"]
        ended = omcal_command("cluster", file, "--clusters", 3, *words)
        assert os.listdir(disk) == ["ballast"]
    assert ended.code == 2
    result = json.loads(ended.out)
    (spare,) = (tmp_path / "spare").iterdir()
    assert result["out"] == str(spare)
    assert "labels.csv: no space left on its disk" in ended.err
    assert "bytes are missing" in ended.err and f"it is in {spare}" in ended.err
    model = omcal.load(tmp_path / "model")
    np.testing.assert_array_equal(read_labels(spare).labels.astype(int), model.labels_)
    assert "</html>" in (tmp_path / "page.html").read_text()


@pytest.mark.process
def test_a_full_disk_for_the_model_costs_the_model_alone(tmp_path, file, omcal_command):
    with small_disk(tmp_path / "disk", kilobytes=4) as disk:
        words = ["--out", tmp_path / "labels.csv", "--save-model", disk / "model"]
        ended = omcal_command("cluster", file, "--clusters", 3, *words)
        assert not os.listdir(disk)
    assert ended.code == 2 and "--save-model" in ended.err and "no space left" in ended.err
    assert len(read_labels(tmp_path / "labels.csv").labels) == 400


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_closed_output_is_no_failure(tmp_path, file, monkeypatch, as_json):
    def ended_with(stdout, stderr):
        (tmp_path / "labels.csv").unlink(missing_ok=True)
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stderr", stderr)
        words = ["cluster", str(file), "--clusters", "3", "--out", str(tmp_path / "labels.csv")]
        with pytest.raises(SystemExit) as end:
            main([*words, *as_json])
        assert len(read_labels(tmp_path / "labels.csv").labels) == 400
        return end.value.code

    assert ended_with(None, None) == 0  # as Python has it where the caller closed them
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        assert ended_with(pipe, None) == 0
    said = io.StringIO()
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it fails, too
    assert ended_with(full, said) == 2
    with suppress(OSError):
        full.close()
    assert "No space left" in said.getvalue()


@pytest.mark.slow
def test_output_that_knows_ascii_only(tmp_path, monkeypatch):
    path = tmp_path / "daten.npz"
    np.savez(path, **{"größe": MADE.views["view1"], "日本": MADE.views["view2"]}, y=MADE.labels)
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", "strict"))
    with pytest.raises(SystemExit) as end:
        main(["cluster", str(path), "--clusters", "3"])
    assert end.value.code == 0
    assert rb"gr\xf6\xdfe" in printed.getvalue()


@pytest.mark.slow
def test_names_do_not_command_the_terminal(tmp_path, omcal_command):
    path = tmp_path / "data.npz"
    evil = "a\x1b]0;title\x07\x9b31m"
    np.savez(path, **{evil: MADE.views["view1"], "b": MADE.views["view2"]}, y=MADE.labels)
    for words in (["cluster", path, "--clusters", 3], ["inspect", path]):
        ended = omcal_command(*words)
        assert ended.code == 0
        assert r"\x1b]0;title\x07\x9b31m" in ended.out
        assert not any(c in ended.out + ended.err for c in "\x1b\x07\x9b")
    ended = omcal_command("cluster", tmp_path / evil, "--clusters", 3)
    assert ended.code == 2 and "\x1b" not in ended.err
    assert visible("plain\ttext\nhere, größe") == "plain\ttext\nhere, größe"
