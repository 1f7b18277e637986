"""The public form of a reading, as stored and shown: figures and words, no key, no body."""

from __future__ import annotations

from typing import Any

from fleet.reading import Attestation, Load, Reading


def reading_document(reading: Reading) -> dict[str, Any]:
    """Answer the JSON form of a reading; its identity and what people want to see beside it."""
    return {
        **reading.identity(),
        "node": reading.node,
        "url": reading.url,
        "declared_role": str(reading.role),
        "taken_at": reading.taken_at.isoformat(),
        "last_admitted": reading.last_admitted,
        "problem": reading.problem,
        "incomplete": list(reading.incomplete),
        "exposed_secrets": list(reading.exposed_secrets),
        "notes": list(reading.notes),
        "attested": [_attestation_document(word) for word in reading.attested.values()],
        "counters": dict(reading.counters),
        "load": _load_document(reading.load),
    }


def _attestation_document(word: Attestation) -> dict[str, str | None]:
    return {
        "key": word.key,
        "value": word.value,
        "reason": word.reason,
        "by": word.by,
        "until": word.until.isoformat() if word.until else None,
    }


def _load_document(load: Load | None) -> dict[str, Any] | None:
    if load is None:
        return None
    return {
        "running": load.running,
        "waiting": load.waiting,
        "queues": dict(load.queues),
        "used_tokens": load.used_tokens,
        "free_tokens": load.free_tokens,
    }
