"""Reads JSON that others wrote: one error for every way in which it can be bad."""

from __future__ import annotations

import json
import re
from typing import Final

#: Control characters, and halves of a surrogate pair, which no database and no file takes.
_UNSTORABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_USERINFO: Final = re.compile(r"://[^/@\s]+@")


class NotJson(ValueError):
    """The text is no JSON, or too deep or too large a number to be read."""


def parse_json(text: str | bytes) -> object:
    """Answer the value. Raises NotJson, with the reason in one line."""
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


def clean_text(text: str, *, longest: int = 300) -> str:
    """Answer text that can be stored and shown: no control signs, no user or password in a URL."""
    if len(text) <= longest and text.isprintable() and "@" not in text:
        return text
    tidy = _USERINFO.sub("://", _UNSTORABLE.sub("?", text[: longest * 4]))
    return tidy if len(tidy) <= longest else f"{tidy[: longest - 1]}…"
