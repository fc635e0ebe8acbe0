"""Equations as MathML, which browsers draw themselves: no script and no font is loaded for them."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def converted(self: HTML5Translator, node: nodes.Element, *, as_block: bool) -> str:
    """The equation as MathML; where that fails, a warning and the LaTeX as it is."""
    try:
        found = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("%s in %r", error, node.astext(), location=node)
        return f"<code>{self.encode(node.astext())}</code>"
    # As in LaTeX, a bar is only as high as it was asked to be.
    return re.sub(r'<mo( class="\w+")?>‖</mo>', '<mo stretchy="false">‖</mo>', found)


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write an equation within a line."""
    self.body.append(converted(self, node, as_block=False))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation that stands alone."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(converted(self, node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer to `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
