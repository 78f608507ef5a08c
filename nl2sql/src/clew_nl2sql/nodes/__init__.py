"""The nodes, one per file. Objects that a node needs and the state does not hold are bound as `resources`."""

from __future__ import annotations
