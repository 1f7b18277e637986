"""Who a vLLM node is: role, version, context, settings, and what shows a restart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from fleet.contract import NodeCapture
from fleet.engines import vllm_fields as fields
from fleet.engines.documents import as_list, as_object, count, figure, label_of, text_of
from fleet.engines.vllm_evidence import Evidence
from fleet.engines.vllm_logs import parallel_in
from fleet.reading import Attestation, Load, Role

_ROLES: Final[Mapping[str, Role]] = {"kv_producer": Role.PREFILL, "kv_consumer": Role.DECODE}
#: Connectors that only keep KV beside the engine; any other may move it to another engine.
_STORES: Final = frozenset(
    (
        "FlexKVConnectorV1",
        "HF3FSKVConnector",
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "MooncakeStoreConnector",
        "OffloadingConnector",
        "SimpleCPUOffloadConnector",
    )
)
_PARALLEL: Final[Mapping[str, str]] = {
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "dcp_size": "decode_context_parallel_size",
    "pcp_size": "prefill_context_parallel_size",
}
#: Names under which a person may vouch for a context-parallel size.
_VOUCHED_PARALLEL: Final = ("context_parallel", "dcp", "multiplier", "pcp")


def read_context(evidence: Evidence) -> tuple[int | None, list[str], list[str]]:
    """Answer the largest context that the node advertises, doubts about it, and remarks.

    Source: /v1/models max_model_len, else the configuration, else the start-up log.
    """
    shown = [as_object(card).get("max_model_len") for card in as_list(evidence.models.get("data"))]
    shown.append(evidence.part("model_config").get("max_model_len"))
    known = [number for one in shown if (number := figure(one)) is not None]
    doubts = []
    if any(one is not None and figure(one) is None for one in shown):
        doubts.append("context: an advertised context is no length")
    if evidence.models_fault:
        doubts.append(f"context: {evidence.models_fault}")
    if not known and evidence.logs.context is not None and not doubts:
        remark = "context: the context is that of the start-up log"
        return evidence.logs.context, [], [remark, *_fitted(evidence)]
    return max(known, default=None), doubts, [*_fitted(evidence)]


def _fitted(evidence: Evidence) -> Iterator[str]:
    if evidence.logs.fitted is not None:
        wanted, running = evidence.logs.fitted
        yield (
            f"context: vLLM shortened it by itself from {wanted:,} to {running:,}, so nothing is "
            f"left as headroom; whoever promises {wanted:,} is refused above"
        )


def read_transfer(evidence: Evidence) -> tuple[str | None, Role | None, list[str]]:
    """Answer the connector that moves KV between engines, the role it gives, and doubts."""
    config = evidence.part(fields.TRANSFER)
    connector = text_of(config.get("kv_connector")) or _connector_in(evidence)
    if connector is None:
        # Only a whole configuration can show that there is none.
        shows_none = fields.TRANSFER in evidence.config
        return None, Role.UNIFIED if shows_none else None, []
    role = _ROLES.get(text_of(config.get("kv_role")) or "")
    if role is None and connector in _STORES:
        return connector, Role.UNIFIED, []
    if role is None:
        return (
            connector,
            None,
            [f"role: it moves KV by {connector}, so it may be one side of a pair"],
        )
    return connector, role, []


def _connector_in(evidence: Evidence) -> str | None:
    for prefix, connector in fields.TRANSFER_PREFIXES.items():
        if any(sample.name.startswith(prefix) for sample in evidence.samples):
            return connector
    return None


def read_version(evidence: Evidence) -> tuple[str | None, list[str]]:
    """Answer the engine's version, or that it does not show it."""
    version = text_of(evidence.version.get("version"))
    return version, [] if version else ["version: the engine does not show it"]


def context_parallel(evidence: Evidence, capture: NodeCapture) -> int | None:
    """Answer a context-parallel size above 1 that anybody or anything names, or None."""
    parts = evidence.part("parallel_config")
    shown = [count(parts.get(name)) for name in (_PARALLEL["dcp_size"], _PARALLEL["pcp_size"])]
    named = [evidence.logs.context_parallel, *shown]
    named += [_vouched_parallel(word) for word in capture.attested.values()]
    return max((one for one in named if one is not None and one > 1), default=None)


def _vouched_parallel(word: Attestation) -> int | None:
    """Answer the size in a person's word; it makes a pool doubtful and never multiplies it."""
    key = word.key.lower().replace("-", "_")
    if any(name in key for name in _VOUCHED_PARALLEL) and word.value.isdecimal():
        return count(int(word.value[:6]))
    return parallel_in(word.value, word.reason)


