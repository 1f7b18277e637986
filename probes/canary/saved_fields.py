"""Reads fields of a saved round: one error for all that can be wrong, naming the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from fleet.jsontext import clean_text

LARGEST: Final = 10**12
_LONGEST_TEXT: Final = 8 * 1024 * 1024
_MOST_COUNTS: Final = 1_000
Document = Mapping[str, object]
Word = TypeVar("Word", bound=StrEnum)


class BadRound(Exception):
    """A saved round has not the published shape; the text names the field."""


def objects_in(document: Document, name: str) -> list[Document]:
    """Answer a list of objects, an empty one where there is none. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise BadRound(f"{name} is no list of objects")
    return value


def object_in(document: Document, name: str) -> Document:
    """Answer an object, an empty one where there is none. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRound(f"{name} is no object")
    return value


def names_in(document: Document, name: str) -> tuple[str, ...]:
    """Answer a list of short texts. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadRound(f"{name} is no list of texts")
    return tuple(clean_text(one, longest=120) for one in value)


def count_in(document: Document, name: str) -> int | None:
    """Answer a whole number from 0 on, None where there is none. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise BadRound(f"{name} is no whole number from 0 on")
    return value


def counts_in(document: Document, name: str) -> tuple[int, ...]:
    """Answer a list of counts, an empty one where there is none. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > _MOST_COUNTS:
        raise BadRound(f"{name} is no list of at most {_MOST_COUNTS} counts")
    found = [count_in({name: one}, name) for one in value]
    if None in found:
        raise BadRound(f"{name} holds what is no count")
    return tuple(one for one in found if one is not None)


def seconds_in(document: Document, name: str) -> float | None:
    """Answer a time from 0 on, None where there is none. Unit: seconds. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRound(f"{name} is no number of seconds")
    if not math.isfinite(value) or not 0 <= value <= LARGEST:
        raise BadRound(f"{name} is no number of seconds from 0 on")
    return float(value)


def text_in(document: Document, name: str, *, longest: int = 300) -> str:
    """Answer a short text, an empty one where there is none. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRound(f"{name} is no text")
    return clean_text(value, longest=longest)


def whole_text_in(document: Document, name: str) -> str:
    """Answer a text as it is: an answer, or a code to be looked for in one. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise BadRound(f"{name} is no text, or too long a one")
    return value


def switch_in(document: Document, name: str) -> bool | None:
    """Answer true or false, None where there is neither. Raises BadRound."""
    value = document.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise BadRound(f"{name} is neither true nor false")


def word_in(document: Document, name: str, words: type[Word]) -> Word | None:
    """Answer one of some words, None where there is none. Raises BadRound."""
    value = document.get(name)
    if value is None:
        return None
    try:
        return words(str(value))
    except ValueError:
        known = ", ".join(words)
        raise BadRound(f"{name} is none of {known}") from None
