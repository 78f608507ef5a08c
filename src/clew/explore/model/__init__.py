"""What is explored: worlds, systems, actions, invariants, states and the graph of states."""

from __future__ import annotations

__all__: list[str] = []
