"""How long `omcal` takes to answer, against loading the estimators: processor time, in one run.

python benchmarks/startup.py [repeats]
"""

import resource
import statistics
import subprocess
import sys

LOADED = "from omcal import OMCAL"
ANSWERS = {
    "omcal --version": ["--version"],
    "omcal --help": ["--help"],
    "omcal cluster --help": ["cluster", "--help"],
}


def seconds(code):
    """Processor time of a Python process, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(repeats=5):
    codes = {LOADED: LOADED}
    codes |= {n: f"from omcal.cli import main; main({words})" for n, words in ANSWERS.items()}
    found = {name: [] for name in codes}
    for code in codes.values():
        seconds(code)  # compiled files and the system's cache are there for all
    for _ in range(repeats):
        for name, code in codes.items():  # in turn, so that other work meets all of them
            found[name].append(seconds(code))
    whole = statistics.median(found.pop(LOADED))
    print(f"| what | s | / {LOADED} |\n|---|---|---|")
    print(f"| {LOADED} | {whole:.2f} | 1 |")
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"| {name} | {middle:.2f} | 1/{whole / middle:.1f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
