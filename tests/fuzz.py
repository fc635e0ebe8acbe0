"""`make fuzz`: many damaged files, models and checkpoints, kills and interrupts, counted.

Every case has a number and can be run alone: ``python tests/fuzz.py --only "mat7.3" --case 17``.
The cases of a kind run in processes of their own, so that a crash is seen and costs one case.
"""

# ruff: noqa: E402 - threads, which forked processes do not have, must be off before NumPy comes

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import importlib
import json
import logging
import re
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "datasets")]

from fuzzed import FILES, mutate
from scipy import sparse

from damage import archive_of, members_of, mutated
from large_fits import overlapping
from omcal import OMCAL
from omcal.datasets import DataError, MultiViewData, load_views
from omcal.model.checkpoint import Checkpoint
from omcal.model.files import ModelError, load

SEED = 27
BATCH = 1000
PATIENCE = 90  # seconds that a case may take
# What reading a file must never do.
FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect"}
FORBIDDEN |= {"pickle.find_class", "os.remove", "os.rename", "shutil.rmtree"}
ODD = [
    True,
    None,
    -1,
    0,
    2**63,
    10**30,
    1e308,
    -0.0,
    1.5,
    "",
    "x" * 999,
    [],
    {},
    [[]],
    {"array": "x"},
]


