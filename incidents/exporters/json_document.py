"""Exporter: the post-mortem as one JSON object with a schema name and a version."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import datetime

from incidents.contract import EXPORTERS
from incidents.entries import iso_moment
from incidents.postmortem import SCHEMA, SCHEMA_VERSION, Duration, Postmortem


@EXPORTERS.register("json")
class JsonDocument:
    """Writes every value of the post-mortem, in the order of its classes.

    Unit: moments in UTC to the microsecond, spans in whole seconds and in words, lengths in tokens.
    The timeline carries the header and the digests of every entry, so that the chain can be
    recomputed without Pagewarden (incidents/entries.py says how).
    """

    title = "JSON"
    media_type = "application/json"
    suffix = "json"

    def render(self, postmortem: Postmortem) -> str:
        """Answer the document, with a line feed at its end."""
        document = {"schema": SCHEMA, "version": SCHEMA_VERSION, **_members(postmortem)}
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _members(value: object) -> dict[str, object]:
    assert is_dataclass(value)  # noqa: S101 - for the type checker; every caller asked
    members = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Duration):
        span = value.span
        members["seconds"] = None if span is None else int(span.total_seconds())
        members["words"] = value.words
    return members


def _plain(value: object) -> object:
    if is_dataclass(value):
        return _members(value)
    if isinstance(value, datetime):
        return iso_moment(value)
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    return value
