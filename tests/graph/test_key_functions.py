"""What a key function may take: checked when the graph is built, given when the node asks for its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from clew import Context, Graph, NodePolicy, node
from clew.errors import GraphError


def keyed(key: Any, **values: Any) -> Any:
    @node(output="key", idempotency_key=key)
    def ask(prompt: str, ctx: Context, size: int = 3) -> str:
        return ctx.idempotency_key

    return Graph([ask]).run({"prompt": "p", **values})["key"]


def test_an_unknown_parameter_is_refused_when_the_graph_is_built() -> None:
    @node(output="reply", idempotency_key=lambda promt: promt)
    def ask(prompt: str) -> str:
        return prompt

    with pytest.raises(GraphError, match=r"'promt'.*'prompt'"):
        Graph([ask])


def test_a_policy_is_checked_too() -> None:
    @node(output="reply", policy=NodePolicy(idempotency_key_func=lambda promt: promt))
    def ask(prompt: str) -> str:
        return prompt

    with pytest.raises(GraphError, match="'promt'"):
        Graph([ask])


def test_the_context_is_no_input() -> None:
    @node(output="reply", idempotency_key=lambda ctx: ctx.run_id)
    def ask(prompt: str, ctx: Context) -> str:
        return prompt

    with pytest.raises(GraphError, match="'ctx'"):
        Graph([ask])


def test_a_function_without_a_signature_is_refused() -> None:
    @node(output="reply", idempotency_key=str)
    def ask(prompt: str) -> str:
        return prompt

    with pytest.raises(GraphError, match="parameters"):
        Graph([ask])


def test_a_key_takes_values_by_name_and_by_position_and_all_of_them() -> None:
    def by_position(prompt: str, /, size: int) -> str:
        return f"{prompt}{size}"

    assert keyed(lambda size, prompt: f"{prompt}{size}") == "p3"
    assert keyed(by_position, size=4) == "p4"
    assert keyed(lambda **values: str(sorted(values.items()))) == "[('prompt', 'p'), ('size', 3)]"
    assert keyed(lambda prompt, *rest: f"{prompt}{rest}") == "p()"


def test_a_key_that_would_receive_nothing_is_rejected() -> None:
    with pytest.raises(GraphError):
        keyed(lambda *values: "k")

    @node(output="key", idempotency_key=lambda **values: "k")
    def ask(ctx: Context) -> str:
        return ctx.idempotency_key

    with pytest.raises(GraphError):
        Graph([ask])


def test_a_parameter_with_a_default_may_have_any_name() -> None:
    prefix = "ask"
    assert keyed(lambda prompt, prefix=prefix: f"{prefix}:{prompt}") == "ask:p"
    assert keyed(lambda prompt, size=9: f"{prompt}{size}") == "p3"


def test_a_renamed_input_keeps_the_name_of_the_parameter() -> None:
    @node(output="key", idempotency_key=lambda prompt: prompt)
    def ask(prompt: str, ctx: Context) -> str:
        return ctx.idempotency_key

    assert Graph([ask.rename(inputs={"prompt": "question"})]).run(question="q")["key"] == "q"


def test_a_key_takes_the_whole_state() -> None:
    assert keyed(lambda state: f"{state['prompt']}!") == "p!"
    assert keyed(lambda state, prompt: f"{state['prompt']}{prompt}") == "pp"


@dataclass
class Talk:
    user: str
    prompt: str = ""
    key: str = ""


def test_the_state_is_an_instance_of_the_schema() -> None:
    @node(output="key", idempotency_key=lambda state: f"{state.user}:{state.prompt}")
    def ask(prompt: str, ctx: Context) -> str:
        return ctx.idempotency_key

    @node(output="key", idempotency_key=lambda talk: talk.user)
    def ask_all(talk: Talk, ctx: Context) -> str:
        return ctx.idempotency_key

    given = {"user": "ann", "prompt": "p"}
    assert Graph([ask], state=Talk).run(given)["key"] == "ann:p"
    assert Graph([ask_all], state=Talk).run(given)["key"] == "ann"
