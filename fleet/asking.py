"""Asks one node or router once, in any form, and answers what came back; never raises."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fleet.completions import nothing_came
from fleet.contract import Completion, FleetError, Outbound
from fleet.dialects import CannotSend, Dialect, Draft, Wish, draft_of
from fleet.hearing import Ear, Enough
from fleet.jsontext import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a prompt goes, what is spoken there, and the key to show (never shown otherwise)."""

    client: Outbound = field(repr=False)
    url: str
    dialect: Dialect
    key: str = field(default="", repr=False)
    timeout_s: float


async def ask(target: Target, wish: Wish, *, enough: Enough | None = None) -> Completion:
    """Answer what came back for one prompt; every fault becomes a completion of status 0.

    ``enough`` may end a stream early; what was heard so far is then no answer.
    """
    try:
        draft = draft_of(target.dialect, wish)
    except CannotSend as reason:
        return nothing_came(clean_text(str(reason)), 0.0)
    return await send(target, draft, Ear(is_streamed=wish.form.is_streamed, enough=enough))


async def send(target: Target, draft: Draft, ear: Ear) -> Completion:
    """Answer what came back for a request that is written already; ``ear`` knows it too."""
    fault = ""
    started = time.monotonic()
    try:
        await target.client.post(
            f"{target.url.rstrip('/')}{draft.route}",
            body=draft.body,
            listener=ear,
            key=target.key,
            request_id=draft.request_id,
            timeout_s=target.timeout_s,
        )
    except FleetError as error:
        fault = str(error)
    return ear.completion(seconds=time.monotonic() - started, fault=fault)
