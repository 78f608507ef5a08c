"""Logs in a store that keeps objects: the memory store.

Rows and logs consist of the objects themselves, so nothing is encoded, decoded or verified, and runs have no owners.
Repository, reader and writer have the same names and methods as those for encoded logs. `repository_of` and
`reader_of` choose between the two; no other code distinguishes them.
"""
