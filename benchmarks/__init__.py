"""Clew beside its peers and a hand-written floor, on the same work, in one run: `python -m benchmarks`.

rows        what a row is, its bar, and what came of it
measure     how a row is timed: built outside, interleaved, medians
chain, loop, fanout, uneven, durable, imports, calls
            one idea each: the rows of that workload
places      the files and the server that durable rows are kept in
functions   the plain functions of the chain, shared by all who can take them
contestants one module a contestant, each doing the same work in its own idiom
report      the rows as text, as Markdown and as JSON
"""
