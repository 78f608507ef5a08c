"""The log of a run: its entries, how they are written and read back, and how they are verified."""
