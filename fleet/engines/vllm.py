"""The vLLM adapter: what a server says of itself, as a reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.clock import now
from fleet.contract import ENGINES, Answer, NodeCapture
from fleet.engines import vllm_fields as fields
from fleet.engines.vllm_evidence import Evidence, gather
from fleet.engines.vllm_identity import (
    context_parallel,
    read_context,
    read_counters,
    read_flags,
    read_layout,
    read_load,
    read_parallel,
    read_start,
    read_transfer,
    read_version,
    served_name,
)
from fleet.engines.vllm_pools import Pools, read_pools
from fleet.reading import Reading

_ROUTES: Final = (fields.METRICS, fields.MODELS, fields.VERSION, fields.SERVER_INFO)


@ENGINES.register("vllm")
class VLLM:
    """vLLM from the first engine with V1 metrics on; recorded for 0.32.0 on CPU, alone and split.

    It refuses a prompt that leaves no token to generate, so F is the context that it runs with.
    """

    title = "vLLM"
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
                version=read_version(evidence)[0],
                exposed_secrets=evidence.exposed_secrets,
                attested=capture.attested,
            )
        return _read(capture, evidence)


def _read(capture: NodeCapture, evidence: Evidence) -> Reading:
    context, context_doubts, remarks = read_context(evidence)
    connector, role, role_doubts = read_transfer(evidence)
    version, version_doubts = read_version(evidence)
    parallel = context_parallel(evidence, capture)
    pools = read_pools(evidence, context=context, context_parallel=parallel)
    started, seed = read_start(evidence)
    layout = read_layout(evidence)
    return Reading(
        node=capture.name,
        engine=capture.engine,
        role=capture.role,
        taken_at=capture.taken_at or now(),
        url=capture.url,
        incomplete=(*context_doubts, *role_doubts, *version_doubts, *pools.incomplete),
        reported_role=role,
        version=version,
        context=context,
        first_refused=context,
        ranks=pools.ranks,
        pool=pools.smallest,
        page_size=_page_size(layout),
        transfer_backend=connector,
        model=served_name(evidence),
        layout=layout,
        parallel=read_parallel(evidence),
        flags=read_flags(evidence, context=context, connector=connector),
        started=started,
        random_seed=seed,
        counters=read_counters(evidence),
        load=read_load(evidence, pool=pools.smallest, engines=len(pools.ranks)),
        exposed_secrets=evidence.exposed_secrets,
        attested=capture.attested,
        notes=(*evidence.notes, *remarks, *_pool_notes(pools, evidence)),
        beside=pools.beside,
    )


def _page_size(layout: dict[str, str | None]) -> int | None:
    shown = layout["page_size"] or ""
    return int(shown) if shown.isdecimal() and len(shown) < 8 else None  # noqa: PLR2004


def _pool_notes(pools: Pools, evidence: Evidence) -> tuple[str, ...]:
    if not evidence.rests_on_log:
        return pools.notes
    return (*pools.notes, "pool: nothing was asked of the running engine")
