"""A timeline entry as the hash chain sees it: what is header, what is body, and how both are cut.

Header (in the chain itself, never erasable): incident, occurred-at, recorded-at, source, actor,
kind, and the entry that it supersedes. Body (in the chain only by its SHA-256): the text and the
machine-readable details. Free text can hold what nobody may keep, so text and details can be
erased together while the chain still holds; an erasure counts only where a later entry of kind
``entry_erased`` names the entry in its ``supersedes``, which is itself in the chain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from common.chain import digest_body

#: Longest text of one entry, in characters; anything longer is evidence.
MAX_TEXT_CHARACTERS = 10_000

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

#: What PostgreSQL cannot store in text: NUL, and halves of surrogate pairs.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def storable(text: str) -> str:
    """Answer a text with what the database cannot hold made visible."""
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def plain(value: object) -> Plain:
    """Answer a value in the one form that survives jsonb unchanged. Raises ValueError.

    jsonb keeps numbers, not their spelling: a whole float would come back as an int and break the
    digest, so it is stored as an int from the start.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _plain_number(value)
    if isinstance(value, str):
        return storable(str(value))
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held) for held in value]
    raise ValueError(f"a timeline body cannot hold a {type(value).__name__}")


def _plain_number(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueError("a timeline body cannot hold a number that is not finite")
    return int(value) if value.is_integer() else value


def plain_body(body: Mapping[str, object] | None) -> dict[str, Plain]:
    """Answer the details of an entry as they are stored. Raises ValueError."""
    return {storable(str(key)): plain(value) for key, value in (body or {}).items()}


def digest_content(*, text: str, body: Mapping[str, Plain]) -> str:
    """Answer the SHA-256 of what can be erased: text and details."""
    return digest_body({"text": text, "body": dict(body)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The part of an entry that stands in the chain itself."""

    incident: str
    occurred_at: datetime
    recorded_at: datetime
    source: str
    actor: str
    kind: str
    supersedes: int | None

    def fields(self) -> dict[str, str]:
        """Answer all fields as text, in the one spelling that is hashed."""
        return {
            "incident": self.incident,
            "occurred_at": iso_moment(self.occurred_at),
            "recorded_at": iso_moment(self.recorded_at),
            "source": self.source,
            "actor": self.actor,
            "kind": self.kind,
            "supersedes": "" if self.supersedes is None else str(self.supersedes),
        }


def iso_moment(moment: datetime) -> str:
    """Answer a moment in UTC to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