def read_layout(evidence: Evidence) -> dict[str, str | None]:
    """Answer what a pair must share; None is what the engine does not show."""
    labels, model = _settings(evidence), evidence.part("model_config")
    card = _base_card(evidence)
    revision = text_of(model.get("revision")) or "-"
    weights = text_of(model.get("model")) or text_of(card.get("root")) or text_of(card.get("id"))
    return {
        "dtype": label_of(model, "dtype"),
        "kv_cache_dtype": labels.get("cache_dtype"),
        "page_size": labels.get("block_size"),
        "quantization": label_of(model, "quantization"),
        "weights": None if weights is None else f"{weights} {revision}",
    }


def read_parallel(evidence: Evidence) -> dict[str, str | None]:
    """Answer the parallel sizes, where the engine shows its configuration."""
    config = evidence.part("parallel_config")
    return {name: label_of(config, field) for name, field in _PARALLEL.items()}


def read_flags(
    evidence: Evidence, *, context: int | None, connector: str | None
) -> dict[str, str | None]:
    """Answer the settings whose change voids a proof; no figure of live load is among them."""
    labels = _settings(evidence)
    flags = {name: labels.get(name) for name in fields.SETTING_LABELS}
    for part in ("scheduler_config", fields.TRANSFER):
        config = evidence.part(part)
        flags |= {name: label_of(config, name) for name in fields.PARTS[part]}
    extra = as_object(evidence.part(fields.TRANSFER).get(fields.TRANSFER_EXTRA))
    flags |= {name: label_of(extra, name) for name in fields.TRANSFER_EXTRAS}
    flags["kv_connector"] = flags["kv_connector"] or connector
    flags["max_model_len"] = None if context is None else str(context)
    python = next((one for one in evidence.samples if one.name == fields.PYTHON_INFO), None)
    flags["python_version"] = None if python is None else python.labels.get("version")
    return flags


def read_start(evidence: Evidence) -> tuple[str | None, str | None]:
    """Answer when the process started, by its own clock, and its seed."""
    starts = [one.value for one in evidence.samples if one.name == fields.START_TIME]
    finite = [one for one in starts if math.isfinite(one) and one > 0]
    seed = label_of(evidence.part("model_config"), "seed")
    return (f"{min(finite):.3f}" if finite else None), None if seed == "null" else seed


def read_counters(evidence: Evidence) -> dict[str, float]:
    """Answer the counters that only grow while the process lives, summed over its engines."""
    totals: dict[str, float] = {}
    for sample in evidence.samples:
        if sample.name in fields.COUNTERS and math.isfinite(sample.value):
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


def read_load(evidence: Evidence, *, pool: int | None, engines: int) -> Load | None:
    """Answer what is in hand over all engines; a missing figure stays missing."""
    running, waiting = _total(evidence, fields.RUNNING), _total(evidence, fields.WAITING)
    if running is None and waiting is None:
        return None
    used = [one.value for one in evidence.samples if one.name == fields.USAGE]
    fullest = max(used, default=math.nan)
    is_known = pool is not None and len(used) == engines and 0 <= fullest <= 1
    taken = math.ceil(fullest * (pool or 0)) if is_known else None
    return Load(
        running=running,
        waiting=waiting,
        queues={"waiting": waiting},
        used_tokens=taken if engines == 1 else None,
        free_tokens=None if taken is None or pool is None else pool - taken,
    )


def served_name(evidence: Evidence) -> str | None:
    """Answer the name under which clients ask for the model."""
    return text_of(_base_card(evidence).get("id"))


def _total(evidence: Evidence, name: str) -> int | None:
    values = [count(one.value) for one in evidence.samples if one.name == name]
    known = [one for one in values if one is not None]
    return sum(known) if known and len(known) == len(values) else None


def _settings(evidence: Evidence) -> Mapping[str, str]:
    """Answer the labels of the first engine; all engines of a port are started alike."""
    rows = [one.labels for one in evidence.samples if one.name == fields.CACHE_CONFIG]
    return (
        {name: ("null" if label == "None" else label) for name, label in rows[0].items()}
        if rows
        else {}
    )


def _base_card(evidence: Evidence) -> Mapping[str, object]:
    """Answer the card of the model itself, not that of an adapter on top of it."""
    cards = [as_object(card) for card in as_list(evidence.models.get("data"))]
    return next((card for card in cards if card.get("parent") is None), {})
