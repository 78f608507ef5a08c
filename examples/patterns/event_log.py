"""A dependency graph in a file: an event log and views of it. Only what an event changes is computed again.

Photos are described by a slow model, so each is described only once. A new event makes every view potentially
outdated. A pull checks the views that it needs, and stops where a value comes out unchanged. The second part opens
the file as another process would: all results are available, and a changed computor announces itself by its version.
"""

from clew import DependencyGraph, schema

calls: list[str] = []


def kinds(inputs, old, bindings):
    """Count the events of each kind."""
    calls.append("kinds")
    found: dict[str, int] = {}
    for event in inputs[0]:
        found[event["kind"]] = found.get(event["kind"], 0) + 1
    return found


def event(inputs, old, bindings):
    """Return an event by its id."""
    calls.append(f"event {bindings['e']}")
    return next(event for event in inputs[0] if event["id"] == bindings["e"])


def described(inputs, old, bindings):
    """Return the model's description of an event."""
    calls.append(f"described {bindings['e']}")
    return f"{inputs[0]['kind']} of {inputs[0]['of']}"


def page(inputs, old, bindings):
    """Describe an event in the context of all events."""
    calls.append(f"page {bindings['e']}")
    text, counted = inputs
    return f"{bindings['e']}: {text} ({', '.join(f'{n} {kind}' for kind, n in sorted(counted.items()))})"


def schemas(version=1, render=page):
    return [
        schema("kinds", inputs=["events"], computor=kinds),
        schema("event(e)", inputs=["events"], computor=event),
        schema("described(e)", inputs=["event(e)"], computor=described),
        schema("page(e)", inputs=["described(e)", "kinds"], computor=render, version=version),
    ]


def pulled(graph, node):
    """Print the value, and what was computed for it."""
    calls.clear()
    value = graph.pull(node)
    print(f"{value}   [{', '.join(calls) or 'nothing to compute'}]")


if __name__ == "__main__":
    events = [{"id": "e1", "kind": "photo", "of": "a cat"}, {"id": "e2", "kind": "note", "of": "rain"}]
    with DependencyGraph(schemas(), store="events.db") as graph:
        graph.set("events", events)
        pulled(graph, "page(e1)")
        pulled(graph, "page(e1)")
        events.append({"id": "e3", "kind": "photo", "of": "a dog"})
        graph.set("events", events)
        pulled(graph, "page(e1)")
        graph.set("events", [{**event, "seen": True} if event["id"] == "e3" else event for event in events])
        pulled(graph, "page(e1)")
        graph.set("described(e2)", "a note that somebody wrote by hand")
        pulled(graph, "page(e2)")

    def loud(inputs, old, bindings):
        return page(inputs, old, bindings).upper()

    with DependencyGraph(schemas(version=2, render=loud), store="events.db") as graph:
        print(graph.freshness("described(e1)"), graph.freshness("page(e1)"))
        pulled(graph, "page(e1)")
        print(graph.explain("page(e2)").reason)
