"""A while loop: the gate decides first, so the body may not run at all.

Log files are deleted, oldest first, while they exceed their quota. The gate `over_quota` reads only input values, so
it can decide at once. A folder within its quota stays unchanged.
"""

from clew import END, Graph, ifelse, node

File = tuple[str, int]


@ifelse(when_true="drop_oldest", when_false=END)
def over_quota(files: list[File], quota: int) -> bool:
    return sum(size for _, size in files) > quota


@node(output=("files", "dropped"))
def drop_oldest(files: list[File], dropped: list[str]) -> tuple[list[File], list[str]]:
    """Delete the oldest file; names sort by date. The gate guarantees at least one file."""
    oldest = min(files)
    return [file for file in files if file != oldest], [*dropped, oldest[0]]


graph = Graph([over_quota, drop_oldest], name="rotate")
values = {
    "files": [("app-0703.log", 420), ("app-0701.log", 310), ("app-0704.log", 150), ("app-0702.log", 500)],
    "dropped": [],
    "quota": 600,
}

if __name__ == "__main__":
    for quota in (600, 5000):
        result = graph.run({**values, "quota": quota})
        kept = ", ".join(name for name, _ in sorted(result["files"]))
        print(f"quota {quota}: dropped {', '.join(result['dropped']) or 'nothing'}; kept {kept}")
