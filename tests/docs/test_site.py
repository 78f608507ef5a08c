"""The parts of the documentation site that need no Sphinx: links, Mermaid blocks, galleries, pictures, the last check.

`make docs` builds the site strictly; .ci/run calls it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clew.cli.recipes import all_recipes
from clew.drawing.svg import style_sheet
from docs.pictures.draw import RECIPES, pictures
from docs.site.api import MODULES, api_pages
from docs.site.build import staged_pages
from docs.site.checks import problems_of
from docs.site.gallery import gallery
from docs.site.mermaid import UnknownMermaid, drawing_of
from docs.site.pages import BrokenLink, navigation, pages_of, rewritten

ROOT = Path(__file__).resolve().parents[2]
PAGES = pages_of(ROOT)


def link(text: str, file: str = "docs/how-to/ask.md") -> str:
    return rewritten(text, file, ROOT, PAGES)


def test_a_link_to_a_page_leads_to_it() -> None:
    assert link("[x](deploy.md#with-systemd)") == "[x](deploy.md#with-systemd)"
    assert link("[x](../../CONTRIBUTING.md)") == "[x](../contributing.md)"
    assert link("[x](../../examples/recipes/workers)") == "[x](../recipes/workers.md)"
    assert link("[x](docs/tutorial.md)", "CONTRIBUTING.md") == "[x](tutorial.md)"


def test_a_link_to_another_file_becomes_text() -> None:
    assert link("see [the code](../../examples/shop)") == "see the code"
    assert link("[`x.py`](../../pyproject.toml)") == "`x.py`"


def test_links_that_need_nothing_are_left_alone() -> None:
    for text in ("[x](https://example.org)", "[x](#here)", "```python\nf[a](../../nothing.md)\n```\n"):
        assert link(text) == text


def test_a_link_to_nothing_is_an_error() -> None:
    with pytest.raises(BrokenLink):
        link("[x](../no-such-page.md)")


def test_every_page_of_docs_is_in_the_sidebar() -> None:
    trees = re.findall(r"```\{toctree\}(.*?)```", "".join(staged_pages(ROOT).values()), re.DOTALL)
    lines = [line for each in trees for line in each.splitlines() if line and not line.startswith(":")]
    tree = {re.sub(r".* <(.*)>", r"\1", line) for line in lines}
    pages = {file.relative_to(ROOT / "docs").with_suffix("").as_posix() for file in ROOT.glob("docs/**/*.md")}
    missing = {
        page for page in pages if not any(entry == page or page.endswith(f"/{entry}") for entry in tree)
    }
    assert missing == {"index", "contents"}


def test_the_sidebar_follows_the_contents() -> None:
    made = navigation("# All\n\n## One\n\n| [a](a.md) | [b](how-to/b.md) |\n\n## Two\n\n[c](c.md)\n")
    assert made.count("{toctree}") == 2
    assert ":caption: One\n\na\nhow-to/b\n" in made


def test_a_mermaid_block_is_drawn() -> None:
    drawn = drawing_of(
        'graph TD\n    a["first"] --> b\n    b{"gate"} -->|"yes"| a\n    b -.-> c((("END")))\n'
    )
    for text in (">first<", ">gate<", ">yes<", ">END<", "clew-gate", "clew-line-control"):
        assert text in drawn
    with pytest.raises(UnknownMermaid):
        drawing_of("sequenceDiagram\n    a->>b: hello\n")


def test_drawings_have_a_style_sheet_for_pages_with_a_theme_switch() -> None:
    light, dark = style_sheet()
    assert "prefers-color-scheme" not in light + dark
    for sheet in (light, dark):
        assert ".clew-node{" in sheet
        assert sheet.count("{") == sheet.count("}")


def test_the_pictures_show_the_code() -> None:
    for file, drawing in pictures():
        assert file.read_text("utf-8") == drawing, f"{file.name} is old; run `make pictures`"


def test_every_recipe_and_pattern_is_in_a_gallery() -> None:
    recipes, patterns = gallery(ROOT, "recipes"), gallery(ROOT, "patterns")
    assert {recipe.name for recipe in all_recipes()} == set(RECIPES)
    for recipe in all_recipes():
        assert f"clew new {recipe.name}" in recipes
        assert f"recipes/{recipe.name}.md" in staged_pages(ROOT)
    assert patterns.count('class="card"') == len(list(ROOT.glob("docs/pictures/patterns/*.svg")))
    assert "<style>" not in recipes + patterns


def test_the_api_pages_have_every_public_name() -> None:
    import clew

    pages = api_pages()
    assert {f"reference/api/{name}.md" for name in MODULES} <= set(pages)
    for name in clew.__all__:
        assert f"\n## {name}\n" in pages["reference/api/clew.md"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    links = '<a href="b.html#here">b</a><img src="a.png"><link rel="stylesheet" href="a.css">'
    (tmp_path / "index.html").write_text(links)
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.org">elsewhere</a>')
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "a.css").write_text("p{background:url(data:image/png;base64,AA)}")
    return tmp_path


def test_a_good_site_has_no_problems(site: Path) -> None:
    assert problems_of(site) == []


@pytest.mark.parametrize(
    "file, text",
    [
        ("b.html", '<a href="gone.html">x</a>'),
        ("index.html", '<a href="b.html#gone">x</a>'),
        ("b.html", '<p id="here"><img src="gone.png">'),
        ("b.html", '<p id="here"><script src="https://cdn.example.org/x.js"></script>'),
        ("b.html", '<p id="here"><link rel="stylesheet" href="//fonts.example.org/x.css">'),
        ("a.css", '@import "https://fonts.example.org/x.css";'),
        ("a.css", "p{background:url(https://example.org/x.png)}"),
    ],
)
def test_a_problem_is_found(site: Path, file: str, text: str) -> None:
    (site / file).write_text(text)
    assert problems_of(site)


def test_the_search_ranks_pages_that_exist() -> None:
    ranked = re.findall(r"/\^\(([\w|-]+)\)", (ROOT / "docs/site/search_scorer.js").read_text("utf-8"))
    names = {name for each in ranked for name in each.split("|")}
    known = {part for page in staged_pages(ROOT) for part in (page.removesuffix(".md"), page.split("/")[0])}
    assert len(ranked) == 2
    assert names <= known
