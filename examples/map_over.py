"""One graph for one thing, run for many: `map_over` takes lists in and gives lists out.

`measure` compares two words: their edit distance, and from that how alike they are. Mapped over both inputs in the
``product`` mode it compares each of one list with each of another, all at once and in a fixed order; the graph
around picks the best. The graph that is mapped is not changed by it, and can be tested on two words.
"""

from clew import Graph, node


@node(output="distance")
def edit_distance(word: str, known: str) -> int:
    """Levenshtein's: insertions, deletions and exchanges of letters."""
    row = list(range(len(known) + 1))
    for i, letter in enumerate(word, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(known, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]


@node(output="likeness")
def likeness(word: str, known: str, distance: int) -> tuple[str, str, float]:
    return word, known, round(1 - distance / max(len(word), len(known)), 2)


measure = Graph([edit_distance, likeness], name="measure")
measure_all = measure.select("likeness").map_over("word", "known", mode="product", name="measure_all")


@node(output="suggestions")
def suggest(likeness: list[tuple[str, str, float]], least: float = 0.5) -> dict[str, list[str]]:
    """For each word what it may have been meant to be, most alike first."""
    found: dict[str, list[str]] = {word: [] for word, _, _ in likeness}
    for word, known, alike in sorted(likeness, key=lambda entry: (-entry[2], entry[1])):
        if alike >= least:
            found[word].append(known)
    return found


graph = Graph([measure_all, suggest], name="spelling")
values = {"word": ["tread", "wibble"], "known": ["thread", "minotaur", "bread"]}

if __name__ == "__main__":
    print(measure.run(word="clue", known="clew")["likeness"])
    result = graph.run(values)
    print(f"{len(result['likeness'])} comparisons")
    for word, words in result["suggestions"].items():
        print(f"{word}: {', '.join(words) or 'no idea'}")
