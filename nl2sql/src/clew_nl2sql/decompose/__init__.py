"""The decomposer that needs no model: which words of a question belong to which source."""

from __future__ import annotations

from clew_nl2sql.decompose.decomposer import LinkingDecomposer

__all__ = ["LinkingDecomposer"]