def data_sets():
    """As in the tests: dense and mixed views of twelve samples."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(12, 5)), rng.integers(0, 9, size=(12, 3))
    dense = MultiViewData({"a": a, "b": b}, labels=np.array(list("uvwuvwuvwuvw")))
    s = sparse.random_array((12, 20), density=0.3, format="csr", rng=rng)
    views = {"a": a.astype(np.float32), "s": s}
    return dense, MultiViewData(views, labels=np.arange(12) % 3)


def require_plain(error, named):
    """An error names what it is about, in a few words."""
    assert named in str(error) and len(str(error)) < 2000, str(error)[:300]


class DataFiles:
    """Mutants of a file that the readers know: they load, or are refused with a DataError."""

    def __init__(self, kind, folder):
        FILES[kind](folder / "file", *data_sets())
        self.root = next(folder.iterdir())
        files = [self.root] if self.root.is_file() else sorted(self.root.rglob("*"))
        self.victims = [path for path in files if path.is_file() and path.stat().st_size]
        load_views(self.root)

    def run(self, i, rng):
        victim = self.victims[i % len(self.victims)]
        content = victim.read_bytes()
        victim.write_bytes(mutate(content, rng))
        try:
            return load_views(self.root).n_samples > 0
        except DataError as error:
            require_plain(error, str(self.root))
            return False
        finally:
            victim.write_bytes(content)


def archive_mutant(content, i, rng):
    """Bytes changed, a member changed with the checksums made right, or a value of the header."""
    if i % 3 == 0:
        return mutated(content, rng)
    members = members_of(content)
    if i % 3 == 1:
        name = str(rng.choice(list(members)))
        return archive_of({**members, name: mutated(members[name], rng)})
    header = json.loads(members["model.json"])
    node, keys = header, []
    while isinstance(node, dict | list) and node and (not keys or rng.random() < 0.7):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        parent, key = node, keys[rng.integers(len(keys))]
        node = parent[key]
    parent[key] = ODD[rng.integers(len(ODD))]
    return archive_of({**members, "model.json": json.dumps(header)})


class Models:
    """Mutants of a saved model: refused with a ModelError, or they predict clusters they have."""

    def __init__(self, kind, folder):
        self.views = list(data_sets()[0].views.values())
        self.views = [np.repeat(view, 5, axis=0).astype(float) for view in self.views]
        self.path = folder / "model.omcal"
        OMCAL(3, weighting=[1.0, 2.0], random_state=0).fit(self.views).save(self.path)
        self.content = self.path.read_bytes()

    def run(self, i, rng):
        self.path.write_bytes(archive_mutant(self.content, i, rng))
        try:
            model = load(self.path)
        except ModelError as error:
            require_plain(error, str(self.path))
            return False
        with suppress(ValueError), np.errstate(all="ignore"):  # other views, in words
            labels = model.predict(self.views)
            assert labels.shape == (60,) and 0 <= labels.min() <= labels.max() < model.n_clusters
        return True


class Stop(BaseException):
    """Ends a fit as a crash would."""


class Checkpoints:
    """Mutants of a checkpoint: one ValueError, or the fit goes on to its end."""

    def __init__(self, kind, folder):
        self.views, self.path = overlapping(400), folder / "fit.checkpoint"
        plain = Checkpoint.save

        def save(checkpoint):
            plain(checkpoint)
            raise Stop

        Checkpoint.save = save
        with suppress(Stop):
            self.fit()
        Checkpoint.save = plain
        self.content = self.path.read_bytes()
        self.expected = self.fit()

    def fit(self):
        settings = {**FIT, "n_init": 1, "max_iter": 12}
        return OMCAL(**settings, checkpoint=self.path).fit(self.views)

    def run(self, i, rng):
        content = archive_mutant(self.content, i, rng)
        self.path.write_bytes(content)
        try:
            model = self.fit()
        except ValueError as error:
            require_plain(error, "checkpoint=")
            return False
        assert 0 <= model.labels_.min() <= model.labels_.max() < 4
        if i % 3 == 0:  # damage by chance that is not noticed has done no harm
            np.testing.assert_array_equal(model.labels_, self.expected.labels_)
        return True


@dataclass
class Count:
    """What became of the cases of a kind."""

    done: int = 0
    refused: int = 0
    worked: int = 0
    megabytes: float = 0.0
    failures: list = field(default_factory=list)


def random_of(kind, i):
    return np.random.default_rng([SEED, zlib.crc32(kind.encode()), i])


def guard(folder):
    """End the process where the code under test does what no file may make it do.

    Returns what ends the watch when it is cleared.
    """
    guarded = [True]

    def watch(event, given):
        writes = event == "open" and isinstance(given[1], str) and set(given[1]) & set("wax+")
        outside = writes and not str(given[0]).startswith((str(folder), "/dev/null"))
        if not guarded:
            return
        if event in FORBIDDEN and not str(given[0] if given else "").startswith(str(folder)):
            os.write(2, f"forbidden: {event} {given}\n".encode())
            os._exit(99)
        if outside and not isinstance(given[0], int):
            os.write(2, f"written: {given}\n".encode())
            os._exit(98)

    sys.addaudithook(watch)
    return guarded


def work(kind, make, cases, pipe):
    """Run cases in this process and tell of each before and after it."""
    with tempfile.TemporaryDirectory(prefix="omcal-fuzz-") as folder:
        warnings.simplefilter("ignore")
        under_test = make(kind, Path(folder))
        guarded = guard(folder)
        for i in cases:
            os.write(pipe, f"begin {i}\n".encode())
            try:
                worked = under_test.run(i, random_of(kind, i))
                said = "worked" if worked else "refused"
            except BaseException as error:
                said = f"failed {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                traceback.print_exc()
            os.write(pipe, f"{said}\n".encode())
        guarded.clear()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    os.write(pipe, f"memory {used / 1024}\n".encode())


def run_batch(kind, make, cases, count):
    """Run cases in a process of their own; one that ends it is told and left out."""
    left = list(cases)
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            code = 1
            with suppress(BaseException):
                work(kind, make, left, writer)
                code = 0
            os._exit(code)
        os.close(writer)
        current, hung = follow(reader, count)
        if hung:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(reader)
        if status == 0:
            return
        ended = "it hung" if hung else f"the process ended with {status}"
        count.failures.append((kind, current, ended))
        count.done += 1
        if current is None:
            return
        left = left[left.index(current) + 1 :]


def follow(reader, count):
    """Count what a process tells; the case it was at when it ended, and whether it hung."""
    current, rest = None, b""
    while True:
        ready, _, _ = select.select([reader], [], [], PATIENCE)
        if not ready:
            return current, True
        piece = os.read(reader, 65536)
        if not piece:
            return current, False
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            word, _, more = line.decode().partition(" ")
            if word == "begin":
                current = int(more)
            elif word == "memory":
                count.megabytes = max(count.megabytes, float(more))
            else:
                count.done += 1
                count.worked += word == "worked"
                count.refused += word == "refused"
                if word == "failed":
                    count.failures.append(("", current, more))


KINDS = {
    **dict.fromkeys(FILES, DataFiles),
    "models": Models,
    "checkpoints": Checkpoints,
}


# Processes that are killed or interrupted


FIT = {"n_clusters": 4, "n_anchors": 9, "n_init": 2, "max_iter": 60, "tol": 0.0, "random_state": 0}


def in_child(work):
    """Start work in a forked process, whose exit code is what it returns."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = 1
        try:
            try:
                code = work()
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                code = 130
            except BaseException:
                traceback.print_exc()
        except KeyboardInterrupt:
            code = 130
        os._exit(code)
    return child


