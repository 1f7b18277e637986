"""Turns a whole answer to a prompt into a completion, in every shape that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fleet.answer_fields import Piece, read_piece
from fleet.contract import Completion, Reply
from fleet.error_fields import ABORT, error_in, first_line
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.spoken import Spoken

_OK: Final = 200
#: Headers that tell whether a cache on the way answered, in the engine's stead.
#: Source: LiteLLM, vLLM semantic router, Kong, Portkey, Helicone, Cloudflare, Varnish, nginx.
CACHE_HEADERS: Final = frozenset(
    {"age", "x-cache", "x-cache-hit", "x-cache-hits", "x-cache-key", "x-cache-status"}
    | {"x-cache-lookup", "x-proxy-cache", "x-varnish", "x-semantic-cache", "x-served-from-cache"}
    | {"x-litellm-cache-key", "x-litellm-cache-hit", "x-litellm-semantic-similarity"}
    | {"x-vsr-cache-hit", "x-portkey-cache-status", "helicone-cache", "x-kong-cache-status"}
    | {"cf-cache-status", "cf-aig-cache-status", "cache-status", "x-gateway-cache"}
)
_LONGEST_MARK: Final = 80


def read_completion(reply: Reply) -> Completion:
    """Answer what came back; never raises on any body."""
    text = reply.body.decode("utf-8", errors="replace")
    marks = cache_marks(reply.headers)
    try:
        document = parse_json(reply.body)
    except NotJson as fault:
        said = f"the answer is no JSON ({fault})" if reply.status == _OK else first_line(text)
        return Completion(
            status=reply.status,
            text=text,
            error=said or f"status {reply.status}",
            seconds=reply.seconds,
            cache_marks=marks,
        )
    if reply.status != _OK:
        return Completion(
            status=reply.status,
            text=text,
            error=error_in(document) or f"status {reply.status}",
            seconds=reply.seconds,
            cache_marks=marks,
        )
    return _read_answer(document, reply, marks)


def nothing_came(error: str, seconds: float, *, text: str = "") -> Completion:
    """Answer the completion of a request that brought nothing whole back."""
    return Completion(status=0, error=error, seconds=seconds, text=text)


def cache_marks(headers: Mapping[str, str]) -> dict[str, str]:
    """Answer the headers that tell of caches, clean and short."""
    return {
        name: clean_text(value, longest=_LONGEST_MARK)
        for name, value in headers.items()
        if name in CACHE_HEADERS
    }


def complaint_about(piece: Piece) -> str:
    """Answer what keeps an answer under a 200 from being judged, or nothing."""
    if piece.finish == ABORT:
        return piece.error or "the engine aborted the request"
    if piece.is_error:
        return piece.error
    if not piece.has_answer:
        return "the answer holds no text"
    if piece.prompt_tokens is None:
        return "the answer does not count its prompt tokens"
    return ""


def _read_answer(document: object, reply: Reply, marks: Mapping[str, str]) -> Completion:
    piece = read_piece(document)
    spoken = Spoken()
    spoken.add(document)
    return Completion(
        status=reply.status,
        text=spoken.text,
        prompt_tokens=piece.prompt_tokens,
        completion_tokens=piece.completion_tokens,
        finish=piece.finish,
        error=complaint_about(piece),
        seconds=reply.seconds,
        answer=piece.answer,
        token_ids=piece.token_ids,
        cached_tokens=piece.cached_tokens,
        answer_id=piece.answer_id,
        cache_marks=marks,
        model=piece.model,
        event_status=piece.event_status,
    )
