"""The name of a module for stored data: the same whether it was imported or started as a script.

``python flow.py`` and ``python -m app`` name their module ``__main__``. In stored data such a name would exclude every
other entry point: a worker that imports ``flow`` has a class ``flow:Order``, and no ``__main__:Order``.

A notebook, a console and ``python -c`` have neither file nor specification, so their module stays ``__main__``.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

_MAIN = ("__main__", "__mp_main__")  # the second is the script in a process that multiprocessing spawned


def stored_module_name(name: str) -> str:
    """Return the name by which other programs import a module."""
    if name not in _MAIN:
        return name
    main = sys.modules.get(name)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in _MAIN:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    stem = os.path.splitext(os.path.basename(file))[0] if isinstance(file, str) else ""
    return stem if stem.isidentifier() else name


def loaded_module(name: str) -> ModuleType | None:
    """Return a loaded module by its name or by its name in stored data. Nothing is imported."""
    found = sys.modules.get(name)
    if found is None:
        found = next((sys.modules.get(main) for main in _MAIN if stored_module_name(main) == name), None)
    return found
