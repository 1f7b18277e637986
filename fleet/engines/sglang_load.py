"""What an SGLang node has in hand. A missing figure stays missing; it is never zero.

Source: /v1/loads (0.5.19 to 0.5.23), else /metrics (0.5.5, with --enable-metrics). The gauges of
/metrics are set only now and then: a recorded idle 0.5.22 still shows a deferred release and 1,030
used tokens that /v1/loads knows are gone. So they count only where there is no /v1/loads at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fleet.engines import sglang_fields as fields
from fleet.engines.documents import as_object, count
from fleet.engines.prometheus import total_by_name
from fleet.engines.sglang_evidence import Evidence
from fleet.engines.sglang_ranks import loads_by_rank
from fleet.reading import Load, Rank, Role

LoadEntry = Mapping[str, object]


def read_load(evidence: Evidence, *, ranks: tuple[Rank, ...], role: Role | None) -> Load | None:
    """Answer what is in hand over all ranks, or None where no source can be relied on."""
    loads = loads_by_rank(evidence.loads)
    if loads:
        return _from_loads([loads.get(rank.index, {}) for rank in ranks], ranks)
    if evidence.samples and not evidence.loads_fault:
        return _from_metrics(evidence, ranks, role)
    return None


def _from_loads(entries: list[LoadEntry], ranks: tuple[Rank, ...]) -> Load:
    queues: dict[str, int | None] = {}
    for name in fields.TRANSFER_QUEUES:
        queues[name] = _sum(entries, _inside("disaggregation", name))
    for name in fields.LOCAL_QUEUES:
        queues[name] = _sum(entries, _inside("queues", name))
    used = [count(entry.get("num_used_tokens")) for entry in entries]
    return Load(
        running=_sum(entries, lambda entry: entry.get("num_running_reqs")),
        waiting=_sum(entries, lambda entry: entry.get("num_waiting_reqs")),
        queues=queues,
        used_tokens=_total(used),
        free_tokens=_least_free(ranks, used),
    )


def _from_metrics(evidence: Evidence, ranks: tuple[Rank, ...], role: Role | None) -> Load:
    queues = _measured_queues(evidence, fields.QUEUE_METRICS)
    expected = () if role is Role.UNIFIED else tuple(fields.QUEUE_METRICS)
    waiting = _measured(evidence, fields.WAITING_METRIC)
    used = _measured(evidence, fields.USED_METRIC)
    # The sum over several ranks does not tell the free tokens of any one of them.
    alone: list[int | None] = [used] if len(ranks) == 1 else [None] * len(ranks)
    return Load(
        running=_measured(evidence, fields.RUNNING_METRIC),
        waiting=waiting,
        queues={"waiting": waiting, **dict.fromkeys(expected), **queues},
        used_tokens=used,
        free_tokens=_least_free(ranks, alone),
    )


def _measured_queues(evidence: Evidence, names: Mapping[str, str]) -> dict[str, int | None]:
    shown = {sample.name for sample in evidence.samples}
    return {
        queue: _measured(evidence, metric) for queue, metric in names.items() if metric in shown
    }


def _measured(evidence: Evidence, metric: str) -> int | None:
    return count(total_by_name(evidence.samples, metric))


def _inside(part: str, name: str) -> Callable[[LoadEntry], object]:
    return lambda entry: as_object(entry.get(part)).get(name)


def _sum(entries: Iterable[LoadEntry], pick: Callable[[LoadEntry], object]) -> int | None:
    return _total([count(pick(entry)) for entry in entries])


def _total(figures: list[int | None]) -> int | None:
    known = [one for one in figures if one is not None]
    return sum(known) if known and len(known) == len(figures) else None


def _least_free(ranks: tuple[Rank, ...], used: list[int | None]) -> int | None:
    """Answer the free tokens of the fullest rank, because a prompt may land on any of them."""
    free = [
        max(rank.pool - held, 0)
        for rank, held in zip(ranks, used, strict=True)
        if rank.pool is not None and held is not None
    ]
    return min(free) if free and len(free) == len(ranks) else None
