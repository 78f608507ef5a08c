"""Draft, judge, decide: the loop that most agents are.

A summary has to fit a limit. `draft` keeps the sentences that say most, `judge` measures the outcome, and the gate
sends the draft back with one sentence less until the judge is content. The gate reads what the judge wrote, so it
never decides on half a turn: a new draft beside the old verdict.
"""

import re
from collections import Counter

from clew import END, Graph, ifelse, node


@node(output="draft")
def shorten(article: str, keep: int) -> str:
    """The `keep` sentences with the most telling words, in their old order."""
    sentences = re.findall(r"[^.]+\.", article)
    weight = Counter(word for word in re.findall(r"[a-z]+", article.lower()) if len(word) > 3)

    def worth(sentence: str) -> float:
        found = [weight[word] for word in re.findall(r"[a-z]+", sentence.lower())]
        return sum(found) / len(found)

    best = sorted(sentences, key=worth, reverse=True)[:keep]
    return "".join(sentence for sentence in sentences if sentence in best).strip()


@node(output="excess")
def judge(draft: str, limit: int) -> int:
    """Characters too many."""
    return max(0, len(draft) - limit)


@ifelse(when_true="cut", when_false=END)
def too_long(excess: int) -> bool:
    return excess > 0


@node(output="keep")
def cut(keep: int) -> int:
    """One sentence less for the next draft."""
    return keep - 1


graph = Graph([shorten, judge, too_long, cut], name="summary")
values = {
    "article": "The pump at the north station stopped at four. The pump was old. Water rose in the lower field and "
    "reached the road by five. Crews from two towns came with a spare pump. By seven the water in the field fell. "
    "A new pump for the station is on order.",
    "keep": 5,
    "limit": 120,
}

if __name__ == "__main__":
    result = graph.run(values)
    print(f"{result.state.visits['shorten']} drafts; {len(result['draft'])} characters are left:")
    print(result["draft"])
