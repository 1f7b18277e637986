"""What of an SGLang node's answers can be used, and what each unusable one was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleet.contract import Answer, NodeCapture
from fleet.engines import sglang_fields as fields
from fleet.engines.answers import NOT_FOUND, chosen, fault_of, object_of, what_happened
from fleet.engines.documents import as_object
from fleet.engines.prometheus import Sample, parse_metrics
from fleet.engines.sglang_logs import LogFacts, read_logs

#: What an engine always shows of itself; a router or another server shows none of them.
_SIGNS: Final = ("max_req_input_len", "max_total_num_tokens", "internal_states", "model_path")
_ADVICE: Final[Mapping[int, str]] = {
    401: "it wants a key: give the node's API key",
    403: "it refuses this key: give the node's API key",
    404: "is it an SGLang server, or a router's port?",
    503: "it is still starting or shutting down: try again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Allow-listed documents of one node; an optional one that is missing is empty.

    ``problem`` says why the node cannot be judged. ``models_fault`` says why the advertised context
    could not be asked for, although the route is there, and ``loads_fault`` the same of the load.
    ``notes`` tell of every optional route that did not answer.
    """

    info: Mapping[str, object]
    models: Mapping[str, object]
    loads: Mapping[str, object]
    model_info: Mapping[str, object]
    samples: tuple[Sample, ...]
    logs: LogFacts
    problem: str = ""
    models_fault: str = ""
    loads_fault: str = ""
    notes: tuple[str, ...] = ()
    exposed_secrets: tuple[str, ...] = ()


def gather(capture: NodeCapture) -> Evidence:
    """Answer what can be used of a capture, reduced to the allow-list whether it was or not."""
    answers = {
        route: answer if answer.is_redacted else fields.allow(route, answer)
        for route, answer in capture.responses.items()
    }
    info = chosen(answers, fields.SERVER_INFO)
    models = chosen(answers, fields.MODELS)
    optional = {
        group[0]: chosen(answers, group)
        for group in (fields.LOADS, fields.METRICS, fields.MODEL_INFO)
    }
    faults = {route: fault_of(route, answer, _ADVICE) for route, answer in optional.items()}
    secrets = {name for answer in answers.values() for name in answer.exposed_secrets}
    metrics = optional[fields.METRICS[0]]
    samples = parse_metrics(metrics.text or "") if metrics else ()
    logs = read_logs(capture.logs)
    problem = _problem_of(capture, info)
    stand_in = _stand_in(answers, info, samples, logs) if problem else ""
    return Evidence(
        info=object_of(info),
        models=object_of(models),
        loads=object_of(optional[fields.LOADS[0]]),
        model_info=object_of(optional[fields.MODEL_INFO[0]]),
        samples=samples,
        logs=logs,
        problem="" if stand_in or not problem else problem + _hint(logs),
        models_fault=fault_of(fields.MODELS[0], models, _ADVICE),
        loads_fault=faults[fields.LOADS[0]],
        notes=tuple(note for note in (stand_in, *faults.values()) if note),
        exposed_secrets=tuple(sorted({*secrets, *logs.secrets})),
    )


def _stand_in(
    answers: Mapping[str, Answer], info: Answer | None, samples: tuple[Sample, ...], logs: LogFacts
) -> str:
    """Answer what stands in for /server_info where nobody asked for it or it is not there.

    An engine that has the route and does not answer it is wedged or wants a key: nothing does.
    """
    if info is not None and info.status != NOT_FOUND:
        return ""
    if any(sample.name == fields.POOL_METRIC for sample in samples):
        return f"pool: the figures are those of {fields.METRICS[0]} alone"
    if not answers and logs.pool is not None:
        return "pool: the figures are those of the start-up log; nothing was asked of the engine"
    return ""


def _hint(logs: LogFacts) -> str:
    """Answer what the log tells of an engine that is down; it measures nothing, so only a hint."""
    if logs.pool is None:
        return ""
    under = "" if logs.context is None else f" under a context of {logs.context:,}"
    return f"; its start-up log says that the pool held {logs.pool:,} tokens{under}"


def _problem_of(capture: NodeCapture, info: Answer | None) -> str:
    node, route = capture.name, fields.SERVER_INFO[0]
    if info is None:
        return f"{node} was never asked for {route}: capture it again"
    if info.status == 0:
        why = info.error or "no reason was recorded"
        return f"{node} did not answer {route} ({why}): check that it runs and its address is right"
    fault = what_happened(route, info, _ADVICE)
    if fault:
        return f"{node}: {fault}"
    if not any(sign in as_object(info.json) for sign in _SIGNS):
        return f"{node}: {route} is not an SGLang engine's: is the address that of a router?"
    return ""
