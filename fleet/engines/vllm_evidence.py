"""What of a vLLM node's answers and log can be used, and what each unusable one was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleet.contract import Answer, NodeCapture
from fleet.engines import vllm_fields as fields
from fleet.engines.answers import chosen, fault_of, is_good, object_of, what_happened
from fleet.engines.documents import as_list, as_object, figure
from fleet.engines.prometheus import Sample, parse_metrics
from fleet.engines.vllm_logs import LogFacts, read_logs

_ADVICE: Final[Mapping[int, str]] = {
    401: "it wants a key: give the node's API key",
    403: "it refuses this key: give the node's API key",
    404: "is it a vLLM server, or a router's port?",
    503: "it is still starting or shutting down: try again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Allow-listed documents of one node; a missing one is empty.

    ``problem`` says why the node cannot be judged. ``metrics_fault`` and ``models_fault`` say why
    the pool and the context could not be asked for. ``rests_on_log`` tells that nothing was asked.
    """

    models: Mapping[str, object]
    version: Mapping[str, object]
    config: Mapping[str, object]
    samples: tuple[Sample, ...]
    logs: LogFacts
    problem: str = ""
    metrics_fault: str = ""
    metrics_were_asked: bool = False
    models_fault: str = ""
    rests_on_log: bool = False
    notes: tuple[str, ...] = ()
    exposed_secrets: tuple[str, ...] = ()

    def part(self, name: str) -> Mapping[str, object]:
        """Answer one part of the engine's configuration, an empty one where it shows none."""
        return as_object(self.config.get(name))


def gather(capture: NodeCapture) -> Evidence:
    """Answer what can be used of a capture, reduced to the allow-list whether it was or not."""
    answers = {
        route: answer if answer.is_redacted else fields.allow(route, answer)
        for route, answer in capture.responses.items()
    }
    metrics, models = chosen(answers, fields.METRICS), chosen(answers, fields.MODELS)
    version, info = chosen(answers, fields.VERSION), chosen(answers, fields.SERVER_INFO_BY_HAND)
    logs = read_logs(capture.logs)
    secrets = {name for answer in answers.values() for name in answer.exposed_secrets}
    found = Evidence(
        models=object_of(models),
        version=object_of(version),
        config=as_object(object_of(info).get("vllm_config")),
        samples=_samples(metrics),
        logs=logs,
        metrics_fault=_metrics_fault(metrics),
        metrics_were_asked=metrics is not None,
        models_fault=fault_of(fields.MODELS[0], models, _ADVICE),
        rests_on_log=not answers and logs.smallest_pool is not None,
        notes=_notes(version, info),
        exposed_secrets=tuple(sorted(secrets)),
    )
    if found.rests_on_log or _is_vllm(found):
        return found
    return _with_problem(found, _problem_of(capture, answers, logs))


def _samples(metrics: Answer | None) -> tuple[Sample, ...]:
    return parse_metrics(metrics.text or "", labels=fields.LABELS) if metrics else ()


def _metrics_fault(metrics: Answer | None) -> str:
    if metrics is None:
        return f"{fields.METRICS[0]} was not asked for"
    fault = what_happened(fields.METRICS[0], metrics, _ADVICE)
    if fault or "vllm:" in (metrics.text or ""):
        return fault
    return f"{fields.METRICS[0]} shows no series of vLLM: is the address that of a router?"


def _notes(version: Answer | None, info: Answer | None) -> tuple[str, ...]:
    notes = [fault_of(fields.VERSION[0], version, _ADVICE)]
    if is_good(info):
        notes.append("it runs in development mode, which opens more than a gate needs: turn it off")
    return tuple(note for note in notes if note)


def _is_vllm(found: Evidence) -> bool:
    cards = [as_object(card) for card in as_list(found.models.get("data"))]
    is_served = any(
        card.get("owned_by") == "vllm" or figure(card.get("max_model_len")) for card in cards
    )
    has_series = any(sample.name.startswith("vllm:") for sample in found.samples)
    return is_served or has_series or bool(found.config)


def _with_problem(found: Evidence, problem: str) -> Evidence:
    # What else it answers contradicts nothing where nothing else was asked for.
    was_asked = found.metrics_were_asked or found.models or found.models_fault
    return Evidence(
        models={},
        version={} if was_asked else found.version,
        config={},
        samples=(),
        logs=found.logs,
        problem=problem,
        exposed_secrets=found.exposed_secrets,
    )


def _problem_of(capture: NodeCapture, answers: Mapping[str, Answer], logs: LogFacts) -> str:
    routes = (fields.METRICS[0], fields.MODELS[0])
    if not any(route in answers for route in routes):
        told = f"{capture.name} was never asked for {' or '.join(routes)}: capture it again"
    else:
        faults = (
            what_happened(route, answers[route], _ADVICE) for route in routes if route in answers
        )
        first = next((fault for fault in faults if fault), "")
        told = f"{capture.name}: {first}" if first else _stranger(capture.name)
    return told + _hint(logs)


def _stranger(node: str) -> str:
    return f"{node}: its answers are not a vLLM engine's: is the address that of a router?"


def _hint(logs: LogFacts) -> str:
    """Answer what the log tells of an engine that is down; it measures nothing, so only a hint."""
    if logs.refused is not None:
        wanted, fitting = logs.refused
        return f"; its log says that {wanted:,} tokens are wanted and {fitting:,} fit"
    if logs.smallest_pool is not None:
        return f"; its log says that the pool held {logs.smallest_pool:,} tokens"
    return ""
