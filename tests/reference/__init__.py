"""The reference: what a graph does according to the rules, computed step by step by the plainest code
possible.

It shares no code with the engine, so that a mistake would have to be made twice to go unseen.

``model``        graphs and the behaviour of their nodes, as data
``loops``        links, loops, heads, back links, what is upstream of what
``interpreter``  what runs next, and what a step does: ``interpret(graph, given) -> Outcome``
``generate``     random graphs, and ``to_clew``, which builds the real graph from the data
"""
