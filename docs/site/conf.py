"""Sphinx's configuration of the web site. docs/CMakeLists.txt calls it, after Doxygen: `ninja -C build weir_docs`.

Pages stay where they are. `pages.py` copies them into the folder that Sphinx reads, beside pages that it makes from the headers,
the modules of Fortran and the Python package. `weir_site.py` is the extension for links, tabs and names. Nothing is fetched.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import stub  # noqa: E402  stands in for the library, so that the package can be imported

stub.install()

project = "Weir"
author = "the Weir developers"
copyright = author
html_title = "Weir"
extensions = [
    "myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_inline_tabs", "weir_site",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
highlight_language = "none"  # of blocks that name no language: commands and what they print
default_role = "literal"
suppress_warnings = ["misc.highlighting_failure"]  # code that leaves lines out

myst_heading_anchors = 6

breathe_default_project = "weir"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_include = False
breathe_show_enumvalue_initializer = True
breathe_show_define_initializer = True
breathe_default_members = ("members", "undoc-members")

autodoc_mock_imports = ["numpy", "torch"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_css_files = ["dark.css", "site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6fb2", "color-brand-content": "#1f6fb2"},
    "dark_css_variables": {"color-brand-primary": "#6db3f2", "color-brand-content": "#6db3f2"},
}
copybutton_exclude = ".linenos, .gp"
