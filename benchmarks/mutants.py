"""Change `omcal.method` in small ways and count which changes its quick tests notice.

mutmut makes the mutants; a random sample of them is tried, as all of them take hours. Writes the
count and the survivors to out/mutants.md.

    make mutants MUTANTS="--sample 400 --seed 0"
    make mutants MUTANTS="--names omcal.method.starts.x_starts__mutmut_3"
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE = ROOT / "mutants" / "src" / "omcal" / "method"
# What mutmut keeps of a mutant is the exit status of its tests.
SURVIVED, SKIPPED = 0, {None, 34}


def mutmut(*arguments: str) -> str:
    """The output of a command of mutmut."""
    # Forked processes must not wait for threads that only their parent has.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=ROOT,
        env=os.environ | threads,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def statuses() -> dict[str, int | None]:
    """The exit status of the tests of each mutant; None where they have not run."""
    found: dict[str, int | None] = {}
    for path in sorted(MADE.glob("*.meta")):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def change(name: str) -> str:
    """The lines that a mutant takes away and puts in."""
    lines = mutmut("show", name).splitlines()
    return " → ".join(line[1:].strip() for line in lines if line.startswith(("- ", "+ ")))


def report(names: list[str], drawn: str) -> str:
    """How many of these were noticed, and which were not."""
    status = statuses()
    tried = [name for name in names if status[name] not in SKIPPED]
    alive = [name for name in tried if status[name] == SURVIVED]
    killed = len(tried) - len(alive)
    lines = [
        f"{killed} of {len(tried)} mutants noticed, {killed / max(len(tried), 1):.1%} ({drawn}; "
        f"{len(status)} in all). Alive:",
        "",
    ]
    return "\n".join(lines + [f"- `{name}`: `{change(name)}`" for name in alive]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=400, help="how many to try")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--names", nargs="*", help="these mutants instead")
    asked = parser.parse_args()
    mutmut("run", "none", "--max-children", "1")  # makes them all, and tries none
    if not statuses():
        sys.exit("mutmut made no mutants; run `python -m mutmut run` to see why.")
    names, drawn = asked.names, "named"
    if not names:
        every = sorted(statuses())
        names = random.Random(asked.seed).sample(every, min(asked.sample, len(every)))
        drawn = f"drawn with seed {asked.seed}"
    said = mutmut("run", *names, "--max-children", "1")
    if all(statuses()[name] is None for name in names):
        sys.exit(f"mutmut tried none of them; the end of what it said:\n{said[-3000:]}")
    out = ROOT / "out" / "mutants.md"
    out.parent.mkdir(exist_ok=True)
    out.write_text(report(names, drawn), encoding="utf-8")
    print(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
