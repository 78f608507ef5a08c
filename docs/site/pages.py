"""Which pages the site has, and where their links lead.

- Each Markdown file of ``docs`` is a page. So are a few files outside of it (`OUTSIDE`).
- A link is written as it works in the repository. If its target is a page of the site, the link is rewritten to it.
  Any other file or folder of the repository has no address on the site, so its link becomes plain text.
- A link whose target does not exist is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

OUTSIDE = {  # file of the repository: page of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "nl2sql/README.md": "nl2sql.md",
}
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)"
)


class BrokenLink(Exception):
    """A link of a page leads to a file that does not exist."""


def page_of(file: str, pages: Mapping[str, str]) -> str | None:
    """Return the page of a file or folder of the repository: ``docs/how-to/ask.md`` is ``how-to/ask.md``."""
    return pages.get(file) or pages.get(f"{file}/README.md")


def pages_of(root: Path) -> dict[str, str]:
    """Return the page of each file that is one, by its path in the repository."""
    found = {}
    for file in sorted(root.glob("docs/**/*.md")):
        name = file.relative_to(root).as_posix()
        found[name] = name.removeprefix("docs/")
    for folder in sorted(root.glob("examples/recipes/*/README.md")):
        name = folder.relative_to(root).as_posix()
        found[name] = f"recipes/{folder.parent.name}.md"
    for file in sorted(root.glob("docs/pictures/patterns/*.svg")):
        found[f"examples/patterns/{file.stem}.py"] = f"patterns/{file.stem}.md"
    return found | OUTSIDE


def navigation(text: str) -> str:
    """Return the tree of pages for Sphinx: the sections of ``contents.md`` and the pages that they link to, in order.

    The pages have no front matter and no directives for it, so they read well everywhere.
    """
    parts = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        caption, _, body = section.partition("\n")
        names = [link["target"].removesuffix(".md") for link in LINK.finditer(body)]
        entries = "\n".join(dict.fromkeys(names))
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "\n" + "\n".join(parts)


def subpages(text: str) -> str:
    """Return the tree of the pages in the same folder that an index page links to."""
    names = [link["target"].removesuffix(".md") for link in LINK.finditer(text) if "/" not in link["target"]]
    entries = "\n".join(dict.fromkeys(names))
    return f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def rewritten(text: str, file: str, root: Path, pages: Mapping[str, str], page: str | None = None) -> str:
    """Return the text of a file with the links that the site needs; code blocks are left alone.

    `page` is where the text is shown, if that is not the page of the file.
    """
    shown = PurePosixPath(page or pages[file])
    lines, fence = [], ""
    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            line = LINK.sub(lambda link: _link(link, file, shown, root, pages), line)
        lines.append(line)
    return "".join(lines)


def _link(link: re.Match[str], file: str, shown: PurePosixPath, root: Path, pages: Mapping[str, str]) -> str:
    target, text = link["target"], link["text"]
    if not target or re.match(r"\w+:", target):
        return link[0]
    found = os.path.normpath(PurePosixPath(file).parent / target).replace(os.sep, "/")
    if not (root / found).exists():
        raise BrokenLink(f"{file}: {link[0]} leads to {found}, which does not exist")
    if link["image"]:
        return f"![{text}]({_relative(found.removeprefix('docs/'), shown)})"
    page = page_of(found, pages)
    if page is None:
        return text if text.startswith("`") else f"`{text}`" if text == target else text
    return f"[{text}]({_relative(page, shown)}{link['anchor'] or ''})"


def _relative(target: str, shown: PurePosixPath) -> str:
    return os.path.relpath(target, shown.parent).replace(os.sep, "/")


def write_changed(file: Path, content: str | bytes) -> None:
    """Write a file unless it has this content already, so that Sphinx reads only changed pages again."""
    data = content.encode() if isinstance(content, str) else content
    if not file.is_file() or file.read_bytes() != data:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
