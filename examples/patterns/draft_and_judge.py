"""Draft, judge, decide: the loop of most agents.

A summary must not exceed a limit. `draft` selects the most important sentences, `judge` measures the result, and the
gate sends the draft back with one sentence less until it is short enough. The gate reads what the judge wrote, so it
never combines a new draft with an old verdict.
"""

import re
from collections import Counter

from clew import END, Graph, ifelse, node


@node(output="draft")
def shorten(article: str, keep: int) -> str:
    """Return the `keep` most important sentences, in their original order."""
    sentences = re.findall(r"[^.]+\.", article)
    weight = Counter(word for word in re.findall(r"[a-z]+", article.lower()) if len(word) > 3)

    def worth(sentence: str) -> float:
        found = [weight[word] for word in re.findall(r"[a-z]+", sentence.lower())]
        return sum(found) / len(found)

    best = sorted(sentences, key=worth, reverse=True)[:keep]
    return "".join(sentence for sentence in sentences if sentence in best).strip()


@node(output="excess")
def judge(draft: str, limit: int) -> int:
    """Return the number of excess characters."""
    return max(0, len(draft) - limit)


@ifelse(when_true="cut", when_false=END)
def too_long(excess: int) -> bool:
    return excess > 0


@node(output="keep")
def cut(keep: int) -> int:
    """Keep one sentence less in the next draft."""
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
