"""Turns: the runs of a thread, in the order of the calls."""
