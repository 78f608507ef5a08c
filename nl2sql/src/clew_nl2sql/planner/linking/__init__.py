"""What the words of a question may mean in the schema: tables, columns, values, and predicates."""

from __future__ import annotations
