"""A decomposer without a model: it assigns the words of a question to sources."""

from __future__ import annotations

from clew_nl2sql.decompose.decomposer import LinkingDecomposer

__all__ = ["LinkingDecomposer"]
