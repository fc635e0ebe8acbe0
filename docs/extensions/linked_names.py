"""Names such as `omcal.OMCAL` in the text of the pages lead to their place in the reference."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"(omcal(?:\.\w+)+)(?:\(\))?")


class LinkedNames(SphinxTransform):
    """Make references of the literals that are the full name of something of the package."""

    default_priority = 200

    def apply(self, **kwargs: object) -> None:
        """Wrap each such literal; a name without an entry stays a literal."""
        for literal in list(self.document.findall(nodes.literal)):
            name = NAME.fullmatch(literal.astext())
            if name is None or isinstance(literal.parent, pending_xref | nodes.reference):
                continue
            reference = pending_xref(
                "",
                refdomain="py",
                reftype="obj",
                reftarget=name[1],
                refdoc=self.env.docname,
                linked_name=True,
            )
            literal.replace_self(reference)
            reference += literal


def without_entry(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element
) -> nodes.Element | None:
    """A name that the reference does not have stays as it is, without a warning."""
    return shown if node.get("linked_name") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform to all pages."""
    app.add_transform(LinkedNames)
    app.connect("missing-reference", without_entry)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
