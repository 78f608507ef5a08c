"""The model of an exploration: worlds, systems, actions, invariants, states and the state graph."""

from __future__ import annotations

__all__: list[str] = []
