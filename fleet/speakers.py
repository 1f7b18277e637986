"""Ways to send a prompt: through a router, to one node, or to a pair that is out of rotation."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fleet.address import parse_url
from fleet.asking import Target, ask, send
from fleet.completions import nothing_came
from fleet.contract import PLAIN, Completion, FleetError, Form, Outbound
from fleet.dialects import DIALECTS, CannotSend, Draft, Wish, draft_of
from fleet.hearing import Ear
from fleet.jsontext import clean_text
from fleet.live import NodeAddress
from fleet.tokenizing import tokenize

__all__ = ["DECODE_SILENT", "NodeSpeaker", "PairSpeaker", "RouterSpeaker", "tokenize"]

_OK: Final = 200
_ROOM_BITS: Final = 63
#: How long decode may still answer once prefill has failed or refused. On 0.5.20 and later decode
#: is never told of prefill's refusal and would hold its reservation for 300 s.
DECODE_GRACE_S: Final = 5.0
#: Opens the note on an answer that came from prefill because decode stayed silent.
DECODE_SILENT: Final = "decode did not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSpeaker:
    """Speaks to a deployment the way a customer does; the router picks the node or the pair.

    ``kind`` names the router, or is ``gateway``; it tells what is taken.
    """

    client: Outbound
    router_url: str
    model: str = ""
    label: str = "router"
    kind: str = "sglang-router"

    async def ask(  # noqa: PLR0913 - keyword-only
        self,
        *,
        token_ids: Sequence[int],
        max_new_tokens: int,
        tenant_key: str,
        timeout_s: float,
        form: Form = PLAIN,
        text: str = "",
    ) -> Completion:
        """Send one prompt, temperature 0, and wait for the whole answer."""
        target = Target(
            client=self.client,
            url=self.router_url,
            dialect=DIALECTS.get(self.kind, DIALECTS["gateway"]),
            key=tenant_key,
            timeout_s=timeout_s,
        )
        wish = Wish(
            token_ids=token_ids,
            text=text,
            max_new_tokens=max_new_tokens,
            form=form,
            model=self.model,
        )
        return await ask(target, wish)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpeaker:
    """Speaks to one node that does all by itself, of any engine.

    ``node_key`` is what the node wants; without one the tenant's key is shown to it.
    """

    client: Outbound
    node: NodeAddress
    model: str = ""
    node_key: str = field(default="", repr=False)

    @property
    def label(self) -> str:
        """Answer the name of this way in."""
        return f"node {self.node.name}"

    async def ask(  # noqa: PLR0913 - keyword-only
        self,
        *,
        token_ids: Sequence[int],
        max_new_tokens: int,
        tenant_key: str,
        timeout_s: float,
        form: Form = PLAIN,
        text: str = "",
    ) -> Completion:
        """Send one prompt, temperature 0, and wait for the whole answer."""
        target = Target(
            client=self.client,
            url=self.node.url,
            dialect=DIALECTS.get(self.node.engine, DIALECTS["gateway"]),
            key=self.node_key or tenant_key,
            timeout_s=timeout_s,
        )
        wish = Wish(
            token_ids=token_ids,
            text=text,
            max_new_tokens=max_new_tokens,
            form=form,
            model=self.model,
        )
        return await ask(target, wish)


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
    model: str = ""

    @property
    def label(self) -> str:
        """Answer the name of this way in."""
        return f"pair {self.prefill.name}/{self.decode.name}"

    async def ask(  # noqa: PLR0913 - keyword-only
        self,
        *,
        token_ids: Sequence[int],
        max_new_tokens: int,
        tenant_key: str,
        timeout_s: float,
        form: Form = PLAIN,
        text: str = "",
    ) -> Completion:
        """Send one prompt to both nodes, temperature 0, and wait for the whole answer."""
        wish = Wish(
            token_ids=token_ids,
            text=text,
            max_new_tokens=max_new_tokens,
            form=form,
            model=self.model,
        )
        try:
            draft = self._draft(wish)
        except (FleetError, CannotSend) as fault:
            return nothing_came(clean_text(str(fault)), 0.0)
        key = self.node_key or tenant_key
        prefill, decode = (
            self._leg(node, draft, key=key, timeout_s=timeout_s, is_streamed=form.is_streamed)
            for node in (self.prefill, self.decode)
        )
        try:
            return await self._settle(prefill, decode)
        finally:
            await _cut_off(prefill, decode)

    def _leg(
        self, node: NodeAddress, draft: Draft, *, key: str, timeout_s: float, is_streamed: bool
    ) -> _Leg:
        target = Target(
            client=self.client,
            url=node.url,
            dialect=DIALECTS["sglang"],
            key=key,
            timeout_s=timeout_s,
        )
        ear = Ear(is_streamed=is_streamed)
        return _Leg(ear=ear, task=asyncio.create_task(send(target, draft, ear)))

    def _draft(self, wish: Wish) -> Draft:
        """Answer the request that both nodes get. Raises AddressRefused, CannotSend."""
        meeting = {
            "bootstrap_host": parse_url(self.prefill.url).host,
            "bootstrap_port": self.prefill.bootstrap_port,
            "bootstrap_room": secrets.randbits(_ROOM_BITS),
        }
        return draft_of(DIALECTS["sglang"], replace(wish, extra=meeting))

    async def _settle(self, prefill: _Leg, decode: _Leg) -> Completion:
        started = time.monotonic()
        legs = {prefill.task, decode.task}
        await asyncio.wait(legs, return_when=asyncio.FIRST_COMPLETED)
        if not decode.task.done() and _is_admitted(prefill.task.result()):
            await asyncio.wait({decode.task})
        elif not decode.task.done():
            await asyncio.wait({decode.task}, timeout=self.decode_grace_s)
        elif not prefill.task.done() and _is_failure(decode.task.result()):
            await asyncio.wait({prefill.task}, timeout=self.decode_grace_s)
        seconds = time.monotonic() - started
        return replace(self._answer_of(prefill, decode.came(seconds)), seconds=seconds)

    def _answer_of(self, prefill: _Leg, last: Completion) -> Completion:
        if not _is_failure(last):
            return last
        first = prefill.task.result() if prefill.task.done() else None
        if first is None or _is_admitted(first):
            return last
        note = f"{DECODE_SILENT} ({self.decode.name}: {last.error})"
        return replace(
            first,
            error=f"{self.prefill.name}: {first.error.rstrip('.')}; {note}",
            # What decode had said before it broke off may quote someone.
            text="\n".join(text for text in (first.text, last.text) if text),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leg:
    """One of two requests under way, and what was heard of it so far."""

    ear: Ear
    task: asyncio.Task[Completion]

    def came(self, seconds: float) -> Completion:
        """Answer what came, or what had come of it where it is not over."""
        if self.task.done():
            return self.task.result()
        return self.ear.completion(seconds=seconds, fault="was cut off")


def _is_admitted(completion: Completion) -> bool:
    """Answer whether a leg took the prompt and finished it."""
    return completion.said_status == _OK and not completion.is_refused


def _is_failure(completion: Completion) -> bool:
    """Answer whether a leg said nothing of its own on the prompt; 500 tells that no KV came."""
    return not completion.is_answered or completion.said_status >= 500  # noqa: PLR2004


async def _cut_off(*legs: _Leg) -> None:
    """End what is still under way, so that its connection closes and the engine lets go."""
    for leg in legs:
        leg.task.cancel()
    await asyncio.gather(*(leg.task for leg in legs), return_exceptions=True)
