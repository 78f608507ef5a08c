"""Call nodes: their arguments, their context and their recorded calls."""
