"""END ends one path; other paths continue.

A text is spell-checked and counted at the same time. If no word is misspelt, the gate decides END, and nothing is
corrected. The statistics, two nodes long, do not wait for that decision and are not affected.
"""

import re
from difflib import get_close_matches

from clew import END, Graph, ifelse, node

LOGBOOK = "after a long night in the storm the captain and their crew found a calm harbour and began to sail"
DICTIONARY = sorted(set(LOGBOOK.split()))


@node(output="misspelt")
def check(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]+", text.lower()) if word not in DICTIONARY]


@ifelse(when_true="correct", when_false=END)
def any_wrong(misspelt: list[str]) -> bool:
    return bool(misspelt)


@node(output="corrected")
def correct(text: str, misspelt: list[str]) -> str:
    for word in misspelt:
        near = get_close_matches(word, DICTIONARY, n=1)
        text = text.replace(word, near[0] if near else f"[{word}?]")
    return text


@node(output="lengths")
def measure(text: str) -> dict[int, int]:
    """Count the words of each length."""
    lengths = [len(word) for word in re.findall(r"[a-z]+", text.lower())]
    return {length: lengths.count(length) for length in sorted(set(lengths))}


@node(output="average")
def average_length(lengths: dict[int, int]) -> float:
    return round(sum(n * count for n, count in lengths.items()) / sum(lengths.values()), 2)


graph = Graph([check, any_wrong, correct, measure, average_length], name="proofread")
values = {"text": "After the storm the crew found the harbour"}

if __name__ == "__main__":
    for text in (values["text"], "After the strom the captian began to sale"):
        result = graph.run(text=text)
        print(
            f"{text!r}: corrected {result.get('corrected', 'nothing')!r}, average length {result['average']}"
        )
        print(
            f"    a gate decided END: {result.state.terminated}; never ran: {', '.join(result.never_ran) or 'none'}"
        )
