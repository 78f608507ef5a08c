"""The commands that execute a run, or change what it does."""
