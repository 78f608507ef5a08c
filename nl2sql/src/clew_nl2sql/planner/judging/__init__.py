"""What a candidate may not do, and what the user must know: contradictions, unread words, ambiguities."""

from __future__ import annotations
