"""Model calls: which recorded calls are calls of a language model, and what their spans say.

The attributes are those of the semantic conventions for generative AI (``gen_ai.*``, status: development). A recorded
call becomes a model call in one of three ways:

- Its response is one of the OpenAI or Anthropic clients, as an object or as a dict of the same shape (`model_dump`).
  The request parameters are read from the keyword arguments of the recorded call.
- It raises an exception of one of these clients, and its keyword arguments are those of a chat: `model` and `messages`.
- The function calls `describe_model_call`, which works for any provider.

Prompts and answers are never part of a span: they may be confidential, and the run has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PARAMETERS = {  # keyword argument of a client: attribute, and its type
    "model": ("gen_ai.request.model", str),
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "top_k": ("gen_ai.request.top_k", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "max_output_tokens": ("gen_ai.request.max_tokens", int),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "seed": ("gen_ai.request.seed", int),
}
_OPENAI = {"chat.completion": "chat", "response": "chat", "text_completion": "text_completion"}


def describe_model_call(
    *,
    provider: str,
    model: str,
    operation: str = "chat",
    response_model: str | None = None,
    response_id: str | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    finish_reasons: list[str] | None = None,
) -> None:
    """Say that the running recorded call is a call of a model; its span gets the attributes of one.

    Without tracing, this does nothing.
    """
    try:
        from opentelemetry.trace import get_current_span
    except ImportError:
        return
    span = get_current_span()
    if span.is_recording():
        described = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.response.model": response_model,
            "gen_ai.response.id": response_id,
            "gen_ai.usage.input_tokens": input_tokens,
            "gen_ai.usage.output_tokens": output_tokens,
            "gen_ai.response.finish_reasons": finish_reasons,
        }
        span.set_attributes({name: value for name, value in described.items() if value is not None})
        span.update_name(f"{operation} {model}")


def attributes_of(parameters: Mapping[str, Any], response: Any) -> dict[str, Any]:
    """Return the attributes of a model call; {} if the response is not one of a model that is known here."""
    found = _of_openai(response) or _of_anthropic(response)
    if not found:
        return {}
    found |= _of_request(parameters)
    found.setdefault("gen_ai.request.model", found["gen_ai.response.model"])
    return found


def attributes_of_failure(parameters: Mapping[str, Any], error: BaseException) -> dict[str, Any]:
    """Return the attributes of a model call that raised; {} if it was none, or that is not known."""
    modules = (cls.__module__.partition(".")[0] for cls in type(error).__mro__)
    provider = next((name for name in modules if name in ("openai", "anthropic")), None)
    found = _of_request(parameters)
    if provider is None or "messages" not in parameters or "gen_ai.request.model" not in found:
        return {}
    return {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, **found}


def _of_request(parameters: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (attribute, kind) in _PARAMETERS.items():
        value = parameters.get(name)
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            try:
                found[attribute] = kind(value)
            except ValueError:
                continue
    return found


def name_of(attributes: Mapping[str, Any]) -> str:
    """Return the name of the span of a model call."""
    return f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}"


def _get(value: Any, name: str) -> Any:
    """Return a field of a dict or of an object; None if it has none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _of_openai(response: Any) -> dict[str, Any]:
    kind, model, usage = _get(response, "object"), _get(response, "model"), _get(response, "usage")
    if not isinstance(kind, str) or not isinstance(model, str) or usage is None:
        return {}
    operation = _OPENAI.get(kind)
    if kind == "list":
        operation = "embeddings" if _get(usage, "prompt_tokens") is not None else None
    if operation is None:
        return {}
    given = [_get(usage, "prompt_tokens"), _get(usage, "input_tokens")]
    made = [_get(usage, "completion_tokens"), _get(usage, "output_tokens")]
    reasons = [_get(choice, "finish_reason") for choice in _get(response, "choices") or ()]
    return _described("openai", operation, model, response, given, made, reasons)


def _of_anthropic(response: Any) -> dict[str, Any]:
    model, usage = _get(response, "model"), _get(response, "usage")
    if _get(response, "type") != "message" or not isinstance(model, str) or usage is None:
        return {}
    given, made = [_get(usage, "input_tokens")], [_get(usage, "output_tokens")]
    return _described("anthropic", "chat", model, response, given, made, [_get(response, "stop_reason")])


def _described(
    provider: str,
    operation: str,
    model: str,
    response: Any,
    given: list[Any],
    made: list[Any],
    reasons: list[Any],
) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.response.model": model,
    }
    if isinstance(identity := _get(response, "id"), str):
        attributes["gen_ai.response.id"] = identity
    for name, counts in (("input", given), ("output", made)):
        for count in counts:
            if isinstance(count, int):
                attributes[f"gen_ai.usage.{name}_tokens"] = count
    if ended := [reason for reason in reasons if isinstance(reason, str)]:
        attributes["gen_ai.response.finish_reasons"] = ended
    return attributes
