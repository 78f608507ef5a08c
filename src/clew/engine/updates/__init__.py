"""Updates: read from what functions returned, merged into the state, or rejected."""
