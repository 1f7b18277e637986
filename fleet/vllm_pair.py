"""Speaks to a split vLLM pair as its routers do: prefill first, then decode with its reference.

Source: vLLM 0.32.0 with NixlConnector, as run on CPU; vllm-router 0.1.17 does the same.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fleet.asking import Target, ask, send
from fleet.completions import nothing_came
from fleet.contract import PLAIN, Completion, Form, Outbound
from fleet.dialects import DIALECTS, CannotSend, Wish, draft_of
from fleet.hearing import Ear
from fleet.jsontext import NotJson, parse_json
from fleet.live import NodeAddress

_OK: Final = 200
_FIELD: Final = "kv_transfer_params"
#: What a router sends to prefill: compute, keep the pages, and say where they are.
_KEEP_FOR_DECODE: Final[Mapping[str, object]] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmPairSpeaker:
    """Speaks to one prefill and one decode node of vLLM, one after the other.

    ``between`` is awaited between the two and does not count as waiting: a lease may run out in it.
    Where prefill does not admit the prompt, its word is the answer and decode is not asked.
    """

    client: Outbound
    prefill: NodeAddress
    decode: NodeAddress
    node_key: str = field(default="", repr=False)
    model: str = ""
    between: Callable[[], Awaitable[None]] | None = None

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
        key = self.node_key or tenant_key
        first, reference = await self._compute(wish, self._target(self.prefill, key, timeout_s))
        if reference is None:
            return first
        if self.between is not None:
            await self.between()
        left_s = max(timeout_s - first.seconds, 0.0)
        last = await ask(
            self._target(self.decode, key, left_s), replace(wish, extra={_FIELD: reference})
        )
        begun_s = last.first_token_s
        return replace(
            last,
            seconds=first.seconds + last.seconds,
            first_token_s=None if begun_s is None else first.seconds + begun_s,
        )

    def _target(self, node: NodeAddress, key: str, timeout_s: float) -> Target:
        return Target(
            client=self.client,
            url=node.url,
            dialect=DIALECTS["vllm"],
            key=key,
            timeout_s=timeout_s,
        )

    async def _compute(
        self, wish: Wish, target: Target
    ) -> tuple[Completion, Mapping[str, object] | None]:
        """Answer what prefill said, and its reference to the pages where it gave one."""
        asked = replace(
            wish,
            max_new_tokens=1,
            form=replace(wish.form, is_streamed=False, wants_logprobs=False),
            extra={_FIELD: _KEEP_FOR_DECODE},
        )
        started = time.monotonic()
        try:
            draft = draft_of(target.dialect, asked)
        except CannotSend as reason:
            return nothing_came(str(reason), 0.0), None
        ear = Ear()
        came = await send(target, draft, ear)
        name = self.prefill.name
        if came.said_status != _OK or came.is_refused:
            return replace(came, error=f"{name}: {came.error}"), None
        reference = _reference_in(ear.body)
        if reference is not None:
            return came, reference
        why = f"{name} gave no {_FIELD}: it has no connector, and decode could not find the pages"
        return nothing_came(why, time.monotonic() - started, text=came.text), None


def _reference_in(body: bytes) -> Mapping[str, object] | None:
    try:
        document = parse_json(body)
    except NotJson:
        return None
    reference = document.get(_FIELD) if isinstance(document, dict) else None
    return reference if isinstance(reference, dict) and reference else None
