"""Pools of an SGLang node, by data-parallel rank.

Source: /server_info internal_states[i].memory_usage (0.5.5 to 0.5.23, in order of rank), /v1/loads
(0.5.19 on) and /metrics. Top-level figures of /server_info are those of rank 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleet.engines import sglang_fields as fields
from fleet.engines.documents import as_list, as_object, count, figure
from fleet.engines.prometheus import RANK_LABEL
from fleet.engines.sglang_evidence import Evidence
from fleet.reading import Rank

#: Tokens between the effective limit of a rank and the first length that it refuses:
#: F = min(context - 1, pool - 1) - 5 (tp_worker.py, 0.5.5 to 0.5.23).
MARGIN: Final = 6
_MOST_RANKS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The ranks that any answer shows; ``incomplete`` says which lack a figure or disagree."""

    ranks: tuple[Rank, ...]
    incomplete: tuple[str, ...] = ()


def read_ranks(evidence: Evidence) -> Ranks:
    """Answer every rank that is seen anywhere, with the figures that are known of it."""
    loads = loads_by_rank(evidence.loads)
    seen, odd = _seen_ranks(evidence, loads)
    ranks: list[Rank] = []
    doubts: list[str] = ["ranks: a rank number is too large or no number"] if odd else []
    for index in sorted(seen):
        state = _state_of(evidence, index)
        rank = _read_rank(evidence, index, state, loads.get(index, {}))
        ranks.append(rank)
        doubts += _doubts_about(evidence, rank, state, loads.get(index, {}))
    return Ranks(ranks=tuple(ranks), incomplete=tuple(doubts))


def smallest_pool(
    ranks: tuple[Rank, ...], *, first_refused: int | None, context: int | None
) -> int | None:
    """Answer the usable tokens of the smallest rank; None where one shows no figure.

    Where rank 0 refuses below the context its own arithmetic tells its pool, F + 6 (design).
    """
    pools: list[int | None] = []
    for rank in ranks:
        if first_refused is None:
            pools.append(rank.smallest_kind)
        elif rank.index == 0 and context is not None and first_refused + MARGIN < context:
            pools.append(first_refused + MARGIN)
        else:
            pools.append(rank.pool)
    known = [pool for pool in pools if pool is not None]
    return min(known) if known and len(known) == len(pools) else None


def smallest_mamba_pool(evidence: Evidence, ranks: tuple[Rank, ...]) -> int | None:
    """Answer the states that the smallest rank can hold, or None where one shows none.

    They are not tokens of a prompt, so they are shown and never judged by.
    """
    pools = [_mamba_pool(evidence, rank.index) for rank in ranks]
    shown = [pool for pool in pools if pool is not None]
    return min(shown) if shown and len(shown) == len(pools) else None


def _mamba_pool(evidence: Evidence, index: int) -> int | None:
    held: dict[str, int] = {}
    for sample in evidence.samples:
        number = count(sample.value)
        if sample.rank == index and sample.name in fields.MAMBA_METRICS and number is not None:
            held[sample.name] = min(held.get(sample.name, number), number)
    # A model without such states shows the gauges all the same, as zeros (seen on 0.5.23).
    return sum(held.values()) or None if len(held) == len(fields.MAMBA_METRICS) else None


def loads_by_rank(loads: Mapping[str, object]) -> dict[int, Mapping[str, object]]:
    """Answer the entries of /v1/loads by rank; an entry without a rank stands at its place."""
    found: dict[int, Mapping[str, object]] = {}
    for place, entry in enumerate(as_list(loads.get("loads"))):
        load = as_object(entry)
        rank = count(load.get("dp_rank", place))
        if rank is not None:
            found[rank] = load
    return found


def named_size(evidence: Evidence) -> int:
    """Answer how many data-parallel ranks the engine was started with."""
    return figure(evidence.info.get("dp_size")) or 1


