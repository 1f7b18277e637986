"""What each kind of engine and router takes: routes, token ids, salts; and the body to send.

Source: SGLang 0.5.19, vLLM 0.32.0 and llama.cpp as recorded; sglang-router 0.3.2, smg 1.13.0 and
vllm-router 0.1.17 as run: they write a body anew, and what their schema does not know is lost.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fleet.contract import PLAIN, Api, Form

#: Longest prompt for which vLLM is asked for the ids of the answer: it sends the prompt's as well.
#: Unit: tokens, or characters of a text.
_MOST_SHOWN: Final = 65_536
_ROUTES: Final = {
    Api.GENERATE: "/generate",
    Api.COMPLETIONS: "/v1/completions",
    Api.CHAT: "/v1/chat/completions",
}
_OPENAI: Final = frozenset({Api.COMPLETIONS, Api.CHAT})
_ALL: Final = frozenset(Api)


class CannotSend(Exception):
    """A prompt cannot be sent in this form by this way; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one kind of engine or router takes.

    ``ids`` are the APIs that take token ids, ``salts`` those that hand ``cache_salt`` on.
    ``rid`` names the field of a request id in bodies, by API; the header is sent in any case.
    """

    name: str
    apis: frozenset[Api] = _OPENAI
    ids: frozenset[Api] = frozenset()
    salts: frozenset[Api] = frozenset()
    rid: Mapping[Api, str] = field(default_factory=dict)
    shows_ids: bool = False


_RID: Final = {Api.GENERATE: "rid", Api.COMPLETIONS: "rid", Api.CHAT: "rid"}
_FIRST_TWO: Final = frozenset({Api.GENERATE, Api.COMPLETIONS})

DIALECTS: Final[Mapping[str, Dialect]] = {
    one.name: one
    for one in (
        Dialect(name="sglang", apis=_ALL, ids=_FIRST_TWO, salts=_ALL, rid=_RID),
        Dialect(
            name="sglang-router",
            apis=_ALL,
            ids=frozenset({Api.GENERATE}),
            salts=frozenset({Api.COMPLETIONS}),
            rid={Api.GENERATE: "rid", Api.COMPLETIONS: "rid"},
        ),
        Dialect(name="smg", apis=_ALL, ids=frozenset({Api.GENERATE}), salts=_ALL, rid=_RID),
        Dialect(
            name="vllm",
            ids=frozenset({Api.COMPLETIONS}),
            salts=_OPENAI,
            rid=dict.fromkeys(_OPENAI, "request_id"),
            shows_ids=True,
        ),
        Dialect(
            name="vllm-router",
            ids=frozenset({Api.COMPLETIONS}),
            salts=_OPENAI,
            rid=dict.fromkeys(_OPENAI, "request_id"),
            shows_ids=True,
        ),
        Dialect(name="llamacpp", ids=frozenset({Api.COMPLETIONS})),
        # Anything that speaks as OpenAI does; it may refuse a field that it does not know.
        Dialect(name="gateway"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One prompt and how it is to be asked. ``extra`` are fields of the body that a way adds."""

    token_ids: Sequence[int] = field(repr=False)
    text: str = field(repr=False)
    max_new_tokens: int
    form: Form = PLAIN
    model: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A request as it will be sent: its route, its body, and its id, which no other has."""

    route: str
    body: bytes = field(repr=False)
    request_id: str


def draft_of(dialect: Dialect, wish: Wish) -> Draft:
    """Answer the request for a wish. Raises CannotSend."""
    api, form = wish.form.api, wish.form
    if api not in dialect.apis:
        raise CannotSend(f"{dialect.name} has no {_ROUTES[api]}: ask by another API")
    if form.cache_salt and api not in dialect.salts:
        raise CannotSend(f"{dialect.name} hands no cache_salt on at {_ROUTES[api]}")
    request_id = secrets.token_hex(16)
    body = _generate(dialect, wish) if api is Api.GENERATE else _openai(dialect, wish)
    if api in dialect.rid and form.has_own_id:
        body[dialect.rid[api]] = request_id
    if wish.model:
        body["model"] = wish.model
    if form.cache_salt:
        body["cache_salt"] = form.cache_salt
    if form.is_streamed:
        body["stream"] = True
    return Draft(route=_ROUTES[api], body=_encode({**body, **wish.extra}), request_id=request_id)


def _generate(dialect: Dialect, wish: Wish) -> dict[str, object]:
    prompt = _prompt(dialect, wish)
    body: dict[str, object] = {
        "text" if isinstance(prompt, str) else "input_ids": prompt,
        "sampling_params": {
            "max_new_tokens": wish.max_new_tokens,
            "temperature": wish.form.temperature or 0,
        },
    }
    if wish.form.wants_logprobs:
        body |= {"return_logprob": True, "return_text_in_logprobs": True}
    return body


def _openai(dialect: Dialect, wish: Wish) -> dict[str, object]:
    form, prompt = wish.form, _prompt(dialect, wish)
    is_chat = form.api is Api.CHAT
    body: dict[str, object] = {
        "messages" if is_chat else "prompt": _said_by_user(prompt) if is_chat else prompt,
        "max_tokens": wish.max_new_tokens,
        "temperature": form.temperature or 0,
    }
    if form.is_streamed:
        body["stream_options"] = {"include_usage": True}
    if form.wants_logprobs:
        body |= {"logprobs": True, "top_logprobs": 1} if is_chat else {"logprobs": 1}
    if dialect.shows_ids and len(prompt) <= _MOST_SHOWN:
        body["return_token_ids"] = True
    return body


def _said_by_user(text: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": text}]


def _prompt(dialect: Dialect, wish: Wish) -> Sequence[int] | str:
    """Answer ids where they are taken and given, else the text."""
    api = wish.form.api
    if api in dialect.ids and len(wish.token_ids):
        ids = wish.token_ids
        return ids if isinstance(ids, list | tuple) else tuple(ids)
    if wish.text:
        return wish.text
    if api in dialect.ids:
        raise CannotSend("the prompt is empty")
    raise CannotSend(f"{dialect.name} takes no token ids at {_ROUTES[api]}, and no text was given")


def _encode(body: dict[str, object]) -> bytes:
    """Answer a body as JSON; msgspec takes a seventeenth of what ``json`` takes for a million ids.

    orjson takes twice as long for them (docs/bench.md).
    """
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError):  # Halves of surrogate pairs, which JSON can escape.
        return json.dumps(body, separators=(",", ":")).encode()
