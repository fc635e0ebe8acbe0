"""Model files that are damaged, foreign, newer or hostile: a ModelError, and nothing else."""

import io
import json
import os
import pickle
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from damage import archive_of, checksum_of, members_of, mutated, npy_that_declares
from omcal import OMCAL, Consensus
from omcal.datasets import make_multiview
from omcal.model.files import ModelError, load

N_MUTANTS = int(os.environ.get("OMCAL_MUTANTS", 300))  # set it for a longer run

MADE = make_multiview(60, n_clusters=3, random_state=0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.omcal"
    model = OMCAL(3, n_anchors=13, weighting=[1.0, 1.0, 2.0], random_state=0)
    model.fit(MADE.views).save(path)
    return path.read_bytes()


def swapped(one, other):
    """Two members in each other's place; the checksums of zip know nothing of their names."""

    def damage(content):
        members = members_of(content)
        members[one], members[other] = members[other], members[one]
        return archive_of(members, checksum=checksum_of(content))

    return damage


def without_checksum(content):
    members = members_of(content)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def npy(array, **kwargs):
    stream = io.BytesIO()
    np.save(stream, array, **kwargs)
    return stream.getvalue()


def with_header(**changes):
    def damage(content):
        members = members_of(content)
        header = json.loads(members["model.json"])
        for place, value in changes.items():
            *way, last = place.split("__")
            target = header
            for step in way:
                target = target[int(step) if step.isdigit() else step]
            target[last] = value
        return archive_of({**members, "model.json": json.dumps(header)})

    return damage


def with_member(name, data):
    return lambda content: archive_of({**members_of(content), name: data})


def without_member(name):
    return lambda content: archive_of({k: v for k, v in members_of(content).items() if k != name})


def with_bytes(find, offset, value, last=False):
    """Overwrite bytes after the first, or last, place where `find` stands."""

    def damage(content):
        at = (content.rindex(find) if last else content.index(find)) + offset
        return content[:at] + value + content[at + len(value) :]

    return damage


def flip_in_the_middle(content):
    at = content.index(b"NUMPY") + 200
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def overlapping(content):
    """All entries of the directory point at the largest member: a bomb without compression."""
    members = list(members_of(content).items()) + [(f"{i}.npy", b"") for i in range(50)]
    changed = bytearray(archive_of(members))
    entries = zipfile.ZipFile(io.BytesIO(changed)).infolist()
    largest = max(entries, key=lambda entry: entry.file_size)
    at = changed.index(b"PK\x01\x02")
    for entry in entries:
        for place, value in ((16, largest.CRC), (20, largest.file_size), (24, largest.file_size)):
            changed[at + place : at + place + 4] = value.to_bytes(4, "little")
        changed[at + 42 : at + 46] = largest.header_offset.to_bytes(4, "little")
        at += 46 + len(entry.filename)
    return bytes(changed)


class Trap:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


DAMAGES = {
    "empty": (lambda content: b"", "not a saved model"),
    "text": (lambda content: b"n,x\n1,2\n", "not a saved model"),
    "pickle": (lambda content: pickle.dumps({"class": "OMCAL"}), "not a saved model"),
    "cut off": (lambda content: content[: len(content) // 2], "cut off"),
    "cut in the directory": (lambda content: content[:-30], "cut off"),
    "longer": (lambda content: content + b"more", "behind its end"),
    "a flipped bit": (flip_in_the_middle, "Bad CRC"),
    "foreign archive": (lambda content: archive_of({"a.npy": npy(np.eye(3))}), "not a saved"),
    "foreign header": (with_header(format="other"), "not a saved model"),
    "newer": (with_header(format_version=3), "format_version=3.*upgrade omcal"),
    "version of true": (with_header(format_version=True), "format_version=True"),
    "swapped members": (swapped("anchors.0.npy", "anchors.1.npy"), "checksum does not fit"),
    "no checksum": (without_checksum, "checksum is missing"),
    "checksum amid": (
        lambda content: archive_of([("sha256", "0"), *members_of(content).items()]),
        "same name",
    ),
    "checksum of text": (
        lambda content: archive_of(members_of(content), checksum="all is well"),
        "checksum is not at its end",
    ),
    "no version": (with_header(format_version=None), "format_version=None"),
    "another class": (with_header(**{"class": "os.system"}), "holds a 'os.system'"),
    "class of a list": (with_header(**{"class": ["OMCAL"]}), "damaged"),
    "header is no JSON": (with_member("model.json", b"{'a'"), "cannot be read"),
    "header is a list": (with_member("model.json", b"[]"), "not a saved model"),
    "header is deep": (with_member("model.json", b"[" * 100_000), "cannot be read"),
    "header is not text": (with_member("model.json", b"\xff\xfe\xff"), "cannot be read"),
    "missing array": (without_member("threshold.npy"), "'threshold' is missing"),
    "missing header": (without_member("model.json"), "not a saved model"),
    "extra member": (with_member("more.npy", npy(np.eye(2))), "'more.npy' is unknown"),
    "path traversal": (with_member("../../evil.npy", npy(np.eye(2))), "evil.npy' is unknown"),
    "names twice": (
        lambda content: archive_of([*members_of(content).items(), ("basis.npy", b"")]),
        "same name",
    ),
    "packed": (
        lambda content: archive_of(members_of(content), zipfile.ZIP_DEFLATED),
        "compressed or encrypted",
    ),
    "encrypted": (with_bytes(b"PK\x01\x02", 8, b"\x01"), "compressed or encrypted"),
    "declares more": (with_bytes(b"PK\x01\x02", 24, b"\xff\xff\xff\x7f"), "more than it holds"),
    "overlapping members": (overlapping, "more than it holds"),
    "long directory": (with_bytes(b"PK\x05\x06", 12, b"\xff\xff\xff\x7f", last=True), "too long"),
    "large-file record": (
        lambda content: content[:-22] + b"PK\x06\x07" + b"\0" * 16 + content[-22:],
        "damaged",
    ),
    "huge shape": (
        with_member("basis.npy", npy_that_declares("(10000000, 10000000)")),
        "declares the shape",
    ),
    "endless shape": (
        with_member("labels.npy", npy_that_declares(f"({10**30},)")),
        "declares the shape",
    ),
    "negative shape": (
        with_member("basis.npy", npy_that_declares("(-4, -2)")),
        "declares the shape",
    ),
    "no values": (
        with_member("basis.npy", npy_that_declares("(0, 3)", data=b"")),
        "does not fit the header",
    ),
    "texts": (with_member("basis.npy", npy(np.array(["a"]))), "only plain numbers"),
    "complex": (with_member("basis.npy", npy(np.ones((13, 3), complex))), "only plain numbers"),
    "records": (
        with_member("basis.npy", npy(np.zeros(2, [("a", "f8"), ("b", "O")]), allow_pickle=True)),
        "only plain numbers",
    ),
    "integers": (with_member("basis.npy", npy(np.ones((13, 3), int))), "does not fit the header"),
    "floats as labels": (with_member("labels.npy", npy(np.zeros(60))), "does not fit the header"),
    "another width": (with_header(views__0__width=11), "does not fit the header"),
    "endless width": (with_header(views__0__width=10**40), "does not fit the header"),
    "width of text": (with_header(views__0__width="10"), "whole number"),
    "width of true": (with_header(views__0__width=True), "whole number"),
    "no views": (with_header(views=[]), "damaged"),
    "view names twice": (with_header(views__0__name="view2"), "not distinct"),
    "a flag of text": (with_header(views__0__center="yes"), "neither true nor false"),
    "more columns": (with_header(columns=["a"]), "does not name all"),
    "not a number": (with_member("alpha.npy", npy(np.full(3, np.nan))), "NaN or infinity"),
    "gamma of text": (with_header(gamma="0.1"), "gamma='0.1'"),
    "infinite gamma": (with_header(gamma=float("inf")), "gamma=inf"),
    "weights of 2": (with_member("alpha.npy", npy(np.full(3, 2.0))), "not those of a model"),
    "skew basis": (with_member("basis.npy", npy(np.ones((13, 3)))), "not those of a model"),
    "large threshold": (
        with_member("threshold.npy", npy(np.eye(13) * 9)),
        "not those of a model",
    ),
    "labels outside": (
        with_member("labels.npy", npy(np.full(60, 3, np.int32))),
        "not those of a model",
    ),
    "unknown parameter": (with_header(parameters__speed=11), "speed.*upgrade omcal"),
    "a file to write to": (
        with_header(parameters__checkpoint="/etc/passwd"),
        "checkpoint.*unknown",
    ),
    "beta of -1": (with_header(parameters__beta=-1.0), "'beta' parameter"),
    "true as number of neighbours": (
        with_header(parameters__n_neighbors=True),
        "n_neighbors=True is not a number",
    ),
    "true as beta": (with_header(parameters__beta=True), "beta=True is not a number"),
    "text as number": (with_header(parameters__n_clusters="3"), "'n_clusters' parameter"),
    "a million clusters": (with_header(parameters__n_clusters=10**6), "n_clusters=1000000"),
    "a parameter of an unknown kind": (
        with_header(parameters__weighting={"call": "os.system"}),
        "unknown kind 'call'",
    ),
    "a parameter of two kinds": (
        with_header(parameters__weighting={"list": [], "tuple": []}),
        "damaged",
    ),
    "an array that is not there": (
        with_header(parameters__weighting={"array": "../secret"}),
        "missing",
    ),
}


def assert_refused(folder, content, change, message):
    """In few words that name the file."""
    path = folder / "model.omcal"
    path.write_bytes(change(content))
    with pytest.raises(ModelError, match=rf"(?s)^{path}: .*{message}") as raised:
        load(path)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(saved, tmp_path, damage):
    assert_refused(tmp_path, saved, *DAMAGES[damage])


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "joined.omcal"
    model = Consensus(OMCAL(3, n_anchors=13), n_runs=2, random_state=0)
    model.fit(MADE.views).save(path)
    return path.read_bytes()


TABLES = np.full((2, 3, 3), 40).tolist()  # of more samples than the labels of this process
JOINED = {
    "cluster 3 of a run": (
        with_member("run.1.labels.npy", npy(np.full(60, 3, np.uint8))),
        "the labels of a run are not those of a model",
    ),
    "cluster 3": (
        with_member("joint.labels.npy", npy(np.full(60, 3, np.int32))),
        "the labels are not those of a model",
    ),
    "cluster -1": (
        with_member("joint.labels.npy", npy(np.full(60, -1, np.int32))),
        "the labels are not those of a model",
    ),
    "weights below zero": (
        with_member("run.0.alpha.npy", npy(np.array([-1.0, 1.0, 1.0]))),
        "the weights or the basis of a run are not those of a model",
    ),
    "one run": (with_header(consensus__n_runs=1), "'n_runs' parameter"),
    "true as number of runs": (with_header(consensus__n_runs=True), "whole number"),
    "text as seed": (with_header(consensus__random_state="0"), "whole number"),
    "text as flag": (with_header(consensus__converged="no"), "neither true nor false"),
    "a run that converged to 1": (
        with_header(consensus__runs=[[1, 2.0]] * 2),
        "neither true nor false",
    ),
    "infinite objective": (
        with_header(consensus__runs=[[True, float("inf")]] * 2),
        "objective of a run=inf",
    ),
    "fewer than no samples": (with_header(consensus__n_undecided=-1), "whole number"),
    "too few tables": (with_header(consensus__tables=TABLES[:1]), "the tables of the runs"),
    "tables of another shape": (with_header(consensus__tables=[[[40]]] * 2), "the tables of the"),
    "counts below zero": (
        with_header(consensus__tables=np.negative(TABLES).tolist()),
        "the tables of the runs",
    ),
}


@pytest.mark.parametrize("damage", JOINED)
def test_damaged_files_of_joined_runs_are_refused(joined, tmp_path, damage):
    assert_refused(tmp_path, joined, *JOINED[damage])


def test_tables_of_the_samples_of_all_processes_stay_with_the_model(joined, tmp_path):
    path = tmp_path / "joined.omcal"
    path.write_bytes(with_header(consensus__tables=TABLES)(joined))
    model = load(path)
    assert model.stability_ < 0.01  # each run is spread evenly over the clusters of the result
    model.save(path)
    assert load(path).stability_ == model.stability_
    path.write_bytes(joined)
    assert load(path).stability_ > 0.5


def test_the_undamaged_file_loads(saved, tmp_path):
    """Taken apart and put together it is still a model: the damages are what is refused."""
    path = tmp_path / "model.omcal"
    path.write_bytes(archive_of(members_of(saved)))
    assert load(path).predict(MADE.views).shape == (60,)


def test_nothing_is_unpickled(saved, tmp_path):
    proof = tmp_path / "executed"
    trap = np.array([Trap(str(proof))], dtype=object)
    objects = npy(trap, allow_pickle=True)
    path = tmp_path / "model.omcal"
    for content in (
        archive_of({**members_of(saved), "basis.npy": objects}),
        archive_of({**members_of(saved), "model.json": pickle.dumps(Trap(str(proof)))}),
        objects,
        pickle.dumps(Trap(str(proof))),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelError):
            load(path)
    assert not proof.exists()
    pickle.loads(pickle.dumps(Trap(str(proof)))).close()  # the trap works
    assert proof.exists()


@pytest.mark.memory
def test_memory_stays_within_what_the_file_justifies(saved, tmp_path):
    members = members_of(saved)
    many = [*members.items(), *((f"{i}.npy", b"") for i in range(20_000))]
    files = {
        "huge": archive_of({**members, "basis.npy": npy_that_declares("(100000, 100000)")}),
        "bomb": archive_of({**members, "basis.npy": b"\0" * 50_000_000}, zipfile.ZIP_DEFLATED),
        "many": archive_of(many),
        "overlap": overlapping(saved),
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(ModelError):
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * len(content) + 1_000_000, name


def outcome(path):
    """Whether the file gives a model that predicts; anything but a ModelError fails the test."""
    try:
        model = load(path)
    except ModelError:
        return False
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            labels = model.predict([MADE.views[name] for name in MADE.views])
        except ValueError:  # in words: other views or widths, or values too large
            return True
    assert labels.shape == (60,) and 0 <= labels.min() <= labels.max() < model.n_clusters
    return True


@pytest.mark.slow
def test_mutated_files_are_refused_or_work(saved, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "model.omcal"
    directory = saved.index(b"PK\x01\x02")
    works = []
    for i in range(N_MUTANTS):
        # Half of the changes hit the structure of the archive, which is a small part of it.
        content = mutated(saved, rng)
        if i % 2:
            content = saved[:directory] + mutated(saved[directory:], rng)
        path.write_bytes(content)
        works.append(outcome(path))
    assert sum(works) < 0.5 * N_MUTANTS


@pytest.mark.slow
def test_mutated_members_with_right_checksums_are_refused_or_work(saved, tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "model.omcal"
    members = members_of(saved)
    works = []
    for i in range(N_MUTANTS):
        name = "model.json" if i % 2 else str(rng.choice(list(members)))
        path.write_bytes(archive_of({**members, name: mutated(members[name], rng)}))
        works.append(outcome(path))
    assert 0 < sum(works) < N_MUTANTS
