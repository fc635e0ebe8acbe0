"""Links of the pages to files that are not pages of the site, or are made into some.

The pages are also read in the repository, so their links are those of its files. Here the documents
at its top and the scripts of the tutorials lead to their pages, other Markdown is a file to
download, and what only the host of the repository has (a comparison of versions) stays as text.
"""

import os
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

PAGES = {"README": "index", "CHANGELOG": "changelog", "CONTRIBUTING": "contributing"}


class RepositoryLinks(SphinxTransform):
    """Turn links that leave docs/ into what they can be on the site."""

    default_priority = 200

    def apply(self, **kwargs: object) -> None:
        """Go through the links that MyST could not find a page for."""
        source = Path(self.env.srcdir)
        for link in list(self.document.findall(pending_xref)):
            target = link["reftarget"]
            if link.get("refdomain") == "doc" and target not in self.env.found_docs:
                path = Path(os.path.normpath(source / f"{target}.md"))
                if path.parent == source.parent and path.stem in PAGES:
                    link["reftarget"] = PAGES[path.stem]
                elif path.is_file():
                    self.replace(link, self.file(path))
            elif link.get("reftype") == "myst" and target == "tutorials":
                self.replace(link, self.page("/auto_tutorials/index"))
            elif link.get("reftype") == "myst" and target.startswith("../../"):
                self.replace(link, nodes.inline())
            elif link.get("reftype") == "myst" and (source.parent / target).is_file():
                # Of a document at the top, which is included in its page.
                self.replace(link, self.file(source.parent / target))
        for link in list(self.document.findall(download_reference)):
            path = Path(link["reftarget"])
            if path.parent.name == "tutorials" and path.suffix == ".py":
                self.replace(link, self.page(f"/auto_tutorials/{path.stem}"))

    def file(self, path: Path) -> download_reference:
        """A link to a file to download."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        return download_reference(
            "", reftarget=os.path.relpath(path, here), refdoc=self.env.docname
        )

    def page(self, name: str) -> pending_xref:
        """A link to a page of the site."""
        return pending_xref(
            "",
            refdoc=self.env.docname,
            refdomain="std",
            reftype="doc",
            reftarget=name,
            refexplicit=True,
            refwarn=True,
        )

    @staticmethod
    def replace(link: nodes.Element, other: nodes.Element) -> None:
        """Put another node around what the link shows."""
        other += link.children
        link.replace_self(other)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform to all pages."""
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
