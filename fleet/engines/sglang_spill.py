"""Where an SGLang node spills KV pages to: paths out of settings that also hold secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from fleet.engines.documents import as_object, text_of
from fleet.engines.known_names import NameRule
from fleet.jsontext import NotJson, parse_json

#: Name of the one field in which the paths are kept, joined; the settings themselves are dropped.
SPILL: Final = "spill_paths"

#: Places of a storage backend's own settings; the first is JSON in a text (0.5.5 to 0.5.23).
PLACES: Final = ("hicache_storage_backend_extra_config", "extra", "extra_config")
_PATH_NAME: Final = re.compile(r"(?:^|_)(?:path|dir|directory|prefix|root)$", re.IGNORECASE)
_NO_SPILL: Final = re.compile(
    r"config|metadata|master|ssl|cert|key|secret|token|pass|lib|log|model|bin|mount_segment",
    re.IGNORECASE,
)
_OWN_NAME: Final = re.compile(r"^(?:ssd|spill|offload|hicache|disk)_", re.IGNORECASE)
#: Fields that belong to a storage.
_OWN_NAMES: Final = NameRule(lambda name: _OWN_NAME.search(name) is not None)
_MOST_PATHS: Final = 8
#: JSON text in which ``_OWN_NAME`` may find a path, for a glance that knows no names beforehand.
OWN_PATH: Final = (
    rb'"(?:ssd|spill|offload|hicache|disk)_(?:[^"\\]|\\.)*(?:path|dir|directory|prefix|root)'
    rb'(?:\\n)?"[ \t\r\n]*:[ \t\r\n]*"'
)


def with_spill_paths(document: Mapping[str, object]) -> Mapping[str, object]:
    """Answer the document with its spill paths in one field; once there they stay."""
    if SPILL in document:
        return document
    paths = list(dict.fromkeys(_paths(document)))[:_MOST_PATHS]
    return {**document, SPILL: ", ".join(paths)} if paths else document


def _paths(document: Mapping[str, object]) -> Iterator[str]:
    for place in PLACES:
        yield from _paths_in(_settings(document.get(place)))
    yield from _paths_in({name: document[name] for name in _OWN_NAMES.picked(document)})


def _settings(value: object) -> Mapping[str, object]:
    """Answer the settings of a storage backend, whether as an object or as JSON in a text."""
    if not isinstance(value, str):
        return as_object(value)
    try:
        return as_object(parse_json(value))
    except NotJson:
        return {}


def _paths_in(settings: Mapping[str, object]) -> Iterator[str]:
    for name, value in settings.items():
        path = text_of(value)
        if path and _PATH_NAME.search(name) and not _NO_SPILL.search(name):
            yield path
