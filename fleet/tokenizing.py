"""Asks a node's own tokenizer: text into token ids, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fleet.contract import BadAnswer, Outbound
from fleet.jsontext import NotJson, parse_json
from fleet.live import NodeAddress

_OK: Final = 200
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """How an engine names what goes in and what comes back."""

    text_in: str
    text_out: str
    specials: str
    is_templated_apart: bool = False


#: Source: SGLang 0.5.5 on (srt/entrypoints/openai/protocol.py), vLLM 0.32.0 and llama.cpp, as run.
_NAMES: Final = {
    "sglang": _Names(text_in="prompt", text_out="text", specials="add_special_tokens"),
    "vllm": _Names(text_in="prompt", text_out="prompt", specials="add_special_tokens"),
    "llamacpp": _Names(
        text_in="content", text_out="content", specials="add_special", is_templated_apart=True
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """One node, the way out to it, and its key (never shown)."""

    client: Outbound = field(repr=False)
    node: NodeAddress
    key: str = field(repr=False)
    timeout_s: float

    async def ask(self, path: str, body: Mapping[str, object]) -> Mapping[str, object]:
        """Answer the object that a route gives, an empty one where it gives another value."""
        name, url = self.node.name, f"{self.node.url.rstrip('/')}{path}"
        reply = await self.client.request(
            "POST", url, json=body, key=self.key, timeout_s=self.timeout_s
        )
        if reply.status != _OK:
            raise BadAnswer(f"{name} answered POST {path} with {reply.status}")
        try:
            document = parse_json(reply.body)
        except NotJson as fault:
            raise BadAnswer(f"{name} answered POST {path} with no JSON ({fault})") from None
        return document if isinstance(document, dict) else {}


async def tokenize(  # noqa: PLR0913 - keyword-only from the fourth on
    client: Outbound,
    node: NodeAddress,
    text: str,
    *,
    has_specials: bool = False,
    key: str = "",
    timeout_s: float = _TIMEOUT_S,
) -> tuple[int, ...]:
    """Answer the token ids of a text, without special tokens unless they are wanted.

    With them it is what the engine makes of a text at /v1/completions. Source: POST /tokenize.
    Raises AddressRefused, NodeUnreachable, BadAnswer.
    """
    names = _names(node)
    asking = _Asking(client=client, node=node, key=key, timeout_s=timeout_s)
    body = {names.text_in: text, names.specials: has_specials}
    return _ids_in(await asking.ask("/tokenize", body), node)


async def chat_length(
    client: Outbound,
    node: NodeAddress,
    text: str,
    *,
    key: str = "",
    timeout_s: float = _TIMEOUT_S,
) -> int:
    """Answer how many tokens a user's message of this text is, the chat template's included.

    Source: POST /tokenize with ``messages`` (SGLang 0.5.19, vLLM 0.32.0), POST /apply-template
    of llama.cpp. Raises AddressRefused, NodeUnreachable, BadAnswer.
    """
    names = _names(node)
    asking = _Asking(client=client, node=node, key=key, timeout_s=timeout_s)
    messages = {"messages": [{"role": "user", "content": text}]}
    if not names.is_templated_apart:
        return len(_ids_in(await asking.ask("/tokenize", messages), node))
    prompt = (await asking.ask("/apply-template", messages)).get("prompt")
    if not isinstance(prompt, str):
        raise BadAnswer(f"{node.name} answered POST /apply-template without a prompt")
    body = {names.text_in: prompt, names.specials: True, "parse_special": True}
    return len(_ids_in(await asking.ask("/tokenize", body), node))


async def detokenize(
    client: Outbound,
    node: NodeAddress,
    token_ids: tuple[int, ...],
    *,
    key: str = "",
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """Answer the text of token ids.

    Source: POST /detokenize. Raises AddressRefused, NodeUnreachable, BadAnswer.
    """
    names = _names(node)
    asking = _Asking(client=client, node=node, key=key, timeout_s=timeout_s)
    text = (await asking.ask("/detokenize", {"tokens": list(token_ids)})).get(names.text_out)
    if not isinstance(text, str):
        raise BadAnswer(f"{node.name} answered POST /detokenize without a text")
    return text


def _names(node: NodeAddress) -> _Names:
    try:
        return _NAMES[node.engine]
    except KeyError:
        raise BadAnswer(
            f"{node.name}: how the engine {node.engine!r} turns text into tokens is not known"
        ) from None


def _ids_in(document: Mapping[str, object], node: NodeAddress) -> tuple[int, ...]:
    tokens = document.get("tokens")
    if not isinstance(tokens, list) or not all(_is_token(one) for one in tokens):
        raise BadAnswer(f"{node.name} answered POST /tokenize without a list of token ids")
    return tuple(tokens)


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
