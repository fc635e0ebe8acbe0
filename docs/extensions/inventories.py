"""Inventories of other projects, kept as text with only the names that are used here.

A file ``inventories/PROJECT.txt`` has the address of a documentation in its first line and then a
line for each name: what it is to Sphinx, and its page below that address, where ``$`` is the name.
"""

import zlib
from pathlib import Path


def write(texts: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Write each as the file that Sphinx reads; returns `intersphinx_mapping`."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for text in sorted(texts.glob("*.txt")):
        address, *lines = text.read_text(encoding="utf-8").splitlines()
        entries = (line.split() for line in lines if line.strip())
        rows = "".join(
            f"{name} {role} 1 {page.replace('$', name)} -\n" for name, role, page in entries
        )
        header = (
            "# Sphinx inventory version 2\n"
            f"# Project: {text.stem}\n# Version: \n"
            "# The remainder of this file is compressed using zlib.\n"
        )
        stored = folder / f"{text.stem}.inv"
        stored.write_bytes(header.encode() + zlib.compress(rows.encode()))
        mapping[text.stem] = (address, str(stored))
    return mapping
