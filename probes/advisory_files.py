"""Reads advisories: OSV records from files, and their short form in a capture.

The subset of OSV 1.7 that is used here is checked by hand; fields that are not are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from fleet.jsontext import NotJson, clean_text, parse_json
from probes.advisory import (
    Advisory,
    BadFile,
    Condition,
    Edge,
    Event,
    Scope,
    Shelf,
    VersionRange,
)

BUILT_IN: Final = Path(__file__).resolve().parent / "advisories"
FOLDER_VARIABLE: Final = "PAGEWARDEN_ADVISORIES"
LARGEST_BYTES: Final = 1024 * 1024
MOST_FILES: Final = 2000
_MOST_ENTRIES: Final = 2000
#: Who vouches for a record: a vendor's advisory, a change or a report; an article does not.
_VOUCHING: Final = frozenset({"ADVISORY", "FIX", "REPORT", "EVIDENCE"})
_ORDERED: Final = frozenset({"ECOSYSTEM", "SEMVER"})
_RANGE_TYPES: Final = _ORDERED | {"GIT"}
_COMPARING: Final = ("<", ">", "=", "!", "~")
#: What the short form holds instead of OSV's ``affected``.
_SHORT_FORM: Final = (*(edge.value for edge in Edge), "sources", "versions")


class BadAdvisory(ValueError):
    """A record that is no advisory; the text names the field and what is wrong with it."""


def read_folder(folder: Path) -> Shelf:
    """Answer all advisories of a folder, in the order of their names; a bad file is told apart."""
    advisories: list[Advisory] = []
    bad: list[BadFile] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as fault:
        why = f"the folder cannot be read: {fault.strerror}"
        return Shelf(bad=(BadFile(name=folder.name or str(folder), problem=why),))
    if len(paths) > MOST_FILES:
        why = f"the folder holds more than {MOST_FILES:,} files"
        return Shelf(bad=(BadFile(name=folder.name, problem=why),))
    for path in paths:
        try:
            advisories += _read_file(path)
        except BadAdvisory as fault:
            bad.append(BadFile(name=clean_text(path.name), problem=str(fault)))
    return Shelf(advisories=tuple(advisories), bad=tuple(bad))


def parse_records(document: object, *, origin: str) -> tuple[Advisory, ...]:
    """Answer the advisories in a record, or in a list of them. Raises BadAdvisory."""
    records = document if isinstance(document, list) else [document]
    return tuple(
        one
        for index, record in enumerate(_capped(records, origin))
        for one in _parse_record(record, origin if len(records) == 1 else f"{origin}[{index}]")
    )


def _read_file(path: Path) -> tuple[Advisory, ...]:
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_BYTES + 1)
    except OSError as fault:
        raise BadAdvisory(f"it cannot be read: {fault.strerror}") from None
    if len(text) > LARGEST_BYTES:
        raise BadAdvisory(f"it is larger than {LARGEST_BYTES // 1024:,} KiB")
    try:
        document = parse_json(text)
    except NotJson as fault:
        raise BadAdvisory(f"it is no JSON: {fault}") from None
    return parse_records(document, origin=clean_text(path.name))


def _parse_record(value: object, origin: str) -> Iterator[Advisory]:
    record = _object(value, origin)
    advisory_id = clean_text(_text(record, "id"), longest=60)
    if not advisory_id:
        raise BadAdvisory("id is missing")
    if record.get("withdrawn"):
        return
    short = next((name for name in _SHORT_FORM if name in record), None)
    if "affected" not in record and short is None:
        raise BadAdvisory("affected is missing: which package, and which versions?")
    extra = _object(record.get("database_specific") or {}, "database_specific")
    names = [clean_text(one, longest=60) for one in _texts(record.get("aliases"), "aliases")]
    claims = _objects(record.get("sources"), "sources") or [record]
    for number, claim in enumerate(claims, start=1):
        told = claim if claim is not record else {}
        yield Advisory(
            advisory_id=advisory_id,
            origin=origin if len(claims) == 1 else f"{origin} source {number}",
            source=_source_of({**record, **told}, origin),
            summary=clean_text(_text(record, "summary")),
            aliases=tuple(names),
            scopes=tuple(_scopes({**record, **told}, extra)),
            is_verified=_is_verified({**record, **told}, extra),
            fix_commits=tuple(_fix_commits({**record, **told}, extra)),
        )


def _scopes(record: Mapping[str, object], extra: Mapping[str, object]) -> Iterator[Scope]:
    shared = _conditions({**extra, **record})
    if "affected" not in record:
        yield Scope(
            package=_package(record.get("package")),
            ranges=(VersionRange(events=tuple(_short_events(record))),),
            versions=_texts(record.get("versions"), "versions"),
            conditions=shared,
        )
        return
    entries = _objects(record["affected"], "affected")
    # OSV tells commits of a repository beside packages; such an entry is about no engine by name.
    named = [one for one in entries if one.get("package")]
    for index, entry in enumerate(named or entries):
        place = f"affected[{index}]"
        own: dict[str, object] = {}
        for name in ("database_specific", "ecosystem_specific"):
            own |= _object(entry.get(name) or {}, f"{place}.{name}")
        yield Scope(
            package=_package(entry.get("package")),
            ranges=tuple(_ranges(entry, place)),
            versions=_texts(entry.get("versions"), f"{place}.versions"),
            conditions=shared + _conditions(own),
        )


def _ranges(entry: Mapping[str, object], place: str) -> Iterator[VersionRange]:
    for index, one in enumerate(_objects(entry.get("ranges"), f"{place}.ranges")):
        where = f"{place}.ranges[{index}]"
        kind = one.get("type")
        if kind not in _RANGE_TYPES:
            raise BadAdvisory(f"{where}.type is none of {', '.join(sorted(_RANGE_TYPES))}")
        events = [
            event
            for item in _objects(one.get("events"), f"{where}.events")
            for event in _events(item, where)
        ]
        if not any(event.edge is Edge.INTRODUCED for event in events):
            raise BadAdvisory(f"{where}.events has no introduced version")
        yield VersionRange(events=tuple(events), is_ordered=kind in _ORDERED)


def _events(item: Mapping[str, object], place: str) -> Iterator[Event]:
    for edge in Edge:
        if edge.value in item:
            version = item[edge.value]
            if not isinstance(version, str) or not version.strip():
                raise BadAdvisory(f"{place}.events: {edge} is no version in text")
            yield Event(edge=edge, version=clean_text(version.strip(), longest=60))


def _short_events(record: Mapping[str, object]) -> Iterator[Event]:
    """Answer the events of the short form; a fix that is null is no fix."""
    told = {edge.value: record[edge] for edge in Edge if record.get(edge) is not None}
    if "introduced" not in told and (told or not record.get("versions")):
        yield Event(edge=Edge.INTRODUCED, version="0")
    yield from _events(told, "the advisory")


def _conditions(record: Mapping[str, object]) -> tuple[Condition, ...]:
    wanted = _object(record.get("preconditions") or {}, "preconditions")
    return tuple(_condition(clean_text(name, longest=80), one) for name, one in wanted.items())


def _condition(fact: str, wanted: object) -> Condition:
    words = wanted if isinstance(wanted, list) else [wanted]
    if not words or any(not isinstance(one, str | bool | int | float) for one in words):
        raise BadAdvisory(f"preconditions.{fact} is neither a word nor a list of words")
    texts = tuple(str(one) for one in words)
    if len(texts) == 1 and texts[0].lstrip().startswith(_COMPARING):
        return Condition(fact=fact, specifier=texts[0].strip())
    return Condition(fact=fact, wanted=texts)


def _is_verified(record: Mapping[str, object], extra: Mapping[str, object]) -> bool:
    """Answer whether somebody who must know vouches for it (a vendor, a fix, the operator)."""
    told = {**extra, **record}
    if isinstance(told.get("verified"), bool):
        return bool(told["verified"])
    if "vendor_ref" in told:
        return bool(told["vendor_ref"])
    kinds = {one.get("type") for one in _objects(record.get("references"), "references")}
    # Without any reference it is the word of the operator whose file it is.
    return not kinds or bool(kinds & _VOUCHING)


def _source_of(record: Mapping[str, object], origin: str) -> str:
    """Answer who says it: a name, a vendor's reference, the first address, else the file."""
    for name in ("source", "vendor_ref", "name"):
        if isinstance(record.get(name), str) and record[name]:
            return clean_text(str(record[name]), longest=120)
    for one in _objects(record.get("references"), "references"):
        if isinstance(one.get("url"), str):
            return clean_text(str(one["url"]), longest=120)
    return origin


