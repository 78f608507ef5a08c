"""Checks of the finished site: every internal link leads somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("video", "src"),
    ("link", "href"),
}
NOT_LOADED = {"canonical", "index", "search", "next", "prev", "author", "copyright"}  # kinds of <link>
IN_STYLE = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')]+)")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        for kind, name in LOADED:
            is_used = tag == kind and name in found and found.get("rel") not in NOT_LOADED
            if is_used:
                self.loads.append(found[name])


def problems_of(site: Path) -> list[str]:
    """Return a line for each broken link, missing asset and asset of another host."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        page = _Page()
        page.feed(file.read_text("utf-8"))
        pages[file.resolve()] = page
    problems = []
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    problems.append(f"{name}: loads {address} from another host")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                problems.append(f"{name}: {address} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                problems.append(f"{name}: {address} has no such place on the page")
    for file in sorted(site.rglob("*.css")):
        for address in IN_STYLE.findall(file.read_text("utf-8")):
            problems.append(f"{file.relative_to(site)}: loads {address} from another host")
    return problems
