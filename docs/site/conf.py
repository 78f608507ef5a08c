"""Sphinx's settings. `build.py` stages the pages and calls Sphinx with this folder as the configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import clew
from clew.explore.model import actions, invariants, world
from docs.site.mermaid import drawing_of

project = "Clew"
author = "The Clew authors"
copyright = "the Clew authors. Apache License 2.0"
version = release = clew.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns: list[str] = []
suppress_warnings: list[str] = []

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"

# Docstrings: `name` links to what it names, if the site has it; otherwise it is code.
default_role = "py:obj"
actions.World = invariants.World = world.World  # their annotations name it
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_use_legacy_class_based = False
toc_object_entries = False  # the headings are enough
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 90

# Look
html_theme = "furo"
html_title = "Clew"
html_static_path = ["static"]
html_css_files = ["clew.css", "drawings.css"]
html_favicon = "static/mark.svg"
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_permalinks_icon = "#"
_FONTS = {
    "font-stack": 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
    "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
}
html_theme_options = {
    "light_logo": "mark.svg",
    "dark_logo": "mark-dark.svg",
    "navigation_with_keys": False,
    "light_css_variables": {
        **_FONTS,
        "color-brand-primary": "#6d28d9",
        "color-brand-content": "#6d28d9",
        "color-brand-visited": "#6d28d9",
        "color-sidebar-link-text": "#475063",
        "color-sidebar-link-text--top-level": "#475063",
        "color-foreground-primary": "#14181f",
        "color-foreground-secondary": "#475063",
        "color-foreground-muted": "#5f6a7d",
        "color-foreground-border": "#7d8899",
        "color-background-primary": "#ffffff",
        "color-background-secondary": "#f6f7f9",
        "color-background-hover": "#f0f2f5",
        "color-background-border": "#dde1e8",
        "color-inline-code-background": "#f0f2f5",
        "color-code-background": "#f6f7f9",
        "color-code-foreground": "#14181f",
    },
    "dark_css_variables": {
        **_FONTS,
        "color-brand-primary": "#c4a7ff",
        "color-brand-content": "#c4a7ff",
        "color-brand-visited": "#c4a7ff",
        "color-sidebar-link-text": "#b3bccb",
        "color-sidebar-link-text--top-level": "#b3bccb",
        "color-foreground-primary": "#e8ecf3",
        "color-foreground-secondary": "#b3bccb",
        "color-foreground-muted": "#8f9aab",
        "color-foreground-border": "#6c788a",
        "color-background-primary": "#14181f",
        "color-background-secondary": "#0d1015",
        "color-background-hover": "#1b212b",
        "color-background-border": "#272e3a",
        "color-inline-code-background": "#1b212b",
        "color-code-background": "#0f1319",
        "color-code-foreground": "#e8ecf3",
    },
}


def setup(app: Any) -> dict[str, bool]:
    """Register the drawing of Mermaid blocks, and the pages that use the whole width."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class Mermaid(Directive):
        has_content = True

        def run(self) -> list[nodes.Node]:
            drawing = without_style(drawing_of("\n".join(self.content)))
            return [nodes.raw("", f'<div class="drawing">{drawing}</div>', format="html")]

    app.add_directive("mermaid", Mermaid)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("html-page-context", _use_the_width, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _shorten(
    app: Any, what: str, name: str, value: Any, options: Any, text: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Show the last part of a dotted name that autodoc could not turn into a link."""
    if text is None or "~" not in text:
        return None
    return re.sub(r"~[\w.]+\.(\w+)", r"\1", text), returns


def without_style(drawing: str) -> str:
    """Return an SVG without its style sheet: ``drawings.css`` follows the theme switch of the site."""
    before, _, rest = drawing.partition("<style>")
    return before + rest.partition("</style>")[2]


def _use_the_width(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if page == "index" or page == "recipes/index" or page == "patterns" or page.startswith("compare/"):
        context["furo_hide_toc"] = True
