"""The llama.cpp adapter: what its HTTP server says of itself, as a reading."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from common.clock import now
from fleet.contract import ENGINES, Answer, NodeCapture
from fleet.engines import llamacpp_fields as fields
from fleet.engines.answers import chosen, fault_of, list_of, object_of, what_happened
from fleet.engines.documents import count, figure, label_of, text_of
from fleet.engines.llamacpp_slots import UNIFIED, Slots, read_slots
from fleet.engines.prometheus import Sample, parse_metrics, total_by_name
from fleet.reading import Load, Reading, Role

_ROUTES: Final = (fields.PROPS, fields.SLOTS, fields.MODELS, fields.METRICS)
_ADVICE: Final[Mapping[int, str]] = {
    401: "it wants a key: give the node's API key",
    403: "it refuses this key: give the node's API key",
    404: "is it a llama.cpp server, or a router's port?",
    501: "it was started without this route: start it with --slots and --metrics",
    503: "it is still loading its model: try again",
}
_SIGNS: Final = ("total_slots", "build_info")


@ENGINES.register("llamacpp")
class LlamaCpp:
    """llama.cpp's HTTP server, which has no other mode than unified; recorded for build 11549.

    It refuses a prompt of ``n_ctx`` tokens or more, so F is the context of a slot.
    """

    title = "llama.cpp"
    routes: Sequence[tuple[str, ...]] = _ROUTES

    def allow(self, route: str, answer: Answer) -> Answer:
        """Answer the same answer, reduced to the allow-list."""
        return fields.allow(route, answer)

    def read(self, capture: NodeCapture) -> Reading:
        """Answer the reading that these answers amount to."""
        answers = {
            route: answer if answer.is_redacted else fields.allow(route, answer)
            for route, answer in capture.responses.items()
        }
        secrets = {name for answer in answers.values() for name in answer.exposed_secrets}
        problem = _problem_of(capture.name, chosen(answers, fields.PROPS))
        if problem:
            return Reading(
                node=capture.name,
                engine=capture.engine,
                role=capture.role,
                taken_at=capture.taken_at or now(),
                url=capture.url,
                problem=problem[:480],
                exposed_secrets=tuple(sorted(secrets)),
                attested=capture.attested,
            )
        return _read(capture, answers, tuple(sorted(secrets)))


def _problem_of(node: str, props: Answer | None) -> str:
    route = fields.PROPS[0]
    if props is None:
        return f"{node} was never asked for {route}: capture it again"
    fault = what_happened(route, props, _ADVICE)
    if fault:
        return f"{node}: {fault}"
    if not all(sign in object_of(props) for sign in _SIGNS):
        return f"{node}: {route} is not a llama.cpp server's: is the address that of a router?"
    return ""


def _read(capture: NodeCapture, answers: Mapping[str, Answer], secrets: tuple[str, ...]) -> Reading:
    props = object_of(chosen(answers, fields.PROPS))
    taken_at = capture.taken_at or now()
    word = capture.attested.get(UNIFIED)
    slots = read_slots(
        capture,
        settings=props,
        slots=list_of(chosen(answers, fields.SLOTS)),
        models=object_of(chosen(answers, fields.MODELS)),
        vouched=word if word is not None and word.holds_at(taken_at) else None,
    )
    metrics = chosen(answers, fields.METRICS)
    samples = parse_metrics(metrics.text or "", labels=()) if metrics else ()
    return Reading(
        node=capture.name,
        engine=capture.engine,
        role=capture.role,
        taken_at=taken_at,
        url=capture.url,
        incomplete=(*slots.incomplete, *_models_fault(answers), *_version_doubt(props)),
        reported_role=Role.UNIFIED,
        version=text_of(props.get("build_info")),
        context=slots.context,
        first_refused=slots.context,
        ranks=slots.ranks,
        pool=slots.pool,
        model=text_of(props.get("model_alias")),
        layout={
            "quantization": label_of(props, "model_ftype"),
            "weights": text_of(props.get("model_path")),
        },
        flags=_flags(slots),
        counters=_counters(samples),
        load=_load(samples, slots),
        exposed_secrets=secrets,
        attested=capture.attested,
        notes=slots.notes,
        beside=slots.beside,
    )


def _models_fault(answers: Mapping[str, Answer]) -> tuple[str, ...]:
    """Answer why the context that is advertised to clients could not be asked for."""
    fault = fault_of(fields.MODELS[0], chosen(answers, fields.MODELS), _ADVICE)
    return (f"context: {fault}",) if fault else ()


def _version_doubt(props: Mapping[str, object]) -> tuple[str, ...]:
    return () if text_of(props.get("build_info")) else ("version: the engine does not show it",)


def _flags(slots: Slots) -> dict[str, str | None]:
    return {"total_slots": None if slots.count is None else str(figure(slots.count))}


def _counters(samples: tuple[Sample, ...]) -> dict[str, float]:
    totals = {name: total_by_name(samples, name) for name in fields.COUNTERS}
    return {
        name: total for name, total in totals.items() if total is not None and math.isfinite(total)
    }


def _load(samples: tuple[Sample, ...], slots: Slots) -> Load | None:
    """Answer what is in hand, or None where the server was started without --metrics."""
    if not samples:
        return None
    running = count(total_by_name(samples, fields.RUNNING))
    waiting = count(total_by_name(samples, fields.WAITING))
    return Load(
        running=running,
        waiting=waiting,
        queues={"deferred": waiting},
        free_tokens=slots.free_beside(running),
    )
