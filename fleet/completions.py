"""Turns an answer to a prompt into a completion: every shape that engines and routers use.

Source: /generate and its errors of SGLang 0.5.19 to 0.5.23 and sglang-router 0.3.2, as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fleet.contract import Completion, Reply
from fleet.jsontext import NotJson, clean_text, parse_json

_OK: Final = 200
_ABORT: Final = "abort"
_LARGEST_COUNT: Final = 10**12
#: Fields that hold a machine's words, which differ from answer to answer and quote nobody.
_MECHANICAL: Final = frozenset(
    {"id", "rid", "object", "model", "type", "code", "err_type", "param", "version"}
    | {"weight_version", "bootstrap_host", "finish_reason", "matched_stop"}
)
_MOST_VALUES: Final = 100_000


def read_completion(reply: Reply) -> Completion:
    """Answer what came back; never raises on any body."""
    text = reply.body.decode("utf-8", errors="replace")
    try:
        document = parse_json(reply.body)
    except NotJson as fault:
        said = f"the answer is no JSON ({fault})" if reply.status == _OK else _first_line(text)
        return Completion(status=reply.status, text=text, error=said, seconds=reply.seconds)
    if reply.status != _OK:
        return Completion(
            status=reply.status,
            text=text,
            error=_error_in(document) or f"status {reply.status}",
            seconds=reply.seconds,
        )
    return _read_answer(document, reply)


def nothing_came(error: str, seconds: float) -> Completion:
    """Answer the completion of a request that brought nothing back."""
    return Completion(status=0, error=error, seconds=seconds)


def _read_answer(document: object, reply: Reply) -> Completion:
    answer = document if isinstance(document, dict) else {}
    meta = answer.get("meta_info")
    meta = meta if isinstance(meta, dict) else {}
    finish, why = _read_finish(meta.get("finish_reason"))
    spoken = list(_spoken(document))
    return Completion(
        status=reply.status,
        text="\n".join(spoken),
        prompt_tokens=_count(meta.get("prompt_tokens")),
        completion_tokens=_count(meta.get("completion_tokens")),
        finish=finish,
        error=_error_of_answer(answer, meta, finish, why),
        seconds=reply.seconds,
    )


def _error_of_answer(
    answer: Mapping[str, object], meta: Mapping[str, object], finish: str | None, why: str
) -> str:
    if finish == _ABORT:
        return why or "the engine aborted the request"
    if "error" in answer:
        return _error_in(answer) or "the answer holds an error"
    if not isinstance(answer.get("text"), str):
        return "the answer holds no text"
    if _count(meta.get("prompt_tokens")) is None:
        return "the answer does not count its prompt tokens"
    return ""


def _read_finish(value: object) -> tuple[str | None, str]:
    """Answer the finish reason and, where the engine aborted, what it said."""
    if isinstance(value, str):
        return clean_text(value, longest=40), ""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return None, ""
    message = value.get("message")
    why = clean_text(message) if isinstance(message, str) else ""
    return clean_text(value["type"], longest=40), why


def _error_in(document: object) -> str:
    """Answer the message of an error body: flat, nested, or a router's envelope around either."""
    for _ in range(4):
        if isinstance(document, str):
            return _first_line(document)
        if not isinstance(document, dict):
            return ""
        message = document.get("message", document.get("detail"))
        if isinstance(message, str):
            return _first_line(message)
        document = document.get("error")
    return ""


def _spoken(document: object) -> Iterator[str]:
    """Answer every text that can quote someone, the plain answer first."""
    waiting: list[tuple[str, object]] = [("", document)]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        name, value = waiting.pop()
        if isinstance(value, dict):
            inner = [(str(key), held) for key, held in reversed(value.items())]
            # What is pushed last is read first.
            waiting += sorted(inner, key=lambda pair: pair[0] == "text")
        elif isinstance(value, list):
            waiting += [(name, held) for held in reversed(value)]
        elif isinstance(value, str) and value and name not in _MECHANICAL:
            yield value


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _LARGEST_COUNT else None


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return clean_text(lines[0]) if lines else ""
