"""Reads the worker list of a router; anything odd in it is an error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from fleet.jsontext import clean_text
from fleet.reading import Role, Worker

_ROLES: Final[Mapping[str, Role]] = {
    "prefill": Role.PREFILL,
    "decode": Role.DECODE,
    "regular": Role.UNIFIED,
}
#: What a router calls a model that it has not asked for yet.
_UNKNOWN: Final = "unknown"
_HIGHEST_PORT: Final = 65535
_LONGEST: Final = 2000

#: What the router finds out from the worker and lists among the labels. Giving it back would make
#: the values of the old start stand over those of a patched one.
_DISCOVERED: Final = frozenset(
    {
        "architectures",
        "attn_dp_size",
        "context_length",
        "disaggregation_mode",
        "dp_size",
        "enable_dp_attention",
        "ep_size",
        "has_audio_understanding",
        "has_image_understanding",
        "is_embedding",
        "is_generation",
        "load_balance_method",
        "load_format",
        "max_model_len",
        "max_running_requests",
        "max_total_tokens",
        "model_id",
        "model_path",
        "model_type",
        "pp_size",
        "served_model_name",
        "tokenizer_path",
        "tp_size",
        "version",
        "weight_version",
    }
)


class NotAList(ValueError):
    """The document is no worker list, or one that is not whole."""


def read_workers(document: object, *, key_field: str = "id") -> tuple[Worker, ...]:
    """Answer every worker of the document; ``key_field`` holds what it is known by.

    Raises NotAList.
    """
    entries = entries_of(document)
    workers = tuple(_read_worker(entry, place, key_field) for place, entry in enumerate(entries))
    if len({worker.worker_id for worker in workers}) != len(workers):
        raise NotAList(f"two workers have the same {key_field}")
    return workers


def entries_of(document: object) -> list[dict[str, object]]:
    """Answer the entries of a worker list as they are. Raises NotAList."""
    if not isinstance(document, dict):
        raise NotAList("it is no JSON object")
    entries = document.get("workers")
    if not isinstance(entries, list):
        raise NotAList('it holds no list "workers"')
    total = document.get("total", len(entries))
    if isinstance(total, bool) or total != len(entries):
        raise NotAList("it holds another number of workers than its total says")
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise NotAList(f"worker {place} is no JSON object")
    return entries


def restorable_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Answer the labels that a person gave, without those that the router found out."""
    return {name: value for name, value in labels.items() if name not in _DISCOVERED}


def _read_worker(entry: Mapping[str, object], place: int, key_field: str) -> Worker:
    is_healthy = entry.get("is_healthy")
    if not isinstance(is_healthy, bool):
        raise NotAList(f"worker {place} does not say whether it is healthy")
    kind = _text(entry, "worker_type", place)
    model = entry.get("model_id")
    labels = entry.get("labels", entry.get("metadata"))
    status = "" if entry.get("status") is None else _text(entry, "status", place)
    return Worker(
        worker_id=_text(entry, key_field, place),
        url=_text(entry, "url", place),
        role=_ROLES.get(kind),
        # smg: "pending", "ready", "not_ready", "failed", "draining"; only one of them serves.
        is_healthy=is_healthy and status in {"", "ready"},
        bootstrap_port=_port(entry.get("bootstrap_port"), place),
        model=model if isinstance(model, str) and model not in {"", _UNKNOWN} else None,
        labels=_labels(labels),
        priority=_whole(entry.get("priority")),
        cost=_finite(entry.get("cost")),
        status=status,
    )


def _text(entry: Mapping[str, object], name: str, place: int) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise NotAList(f"worker {place} has no usable {name}")
    if len(value) > _LONGEST:
        raise NotAList(f"worker {place} has no usable {name}")
    return value


def _port(value: object, place: int) -> int | None:
    if value is None:
        return None
    port = _whole(value)
    if port is None or not 1 <= port <= _HIGHEST_PORT:
        raise NotAList(f"worker {place} has a bootstrap_port that is no port")
    return port


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {
        clean_text(str(name)): clean_text(held, longest=_LONGEST)
        for name, held in value.items()
        if isinstance(held, str)
    }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None
