"""Docstrings in numpydoc's form, taken apart."""

import inspect
import re


def sections(thing):
    """The sections of a docstring, own or inherited, by their titles; the text before them: ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.M)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def entries(section):
    """What each name of a section is said to be: "a, b : int" names two."""
    found = {}
    names = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            head = re.split(r" ?: |:$", line)[0]
            names = [name.strip().lstrip("*") for name in head.split(",")]
            found |= dict.fromkeys(names, "")
        else:
            for name in names:
                found[name] += line.strip()
    return found
