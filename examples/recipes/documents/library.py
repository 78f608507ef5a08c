from clew import Context, Graph, node

PROMPT = "Answer briefly. Sources: {sources} Question: {question}"
PAGES = {
    "ships": "Ships float because they displace water.",
    "tea": "Tea is best at 80 degrees.",
}


def embed(text):
    """Stand in for an embedding model: the set of words."""
    print("  (embedding)", text[:12])
    return {word.strip(".?").lower() for word in text.split()}


def model(prompt):
    """Stand in for a language model."""
    print("  (asking the model)")
    return prompt.upper()


@node(output="index", cache=True)
def index_pages(pages: dict):
    return {name: sorted(embed(text)) for name, text in pages.items()}


@node(output="sources")
def retrieve(question, index):
    words = embed(question)
    best = max(index, key=lambda name: len(words & set(index[name])))
    return [best]


@node(output="answer")
def answer(question, sources, pages, ctx: Context):
    text = " ".join(pages[name] for name in sources)
    return ctx.record("model", model, PROMPT.format(sources=text, question=question))


graph = Graph([index_pages, retrieve, answer], name="library")
