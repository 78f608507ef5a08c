"""A join of branches of length one and three: it runs once, when both have arrived.

The readability of a text (Flesch reading ease) needs its sentences, one node away from the text, and its syllables,
three nodes away. `reading_ease` reads both. It does not run twice, first for the sentences and then for the
syllables: a node runs when everything upstream of it has finished.
"""

import re

from clew import Graph


def sentences(text: str) -> list[str]:
    """Count the sentences: the short branch."""
    return [part.strip() for part in re.split(r"[.!?]+", text) if part.strip()]


def words(text: str) -> list[str]:
    """Split the text: the first node of the long branch."""
    return re.findall(r"[a-z']+", text.lower())


def vowel_groups(words: list[str]) -> dict[str, int]:
    """Count the groups of vowels in each word, without a silent e at the end."""
    return {
        word: len(re.findall(r"[aeiouy]+", re.sub(r"(?<=[^aeiouy])e$", "", word)))
        for word in sorted(set(words))
    }


def syllables(words: list[str], vowel_groups: dict[str, int]) -> int:
    """Sum the syllables; every word has at least one."""
    return sum(max(vowel_groups[word], 1) for word in words)


def reading_ease(sentences: list[str], words: list[str], syllables: int) -> float:
    """Join both branches: 100 is easy to read, 0 is hard."""
    return round(206.835 - 1.015 * len(words) / len(sentences) - 84.6 * syllables / len(words), 1)


graph = Graph([sentences, words, vowel_groups, syllables, reading_ease], name="readability")
values = {
    "text": "Theseus took the thread. He tied one end to the door and walked into the labyrinth. "
    "Nobody who had gone in before him had ever come out again!"
}

if __name__ == "__main__":
    result = graph.run(values)
    print(
        f"{len(result['words'])} words, {len(result['sentences'])} sentences, {result['syllables']} syllables"
    )
    print(f"reading ease {result['reading_ease']}")
    print(f"the join ran {result.state.visits['reading_ease']} time in {result.last_step} steps")
