"""Who an SGLang node is: role, version, context, settings, and what shows a restart."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Final

from fleet.engines import sglang_fields as fields
from fleet.engines.documents import (
    as_list,
    as_object,
    figure,
    label_of,
    text_of,
)
from fleet.engines.prometheus import total_by_name
from fleet.engines.sglang_evidence import Evidence
from fleet.reading import Role

#: Floats are spelled as Python does, or old proofs would not hold any more.
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
#: ``disaggregation_mode`` is text in every version, also where nothing is disaggregated.
_ROLES: Final[Mapping[str, Role]] = {
    "null": Role.UNIFIED,
    "prefill": Role.PREFILL,
    "decode": Role.DECODE,
}


def read_context(evidence: Evidence) -> tuple[int | None, list[str]]:
    """Answer the largest context that the node advertises, and what makes that doubtful.

    Source: /v1/models max_model_len (null on a LoRA card), sglang:context_len, and the configured
    context_length, which is null where nobody set it; max_context_length of the Rust front end;
    where none tells, the start-up log.
    """
    cards = [as_object(card) for card in as_list(evidence.models.get("data"))]
    shown: list[object] = [card.get("max_model_len") for card in cards]
    shown += [evidence.info.get(name) for name in ("context_length", "max_context_length")]
    shown += [one.value for one in evidence.samples if one.name == fields.CONTEXT_METRIC]
    known = [number for one in shown if (number := figure(one)) is not None]
    doubts = []
    if any(one is not None and figure(one) is None for one in shown):
        doubts.append("context: an advertised context is no length")
    if not known and not doubts and evidence.logs.context is not None:
        return evidence.logs.context, []
    if evidence.models_fault:
        doubts.append(f"context: {evidence.models_fault}")
    elif evidence.models and not any(cards):
        doubts.append("context: GET /v1/models lists no model")
    return max(known, default=None), doubts


def read_role(evidence: Evidence) -> tuple[Role | None, list[str]]:
    """Answer the role that the engine says it has now; None where its answers differ.

    internal_states tell the live mode from 0.5.21 on (--enable-pd-role-switch); the top level is
    what it was started with.
    """
    states = [as_object(state) for state in as_list(evidence.info.get("internal_states"))]
    live: list[object] = [state.get("disaggregation_mode") for state in states]
    if not any(one is not None for one in live):
        live = [evidence.info.get("disaggregation_mode")]
    live.append(evidence.model_info.get("disaggregation_mode"))
    live += [
        as_object(load.get("disaggregation")).get("mode")
        for load in map(as_object, as_list(evidence.loads.get("loads")))
    ]
    said = {one for one in live if one is not None} or _engine_types(evidence)
    roles = {_ROLES.get(one) if isinstance(one, str) else None for one in said}
    if len(roles) == 1 and None not in roles:
        return roles.pop(), []
    if not said:
        return None, ["role: the engine does not show its disaggregation_mode"]
    return None, ["role: its answers show different or unknown disaggregation modes"]


def _engine_types(evidence: Evidence) -> set[object]:
    """Answer the modes that the labels of /metrics name, where no document tells one."""
    types = {sample.labels.get("engine_type") for sample in evidence.samples}
    return {"null" if one == "unified" else one for one in types if one is not None}


def read_version(evidence: Evidence) -> tuple[str | None, list[str]]:
    """Answer the engine's version; None where it shows none, or two."""
    said = {text_of(evidence.info.get("version")), text_of(evidence.loads.get("version"))}
    said.discard(None)
    if len(said) > 1:
        both = " and ".join(sorted(str(one) for one in said))
        return None, [f"version: its answers come from {both}: is one address two engines?"]
    version = text_of(evidence.info.get("version"))
    return version, [] if version else ["version: the engine does not show it"]


def read_switch(info: Mapping[str, object], name: str) -> tuple[bool | None, list[str]]:
    """Answer a setting that is on or off, and that it is not shown where it is neither."""
    value = info.get(name)
    if isinstance(value, bool):
        return value, []
    return None, [f"{name}: the engine does not show whether it is on"]


def read_layout(evidence: Evidence) -> dict[str, str | None]:
    """Answer what a pair must share; "null" is the engine's own word, None is not shown."""
    layout = {name: label_of(evidence.info, name) for name in fields.LAYOUT}
    return layout | {"weights": _weights(evidence)}


def read_flags(evidence: Evidence) -> dict[str, str | None]:
    """Answer the settings whose change voids a proof; no figure of live load is among them."""
    flags = {name: label_of(evidence.info, name) for name in fields.FLAGS}
    states = as_list(evidence.info.get("internal_states"))
    shown = as_object(as_object(states[0]).get("env_vars")) if states else {}
    # A variable that is not set is not listed, so whether any could be tells a default apart.
    is_shown = bool(states) and isinstance(as_object(states[0]).get("env_vars"), dict)
    flags[fields.ENVIRONMENT_SHOWN] = "shown" if is_shown else None
    flags["sliding_window"] = _window(evidence)
    return flags | {name: label_of(shown, name) for name in fields.ENVIRONMENT}


def _window(evidence: Evidence) -> str | None:
    """Answer the sliding window in tokens, where a release shows it."""
    places = [evidence.info, *map(as_object, as_list(evidence.info.get("internal_states")))]
    shown = [figure(place.get(name)) for place in places for name in fields.WINDOWS]
    known = [one for one in shown if one is not None]
    return str(max(known)) if known else None


def read_start(evidence: Evidence) -> tuple[str | None, str | None]:
    """Answer marks of this start of the process: a digest of its phase times, and its seed.

    Source: startup_time, seconds by phase, measured anew at every start (0.5.19 on).
    """
    states = as_list(evidence.info.get("internal_states"))
    phases = [as_object(evidence.info.get("startup_time"))]
    phases += [as_object(as_object(state).get("startup_time")) for state in states]
    if not any(isinstance(one, float) for phase in phases for one in phase.values()):
        return None, _seed(evidence)
    canonical = _CANONICAL(phases)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16], _seed(evidence)


def read_counters(evidence: Evidence) -> dict[str, float]:
    """Answer the counters that only grow while the process lives."""
    totals = {name: total_by_name(evidence.samples, name) for name in fields.COUNTERS}
    return {
        name: total for name, total in totals.items() if total is not None and math.isfinite(total)
    }


def _seed(evidence: Evidence) -> str | None:
    seed = label_of(evidence.info, "random_seed")
    return None if seed == "null" else seed


def _weights(evidence: Evidence) -> str | None:
    """Answer which weights are loaded: path, revision, and the version that an update changes."""
    path = text_of(evidence.info.get("model_path"))
    if path is None:
        return None
    revision = text_of(evidence.info.get("revision")) or "-"
    live = text_of(evidence.model_info.get("weight_version"))
    return f"{path} {revision} {live or text_of(evidence.info.get('weight_version')) or '-'}"
