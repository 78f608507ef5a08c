"""Reports of an exploration: text, HTML, Markdown, JSON, JUnit XML and Graphviz.

All of them take an `ExplorationResult`; none of them uses the world.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clew.errors import DefinitionError

if TYPE_CHECKING:
    from clew.explore.reports.result import ExplorationResult

__all__ = ["check_report_path", "save"]


SUFFIXES = (".json", ".html", ".htm", ".xml", ".md", ".dot")


def check_report_path(path: str | os.PathLike[str], suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise a DefinitionError if a report cannot be written to this path."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise DefinitionError(f"cannot write {path}; the name must end in one of {', '.join(suffixes)}")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise DefinitionError(f"cannot write {path}; {target.parent} is not a writable directory")
    if target.is_dir():
        raise DefinitionError(f"cannot write {path}; it is a directory")


def save(result: ExplorationResult, path: str | os.PathLike[str]) -> None:
    """Write a report in the format that the file extension selects."""
    file = Path(path)
    # file names may contain lone surrogates, which have no encoding; JSON reads the escapes back unchanged
    file.write_bytes(_report(result, file).encode("utf-8", "backslashreplace"))


def _report(result: ExplorationResult, file: Path) -> str:
    extension = file.suffix.lower()
    if extension == ".json":
        return json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n"
    if extension in (".html", ".htm"):
        from clew.explore.reports.html import page

        return page(result)
    if extension == ".xml":
        from clew.explore.reports.junit import junit

        return junit(result)
    if extension == ".md":
        from clew.explore.reports.markdown import markdown

        return markdown(result)
    if extension == ".dot":
        from clew.drawing.formats import dot
        from clew.explore.reports.state_picture import state_picture

        return dot(state_picture(result, complete=True).picture)
    raise DefinitionError(
        f"unknown report format {file.name!r}; use the extension .json, .html, .xml (JUnit), .md or .dot"
    )
