"""The panes of one run."""
