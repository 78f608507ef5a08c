"""Drawings of graphs: layout, and output as SVG, DOT and Mermaid."""

from __future__ import annotations

__all__: list[str] = []
