"""Write the counterexamples of a check to a file, and read them back for a replay.

A file describes the check, its result, and for each counterexample the choices that lead to the violation. A replay
needs the same check. It makes the choices one by one, and raises an error if one of them is not possible.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import DefinitionError
from clew.explore.reports import SUFFIXES, check_report_path

if TYPE_CHECKING:
    from clew.explore.checking.check import CheckResult

FORMAT = 2
REPORT_SUFFIXES = (*SUFFIXES, ".txt")


def document(result: CheckResult) -> dict[str, Any]:
    """Return a result as values that JSON can represent."""
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
                "invariant": each.name,
                "message": next((message for name, message in each.violated if name == each.name), ""),
                "choices": list(each.choices),
                "steps": [{"choice": step.choice, "happened": list(step.happened)} for step in each.steps],
            }
            for each in result.narratives
        ],
    }


def save(result: CheckResult, path: str | os.PathLike[str]) -> None:
    """Write a result: counterexamples to a .json file, or the report that the suffix names."""
    check_report_path(path, REPORT_SUFFIXES)
    target = Path(path)
    if target.suffix.lower() == ".json":
        target.write_text(json.dumps(document(result), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    elif target.suffix.lower() == ".txt":
        target.write_text(f"{result}\n", encoding="utf-8")
    else:
        result.explored.save(target)


def counterexamples(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = (
            f"cannot be read: {error.strerror}"
            if isinstance(error, OSError)
            else f"is not valid JSON: {error}"
        )
        raise DefinitionError(
            f"{path} {problem}; use a .json file written by `clew check --report`"
        ) from error
    if not isinstance(found, dict) or "clew_check" not in found:
        raise DefinitionError(
            f"{path} is not a file of counterexamples; use a .json file written by `clew check --report`"
        )
    if found["clew_check"] != FORMAT:
        raise DefinitionError(
            f"{path} has format {found['clew_check']!r}, this version reads format {FORMAT}; run the check again"
        )
    listed = found.get("counterexamples")
    if not isinstance(listed, list) or not all(map(_is_counterexample, listed)):
        raise DefinitionError(
            f"{path} is damaged: a counterexample has no invariant or no choices; run the check again"
        )
    return listed


def _is_counterexample(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("invariant"), str)
        and isinstance(found.get("choices"), list)
        and all(isinstance(choice, str) for choice in found["choices"])
    )
