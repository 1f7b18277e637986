"""The SGLang adapter: what a prefill, decode or unified server says of itself, as a reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.clock import now
from fleet.contract import ENGINES, Answer, NodeCapture
from fleet.engines import sglang_fields as fields
from fleet.engines.documents import count, figure, label_of, text_of
from fleet.engines.sglang_evidence import Evidence, gather
from fleet.engines.sglang_identity import (
    read_context,
    read_counters,
    read_flags,
    read_layout,
    read_role,
    read_start,
    read_switch,
    read_version,
)
from fleet.engines.sglang_load import read_load
from fleet.engines.sglang_ranks import read_ranks, smallest_pool
from fleet.reading import Reading, Role

_ROUTES: Final = (
    fields.SERVER_INFO,
    fields.MODELS,
    fields.LOADS,
    fields.METRICS,
    fields.MODEL_INFO,
)


@ENGINES.register("sglang")
class SGLang:
    """SGLang 0.5.5 and 0.5.19 to 0.5.23, split or unified."""

    title = "SGLang"
    routes: Sequence[tuple[str, ...]] = _ROUTES

    def allow(self, route: str, answer: Answer) -> Answer:
        """Answer the same answer, reduced to the allow-list."""
        return fields.allow(route, answer)

    def read(self, capture: NodeCapture) -> Reading:
        """Answer the reading that these answers amount to."""
        evidence = gather(capture)
        if evidence.problem:
            return Reading(
                node=capture.name,
                engine=capture.engine,
                role=capture.role,
                taken_at=capture.taken_at or now(),
                url=capture.url,
                problem=evidence.problem[:480],
                exposed_secrets=evidence.exposed_secrets,
                attested=capture.attested,
                notes=evidence.notes,
            )
        return _read(capture, evidence)


def _read(capture: NodeCapture, evidence: Evidence) -> Reading:
    info = evidence.info
    context, context_doubts = read_context(evidence)
    role, role_doubts = read_role(evidence)
    version, version_doubts = read_version(evidence)
    truncates, switch_doubts = read_switch(info, "allow_auto_truncate")
    limit, limit_doubts = _read_limit(evidence)
    found = read_ranks(evidence)
    started, random_seed = read_start(evidence)
    doubts = (*context_doubts, *role_doubts, *version_doubts, *switch_doubts, *limit_doubts)
    return Reading(
        node=capture.name,
        engine=capture.engine,
        role=capture.role,
        taken_at=capture.taken_at or now(),
        url=capture.url,
        incomplete=(*doubts, *found.incomplete),
        reported_role=role,
        version=version,
        context=context,
        first_refused=limit,
        ranks=found.ranks,
        pool=smallest_pool(found.ranks, first_refused=limit, context=context),
        page_size=figure(info.get("page_size")),
        reserve=count(info.get("num_reserved_decode_tokens")),
        allow_auto_truncate=truncates,
        transfer_backend=_of_a_pair(role, text_of(info.get("disaggregation_transfer_backend"))),
        bootstrap_port=figure(info.get("disaggregation_bootstrap_port")),
        model=text_of(info.get("served_model_name")),
        layout=read_layout(evidence),
        parallel={name: label_of(info, name) for name in fields.PARALLEL},
        flags=read_flags(evidence),
        started=started,
        random_seed=random_seed,
        counters=read_counters(evidence),
        load=read_load(evidence, ranks=found.ranks, role=role),
        exposed_secrets=evidence.exposed_secrets,
        attested=capture.attested,
        notes=_notes(evidence),
    )


def _read_limit(evidence: Evidence) -> tuple[int | None, list[str]]:
    shown = evidence.info.get("max_req_input_len")
    limit = figure(shown)
    if limit is None and shown is not None:
        return None, ["first_refused: max_req_input_len is no length"]
    return limit, []


def _of_a_pair(role: Role | None, backend: str | None) -> str | None:
    """Answer the backend only of a split node: a unified one names its default and uses none."""
    return None if role is Role.UNIFIED else backend


def _notes(evidence: Evidence) -> tuple[str, ...]:
    status = text_of(evidence.info.get("status"))
    if status in {None, "ready"}:
        return evidence.notes
    return (*evidence.notes, f"the engine calls itself {status}, not ready")
