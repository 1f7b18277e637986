"""Reads errors and finish reasons in every shape that engines, routers and gateways give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fleet.jsontext import clean_text

ABORT: Final = "abort"
_DEEPEST: Final = 4
_LONGEST_FINISH: Final = 40
_STATUSES: Final = range(400, 600)
#: A fault that names no status is the server's: it is neither a refusal nor a pass.
_FAULT: Final = 500
#: What ``type`` or ``code`` says where it is no number; blanks, dashes and case left out.
#: Source: SGLang 0.5.19 to 0.5.23, sglang-router 0.3.2, smg 1.13.0, vLLM 0.32.0, llama.cpp.
_WORDS: Final = (
    (re.compile("badrequest|invalidrequest|invalidtype|contextlength|exceedcontext"), 400),
    (re.compile("unauthori|authentication|invalidapikey"), 401),
    (re.compile("permission|forbidden"), 403),
    (re.compile("notfound"), 404),
    (re.compile("ratelimit|toomanyrequests"), 429),
    (re.compile("unavailable|overloaded"), 503),
)
#: A body that a router cut short, or wrote with other quotes, is no JSON and still tells why.
_MESSAGE: Final = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)+)"')


def is_error(document: Mapping[str, object]) -> bool:
    """Answer whether a document is an error, nested or flat."""
    if document.get("error") is not None:
        return True
    if document.get("object") == "error":
        return True
    return "message" in document and "code" in document and "choices" not in document


def error_in(document: object) -> str:
    """Answer the message of an error body: flat, nested, or a router's envelope around either."""
    for _ in range(_DEEPEST):
        if isinstance(document, str):
            return first_line(document)
        if not isinstance(document, dict):
            return ""
        message = document.get("message", document.get("detail"))
        if isinstance(message, str):
            return first_line(message)
        document = message if isinstance(message, dict) else document.get("error")
    return ""


def status_in(document: object) -> int:
    """Answer the status that an error names, by number or by word; 500 where it names none."""
    for _ in range(_DEEPEST):
        if not isinstance(document, dict):
            break
        named = [document.get(name) for name in ("status_code", "code", "status", "type")]
        found = [status for status in map(_status, named) if status is not None]
        if found:
            return found[0]
        document = document.get("error")
    return _FAULT


def read_finish(value: object) -> tuple[str | None, str, int | None]:
    """Answer the finish reason and, where the engine aborted, what it said and its status."""
    if isinstance(value, str):
        return clean_text(value, longest=_LONGEST_FINISH), "", None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return None, "", None
    message = value.get("message")
    why = clean_text(message) if isinstance(message, str) else ""
    kind = clean_text(value["type"], longest=_LONGEST_FINISH)
    return kind, why, _status(value.get("status_code")) if kind == ABORT else None


def first_line(text: str) -> str:
    """Answer the first line of a text, clean and short; of broken JSON its message."""
    told = _MESSAGE.search(text)
    if told is not None and text.lstrip().startswith(("{", "data:")):
        text = told[1].replace('\\"', '"')
    lines = text.strip().splitlines()
    return clean_text(lines[0]) if lines else ""


def _status(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    if isinstance(value, int) or value.isdecimal():
        return int(value) if len(str(value)) == 3 and int(value) in _STATUSES else None  # noqa: PLR2004
    plain = re.sub(r"[\W_]", "", value.casefold())
    return next((status for words, status in _WORDS if words.search(plain)), None)
