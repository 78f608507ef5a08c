"""What each piece of a question may do in the query, and the likely choices."""

from __future__ import annotations
