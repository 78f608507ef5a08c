"""The nodes, one file each. What a node needs beside the state is bound to the graph as `resources`."""

from __future__ import annotations
