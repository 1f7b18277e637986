"""Reads a few named fields of a large JSON answer; the rest is checked to be JSON and left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


class PartialReader:
    """Reads the named fields; ``lists`` names those that are lists of objects, by their fields.

    A third of the objects of a whole answer, and of the time (docs/bench.md).
    """

    def __init__(self, names: Iterable[str], lists: Mapping[str, Iterable[str]]) -> None:
        fields: dict[str, Any] = dict.fromkeys(names, Any)
        fields |= {
            name: list[_holder(f"{name}_entry", dict.fromkeys(inner, Any))]  # type: ignore[misc]
            for name, inner in lists.items()
        }
        self._lists = tuple(lists)
        self._decoder = msgspec.json.Decoder(_holder("document", fields))

    def read(self, text: str) -> dict[str, object] | None:
        """Answer the object with only these fields; None where it is no plain JSON object."""
        try:
            found = _fields_of(self._decoder.decode(text))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        for name in self._lists:
            entries = found.get(name)
            if isinstance(entries, list):
                found[name] = [_fields_of(entry) for entry in entries]
        return found


def _holder(name: str, fields: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Answer a type with these fields, all of which may be absent."""
    return msgspec.defstruct(
        name, [(field, kind, msgspec.UNSET) for field, kind in fields.items()], gc=False
    )


def _fields_of(held: msgspec.Struct) -> dict[str, object]:
    shown = msgspec.structs.asdict(held)
    return {name: value for name, value in shown.items() if value is not msgspec.UNSET}
