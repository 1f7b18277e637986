"""The public form of a reading, as stored and shown: figures and words, no key, no body."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleet.reading import Attestation, Load, Rank, Reading, Role


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
        "secrets_open": reading.secrets_open,
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


def reading_from(document: Mapping[str, Any], *, taken_at: datetime) -> Reading:
    """Answer a stored reading as far as its figures go; what people attested is not in it.

    Raises KeyError, TypeError, ValueError where it was stored in another shape.
    """
    role = document["role"]
    return Reading(
        node=document["node"],
        engine=document["engine"],
        role=Role(document["declared_role"]),
        taken_at=taken_at,
        url=document["url"],
        problem=document["problem"],
        incomplete=tuple(document["incomplete"]),
        reported_role=Role(role),
        ranks=tuple(_rank(one) for one in document["ranks"]),
        counters=dict(document["counters"]),
        load=None if document["load"] is None else Load(**document["load"]),
        **{name: document[name] for name in _KEPT},
    )


_KEPT = (
    "version",
    "context",
    "first_refused",
    "pool",
    "page_size",
    "reserve",
    "allow_auto_truncate",
    "transfer_backend",
    "model",
    "layout",
    "parallel",
    "flags",
    "started",
    "random_seed",
)


def _rank(row: list[int | None]) -> Rank:
    index, token_capacity, swa_capacity, reported_pool = row
    return Rank(
        index=index or 0,
        token_capacity=token_capacity,
        swa_capacity=swa_capacity,
        reported_pool=reported_pool,
    )
