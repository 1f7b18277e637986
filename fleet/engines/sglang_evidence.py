"""What of an SGLang node's answers can be used, and what each unusable one was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.contract import Answer, NodeCapture
from fleet.engines import sglang_fields as fields
from fleet.engines.documents import as_object
from fleet.engines.prometheus import Sample, parse_metrics

_OK: Final = 200
_NOT_FOUND: Final = 404
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
    problem: str = ""
    models_fault: str = ""
    loads_fault: str = ""
    notes: tuple[str, ...] = ()
    exposed_secrets: tuple[str, ...] = ()


def gather(capture: NodeCapture) -> Evidence:
    """Answer what can be used of a capture, reduced to the allow-list whether it was or not."""
    answers = {route: fields.allow(route, answer) for route, answer in capture.responses.items()}
    info = _chosen(answers, fields.SERVER_INFO)
    models = _chosen(answers, fields.MODELS)
    optional = {
        group[0]: _chosen(answers, group)
        for group in (fields.LOADS, fields.METRICS, fields.MODEL_INFO)
    }
    faults = {route: _fault_of(route, answer) for route, answer in optional.items()}
    secrets = {name for answer in answers.values() for name in answer.exposed_secrets}
    metrics = optional[fields.METRICS[0]]
    return Evidence(
        info=_document(info),
        models=_document(models),
        loads=_document(optional[fields.LOADS[0]]),
        model_info=_document(optional[fields.MODEL_INFO[0]]),
        samples=parse_metrics(metrics.text or "") if metrics else (),
        problem=_problem_of(capture, info),
        models_fault=_fault_of(fields.MODELS[0], models),
        loads_fault=faults[fields.LOADS[0]],
        notes=tuple(fault for fault in faults.values() if fault),
        exposed_secrets=tuple(sorted(secrets)),
    )


def _chosen(answers: Mapping[str, Answer], group: Sequence[str]) -> Answer | None:
    """Answer the best answer of a group of alternatives: a good one, else one that is not 404."""
    asked = [answers[route] for route in group if route in answers]
    good = [one for one in asked if one.status == _OK and not one.error]
    present = [one for one in asked if one.status != _NOT_FOUND]
    return next(iter([*good, *present, *asked]), None)


def _document(answer: Answer | None) -> Mapping[str, object]:
    return {} if answer is None else as_object(answer.json)


def _fault_of(route: str, answer: Answer | None) -> str:
    """Answer what went wrong with an optional route; not asked and not there are no faults."""
    if answer is None or answer.status == _NOT_FOUND:
        return ""
    return _what_happened(route, answer)


def _what_happened(route: str, answer: Answer) -> str:
    if answer.status == 0:
        return f"{route} got no answer ({answer.error or 'no reason was recorded'})"
    if answer.status != _OK:
        advice = _ADVICE.get(answer.status, "look into the node's log")
        return f"{route} answered {answer.status}; {advice}"
    if answer.error:
        return f"{route} answered 200, but {answer.error}: is a proxy in between?"
    return ""


def _problem_of(capture: NodeCapture, info: Answer | None) -> str:
    node, route = capture.name, fields.SERVER_INFO[0]
    if info is None:
        return f"{node} was never asked for {route}: capture it again"
    if info.status == 0:
        why = info.error or "no reason was recorded"
        return f"{node} did not answer {route} ({why}): check that it runs and its address is right"
    fault = _what_happened(route, info)
    if fault:
        return f"{node}: {fault}"
    if not any(sign in as_object(info.json) for sign in _SIGNS):
        return f"{node}: {route} is not an SGLang engine's: is the address that of a router?"
    return ""
