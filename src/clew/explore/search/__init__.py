"""The search: strategies, the search loop, its journal and checkpoints, and the shrinking of paths."""
