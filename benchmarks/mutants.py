"""Change `omcal.method` in small ways and count which changes the tests notice.

mutmut writes the changed functions. The tests are loaded, and forks of that process run them once,
to see which of them pass and reach which function; then a fork for each mutant puts the changed
code into its function and runs the tests that reach it, quick and special ones first, until one
fails. Results are kept in out/mutants by the changed code and the set of tests: a mutant that was
noticed, by these tests or by a smaller set, is not tried again. The page is written to
benchmarks/results/mutants.md, with the reasons of benchmarks/mutants.toml for those alive.

    make mutants
    make mutants MUTANTS="--only kmeans.Vectors graph --jobs 8"
    make mutants MUTANTS="--sample 400 --tests all"  # the same 400 mutants each time
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import inspect
import json
import os
import random
import re
import resource
import signal
import sys
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from textwrap import indent
from typing import Any

# Forked processes must not wait for threads that only their parent has.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import pytest

ROOT = Path(__file__).resolve().parents[1]
METHOD = ROOT / "src" / "omcal" / "method"
REASONS = ROOT / "benchmarks" / "mutants.toml"
PAGE = ROOT / "benchmarks" / "results" / "mutants.md"
TESTS = [
    "tests/method",
    *(f"tests/model/test_{name}.py" for name in ("consensus", "errors", "ranges", "view_weights")),
    "tests/views/test_present.py",
]
KEPT = ROOT / "out" / "mutants"
MADE, REACH = (KEPT / name for name in ("made.json", "reach.jsonl"))
# Sets of tests, each within the next, by the marks that they leave out: those of make quick, test
# and test-all, but for the tests that start processes or need PyTorch or real data.
NEVER = ("torch", "data", "process", "memory")
SETS = {"quick": (*NEVER, "slow", "long"), "test": (*NEVER, "long"), "all": NEVER}
WAYS = ("noticed", "too slow", "crashed", "alive", "not tried")
LIMIT = 8 << 30  # bytes of memory that a mutant may take

Mutant = dict[str, str]


def made() -> list[Mutant]:
    """All mutants, as mutmut makes them, where they are not at hand."""
    digest = _digest(*sorted(METHOD.glob("*.py")))
    if MADE.exists():
        kept = json.loads(MADE.read_text(encoding="utf-8"))
        if kept["digest"] == digest:
            return list(kept["mutants"])
    mutants = _make()
    MADE.write_text(json.dumps({"digest": digest, "mutants": mutants}), encoding="utf-8")
    return mutants


def _make() -> list[Mutant]:
    """The function that each changes, its changed code, and what is different."""
    from mutmut.mutation.file_mutation import create_mutations, deep_replace

    found: dict[str, Mutant] = {}
    for path in sorted(METHOD.glob("*.py")):
        module, mutations, *_ = create_mutations(str(path), path.read_text(encoding="utf-8"))
        classes = {
            function: statement.name.value
            for statement in module.body
            if type(statement).__name__ == "ClassDef"
            for function in statement.body.body
        }
        for mutation in mutations:
            function = mutation.contained_by_top_level_function
            if type(function).__name__ != "FunctionDef":
                continue
            bare = function.with_changes(decorators=[], leading_lines=[])
            changed = deep_replace(bare, mutation.original_node, mutation.mutated_node)
            before, code = module.code_for_node(bare), module.code_for_node(changed)
            lines = difflib.ndiff(before.splitlines(), code.splitlines())
            name = function.name.value
            if function in classes:
                name = f"{classes[function]}.{name}"
                code = f"class {classes[function]}:\n{indent(code, '    ')}"
            key = hashlib.sha256(f"{path.stem}.{code}".encode()).hexdigest()[:12]
            found[key] = {
                "key": key,
                "function": f"{path.stem}.{name}",
                "code": code,
                "change": " → ".join(
                    line[2:].strip() for line in lines if line[:2] in ("- ", "+ ")
                ),
            }
    return list(found.values())


def install(mutant: Mutant) -> None:
    """Put the changed code into the function as it is loaded."""
    module, *path = mutant["function"].split(".")
    loaded = vars(importlib.import_module(f"omcal.method.{module}"))
    changed = loaded.copy()
    exec(compile(mutant["code"], mutant["function"], "exec"), changed)
    old, new = loaded[path[0]], changed[path[0]]
    if len(path) > 1:
        owner = old
        old, new = (inspect.getattr_static(one, path[1]) for one in (old, new))
        old, new = (getattr(one, "__func__", one) for one in (old, new))
        if old.__code__.co_freevars != new.__code__.co_freevars:  # super() is gone
            setattr(owner, path[1], new)
            return
    old.__code__ = new.__code__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__


class Trial:
    """A plugin of pytest: sees what the tests reach, then runs those of each mutant in a fork."""

    def __init__(self, mutants: list[Mutant], asked: argparse.Namespace) -> None:
        self._mutants, self._asked = mutants, asked
        self._failed = False
        self._tests: dict[str, list[tuple[float, float, Any]]] = defaultdict(list)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        import hypothesis

        # The same examples each time; which of those that fail is the smallest does not matter.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        quick = {"deadline": None, "database": None, "derandomize": True, "phases": phases}
        hypothesis.settings.register_profile("mutants", **quick)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        started: dict[int, str] = {}
        self._watch(session.items, started)
        end = time.monotonic() + self._asked.seconds
        for mutant in self._mutants:
            if time.monotonic() > end:
                break
            if len(started) == self._asked.jobs:
                self._wait(started)
            started[_fork(partial(self._try, mutant))] = mutant["key"]
        while started:
            self._wait(started)
        return True

    def _wait(self, started: dict[int, str]) -> None:
        """Wait for one of the forks, and record its outcome where a signal ended it."""
        pid, status = os.wait()
        key = started.pop(pid)
        if os.WIFSIGNALED(status) and key:
            slow = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
            outcome = "too slow" if slow else "crashed"
            _note(_results(self._asked.tests), key=key, outcome=outcome, by="")

    def _watch(self, items: list[Any], started: dict[int, str]) -> None:
        """How long each test takes, and which functions it reaches, where that is not known."""
        sources = sorted((ROOT / "src").rglob("*.py"))
        digests = {path: _digest(*sources, path) for path in {item.path for item in items}}
        wanted = {item.nodeid: digests[item.path] for item in items}
        seen = _lines(REACH)
        known = {line["test"] for line in seen if line["digest"] == wanted.get(line["test"])}
        new = [item for item in items if item.nodeid not in known]
        for share in range(self._asked.jobs):
            look = partial(self._look, new[share :: self._asked.jobs], wanted)
            started[_fork(look)] = ""
        while started:
            self._wait(started)
        seen = {line["test"]: line for line in _lines(REACH)}
        failing = []
        for item in items:
            line = seen.get(item.nodeid, {"digest": "", "functions": []})
            if line["digest"] != wanted[item.nodeid]:
                failing.append(item.nodeid)
                continue
            for function in line["functions"]:
                cost = line["seconds"] * len(line["functions"])
                self._tests[function].append((line["seconds"], cost, item))
        if failing:
            told = "\n".join(["These fail without a change, and are left out:", *failing])
            items[0].config.get_terminal_writer().line(told)

    def _look(self, items: list[Any], digests: dict[str, str]) -> None:
        """In a fork: write down what each test that passes takes and reaches."""
        for item, following in zip_longest(items, items[1:]):
            self._failed = False
            seconds, functions = self._reach(item, following)
            if not self._failed:
                found = {"digest": digests[item.nodeid], "seconds": seconds, "functions": functions}
                _note(REACH, test=item.nodeid, **found)

    def _reach(self, item: Any, following: Any) -> tuple[float, list[str]]:
        folder, reached = str(METHOD) + os.sep, set()

        def look(frame: Any, event: str, _: Any) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(folder):
                name = code.co_qualname.split(".<locals>")[0]
                reached.add(f"{Path(code.co_filename).stem}.{name}")

        start = time.process_time()
        threading.setprofile(look)
        sys.setprofile(look)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.setprofile(None)
        threading.setprofile(None)
        return time.process_time() - start, sorted(reached)

    def _try(self, mutant: Mutant) -> None:
        """In a fork: write down which test, if any, notices the mutant."""
        by = ""
        try:
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
            install(mutant)
            by = self._noticing(mutant)
        except BaseException as error:  # it cannot even be defined
            by = repr(error)
        finally:
            outcome = "noticed" if by else "alive"
            _note(_results(self._asked.tests), key=mutant["key"], outcome=outcome, by=by)

    def _noticing(self, mutant: Mutant) -> str:
        tests = self._of(mutant)
        following = [item for _, item in tests[1:]]
        self._failed = False
        for (seconds, item), after in zip_longest(tests, following):
            signal.setitimer(signal.ITIMER_PROF, 5 + 10 * seconds)
            signal.alarm(60 + int(20 * seconds))  # where it waits, and takes no time
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                return str(item.nodeid)
        return ""

    def _of(self, mutant: Mutant) -> list[tuple[float, Any]]:
        """The tests that reach a mutant: first those that are quick and reach little else."""
        tests = sorted(self._tests[mutant["function"]], key=lambda test: test[1])
        total = accumulate(seconds for seconds, *_ in tests)
        return [
            (seconds, item)
            for (seconds, _, item), sofar in zip(tests, total, strict=True)
            if sofar <= self._asked.most
        ]


def _fork(work: Callable[[], None]) -> int:
    """The number of a process that does this, silently, and ends."""
    pid = os.fork()
    if not pid:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            work()
        finally:
            os._exit(0)
    return pid


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _note(path: Path, **line: Any) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _results(tests: str) -> Path:
    return KEPT / f"results-{tests}.jsonl"


def outcomes(tests: str) -> dict[str, str]:
    """Return the last outcome of each mutant by its key; what a smaller set notices counts, too."""
    found: dict[str, str] = {}
    for smaller in list(SETS)[: list(SETS).index(tests) + 1]:
        found |= {line["key"]: line["outcome"] for line in _lines(_results(smaller))}
    return found


def page(mutants: list[Mutant], found: dict[str, str], tests: str) -> Iterator[str]:
    """Write how many mutants were noticed, by module, and which were not, by the reason."""
    by_module = defaultdict(Counter)
    for mutant in mutants:
        by_module[mutant["function"].split(".")[0]][found.get(mutant["key"], "not tried")] += 1
    total = sum(by_module.values(), Counter())
    tried = len(mutants) - total["not tried"]
    yield "# Changes of the method that the tests notice"
    yield ""
    yield f"**{(tried - total['alive']) / max(tried, 1):.1%}** of {tried} mutants are noticed, of"
    yield f"{len(mutants)} that mutmut makes of `omcal.method`; by `make mutants`,"
    yield f"with the tests of `make {'test-all' if tests == 'all' else tests}`."
    if tried < len(mutants):
        yield "Those tried are a random sample; the same for all sets of tests."
    yield ""
    yield "mutmut changes operators, numbers, strings, arguments and assignments in functions and"
    yield "methods; it leaves properties, annotations, docstrings and module constants as they are."
    yield "Noticed is what fails a test, is stopped for taking over ten times as long, or crashes."
    yield ""
    yield f"| module | mutants | {' | '.join(WAYS)} |"
    yield "|---|---" + "|---" * len(WAYS) + "|"
    for name, count in [*sorted(by_module.items()), ("all", total)]:
        yield f"| {name} | {count.total()} | {' | '.join(str(count[way]) for way in WAYS)} |"
    alive = [f"{m['function']}: {m['change']}" for m in mutants if found.get(m["key"]) == "alive"]
    for reason, patterns in tomllib.loads(REASONS.read_text(encoding="utf-8")).items():
        chosen = [m for m in alive if any(re.search(pattern, m) for pattern in patterns)]
        alive = [m for m in alive if m not in chosen]
        if chosen:
            yield from ("", f"## {reason} ({len(chosen)})", "", *(f"- `{m}`" for m in chosen))
    if alive:
        yield from (
            "",
            f"## What a test should notice ({len(alive)})",
            "",
            *(f"- `{m}`" for m in alive),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="functions whose names begin so")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="when to begin no more")
    parser.add_argument("--most", type=float, default=10.0, help="seconds of tests of one mutant")
    parser.add_argument("--sample", type=int, help="how many of all mutants, drawn by a fixed seed")
    parser.add_argument("--tests", choices=SETS, default="quick", help="by which target of make")
    asked = parser.parse_args()
    os.chdir(ROOT)
    KEPT.mkdir(parents=True, exist_ok=True)
    mutants, known = made(), outcomes(asked.tests)
    drawn = random.Random(1).sample(mutants, min(asked.sample or len(mutants), len(mutants)))
    left = [
        m
        for m in drawn
        if m["function"].startswith(tuple(asked.only)) and known.get(m["key"], "alive") == "alive"
    ]
    random.Random(0).shuffle(left)  # what is done after some time is a sample of all
    left.sort(key=lambda mutant: mutant["key"] in known)
    chosen = ["--all", "-m", f"not ({' or '.join(SETS[asked.tests])})"]
    pytest.main(["-p", "no:cacheprovider", *chosen, *TESTS], plugins=[Trial(left, asked)])
    lines = page(mutants, outcomes(asked.tests), asked.tests)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
