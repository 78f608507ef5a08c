"""The pages that come from docstrings: one for each module whose names users import."""

from __future__ import annotations

import importlib
import inspect

MODULES = {  # module: what it has
    "clew": "Graphs, nodes, the engine, results and stores. Everything that most programs import",
    "clew.errors": "All errors. Each one says what happened, where, and what to do",
    "clew.explore": "Explore what a system can do, and check a workflow under every schedule and fault",
    "clew.explore.systems": "Systems that an exploration can roll back",
    "clew.incremental": "Dependency graphs: values that are computed on demand",
    "clew.stores": "Where runs are stored, and what a store of your own has to do",
    "clew.testing": "Test tools: a virtual clock, completion in any order, the conformance suite for stores",
}


def api_pages() -> dict[str, str]:
    """Return the text of each page by its path."""
    pages: dict[str, str] = {}
    known: dict[int, str] = {}  # by identity: the module whose page has it
    for name in MODULES:
        pages[f"reference/api/{name}.md"] = _page(name, known)
    rows = "\n".join(f"| [{name}](api/{name}.md) | {what} |" for name, what in MODULES.items())
    tree = "\n".join(f"api/{name}" for name in MODULES)
    pages["reference/api.md"] = (
        "# API from docstrings\n\nThese pages are made from the docstrings of the code. The other pages of the "
        f"reference explain the same names with rules and examples.\n\n| module | what it has |\n|---|---|\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )
    return pages


def _page(name: str, known: dict[int, str]) -> str:
    module = importlib.import_module(name)
    parts = [f"# {name}\n\n{MODULES[name]}.\n\n```{{eval-rst}}\n.. module:: {name}\n```\n"]
    for member in _names(module):
        value = getattr(module, member)
        where = known.setdefault(id(value), name)
        if where != name:
            parts.append(f"## {member}\n\nSee [{where}.{member}]({where}.md#{member.lower()}).\n")
            continue
        directive = f".. {_directive(value)}:: {name}.{member}\n{_options(value)}"
        parts.append(f"## {member}\n\n```{{eval-rst}}\n{directive}```\n")
    return "\n".join(parts)


def _names(module: object) -> list[str]:
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    found = []
    for name in names:
        value = getattr(module, name)
        if inspect.ismodule(value) or (not hasattr(module, "__all__") and not _is_own(value, module)):
            continue
        found.append(name)
    return sorted(found, key=str.lower)


def _is_own(value: object, module: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith(getattr(module, "__name__", "?"))


def _directive(value: object) -> str:
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) and not hasattr(value, "func") else "autodata"


def _options(value: object) -> str:
    if not inspect.isclass(value):
        return ""
    return "   :show-inheritance:\n" if issubclass(value, BaseException) else "   :members:\n"
