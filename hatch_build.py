"""A hook of the build: the wheel contains the recipes that `clew new` copies, and the demo that `clew demo` shows.

An editable installation does not: both are found in the checkout, and changes are seen at once.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ExamplesHook(BuildHookInterface):
    """Adds ``examples/recipes`` and ``examples/demo`` to the wheel, as ``clew/recipes`` and ``clew/demo``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders, unless the installation is editable."""
        if version != "editable":
            for name in ("recipes", "demo"):
                build_data["force_include"][f"examples/{name}"] = f"clew/{name}"
