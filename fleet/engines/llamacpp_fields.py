"""The allow-list of llama.cpp's server: which fields of which answer are kept.

Source: xllamacpp 2026.10.11549 (llama.cpp's own HTTP server), recorded. /slots may hold the prompts
of other people, so only figures of it are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fleet.contract import Answer
from fleet.engines.answers import OK, Reduction, drop_body, reduce_json
from fleet.engines.documents import Shape, as_list, as_object, keep
from fleet.engines.prometheus import page_fault, reduce_metrics

PROPS: Final = ("GET /props",)
SLOTS: Final = ("GET /slots",)
MODELS: Final = ("GET /v1/models",)
METRICS: Final = ("GET /metrics",)

RUNNING: Final = "llamacpp:requests_processing"
WAITING: Final = "llamacpp:requests_deferred"
COUNTERS: Final = (
    "llamacpp:prompt_tokens_total",
    "llamacpp:tokens_predicted_total",
    "llamacpp:n_decode_total",
)
_NAMES: Final = frozenset((RUNNING, WAITING, *COUNTERS))
_PROPS: Final[Mapping[str, Shape]] = {
    "build_info": Shape.TEXT,
    "model_alias": Shape.TEXT,
    "model_ftype": Shape.TEXT,
    "model_path": Shape.TEXT,
    "total_slots": Shape.NUMBER,
}
_SLOT: Final[Mapping[str, Shape]] = {
    "id": Shape.NUMBER,
    "is_processing": Shape.SWITCH,
    "n_ctx": Shape.NUMBER,
}
_CARD: Final[Mapping[str, Shape]] = {"id": Shape.TEXT, "owned_by": Shape.TEXT}
_META: Final[Mapping[str, Shape]] = {"n_ctx": Shape.NUMBER, "n_ctx_train": Shape.NUMBER}
SETTINGS: Final = "default_generation_settings"
_MOST_ENTRIES: Final = 4096


def allow(route: str, answer: Answer) -> Answer:
    """Answer the same answer, reduced; applying it again changes nothing more."""
    if answer.status != OK or answer.error:
        return drop_body(answer)
    if route in METRICS:
        text = answer.text or ""
        fault = page_fault(text)
        if fault:
            return drop_body(answer, fault)
        kept = reduce_metrics(text, names=_NAMES, labels=())
        return replace(answer, json=None, text=kept, is_redacted=True)
    reduce = _REDUCTIONS.get(route)
    return drop_body(answer) if reduce is None else reduce_json(answer, reduce)


def _reduce_props(document: object) -> object:
    if not isinstance(document, dict):
        return None
    settings = keep(document.get(SETTINGS), {"n_ctx": Shape.NUMBER})
    return {**keep(document, _PROPS), SETTINGS: settings}


def _reduce_slots(document: object) -> object:
    if not isinstance(document, list):
        return None
    return [keep(slot, _SLOT) for slot in document[:_MOST_ENTRIES]]


def _reduce_models(document: object) -> object:
    if not isinstance(document, dict):
        return None
    return {"data": [_reduce_card(card) for card in as_list(document.get("data"))[:_MOST_ENTRIES]]}


def _reduce_card(card: object) -> dict[str, object]:
    return {**keep(card, _CARD), "meta": keep(as_object(card).get("meta"), _META)}


_REDUCTIONS: Final[Mapping[str, Reduction]] = {
    **dict.fromkeys(PROPS, _reduce_props),
    **dict.fromkeys(SLOTS, _reduce_slots),
    **dict.fromkeys(MODELS, _reduce_models),
}
