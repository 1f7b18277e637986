"""Ways to send a prompt of exact length: through a router, or to a pair that is out of rotation."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fleet.address import parse_url
from fleet.client import compact_json
from fleet.completions import nothing_came, read_completion
from fleet.contract import BadAnswer, Completion, FleetError, Outbound
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.live import NodeAddress

_OK: Final = 200
_ROOM_BITS: Final = 63
#: How long decode may still answer once prefill has failed or refused. On 0.5.20 and later decode
#: is never told of prefill's refusal and would hold its reservation for 300 s.
DECODE_GRACE_S: Final = 5.0
#: Opens the note on an answer that came from prefill because decode stayed silent.
DECODE_SILENT: Final = "decode did not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSpeaker:
    """Speaks to a deployment the way a customer does; the router picks the pair."""

    client: Outbound
    router_url: str
    model: str = ""
    label: str = "router"

    async def ask(
        self, *, token_ids: Sequence[int], max_new_tokens: int, tenant_key: str, timeout_s: float
    ) -> Completion:
        """Send one prompt, temperature 0, and wait for the whole answer."""
        body = _generate_body(token_ids, max_new_tokens)
        if self.model:
            body["model"] = self.model
        return await _generate(
            self.client, self.router_url, compact_json(body), key=tenant_key, timeout_s=timeout_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpeaker:
    """Speaks to one prefill and one decode node as a router would, with our own bootstrap fields.

    ``node_key`` is what the nodes want; without one the tenant's key is shown to them, which is
    what a router does. What decode says is the answer. Where it says nothing usable and prefill
    refused or failed, prefill's word is, and ``error`` says so; the slower leg is cut off, which
    makes the engine drop it.
    """

    client: Outbound
    prefill: NodeAddress
    decode: NodeAddress
    node_key: str = field(default="", repr=False)
    decode_grace_s: float = DECODE_GRACE_S

    @property
    def label(self) -> str:
        """Answer the name of this way in."""
        return f"pair {self.prefill.name}/{self.decode.name}"

    async def ask(
        self, *, token_ids: Sequence[int], max_new_tokens: int, tenant_key: str, timeout_s: float
    ) -> Completion:
        """Send one prompt to both nodes, temperature 0, and wait for the whole answer."""
        try:
            body = self._body(token_ids, max_new_tokens)
        except FleetError as fault:
            return nothing_came(str(fault), 0.0)
        key = self.node_key or tenant_key
        prefill, decode = (
            asyncio.create_task(
                _generate(self.client, node.url, body, key=key, timeout_s=timeout_s)
            )
            for node in (self.prefill, self.decode)
        )
        try:
            return await self._settle(prefill, decode)
        finally:
            await _cut_off(prefill, decode)

    def _body(self, token_ids: Sequence[int], max_new_tokens: int) -> bytes:
        """Answer the body that both nodes get. Raises AddressRefused."""
        body = _generate_body(token_ids, max_new_tokens)
        body["bootstrap_host"] = parse_url(self.prefill.url).host
        body["bootstrap_port"] = self.prefill.bootstrap_port
        body["bootstrap_room"] = secrets.randbits(_ROOM_BITS)
        return compact_json(body)

    async def _settle(
        self, prefill: asyncio.Task[Completion], decode: asyncio.Task[Completion]
    ) -> Completion:
        started = time.monotonic()
        await asyncio.wait({prefill, decode}, return_when=asyncio.FIRST_COMPLETED)
        if not decode.done() and _is_admitted(prefill.result()):
            await asyncio.wait({decode})
        elif not decode.done():
            await asyncio.wait({decode}, timeout=self.decode_grace_s)
        elif not prefill.done() and _is_failure(decode.result()):
            await asyncio.wait({prefill}, timeout=self.decode_grace_s)
        answer = self._answer_of(prefill, decode)
        return replace(answer, seconds=time.monotonic() - started)

    def _answer_of(
        self, prefill: asyncio.Task[Completion], decode: asyncio.Task[Completion]
    ) -> Completion:
        first = prefill.result() if prefill.done() else None
        last = decode.result() if decode.done() else None
        if last is not None and not _is_failure(last):
            return last
        if last is not None and (first is None or _is_admitted(first)):
            return last
        said = first or nothing_came("nothing came", 0.0)
        silence = "was cut off" if last is None else last.error
        note = f"{DECODE_SILENT} ({self.decode.name}: {silence})"
        return replace(said, error=f"{self.prefill.name}: {said.error.rstrip('.')}; {note}")


async def tokenize(
    client: Outbound, node: NodeAddress, text: str, *, key: str = "", timeout_s: float = 30.0
) -> tuple[int, ...]:
    """Answer the token ids of a text, without special tokens.

    Source: POST /tokenize, SGLang 0.5.5 on. Raises AddressRefused, NodeUnreachable, BadAnswer.
    """
    reply = await client.request(
        "POST",
        f"{node.url.rstrip('/')}/tokenize",
        json={"prompt": text, "add_special_tokens": False},
        key=key,
        timeout_s=timeout_s,
    )
    if reply.status != _OK:
        raise BadAnswer(f"{node.name} answered POST /tokenize with {reply.status}")
    try:
        document = parse_json(reply.body)
    except NotJson as fault:
        raise BadAnswer(f"{node.name} answered POST /tokenize with no JSON ({fault})") from None
    tokens = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(tokens, list) or not all(_is_token(one) for one in tokens):
        raise BadAnswer(f"{node.name} answered POST /tokenize without a list of token ids")
    return tuple(tokens)


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _generate_body(token_ids: Sequence[int], max_new_tokens: int) -> dict[str, object]:
    return {
        "input_ids": list(token_ids),
        "sampling_params": {"max_new_tokens": max_new_tokens, "temperature": 0},
    }


async def _generate(
    client: Outbound, url: str, body: bytes, *, key: str, timeout_s: float
) -> Completion:
    """Answer what POST /generate brought; every fault becomes a completion of status 0."""
    started = time.monotonic()
    try:
        reply = await client.request(
            "POST", f"{url.rstrip('/')}/generate", json=body, key=key, timeout_s=timeout_s
        )
    except FleetError as fault:
        return nothing_came(clean_text(str(fault)), time.monotonic() - started)
    return read_completion(reply)


def _is_admitted(completion: Completion) -> bool:
    """Answer whether a leg took the prompt and finished it."""
    return completion.status == _OK and not completion.is_refused


def _is_failure(completion: Completion) -> bool:
    """Answer whether a leg said nothing of its own on the prompt; 500 tells that no KV came."""
    return not completion.is_answered or completion.status >= 500  # noqa: PLR2004


async def _cut_off(*legs: asyncio.Task[Completion]) -> None:
    """End what is still under way, so that its connection closes and the engine lets go."""
    for leg in legs:
        leg.cancel()
    await asyncio.gather(*legs, return_exceptions=True)