def end_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kills(n, deadline, count):
    """Kill fits and saves at any moment; the next run goes on to the same result, to the bit."""
    views = overlapping(3000)
    expected = OMCAL(**FIT).fit(views)
    began = time.monotonic()
    OMCAL(**FIT).fit(views)
    seconds = 1.5 * (time.monotonic() - began)
    for i in range(n):
        if time.monotonic() > deadline:
            return
        with tempfile.TemporaryDirectory(prefix="omcal-fuzz-") as folder:
            checkpoint, saved = Path(folder, "checkpoint"), Path(folder, "model")

            def fit_and_save(checkpoint=checkpoint, saved=saved):
                model = OMCAL(**FIT, checkpoint=checkpoint).fit(views)
                while True:
                    model.save(saved)

            child = in_child(fit_and_save)
            time.sleep(random_of("kills", i).uniform(0, 2 * seconds))
            os.kill(child, signal.SIGKILL)
            end_of(child)
            resumed = checkpoint.exists()

            def go_on(checkpoint=checkpoint, saved=saved):
                if saved.exists():
                    assert np.array_equal(load(saved).labels_, expected.labels_)
                model = OMCAL(**FIT, checkpoint=checkpoint).fit(views)
                model.save(saved)
                same = np.array_equal(model.labels_, expected.labels_)
                same &= np.array_equal(model.objective_, expected.objective_)
                return 0 if same else 2

            code = end_of(in_child(go_on))
            left = sorted(os.listdir(folder))
        count.done += 1
        count.worked += resumed  # went on from a checkpoint
        if code or left != ["model"]:
            count.failures.append(("kills", i, f"code {code}, left {left}"))


def interrupts(n, deadline, count):
    """Press Ctrl-C, mostly twice, at any moment of a fit: a KeyboardInterrupt, nothing else."""
    views = overlapping(20_000)
    began = time.monotonic()
    OMCAL(**FIT).fit(views)
    seconds = time.monotonic() - began
    for i in range(n):
        if time.monotonic() > deadline:
            return
        rng = random_of("interrupts", i)
        child = in_child(lambda: OMCAL(**FIT).fit(views) and 0)
        time.sleep(rng.uniform(0, 1.2 * seconds))
        for _ in range(rng.integers(1, 4)):
            os.kill(child, signal.SIGINT)
            time.sleep(rng.uniform(0, 0.02))
        code = end_of(child)
        count.done += 1
        count.worked += code == 0  # it was done before
        count.refused += code == 130
        if code not in (0, 130, -signal.SIGINT):
            count.failures.append(("interrupts", i, f"code {code}"))


