"""The capture file: allow-listed answers of nodes, saved so that they can be judged elsewhere.

Its shape is published in the design ("A capture"); keys that are not named there are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from common.exits import UsageError
from common.registry import load_plugins
from fleet.capture_figures import parse_context, parse_headroom
from fleet.contract import ENGINES, Answer, NodeCapture
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.reading import DEFAULT_HEADROOM, Attestation, Role

LARGEST_BYTES: Final = 64 * 1024 * 1024
_HIGHEST_STATUS: Final = 599


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What a capture file holds. ``context`` is what a person said is advertised, in tokens.

    ``advisories`` are records as they were written (OSV or its short form, docs/adr/0012), and
    ``rounds`` those of a canary document (``canary --json``), unchecked.
    """

    nodes: tuple[NodeCapture, ...]
    headroom: Decimal = DEFAULT_HEADROOM
    context: int | None = None
    advisories: tuple[Mapping[str, object], ...] = ()
    rounds: tuple[object, ...] = ()


def parse_capture(text: str | bytes) -> Capture:
    """Answer what a capture file holds. Raises UsageError, one line that names the place."""
    if len(text) > LARGEST_BYTES:
        raise UsageError(f"the capture is larger than {LARGEST_BYTES // 1024**2} MiB")
    try:
        document = parse_json(text)
    except NotJson as fault:
        raise UsageError(f"the capture is no JSON: {fault}") from None
    if not isinstance(document, dict):
        raise UsageError("the capture is no JSON object")
    load_plugins("fleet.engines")
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise UsageError('"nodes" of the capture is no list')
    parsed = tuple(_parse_node(node, f"nodes[{index}]") for index, node in enumerate(nodes))
    _refuse_twins(parsed)
    return Capture(
        nodes=parsed,
        headroom=parse_headroom(document.get("headroom", DEFAULT_HEADROOM), "headroom"),
        context=parse_context(document.get("context"), "context"),
        advisories=_parse_advisories(document.get("advisories")),
        rounds=_rounds_in(document.get("canary")),
    )


def _rounds_in(canary: object) -> tuple[object, ...]:
    rounds = canary.get("rounds") if isinstance(canary, dict) else None
    return tuple(rounds) if isinstance(rounds, list) else ()


def dump_capture(capture: Capture) -> str:
    """Answer the text of a capture file, which ``parse_capture`` reads back to the same value."""
    document: dict[str, object] = {"headroom": float(capture.headroom)}
    if Decimal(str(float(capture.headroom))) != capture.headroom:
        document["headroom"] = str(capture.headroom)
    if capture.context is not None:
        document["context"] = capture.context
    if capture.rounds:
        document["canary"] = {"rounds": list(capture.rounds)}
    if capture.advisories:
        document["advisories"] = [dict(one) for one in capture.advisories]
    document["nodes"] = [_dump_node(node) for node in capture.nodes]
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _parse_advisories(value: object) -> tuple[Mapping[str, object], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UsageError("advisories of the capture is no list")
    return tuple(_object(one, f"advisories[{index}]") for index, one in enumerate(value))


def _parse_node(value: object, place: str) -> NodeCapture:
    node = _object(value, place)
    name = node.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"{place}.name is missing or no text")
    engine = node.get("engine")
    if not isinstance(engine, str) or engine not in ENGINES:
        known = ", ".join(ENGINES.all())
        raise UsageError(f"{place}.engine is no known engine (known: {known})")
    url = node.get("url")
    return NodeCapture(
        name=clean_text(name.strip(), longest=120),
        engine=engine,
        role=_parse_role(node.get("role"), f"{place}.role"),
        url=clean_text(url) if isinstance(url, str) else "",
        taken_at=_parse_moment(node.get("taken_at")),
        attested=_parse_attested(node.get("attested", {}), f"{place}.attested"),
        logs=_parse_logs(node.get("logs", []), f"{place}.logs"),
        responses=_parse_responses(node.get("responses", {}), f"{place}.responses"),
    )


def _parse_role(value: object, place: str) -> Role:
    if isinstance(value, str) and value in set(Role):
        return Role(value)
    raise UsageError(f"{place} is none of {', '.join(Role)}")


