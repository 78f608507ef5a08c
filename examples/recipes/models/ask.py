"""Summarize and translate a text with a language model. The responses are part of the run."""

import openai

from clew import Context, Graph, RetryPolicy, node

MODEL = "gpt-5-mini"
client = openai.OpenAI(max_retries=0)  # the node retries, so that a retry is part of the run


def complete(model, messages):
    reply = client.chat.completions.create(model=model, messages=messages)
    return reply.choices[0].message.content


@node(output="summary", retry=RetryPolicy(max_attempts=3, base_delay=2.0))
def summarize(text, ctx: Context):
    prompt = f"Summarize in one sentence: {text}"
    return ctx.record("summary", complete, MODEL, [{"role": "user", "content": prompt}])


@node(output="translation", retry=RetryPolicy(max_attempts=3, base_delay=2.0))
def translate(summary, language, ctx: Context):
    prompt = f"Translate into {language}: {summary}"
    return ctx.record("translation", complete, MODEL, [{"role": "user", "content": prompt}])


graph = Graph([summarize, translate], name="models")
