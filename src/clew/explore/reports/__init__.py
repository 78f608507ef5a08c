"""Reports of an exploration: for terminals, people, programs and continuous integration.

One file a form; all of them take an `ExplorationResult`, and none of them touches the world.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clew.errors import DefinitionError

if TYPE_CHECKING:
    from clew.explore.reports.result import ExplorationResult

__all__ = ["save"]


def save(result: ExplorationResult, path: str | os.PathLike[str]) -> None:
    """Write a report in the form that the name's ending asks for."""
    where = Path(path)
    # names of files may hold what is no text; it is written as an escape, which JSON reads back as what it was
    where.write_bytes(_written(result, where).encode("utf-8", "backslashreplace"))


def _written(result: ExplorationResult, where: Path) -> str:
    form = where.suffix.lower()
    if form == ".json":
        from clew.explore.reports.json_report import document

        return json.dumps(document(result), indent=2, ensure_ascii=False) + "\n"
    if form in (".html", ".htm"):
        from clew.explore.reports.html import page

        return page(result)
    if form == ".xml":
        from clew.explore.reports.junit import junit

        return junit(result)
    if form == ".md":
        from clew.explore.reports.markdown import markdown

        return markdown(result)
    if form == ".dot":
        from clew.explore.reports.dot import dot

        return dot(result)
    raise DefinitionError(
        f"a report named {where.name!r} has no form; end it in .json, .html, .xml (JUnit), .md or .dot"
    )