def _parse_moment(value: object) -> datetime | None:
    """Answer an aware moment; an unreadable one is left out, because no verdict rests on it."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _parse_attested(value: object, place: str) -> dict[str, Attestation]:
    words = _object(value, place).items()
    # A null says that nobody vouches, which is no word at all.
    named = [(clean_text(key, longest=80), word) for key, word in words if word is not None]
    return {key: _parse_word(key, word, f"{place}[{key!r}]") for key, word in named}


def _parse_word(key: str, word: object, place: str) -> Attestation:
    """Answer a person's word; an expiry that cannot be read must not mean: for ever."""
    if not isinstance(word, dict):
        return Attestation(key=key, value=_plain(word, place))
    until = word.get("until")
    return Attestation(
        key=key,
        value=_plain(word.get("value"), f"{place}.value"),
        reason=_text(word.get("reason"), f"{place}.reason"),
        by=_text(word.get("by"), f"{place}.by"),
        until=None if until is None else _parse_until(until, f"{place}.until"),
    )


def _plain(value: object, place: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return clean_text(str(value))
    raise UsageError(f"{place} is no text and no number")


def _text(value: object, place: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{place} is no text")
    return clean_text(value)


def _parse_until(value: object, place: str) -> datetime:
    """Answer an aware moment; one without a time zone is UTC. Raises UsageError."""
    try:
        moment = datetime.fromisoformat(str(value))
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{place} is no moment such as 2026-12-31T00:00:00Z") from None


def _parse_logs(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{place} is no list of texts")
    for line in value:
        if not isinstance(line, str):
            raise UsageError(f"{place} holds something else than texts")
    return tuple(value)


def _parse_responses(value: object, place: str) -> dict[str, Answer]:
    """Answer the answers that were asked for; an empty object means: not asked."""
    answers: dict[str, Answer] = {}
    for route, response in _object(value, place).items():
        where = f"{place}[{clean_text(route, longest=80)!r}]"
        if response is None or response == {}:
            continue
        answers[" ".join(route.split())] = _parse_answer(_object(response, where), where)
    return answers


def _parse_answer(response: Mapping[str, object], place: str) -> Answer:
    status = response.get("status")
    if isinstance(status, bool) or not isinstance(status, int):
        raise UsageError(f"{place}.status is missing or no HTTP status (0: no answer)")
    if not 0 <= status <= _HIGHEST_STATUS:
        raise UsageError(f"{place}.status is no HTTP status (0: no answer)")
    text, error = response.get("text"), response.get("error", "")
    if text is not None and not isinstance(text, str):
        raise UsageError(f"{place}.text is no text")
    secrets = response.get("exposed_secrets", [])
    names = secrets if isinstance(secrets, list) else []
    return Answer(
        status=status,
        json=response.get("json"),
        text=text,
        error=clean_text(error) if isinstance(error, str) and error else _cut_off(response, text),
        exposed_secrets=tuple(clean_text(one) for one in names if isinstance(one, str)),
    )


def _cut_off(response: Mapping[str, object], text: str | None) -> str:
    """Answer that a body was not saved whole, where whoever saved it says so; else nothing."""
    length = response.get("content_length")
    is_short = (
        isinstance(length, int)
        and not isinstance(length, bool)
        and text is not None
        and length > len(text.encode("utf-8", errors="replace"))
    )
    return "its body was not saved whole" if is_short or response.get("truncated") is True else ""


def _refuse_twins(nodes: tuple[NodeCapture, ...]) -> None:
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        if node.name in seen:
            raise UsageError(f"nodes[{index}].name {node.name!r} is used twice")
        seen.add(node.name)


def _object(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UsageError(f"{place} is no JSON object")
    return value


def _dump_node(node: NodeCapture) -> dict[str, object]:
    return {
        "name": node.name,
        "engine": node.engine,
        "role": str(node.role),
        "url": node.url,
        "taken_at": node.taken_at.isoformat() if node.taken_at else None,
        "attested": {key: _dump_word(word) for key, word in node.attested.items()},
        "logs": list(node.logs),
        "responses": {route: _dump_answer(answer) for route, answer in node.responses.items()},
    }


def _dump_word(word: Attestation) -> str | dict[str, str | None]:
    if not (word.reason or word.by or word.until):
        return word.value
    until = word.until.isoformat() if word.until else None
    return {"value": word.value, "reason": word.reason, "by": word.by, "until": until}


def _dump_answer(answer: Answer) -> dict[str, object]:
    dumped: dict[str, object] = {"status": answer.status}
    if answer.json is not None:
        dumped["json"] = answer.json
    if answer.text is not None:
        dumped["text"] = answer.text
    if answer.error:
        dumped["error"] = answer.error
    if answer.exposed_secrets:
        dumped["exposed_secrets"] = list(answer.exposed_secrets)
    return dumped
