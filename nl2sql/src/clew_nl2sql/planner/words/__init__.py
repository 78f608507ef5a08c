"""The words of a question: tokens, inflection, synonyms, literals, and cues such as "how many"."""

from __future__ import annotations
