"""The SGLang adapter: what a prefill, decode or unified server says of itself, as a reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from fleet.engines.sglang_logs import LogFacts
from fleet.engines.sglang_ranks import (
    MARGIN,
    lists_ranks,
    named_size,
    read_ranks,
    smallest_mamba_pool,
    smallest_pool,
)
from fleet.reading import Rank, Reading, Role

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
        incomplete=(*doubts, *_unlisted_ranks(evidence), *found.incomplete),
        reported_role=role,
        version=version,
        context=context,
        first_refused=limit,
        ranks=found.ranks,
        pool=smallest_pool(found.ranks, first_refused=limit, context=context),
        page_size=figure(info.get("page_size")) or _measured_page(evidence),
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
        notes=(*_notes(evidence, context), *_own_limit_notes(found.ranks, limit, context)),
        beside=_beside(evidence, found.ranks, limit, context),
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


def _measured_page(evidence: Evidence) -> int | None:
    pages = [figure(one.value) for one in evidence.samples if one.name == fields.PAGE_METRIC]
    known = [page for page in pages if page is not None]
    return max(known, default=None)


def _unlisted_ranks(evidence: Evidence) -> tuple[str, ...]:
    """Answer that only rank 0's limit is known: its pool stands for all, its limit for itself."""
    size = named_size(evidence)
    if size == 1 or lists_ranks(evidence):
        return ()
    return (f"first_refused: no answer lists its {size} ranks, and only rank 0 shows its limit",)


def _notes(evidence: Evidence, context: int | None) -> tuple[str, ...]:
    notes = [*evidence.notes]
    status = text_of(evidence.info.get("status"))
    if status not in {None, "ready"}:
        notes.append(f"the engine calls itself {status}, not ready")
    if _unlisted_ranks(evidence):
        notes.append(f"pool: each of its {named_size(evidence)} ranks is taken to be like rank 0")
    return (*notes, *_log_notes(evidence, context))


def _log_notes(evidence: Evidence, context: int | None) -> Iterator[str]:
    """Answer what the start-up log adds, or says otherwise than the running engine does."""
    logs, reported = evidence.logs, figure(evidence.info.get("max_total_num_tokens"))
    if None not in {logs.pool, reported} and logs.pool != reported:
        yield f"pool: the running engine says {reported:,} and a start-up log {logs.pool:,}"
    if logs.context is not None and context == logs.context and not _shows_context(evidence):
        yield "context: the context is that of the start-up log"


def _reported(
    ranks: tuple[Rank, ...], limit: int | None, context: int | None
) -> dict[str, int | float]:
    """Answer the pool that rank 0 reports, where its own limit says another (hybrid models)."""
    reported = next((rank.reported_pool for rank in ranks if rank.index == 0), None)
    if limit is None or context is None or reported is None:
        return {}
    is_limited_by_pool = limit + MARGIN < context
    return {"reported_pool": reported} if is_limited_by_pool and reported != limit + MARGIN else {}


def _beside(
    evidence: Evidence, ranks: tuple[Rank, ...], limit: int | None, context: int | None
) -> dict[str, int | float]:
    """Answer the figures that people should see beside the pool."""
    mamba = smallest_mamba_pool(evidence, ranks)
    shown: dict[str, int | float] = {} if mamba is None else {"mamba_pool": mamba}
    return shown | _reported(ranks, limit, context)


def _own_limit_notes(
    ranks: tuple[Rank, ...], limit: int | None, context: int | None
) -> Iterator[str]:
    for reported in _reported(ranks, limit, context).values():
        yield (
            f"pool: the engine reports {reported:,} tokens and refuses from {limit:,}; what it "
            "does counts"
        )


def _shows_context(evidence: Evidence) -> bool:
    """Answer whether any answer names a context, so that the log is not its source."""
    known, _ = read_context(replace(evidence, logs=LogFacts()))
    return known is not None
