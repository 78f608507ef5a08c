"""Which modules are a function's own package: the code that its hash follows (``code_hashes``).

- Modules with the same top-level package.
- For a function of a top-level module or a script: the other modules in the same folder, such as ``prompts.py`` next to
  ``flow.py``. A folder of installed libraries is not a package.
- Everything in the same namespace: a notebook, code made by ``exec``.

The standard library and Clew itself belong to no package. Code that is neither own nor installed is *left out*: it is
the user's, and its hash does not cover it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

_INSTALLED = frozenset({"site-packages", "dist-packages"})


class OwnPackage:
    """The package of a function with these globals."""

    def __init__(self, names: Mapping[str, Any] | None) -> None:
        self._names = names
        name = "" if names is None else str(names.get("__name__") or "")
        self._top = _top(name)
        self._folder = None
        if names is not None and self._top and "__path__" not in names and name in (self._top, "__main__"):
            self._folder = _folder_of(names.get("__file__"))

    def has(self, module: Any, names: Mapping[str, Any] | None = None) -> bool:
        """Return whether a module, by its name or its namespace, belongs to the package."""
        if not isinstance(module, str):
            return names is not None and names is self._names
        top = _top(module)
        return bool(top) and (top == self._top or names is self._names or self._is_beside(top))

    def has_imported(self, module: str) -> bool:
        """Return whether a module that is imported inside a function belongs to the package."""
        top = _top(module)
        if top == self._top or not top or self._folder is None:
            return top == self._top != ""
        return self._is_beside(top) or os.path.isfile(os.path.join(self._folder, f"{top}.py"))

    def leaves_out(self, module: Any) -> bool:
        """Return whether a module is the user's code, and not of this package."""
        top = _top(module) if isinstance(module, str) else ""
        return bool(self._top and top) and not self.has(module) and _file_of(top) is not None

    def _is_beside(self, top: str) -> bool:
        if self._folder is None or hasattr(sys.modules.get(top), "__path__"):
            return False
        return _folder_of(_file_of(top)) == self._folder


def _top(module: str) -> str:
    """Return the top-level package of a module; a script that runs as ``__main__`` may be a module of one."""
    top = module.partition(".")[0]
    if top == "__main__":
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        return (_top(spec.name) if spec is not None and spec.name != "__main__" else "") or top
    return "" if top == "clew" or top in sys.stdlib_module_names else top


def _file_of(top: str) -> str | None:
    """Return the file of a top-level module, unless it is installed."""
    file = getattr(sys.modules.get(top), "__file__", None)
    return file if _folder_of(file) is not None else None


def _folder_of(file: Any) -> str | None:
    """Return the folder of a file; None without one, or if it is of installed libraries."""
    if not isinstance(file, str):
        return None
    folder = os.path.dirname(os.path.abspath(file))
    return None if _INSTALLED.intersection(folder.split(os.sep)) else folder