def _fix_commits(record: Mapping[str, object], extra: Mapping[str, object]) -> Iterator[str]:
    for told in (record, extra):
        if isinstance(told.get("fix_commit"), str):
            yield str(told["fix_commit"]).lower()
    for entry in _objects(record.get("affected"), "affected"):
        for one in _objects(entry.get("ranges"), "ranges"):
            if one.get("type") == "GIT":
                for event in _objects(one.get("events"), "events"):
                    if isinstance(event.get("fixed"), str):
                        yield str(event["fixed"]).lower()


def package_of(name: str) -> str:
    """Answer a package's or an engine's name so that both can be compared (llama.cpp: llamacpp)."""
    return canonicalize_name(name).replace("-", "")


def _package(value: object) -> str:
    name = value.get("name") if isinstance(value, dict) else value
    if name is None:
        return ""
    if not isinstance(name, str):
        raise BadAdvisory("package has no name in text")
    return package_of(name)


def _object(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadAdvisory(f"{place} is no JSON object")
    return value


def _objects(value: object, place: str) -> list[dict[str, object]]:
    return [_object(one, f"{place}[{index}]") for index, one in enumerate(_list(value, place))]


def _texts(value: object, place: str) -> tuple[str, ...]:
    found = _list(value, place)
    if any(not isinstance(one, str) for one in found):
        raise BadAdvisory(f"{place} holds something else than texts")
    return tuple(str(one) for one in found)


def _list(value: object, place: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadAdvisory(f"{place} is no list")
    return _capped(value, place)


def _capped(value: list[object], place: str) -> list[object]:
    if len(value) > _MOST_ENTRIES:
        raise BadAdvisory(f"{place} holds more than {_MOST_ENTRIES:,} entries")
    return value


def _text(record: Mapping[str, object], name: str) -> str:
    value = record.get(name, "")
    if not isinstance(value, str):
        raise BadAdvisory(f"{name} is no text")
    return value.strip()
