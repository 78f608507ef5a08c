"""Counterexamples on disk: written once, made again anywhere.

A file says what was checked, what was found, and for each counterexample the choices that lead there. Whoever
replays it brings the same check; the choices are made one by one, and it is an error if one cannot be made.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import DefinitionError

if TYPE_CHECKING:
    from clew.explore.checking.check import CheckResult

FORMAT = 1
ENDINGS = (".json", ".txt", ".html", ".htm", ".xml", ".md", ".dot")


def document(result: CheckResult) -> dict[str, Any]:
    """A result as a tree of JSON."""
    options = result.check._options
    return {
        "clew_check": FORMAT,
        "graph": result.check.graph.name or "",
        "structure": result.check.graph.structure_hash,
        "faults": sorted(options["faults"]),
        "max_faults": options["max_faults"],
        "ok": result.ok,
        "states": result.states,
        "transitions": result.transitions,
        "ends": result.ends,
        "truncated": result.truncated,
        "counterexamples": [
            {
                "invariant": tale.name,
                "message": next((m for name, m in tale.wrong if name == tale.name), ""),
                "choices": list(tale.choices),
                "story": [{"choice": c.choice, "happened": list(c.happened)} for c in tale.chapters],
            }
            for tale in result.tales
        ],
    }


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a file that could not be written, before anything is explored."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise DefinitionError(f"{path} cannot be written: a file of a check ends in {', '.join(ENDINGS)}")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise DefinitionError(
            f"{path} cannot be written: {target.parent} is no folder that can be written to"
        )
    if target.is_dir():
        raise DefinitionError(f"{path} cannot be written: it is a folder")


def save(result: CheckResult, path: str | os.PathLike[str]) -> None:
    """Write a result: .json for replaying, or any report of an exploration by its ending."""
    check_target(path)
    target = Path(path)
    if target.suffix.lower() == ".json":
        target.write_text(json.dumps(document(result), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    elif target.suffix.lower() == ".txt":
        target.write_text(f"{result}\n", encoding="utf-8")
    else:
        result.explored.save(target)


def counterexamples(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The counterexamples of a file."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"{path} cannot be read: {error}; give a file that `clew check --save` wrote"
        ) from error
    if not isinstance(found, dict) or found.get("clew_check") != FORMAT:
        raise DefinitionError(
            f"{path} is no file of counterexamples; give one that `clew check --save` wrote"
        )
    listed = found.get("counterexamples")
    if not isinstance(listed, list) or not all(map(_is_counterexample, listed)):
        raise DefinitionError(f"{path} is damaged: its counterexamples have no invariant and choices")
    return listed


def _is_counterexample(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("invariant"), str)
        and isinstance(found.get("choices"), list)
        and all(isinstance(choice, str) for choice in found["choices"])
    )
