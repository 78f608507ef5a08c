"""Which readings of an uncertain question a person is offered."""

from __future__ import annotations
