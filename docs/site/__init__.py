"""The documentation site: what `make docs` does.

::

    build.py     the command: stage, draw, run Sphinx strictly, check the result
    pages.py     which pages there are, and where their links lead
    gallery.py   the pages of the recipes and patterns, with their pictures
    api.py       the pages that come from docstrings
    mermaid.py   Mermaid blocks as SVG, so that no script is needed
    checks.py    links and assets of the finished site
    conf.py      Sphinx's settings
    static/      the mark and the style sheet

Sphinx reads a folder that `pages.py` writes, not ``docs`` itself. So the pages in ``docs`` stay plain Markdown that
reads well everywhere, links to files outside ``docs`` work on the site too, and generated pages are not committed.
"""
