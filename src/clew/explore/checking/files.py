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
    from clew.explore.checking.checks import CheckResult

FORMAT = 1


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


def save(result: CheckResult, path: str | os.PathLike[str]) -> None:
    """Write a result: .json for replaying, or any report of an exploration by its ending."""
    target = Path(path)
    if target.suffix == ".json":
        target.write_text(json.dumps(document(result), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    elif target.suffix == ".txt":
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
    return list(found["counterexamples"])
