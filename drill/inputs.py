"""What a client asked of a node, read from the body of a generation route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drill import tokenizer
from drill.limits import context_refusal
from drill.request import Bootstrap

_DEFAULT_COMPLETION_TOKENS = 16
"""Source: the OpenAI completions API, `max_tokens`."""


class BadInput(Exception):
    """A body that a node refuses with 400; the text is the engine's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One generation that a client asked for."""

    input_ids: tuple[int, ...]
    max_new_tokens: int | None
    is_streamed: bool
    rid: str | None
    bootstrap: Bootstrap
    model: str | None = None
    has_usage: bool = False
    salt: str | None = None

    def check_context(self, context: int) -> None:
        """Apply the tokenizer's own rules. Raises BadInput."""
        refusal = context_refusal(len(self.input_ids), self.max_new_tokens, context)
        if refusal is not None:
            raise BadInput(refusal)


def read_generate(body: Mapping[str, Any]) -> Job:
    """Answer the job in a `/generate` body. Raises BadInput."""
    text, ids = body.get("text"), body.get("input_ids")
    if text is None and ids is None:
        raise BadInput("Either text, input_ids or input_embeds should be provided.")
    if text is not None and ids is not None:
        raise BadInput("Only one of text, input_ids and input_embeds may be provided.")
    params = body.get("sampling_params") or {}
    if not isinstance(params, Mapping):
        raise BadInput("sampling_params must be an object.")
    return _job(body, text if ids is None else ids, params.get("max_new_tokens"))


def read_completion(body: Mapping[str, Any]) -> Job:
    """Answer the job in a `/v1/completions` body. Raises BadInput."""
    if "prompt" not in body:
        raise BadInput("1 validation error: prompt: Field required")
    wanted = body.get("max_tokens")
    return _job(body, body["prompt"], _DEFAULT_COMPLETION_TOKENS if wanted is None else wanted)


def read_chat(body: Mapping[str, Any]) -> Job:
    """Answer the job in a `/v1/chat/completions` body. Raises BadInput."""
    if "messages" not in body:
        raise BadInput("1 validation error: messages: Field required")
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    return _job(body, tokenizer.encode_chat(read_messages(body["messages"])), wanted)


def read_messages(messages: object) -> list[tuple[str, str]]:
    """Answer the role and the text of every message. Raises BadInput."""
    if not isinstance(messages, list) or not messages:
        raise BadInput("Messages cannot be empty.")
    return [_message(one) for one in messages]


def _message(message: object) -> tuple[str, str]:
    role = message.get("role") if isinstance(message, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        content = " ".join(_part(part) for part in content)
    if not isinstance(role, str) or not isinstance(content, str | None):
        raise BadInput("1 validation error: messages: a message needs a role and a text")
    return role, content or ""


def _part(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise BadInput("The drill reads text only.")
    return text


def _job(body: Mapping[str, Any], prompt: object, wanted: object) -> Job:
    if wanted is not None and (type(wanted) is not int or wanted < 0):
        raise BadInput(f"max_new_tokens must be at least 0, got {wanted!r}.")
    rid, model = body.get("rid"), body.get("model")
    options = body.get("stream_options")
    return Job(
        input_ids=tuple(_ids(prompt)),
        max_new_tokens=wanted,
        is_streamed=body.get("stream") is True,
        rid=rid if isinstance(rid, str) and rid else None,
        model=model if isinstance(model, str) else None,
        has_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
        bootstrap=_bootstrap(body),
        salt=_salt(body),
    )


def _ids(prompt: object) -> list[int]:
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif isinstance(prompt, list) and all(type(token) is int for token in prompt):
        ids = prompt
    else:
        raise BadInput("The drill answers one prompt a request: a text or a list of token ids.")
    if not ids:
        raise BadInput("input_ids cannot be empty.")
    if tokenizer.first_unknown(ids) is not None:
        raise BadInput(
            "The input_ids contain values outside the vocabulary, whose size is "
            f"{tokenizer.VOCAB_SIZE}."
        )
    return ids


def _salt(body: Mapping[str, Any]) -> str | None:
    """Answer what keeps cached pages apart. Source: SGLang, `cache_salt` before `extra_key`."""
    parts = [body.get(name) for name in ("cache_salt", "extra_key")]
    return "".join(part for part in parts if isinstance(part, str)) or None


def _bootstrap(body: Mapping[str, Any]) -> Bootstrap:
    host, port, room = (body.get(f"bootstrap_{part}") for part in ("host", "port", "room"))
    for name, value in (("port", port), ("room", room)):
        if value is not None and type(value) is not int:
            raise BadInput(f"bootstrap_{name} must be a whole number, got {value!r}.")
    return Bootstrap(host=host if isinstance(host, str) else None, port=port, room=room)
