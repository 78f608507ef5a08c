"""The galleries: cards with pictures for recipes and patterns, and the pages that are made from their folders.

- ``<!-- gallery: recipes -->`` and ``<!-- gallery: patterns -->`` on a page are replaced by cards.
- A recipe without a page in ``docs/recipes`` gets one from its README and its files.
- Each pattern gets a page: its docstring, its picture, its code and what it prints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from clew.cli.recipes import Recipe, all_recipes
from docs.site.pages import rewritten

PRINTS = "\n--- prints ---\n\n"
LANGUAGES = {
    ".py": "python",
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".service": "ini",
    "": "docker",
}


def recipe_pages(root: Path, pages: Mapping[str, str]) -> dict[str, str]:
    """Return the pages of the recipes, by their path on the site."""
    made = {}
    for recipe in all_recipes():
        page = f"recipes/{recipe.name}.md"
        file = f"docs/{page}"
        if file in pages:
            text = rewritten((root / file).read_text("utf-8"), file, root, pages)
        else:
            text = (recipe.folder / "README.md").read_text("utf-8") + _files(recipe)
            copied = f"`clew new {recipe.name}` copies this project into a folder."
            text = text.replace("## Run it", f"{copied}\n\n## Run it")
        head, _, rest = text.partition("\n\n")
        made[page] = f"{head}\n\n{drawing(root, 'recipes', recipe.name)}\n\n{rest}"
    return made


def _files(recipe: Recipe) -> str:
    parts = ["\n## The files\n"]
    for name in recipe.files:
        file = recipe.folder / name
        if file.is_file() and name not in ("README.md", ".gitignore", "requirements.txt", "pyproject.toml"):
            parts.append(f"`{name}`:\n\n```{LANGUAGES[file.suffix]}\n{file.read_text('utf-8')}```\n")
    return "\n".join(parts)


def pattern_pages(root: Path) -> dict[str, str]:
    """Return the pages of the patterns, by their path on the site."""
    made = {}
    for name, (title, text) in patterns(root).items():
        code = (root / f"examples/patterns/{name}.py").read_text("utf-8")
        body = code.split('"""', 2)[2].lstrip("\n")  # without the docstring, which is the text of the page
        printed = (root / f"examples/patterns/golden/{name}.txt").read_text("utf-8").partition(PRINTS)[2]
        made[f"patterns/{name}.md"] = (
            f"# {_title(name)}\n\n{title}.\n\n{drawing(root, 'patterns', name)}\n\n{text}\n\n```python\n{body}```\n\n"
            + (f"It prints:\n\n```text\n{printed}```\n" if printed else "")
        )
    return made


def patterns(root: Path) -> dict[str, tuple[str, str]]:
    """Return title and text of each pattern that has a picture."""
    found = {}
    for picture in sorted(root.glob("docs/pictures/patterns/*.svg")):
        module = ast.parse((root / f"examples/patterns/{picture.stem}.py").read_text("utf-8"))
        first, _, rest = (ast.get_docstring(module) or picture.stem).partition("\n")
        found[picture.stem] = first.rstrip("."), re.sub(r"``([^`]+)``", r"`\1`", rest.strip())
    return found


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def gallery(root: Path, kind: str) -> str:
    """Return the cards of a gallery as HTML, and the tree of its pages."""
    if kind == "recipes":
        rows = [
            (each.name, f"{each.name}.html", each.title, each.description, f"clew new {each.name}")
            for each in all_recipes()
        ]
        tree = "\n".join(f"{each.title} <{each.name}>" for each in all_recipes())
    else:
        rows = [
            (name, f"patterns/{name}.html", _title(name), text, "")
            for name, (text, _) in patterns(root).items()
        ]
        tree = "\n".join(f"patterns/{name}" for name, *_ in rows)
    cards = "\n".join(
        f'<a class="card" href="{link}"><span class="picture">{picture(root, kind, name)}</span>'
        f'<span class="words"><span class="card-title">{escape(title)}</span>'
        + (f"<p>{_inline(text)}</p>" if text else "")
        + (f'<span class="command">{escape(command)}</span>' if command else "")
        + "</span></a>"
        for name, link, title, text, command in rows
    )
    return f'<div class="gallery">\n{cards}\n</div>\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n'


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def drawing(root: Path, kind: str, name: str) -> str:
    """Return the picture of a page, as HTML."""
    return f'<div class="drawing">{picture(root, kind, name)}</div>'


def picture(root: Path, kind: str, name: str) -> str:
    """Return an SVG in one line and without its style sheet: that of the site follows its theme switch."""
    text = (root / f"docs/pictures/{kind}/{name}.svg").read_text("utf-8")
    before, _, rest = text.partition("<style>")
    return " ".join((before + rest.partition("</style>")[2]).split("\n"))
