"""Notices secrets that an engine shows in clear: names of fields, never a value."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"(?:^|[_-])(?:api_?key|secret|password|passwd|access_?key|private_?key|watermark_key"
    r"|(?:auth|access|bearer|hf|hub)_?token|credentials?)(?:$|[_-])",
    re.IGNORECASE,
)
#: A setting or a command line in which a secret is given along.
_SECRET_TEXT: Final = re.compile(
    r"(?:--(?:admin-)?api-key|--ssl-keyfile-password)[= ]+[\"']?[^\s\"'<]"
    r"|(?:api_?key|secret|password|access_?key)(?:_?(?:id|key))?[\"']?\s*[:=]\s*[\"']?[^\s\"',}<]",
    re.IGNORECASE,
)
_HIDDEN: Final = re.compile(r"<[^>]*>|\*+|null|none", re.IGNORECASE)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_MOST_NAMES: Final = 20
_MOST_VALUES: Final = 200_000


def exposed_names(document: object) -> tuple[str, ...]:
    """Answer the sorted names of fields that hold a secret, at any depth.

    A sweep looks at some hundred fields of each of some thousand nodes here; no recursion, so no
    depth ends it.
    """
    found: set[str] = set()
    waiting: list[tuple[str, object]] = [("", document)]
    looked_at = 0
    while waiting and looked_at < _MOST_VALUES:
        pairs = _named_values(*waiting.pop())
        looked_at += len(pairs)
        for name, value in pairs:
            kind = type(value)
            if kind is dict or kind is list:
                waiting.append((name, value))
            elif kind is not bool and value is not None and _is_exposed(name, value):
                found.add(name if _PLAIN_NAME.fullmatch(name) else "a field with an odd name")
    return tuple(sorted(found)[:_MOST_NAMES])


def _named_values(name: str, value: object) -> Collection[tuple[str, object]]:
    """Answer what a value holds, each with the name of the nearest field.

    Of a list of numbers the first stands for all.
    """
    if isinstance(value, dict):
        return value.items()
    if not isinstance(value, list):
        return [(name, value)]
    kinds = set(map(type, value))
    return [(name, held) for held in (value[:1] if kinds <= {int, float} else value)]


def _is_exposed(name: str, value: object) -> bool:
    """Answer whether a field shows a secret, by its name or by what its text says."""
    if not isinstance(value, str):
        return _names_a_secret(name)
    if not _names_a_secret(name):
        folded = value.casefold()
        if not ("key" in folded or "secret" in folded or "password" in folded):
            return False
        if not _SECRET_TEXT.search(value):
            return False
    return value != "" and not _HIDDEN.fullmatch(value.strip())


@lru_cache(maxsize=8192)
def _names_a_secret(name: str) -> bool:
    """Answer whether a field of this name holds a secret; nodes show the same few hundred."""
    return _SECRET_NAME.search(name) is not None
