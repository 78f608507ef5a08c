"""Drawings of graphs: layout, and the formats SVG, DOT, Mermaid and text."""

from __future__ import annotations

__all__: list[str] = []
