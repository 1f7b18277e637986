"""The bodies that an SGLang node answers with."""

from __future__ import annotations

import time
from typing import Any

from drill import tokenizer
from drill.node import Node, Ticket
from drill.request import Finish, Req
from drill.surface import Surface

_CACHED_NOWHERE = {"device": 0, "host": 0}
STATUS_TYPES = {400: "BadRequestError", 500: "500", 503: "503"}
_STREAM_TYPES = {400: "BAD_REQUEST", 500: "INTERNAL_SERVER_ERROR", 503: "SERVICE_UNAVAILABLE"}


def refusal_of(req: Req) -> Finish | None:
    """Answer the finish that a client sees as an HTTP error, or None."""
    finish = req.finished_reason
    return finish if finish and finish.is_abort and finish.status is not None else None


def generate_error(message: str) -> dict[str, Any]:
    """Answer the 400 of `/generate`."""
    return {"error": {"message": message}}


def flat_error(message: str, status: int) -> dict[str, Any]:
    """Answer the error of the OpenAI routes, and every 5xx."""
    kind = STATUS_TYPES.get(status, str(status))
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}


def stream_error(message: str) -> dict[str, Any]:
    """Answer the event of a streamed `/generate` that the tokenizer refused."""
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "code": 400,
            "retryable": False,
        }
    }


def stream_refusal(finish: Finish) -> dict[str, Any]:
    """Answer the event of a streamed OpenAI route that the scheduler refused."""
    status = finish.status or 500
    return {
        "error": {
            "object": "error",
            "message": finish.message,
            "type": _STREAM_TYPES.get(status, str(status)),
            "param": None,
            "code": status,
        }
    }


def generate_body(node: Node, ticket: Ticket) -> dict[str, Any]:
    """Answer what `/generate` says of a request so far."""
    req = ticket.req
    return {
        "text": tokenizer.decode(req.output_ids),
        "output_ids": list(req.output_ids),
        "meta_info": _meta_info(node, ticket),
    }


def _meta_info(node: Node, ticket: Ticket) -> dict[str, Any]:
    req, now = ticket.req, time.time()
    count = len(req.output_ids)
    finish = req.finished_reason
    meta: dict[str, Any] = {
        "id": req.rid,
        "finish_reason": finish.as_json() if finish else None,
        "prompt_tokens": len(req.input_ids),
        "weight_version": "default",
        "num_retractions": 0,
        "queue_time": 0.0,
        "reasoning_tokens": 0,
        "completion_tokens": count,
        "cached_tokens": req.cached_tokens,
        "cached_tokens_details": _CACHED_NOWHERE | req.cached if req.cached_tokens else None,
        "dp_rank": None,
    }
    if finish is not None:
        latency_s = now - ticket.received_at
        meta["weight_versions"] = [{"version": "default", "start": 0, "end": count}]
        meta["e2e_latency"] = latency_s
        meta["request_received_ts"] = ticket.received_at
        if Surface(node.settings.version).has_first_token_latency:
            meta["first_token_latency"] = latency_s
        meta["request_finished_ts"] = now
        meta["response_sent_to_client_ts"] = now
    return meta


def completion_body(node: Node, ticket: Ticket, model: str) -> dict[str, Any]:
    """Answer what `/v1/completions` says of a request that has ended."""
    req = ticket.req
    finish = req.finished_reason
    return {
        "id": req.rid,
        "object": "text_completion",
        "created": int(ticket.received_at),
        "model": model,
        "choices": [
            {
                "index": 0,
                "text": tokenizer.decode(req.output_ids),
                "logprobs": None,
                "finish_reason": finish.kind if finish else None,
                "matched_stop": None,
            }
        ],
        "usage": usage_of(node, req),
        "metadata": metadata_of(req),
    }


def completion_chunk(ticket: Ticket, model: str, text: str) -> dict[str, Any]:
    """Answer one event of a streamed completion."""
    finish = ticket.req.finished_reason
    return {
        "id": ticket.req.rid,
        "object": "text_completion",
        "created": int(ticket.received_at),
        "model": model,
        "choices": [
            {
                "index": 0,
                "text": text,
                "logprobs": None,
                "finish_reason": finish.kind if finish else None,
                "matched_stop": None,
            }
        ],
        "usage": None,
    }


def completion_usage_chunk(node: Node, ticket: Ticket, model: str) -> dict[str, Any]:
    """Answer the last event of a streamed completion when usage was asked for."""
    usage = usage_of(node, ticket.req)
    del usage["prompt_tokens_details"]
    usage.pop("completion_tokens_details", None)
    return {
        "id": ticket.req.rid,
        "object": "text_completion",
        "created": int(ticket.received_at),
        "model": model,
        "choices": [],
        "usage": usage,
    }


def metadata_of(req: Req) -> dict[str, Any]:
    """Answer the `metadata` of a whole answer."""
    return {
        "weight_version": "default",
        "weight_versions": [{"version": "default", "start": 0, "end": len(req.output_ids)}],
    }


def usage_of(node: Node, req: Req) -> dict[str, Any]:
    """Answer the `usage` of an answer."""
    prompt, completion = len(req.input_ids), len(req.output_ids)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": (
            {"cached_tokens": req.cached_tokens} if node.settings.reports_cached else None
        ),
        "reasoning_tokens": 0,
    }
    if Surface(node.settings.version).has_token_details:
        usage["completion_tokens_details"] = None
    return usage
