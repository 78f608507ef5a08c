"""Drawings of graphs: layout, and output as SVG, DOT and Mermaid."""
