"""Hashes that tell whether a graph, or the code of its nodes, has changed: `hashes` is what others use.

``code_hashes`` follows what a function names, as far as its own package reaches (``own_code``).
"""
