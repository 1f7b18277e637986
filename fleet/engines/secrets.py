"""Notices secrets that an engine shows in clear: names of fields, never a value."""

from __future__ import annotations

import re
from typing import Any, Final

from fleet.engines.known_names import NameRule

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
#: What may tell a secret whatever its name is; a thousand other values are left out at once.
_TALKING: Final = frozenset({str, dict, list})
_Holder = dict[str, Any] | list[Any]


def exposed_names(document: object) -> tuple[str, ...]:
    """Answer the sorted names of fields that hold a secret, at any depth.

    A sweep looks at a thousand fields of each of some thousand nodes here, so what can be no secret
    is left out at once; no recursion, so no depth ends it.
    """
    found: set[str] = set()
    texts: list[tuple[str, str]] = []
    waiting: list[tuple[str, _Holder]] = [("", {"": document})]
    looked_at = 0
    while waiting and looked_at < _MOST_VALUES:
        name, holder = waiting.pop()
        looked_at += len(holder)
        found.update(_named(name, holder))
        for nearest, value in _talking(name, holder):
            if isinstance(value, str):
                texts.append((nearest, value))
            else:
                waiting.append((nearest, value))
    found |= _telling(texts)
    shown = {one if _PLAIN_NAME.fullmatch(one) else "a field with an odd name" for one in found}
    return tuple(sorted(shown)[:_MOST_NAMES])


def _talking(name: str, holder: _Holder) -> list[tuple[str, str | _Holder]]:
    """Answer what may tell a secret whatever its name is, with the name of the nearest field."""
    if isinstance(holder, dict):
        return [pair for pair in holder.items() if type(pair[1]) in _TALKING]
    return [(name, held) for held in holder if type(held) in _TALKING]


def _named(name: str, holder: _Holder) -> list[str]:
    """Answer the fields that are named like a secret and hold one."""
    if isinstance(holder, dict):
        return [one for one in _SECRET_NAMES.picked(holder) if _is_shown(holder[one])]
    return [name] if _names_a_secret(name) and any(map(_is_shown, holder)) else []


def _names_a_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _is_shown(value: object) -> bool:
    """Answer whether a field that is named like a secret holds one."""
    if value is None or isinstance(value, bool | dict | list):
        return False
    return not isinstance(value, str) or (value != "" and not _HIDDEN.fullmatch(value.strip()))


def _telling(texts: list[tuple[str, str]]) -> set[str]:
    """Answer the names of texts that give a secret along, such as a command line."""
    # One look at all of them together: hardly ever is there anything to be found.
    if not _may_tell("\n".join(text for _, text in texts)):
        return set()
    return {
        name
        for name, text in texts
        if _may_tell(text) and _SECRET_TEXT.search(text) and _is_shown(text)
    }


def _may_tell(text: str) -> bool:
    folded = text.casefold()
    return "key" in folded or "secret" in folded or "password" in folded


_SECRET_NAMES: Final = NameRule(_names_a_secret)
