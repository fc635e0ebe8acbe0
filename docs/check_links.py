"""Check a built site: every link in it leads to a page and a place that are there.

    python docs/check_links.py docs/_build/html

Scripts, styles and pictures must be in the site too: it is to be read without a network.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page that can be linked to, and what it links to and loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places, self.links, self.loaded = set[str](), list[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the ids and addresses of a tag."""
        found = {name: value for name, value in attrs if value is not None}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") == "stylesheet":
            self.loaded.append(found["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in found:
            self.loaded.append(found["src"])


def faults(root: Path) -> list[str]:
    """What is wrong, a line each."""
    pages = {
        path.resolve(): Page(path)
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts  # holds a template of the theme
    }
    wrong = []
    for path, page in pages.items():
        where = path.relative_to(root.resolve())
        for address in [*page.links, *page.loaded]:
            link = urlsplit(address)
            if link.scheme or link.netloc:
                if address in page.loaded and link.scheme != "data":
                    wrong.append(f"{where} loads {address} from elsewhere")
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            if not target.is_file():
                wrong.append(f"{where} links to {address}, which is not there")
            elif target in pages and unquote(link.fragment) not in {"", *pages[target].places}:
                wrong.append(f"{where} links to {address}: no such place on that page")
    return wrong


def main() -> None:
    """Print what is wrong, and fail where anything is."""
    (root,) = map(Path, sys.argv[1:])
    wrong = faults(root)
    print("\n".join(wrong) or f"Every link in {root} leads somewhere.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
