"""Log entries: their kinds, and how they are encoded."""
