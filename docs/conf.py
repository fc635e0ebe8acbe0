"""How the site is built: `make docs`, into docs/_build/html.

Pages are the Markdown files of this folder and those below it, read by MyST; each has its line in a
toctree. Tutorials are the scripts ``tutorials/*.py``: Sphinx-Gallery runs every one of them and
makes a page of its text, its output and its figures, with the title of its docstring, in the order
of extensions/tutorial_order.py. A script whose library or device is absent says so and ends
normally; what it writes goes into a temporary folder. All of them together must take less than a
minute and a half on two cores.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

import inventories

import omcal

project = "omcal"
author = "The omcal developers"
copyright = author
version = release = omcal.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # Ours.
    "linked_names",
    "mathml",
    "repository_links",
]
exclude_patterns = ["_build", "tutorials"]
nitpicky = True

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
smartquotes = False  # options begin with two hyphens, and quotes are copied into programs
html_math_renderer = "mathml"

# The reference, from docstrings
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # words of types that are not these:
numpydoc_xref_aliases = {
    # Everybody knows these.
    **{word: word for word in ("None", "int", "float", "bool", "boolean", "str", "list", "dict")},
    **{word: word for word in ("tuple", "callable", "iterable", "sequence", "array-like")},
    "array": "numpy.ndarray",
    "arrays": "numpy.ndarray",
    "RandomState": "numpy.random.RandomState",
    "Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
    "AnnData": "anndata.AnnData",
    "MuData": "mudata.MuData",
    "OMCAL": "omcal.OMCAL",
    "OCAL": "omcal.OCAL",
    "Consensus": "omcal.Consensus",
    "MultiViewData": "omcal.datasets.MultiViewData",
    "ClusterNumber": "omcal.select.ClusterNumber",
    "Trial": "omcal.select.Trial",
    "Comparison": "omcal.experiments.Comparison",
    "ViewExplanation": "omcal.model.view_effects.ViewExplanation",
    "ViewEffect": "omcal.model.view_effects.ViewEffect",
    "ClusterDescription": "omcal.model.feature_effects.ClusterDescription",
    "FeatureEffect": "omcal.model.feature_effects.FeatureEffect",
    "pathlib.Path": "pathlib.Path",
    "pandas.DataFrame": "pandas.DataFrame",
    "distributed.Client": "distributed.Client",
}
default_role = "literal"

# Other projects, as far as they are named here: no network is needed.
intersphinx_mapping = inventories.write(HERE / "inventories", HERE / "_build" / "inventories")

# Tutorials
sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "auto_tutorials",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "tutorial_order.ReadingOrder",
    "doc_module": ("omcal",),
    "reference_url": {"omcal": None},
    "backreferences_dir": "api/generated/backreferences",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "parallel": True,  # as many at a time as -j says
    "write_computation_times": False,
    "capture_repr": ("_repr_html_",),  # axes and texts of figures are no output
    "reset_modules": ("matplotlib", "plain_warnings.reset"),
    "junit": "../tutorials.xml",  # with the seconds that each took
}

# Looks
html_theme = "pydata_sphinx_theme"
html_title = f"omcal {release}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["omcal.css"]
html_show_sourcelink = False
html_sidebars = {"mathematics": []}  # alone in its section
html_theme_options = {
    "logo": {"text": "omcal"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


def not_ours(app, what, name, obj, skip, options):
    """Leave out what scikit-learn gives every estimator, but for `fit_predict`."""
    theirs = (getattr(obj, "__module__", None) or "").startswith("sklearn.")
    return True if theirs and name != "fit_predict" else None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", not_ours)
