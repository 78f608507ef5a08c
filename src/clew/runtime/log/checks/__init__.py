"""Checks of a log, and of a graph against the log of its run."""
