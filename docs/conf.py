"""Sphinx: `make docs`. Nothing is fetched, neither while building nor by the pages."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")

import docstrings
from kinfolk import __version__
from kinfolk.baselines import METHODS

# The methods to compare with are those that are in the folder: their list is written anew with every build.
names = "".join(f"   {name}\n" for name in METHODS)
listed = f".. currentmodule:: kinfolk.baselines\n.. autosummary::\n   :toctree: api\n   :template: class.rst\n\n{names}"
(Path(__file__).parent / "methods.rst").write_text(listed)

project = "kinfolk"
author = "The kinfolk developers"
copyright = "The kinfolk developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
gallery_files = [f"gallery/**.{ending}" for ending in ("md5", "json", "ipynb", "py")]
exclude_patterns = ["_build", *gallery_files, "README.md", "methods.rst"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = ["api.rst", "methods.rst"]  # a page for every name they list
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": os.environ.get("KINFOLK_GALLERY", "1") == "1",
    "min_reported_time": 1,
    "write_computation_times": False,
}

LEAVES = [page.stem for page in Path(__file__).parent.glob("*.md")]
html_theme = "pydata_sphinx_theme"
html_title = "kinfolk"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["kinfolk.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {page: [] for page in LEAVES}  # nothing below them to list
html_theme_options = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "search_as_you_type": False,
}


def setup(app):
    app.connect("autodoc-process-docstring", docstrings.process, priority=400)  # numpydoc comes at 500