def lists_ranks(evidence: Evidence) -> bool:
    """Answer whether any answer tells ranks apart; only then can one of them be missing."""
    if evidence.info.get("internal_states") or as_list(evidence.loads.get("loads")):
        return True
    return any(RANK_LABEL in sample.labels for sample in evidence.samples)


def _seen_ranks(
    evidence: Evidence, loads: Mapping[int, Mapping[str, object]]
) -> tuple[set[int], bool]:
    """Answer the ranks seen anywhere (at least rank 0), and whether an odd one was seen."""
    states = len(as_list(evidence.info.get("internal_states")))
    size = named_size(evidence) if lists_ranks(evidence) else 1
    numbers = {*loads, *(sample.rank for sample in evidence.samples)}
    unreadable = len(loads) != len(as_list(evidence.loads.get("loads")))
    odd = unreadable or size > _MOST_RANKS or any(number >= _MOST_RANKS for number in numbers)
    seen = {number for number in numbers if number < _MOST_RANKS}
    return seen | set(range(max(states, min(size, _MOST_RANKS)))), odd


def _state_of(evidence: Evidence, index: int) -> Mapping[str, object]:
    states = as_list(evidence.info.get("internal_states"))
    return as_object(states[index]) if index < len(states) else {}


def _read_rank(
    evidence: Evidence, index: int, state: Mapping[str, object], load: Mapping[str, object]
) -> Rank:
    memory = as_object(state.get("memory_usage"))
    candidates = [figure(load.get("max_total_num_tokens")), _measured(evidence, index)]
    if index == 0:
        candidates.insert(0, figure(evidence.info.get("max_total_num_tokens")))
        candidates.append(evidence.logs.pool)
    sliding = [memory.get("token_capacity_swa"), state.get(fields.SWA_POOL)]
    if index == 0:
        sliding.append(evidence.info.get(fields.SWA_POOL))
    return Rank(
        index=index,
        token_capacity=figure(memory.get("token_capacity")) or figure(state.get(fields.FULL_POOL)),
        swa_capacity=next((number for one in sliding if (number := figure(one))), None)
        or _measured(evidence, index, fields.SWA_POOL_METRIC),
        reported_pool=next((one for one in candidates if one is not None), None),
    )


def _measured(evidence: Evidence, index: int, name: str = fields.POOL_METRIC) -> int | None:
    found = [
        number
        for sample in evidence.samples
        if sample.name == name and sample.rank == index
        if (number := figure(sample.value)) is not None
    ]
    return min(found, default=None)


def _doubts_about(
    evidence: Evidence, rank: Rank, state: Mapping[str, object], load: Mapping[str, object]
) -> list[str]:
    memory = as_object(state.get("memory_usage"))
    who = f"ranks: rank {rank.index}"
    doubts = [
        f"{who} shows a {name} that is no figure"
        for name in ("token_capacity", "token_capacity_swa")
        if memory.get(name) is not None and figure(memory[name]) is None
    ]
    if rank.pool is None:
        doubts.append(f"{who} is there but shows no pool")
    loaded = figure(as_object(load.get("memory")).get("token_capacity"))
    if None not in {loaded, rank.token_capacity} and loaded != rank.token_capacity:
        doubts.append(f"{who} has {rank.token_capacity} tokens by /server_info, {loaded} by loads")
    if rank.index == 0:
        doubts += _doubts_about_total(evidence, who, load)
    return doubts


def _doubts_about_total(evidence: Evidence, who: str, load: Mapping[str, object]) -> list[str]:
    shown = evidence.info.get("max_total_num_tokens")
    total, loaded = figure(shown), figure(load.get("max_total_num_tokens"))
    if shown is not None and total is None:
        return [f"{who} shows a max_total_num_tokens that is no figure"]
    if None not in {total, loaded} and total != loaded:
        return [f"{who} has {total} tokens in all by /server_info, {loaded} by /v1/loads"]
    return []
