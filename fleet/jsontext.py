"""Reads JSON that others wrote: one error for every way in which it can be bad."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

#: Control characters, and halves of a surrogate pair, which no database and no file takes.
_UNSTORABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_USERINFO: Final = re.compile(r"://[^/@\s]+@")
_READ: Final = msgspec.json.Decoder().decode
_WRITE: Final = msgspec.json.Encoder().encode
_WRITE_SORTED: Final = msgspec.json.Encoder(order="sorted").encode


class NotJson(ValueError):
    """The text is no JSON, or too deep or too large a number to be read."""


def parse_json(text: str | bytes) -> object:
    """Answer the value. Raises NotJson, with the reason in one line.

    msgspec takes a third of the time (docs/bench.md). What it refuses goes to the slower parser,
    which also takes NaN and halves of surrogate pairs, and says where a fault is.
    """
    try:
        value: object = _READ(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _parse_slowly(text)
    return value


def _parse_slowly(text: str | bytes) -> object:
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise NotJson("it is no UTF-8 text") from None
    except json.JSONDecodeError as fault:
        raise NotJson(f"{fault.msg} at line {fault.lineno} column {fault.colno}") from None
    except ValueError:
        raise NotJson("it holds a number that is too large") from None
    return value


def canonical_json(value: object) -> bytes:
    """Answer the one spelling of a value that digests are made of: sorted, no blanks, ASCII.

    For values without floats, whose spelling is nobody's standard.
    """
    try:
        quick = _WRITE_SORTED(value)
    except (TypeError, ValueError):  # Keys that are no text, and halves of surrogate pairs.
        quick = None
    # Both spell printable ASCII alike; for other signs the slower one's spelling counts.
    if quick is not None and quick.isascii() and b"\x7f" not in quick:
        return quick
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def document_json(value: object) -> str:
    """Answer a document as the database takes it, quickly where that can be."""
    try:
        return _WRITE(value).decode()
    except (TypeError, ValueError):
        return json.dumps(value)


def clean_text(text: str, *, longest: int = 300) -> str:
    """Answer text that can be stored and shown: no control signs, no user or password in a URL."""
    if len(text) <= longest and text.isprintable() and "@" not in text:
        return text
    tidy = _USERINFO.sub("://", _UNSTORABLE.sub("?", text[: longest * 4]))
    return tidy if len(tidy) <= longest else f"{tidy[: longest - 1]}…"
