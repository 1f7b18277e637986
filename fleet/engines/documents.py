"""Looks into parsed JSON that may have any shape, and lets only real figures through."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from fleet.jsontext import clean_text

#: No pool and no context of an engine reaches this; a larger number is no figure.
LARGEST_FIGURE: Final = 10**12

_ABSENT: Final = object()
#: Stands for a value that an allow-list did not let through, by the name of its type.
_MARKER: Final = re.compile(r"<[a-z]+>")


class Shape(StrEnum):
    """What a field of an allow-list may hold."""

    NUMBER = "number"
    TEXT = "text"
    SWITCH = "switch"


def as_object(value: object) -> Mapping[str, object]:
    """Answer an object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[object]:
    """Answer a list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else ()


def figure(value: object) -> int | None:
    """Answer a whole number above 0 that can be a length or a pool, else None."""
    number = count(value)
    return None if number == 0 else number


def count(value: object) -> int | None:
    """Answer a whole number from 0 on, else None; a bool, a text or NaN is none."""
    if type(value) is int:  # Most are, and the other questions cost more than this one.
        return value if 0 <= value <= LARGEST_FIGURE else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value != int(value) or not 0 <= value <= LARGEST_FIGURE:
        return None
    return int(value)


def text_of(value: object) -> str | None:
    """Answer a text that says something, else None."""
    if not isinstance(value, str) or _is_marker(value):
        return None
    return clean_text(value.strip()) or None


def _is_marker(value: str) -> bool:
    return value.startswith("<") and _MARKER.fullmatch(value) is not None


def label_of(fields: Mapping[str, object], name: str) -> str | None:
    """Answer a setting as text: "null" where it is null, None where the engine does not show it."""
    value = fields.get(name, _ABSENT)
    if value is None:
        return "null"
    if value is _ABSENT:
        return None
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) is int and abs(value) <= LARGEST_FIGURE:
        return str(value)
    return text_of(value) if isinstance(value, str) else clean_text(str(value))


def keep(value: object, shapes: Mapping[str, Shape]) -> dict[str, object]:
    """Answer the named fields of an object; a value of another shape becomes a marker."""
    fields = as_object(value)
    return {
        name: held
        if held is None or (shape is Shape.SWITCH and (held is True or held is False))
        else _pass(held, shape)
        for name, shape in shapes.items()
        if (held := fields.get(name, _ABSENT)) is not _ABSENT
    }


def _pass(value: object, shape: Shape) -> object:
    if type(value) is int and shape is Shape.NUMBER:
        return value if -LARGEST_FIGURE <= value <= LARGEST_FIGURE else "<huge>"
    if value is None or (isinstance(value, str) and _is_marker(value)):
        return value
    if isinstance(value, bool):
        return value if shape is Shape.SWITCH else "<bool>"
    if isinstance(value, int | float) and shape is Shape.NUMBER:
        return value if math.isfinite(value) and abs(value) <= LARGEST_FIGURE else "<huge>"
    if isinstance(value, str) and shape is Shape.TEXT:
        return clean_text(value)
    return f"<{type(value).__name__}>"
