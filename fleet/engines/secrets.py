"""Notices secrets that an engine shows in clear: names of fields, never a value."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    """Answer the sorted names of fields that hold a secret, at any depth."""
    found: set[str] = set()
    for name, value in _leaves(document):
        if _is_exposed(name, value):
            found.add(name if _PLAIN_NAME.fullmatch(name) else "a field with an odd name")
    return tuple(sorted(found)[:_MOST_NAMES])


def _is_exposed(name: str, value: object) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return False
    if isinstance(value, str) and _HIDDEN.fullmatch(value.strip()):
        return False
    if _SECRET_NAME.search(name):
        return True
    return isinstance(value, str) and _SECRET_TEXT.search(value) is not None


def _leaves(document: object) -> Iterator[tuple[str, object]]:
    """Answer every value with the name of the nearest field; no recursion, so no depth ends it."""
    waiting: list[tuple[str, object]] = [("", document)]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(key), held) for key, held in value.items()]
        elif isinstance(value, list):
            waiting += [(name, held) for held in value]
        else:
            yield name, value
