"""Asks a router whether it would serve, by its own word: every role has a healthy worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fleet.contract import RouterAccess, RouterError
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.routers.asking import OK, ask, name_of, refusal

_NOT_READY: Final = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a router would serve. It counts health only: an open breaker does not show in it."""

    is_ready: bool
    text: str


async def readiness_of(router: RouterAccess) -> Readiness:
    """Answer whether a router calls itself ready. Raises RouterError.

    Source: GET /readiness of sglang-router 0.3.2, smg 1.13.0, vllm-router 0.1.17.
    """
    reply = await ask(router, "GET", "/readiness")
    if reply.status not in {OK, _NOT_READY}:
        raise RouterError(refusal(router, "GET /readiness", reply))
    try:
        said = parse_json(reply.body)
    except NotJson:
        said = None
    if not isinstance(said, dict):
        raise RouterError(f"{name_of(router)} answered GET /readiness with no JSON object")
    if reply.status == OK and said.get("status") == "ready":
        return Readiness(is_ready=True, text=f"ready: {_counts(said) or 'it counts no worker'}")
    reason = clean_text(str(said.get("reason") or said.get("status") or "no reason"))
    return Readiness(is_ready=False, text=f"not ready: {reason}")


def _counts(said: dict[str, object]) -> str:
    """Answer the counts that a router shows, in all or by role."""
    if "total_workers" in said:
        return f"{_figure(said.get('healthy_workers'))} of {_figure(said['total_workers'])} healthy"
    roles = [
        f"{_figure(shown.get('healthy'))} of {_figure(shown.get('total'))} {role} healthy"
        for role in ("prefill", "decode")
        if isinstance(shown := said.get(role), dict)
    ]
    return ", ".join(roles)


def _figure(value: object) -> str:
    return str(value) if isinstance(value, int) and abs(value) < 10**9 else "?"