def table(result):
    """The counts of a run in Markdown."""
    lines = [
        f"Last run: {result['date']}, {result['minutes']:.0f} minutes on one core, "
        f"seed {result['seed']}.",
        "",
        "| what | cases | refused in words | worked | wrong | most memory |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    counts = {kind: Count(**count) for kind, count in result["counts"].items()}
    files = [counts[kind] for kind in FILES if kind in counts]
    counts["**all data files**"] = Count(
        sum(c.done for c in files),
        sum(c.refused for c in files),
        sum(c.worked for c in files),
        max((c.megabytes for c in files), default=0),
        [failure for c in files for failure in c.failures],
    )
    names = {"kills": "kills (worked: went on from a checkpoint)"}
    names["interrupts"] = "Ctrl-C (refused: KeyboardInterrupt; worked: was done)"
    for kind, c in counts.items():
        memory = f"{c.megabytes:.0f} MB" if c.megabytes else ""
        refused = "" if kind == "kills" else c.refused
        lines.append(
            f"| {names.get(kind, kind)} | {c.done} | {refused} | {c.worked} | {len(c.failures)} "
            f"| {memory} |"
        )
    return "\n".join(lines)


def write_page(page, text):
    """Put the table between the marks of a page."""
    marks = r"(<!-- counts -->\n).*?(\n<!-- end of counts -->)"
    content = page.read_text(encoding="utf-8")
    new, found = re.subn(marks, lambda m: m[1] + "\n" + text + "\n" + m[2], content, flags=re.S)
    assert found == 1
    page.write_text(new, encoding="utf-8")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=4000, help="of all kinds together")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--checkpoints", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--interrupts", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--only", help="one kind")
    parser.add_argument("--case", type=int, help="one case of this kind")
    parser.add_argument("--counts", type=Path, help="write the counts to this file as they come")
    parser.add_argument("--page", type=Path, help="run nothing; put --counts into this page")
    return parser.parse_args()


def main():
    asked = parsed()
    if asked.page:
        write_page(asked.page, table(json.loads(asked.counts.read_text())))
        return
    if asked.case is not None:
        count = Count()
        run_batch(asked.only, KINDS[asked.only], [asked.case], count)
        print(count)
        sys.exit(bool(count.failures))
    result = run(asked)
    print(table(result))
    failures = [(k, *what[1:]) for k, c in result["counts"].items() for what in c["failures"]]
    for failure in failures:
        print("failed:", *failure)
    sys.exit(bool(failures))


def run(asked):
    """The counts of all that is asked for, or of what there was time for."""
    warnings.simplefilter("ignore")
    logging.getLogger("omcal").setLevel(logging.ERROR)
    for library in ("h5py", "zarr", "pyarrow.parquet"):  # once, not in every process
        importlib.import_module(library)
    began = time.monotonic()
    deadline = began + 60 * asked.minutes
    numbers = dict.fromkeys(FILES, -(-asked.files // len(FILES)))
    numbers |= {"models": asked.models, "checkpoints": asked.checkpoints}
    processes = {"kills": (kills, asked.kills), "interrupts": (interrupts, asked.interrupts)}
    counts = {k: Count() for k in (*numbers, *processes) if asked.only in (None, k)}

    def result():
        found = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "minutes": (time.monotonic() - began) / 60,
            "seed": SEED,
            "counts": {kind: asdict(count) for kind, count in counts.items()},
        }
        if asked.counts:
            asked.counts.write_text(json.dumps(found, indent=1))
        return found

    for kind, (attack, n) in processes.items():
        if kind in counts:
            attack(n, deadline, counts[kind])
            result()
    # In turns, so that all kinds have had theirs when the time is up.
    numbers = {kind: n for kind, n in numbers.items() if kind in counts}
    while any(counts[kind].done < n for kind, n in numbers.items()) and time.monotonic() < deadline:
        for kind, n in numbers.items():
            start = counts[kind].done
            if start < n and time.monotonic() < deadline:
                cases = range(start, min(start + BATCH, n))
                run_batch(kind, KINDS[kind], cases, counts[kind])
        result()
    return result()


if __name__ == "__main__":
    main()
