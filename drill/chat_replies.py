"""The bodies of `/v1/chat/completions`. Source: recorded on 0.5.19, 0.5.22 and 0.5.23."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drill import tokenizer
from drill.node import Node, Ticket
from drill.replies import metadata_of, usage_of
from drill.surface import Surface


def body(node: Node, ticket: Ticket, model: str) -> dict[str, Any]:
    """Answer what the route says of a request that has ended."""
    req = ticket.req
    message: dict[str, Any] = {
        "role": "assistant",
        "content": tokenizer.decode(req.output_ids),
        "reasoning_content": None,
    }
    if Surface(node.settings.version).has_tool_calls_always:
        message["tool_calls"] = None
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": req.finished_reason.kind if req.finished_reason else None,
        "matched_stop": None,
    }
    return {
        **_envelope(ticket, model, "chat.completion"),
        "choices": [choice],
        "usage": usage_of(node, req),
        "metadata": metadata_of(req),
    }


def chunk(
    ticket: Ticket, model: str, delta: Mapping[str, str], finish: str | None
) -> dict[str, Any]:
    """Answer one event of a stream: what is new, or the finish."""
    choice = {
        "index": 0,
        "delta": {"reasoning_content": None, **delta},
        "logprobs": None,
        "finish_reason": finish,
        "matched_stop": None,
    }
    return {**_envelope(ticket, model, "chat.completion.chunk"), "choices": [choice]}


def usage_chunk(node: Node, ticket: Ticket, model: str) -> dict[str, Any]:
    """Answer the last event of a stream when usage was asked for."""
    return {
        **_envelope(ticket, model, "chat.completion.chunk"),
        "choices": [],
        "usage": usage_of(node, ticket.req),
    }


def _envelope(ticket: Ticket, model: str, kind: str) -> dict[str, Any]:
    return {
        "id": ticket.req.rid,
        "object": kind,
        "created": int(ticket.received_at),
        "model": model,
    }
