"""Children: runs that a node starts with `ctx.run`, and what is inside a run, by path."""
