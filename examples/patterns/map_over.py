"""`map_over`: run one graph for each element; lists go in, and lists come out.

`measure` compares two words: their edit distance, and their similarity. Mapped over both inputs in the ``product``
mode, it compares each word of one list with each word of the other, concurrently and in a fixed order. The outer graph
selects the best. The mapped graph is unchanged, and can be tested with two words.
"""

from clew import Graph, node


@node(output="distance")
def edit_distance(word: str, known: str) -> int:
    """Return the Levenshtein distance: insertions, deletions and replacements."""
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
    """Return the most similar known words for each word."""
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
