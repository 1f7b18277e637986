"""Pools of a vLLM node, by engine behind its port.

Source: vllm:cache_config_info of /metrics, and the start-up log where that shows no figure.
Recorded for 0.32.0: with 17 blocks of 128 the labels say 2,176 tokens, but one block is never
usable, so 2,048 is the longest request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fleet.engines import vllm_fields as fields
from fleet.engines.documents import LARGEST_FIGURE, figure
from fleet.engines.vllm_evidence import Evidence
from fleet.engines.vllm_rows import Row, engines_seen, row_of_config, rows_by_engine, whole
from fleet.reading import Rank

#: A printed concurrency has two decimals, so what it implies is only as exact as this.
_SLACK: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The engines that any series shows. ``incomplete`` says which lack a pool and why.

    ``beside`` holds further figures to show, by name; ``notes`` say where two disagree.
    """

    ranks: tuple[Rank, ...]
    incomplete: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    beside: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def smallest(self) -> int | None:
        """Answer the usable tokens of the smallest engine; None where one shows no figure."""
        pools = [rank.token_capacity for rank in self.ranks]
        known = [pool for pool in pools if pool is not None]
        return min(known) if known and len(known) == len(pools) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What one series amounts to: usable tokens, or None and ``doubt``."""

    usable: int | None
    doubt: str = ""
    note: str = ""
    beside: Mapping[str, int | float] = field(default_factory=dict)


def read_pools(evidence: Evidence, *, context: int | None, context_parallel: int | None) -> Pools:
    """Answer the pool of every engine that is seen anywhere."""
    rows = rows_by_engine(evidence)
    seen, odd = engines_seen(evidence, rows)
    configured = row_of_config(evidence)
    if configured is not None and seen == {0} and not any(map(_tells, rows.get(0, []))):
        rows = {0: [configured]}
    if (evidence.metrics_fault and evidence.metrics_were_asked) or not rows:
        return _without_rows(evidence, seen)
    verdicts = {
        index: _judge_all(rows.get(index, []), evidence, context, context_parallel)
        for index in sorted(seen)
    }
    doubts = [
        f"ranks: engine {index} {verdict.doubt}"
        for index, verdict in verdicts.items()
        if verdict.doubt
    ]
    if odd:
        doubts.append("ranks: an engine's number is too large or no number")
    beside: dict[str, int | float] = {}
    for verdict in reversed(verdicts.values()):
        beside |= verdict.beside
    notes = dict.fromkeys(f"pool: {one.note}" for one in verdicts.values() if one.note)
    return Pools(
        ranks=tuple(
            Rank(index=index, token_capacity=verdict.usable) for index, verdict in verdicts.items()
        ),
        incomplete=tuple(doubts),
        notes=tuple(notes),
        beside=beside,
    )


def _tells(row: Row) -> bool:
    return bool(row.odd) or row.size is not None or row.product is not None


def _without_rows(evidence: Evidence, seen: set[int]) -> Pools:
    """Answer the pool that the log tells, where nobody asked the engine or it does not show it."""
    logs = evidence.logs
    fault = evidence.metrics_fault or f"{fields.METRICS[0]} has no {fields.CACHE_CONFIG}"
    went_wrong = evidence.metrics_were_asked and bool(evidence.metrics_fault)
    if logs.smallest_pool is None or went_wrong or len(seen) > 1:
        return Pools(
            ranks=tuple(Rank(index=index) for index in sorted(seen)),
            incomplete=(f"ranks: {fault}",),
        )
    verdict = _from_log(evidence)
    return Pools(
        ranks=(Rank(index=0, token_capacity=verdict.usable),),
        notes=(f"pool: {verdict.note}",),
        beside=verdict.beside,
    )


def _judge_all(
    rows: list[Row], evidence: Evidence, context: int | None, context_parallel: int | None
) -> _Verdict:
    """Answer what the series of one engine amount to; an unknown one counts, else the smallest."""
    if not rows:
        return _Verdict(usable=None, doubt="is there but shows no pool")
    verdicts = [_judge(row, evidence, context, context_parallel) for row in rows]
    return min(verdicts, key=lambda one: one.usable or 0)


def _judge(
    row: Row, evidence: Evidence, context: int | None, context_parallel: int | None
) -> _Verdict:
    if row.odd:
        return _Verdict(usable=None, doubt=f"shows a {' and a '.join(row.odd)} that is no figure")
    if row.labels.get("is_attention_free") == "True":
        return _Verdict(usable=None, doubt="holds no KV cache (attention-free), so no pool")
    if row.size is not None:
        return _by_size(row, row.size, context)
    if row.product is None or row.block is None:
        return _by_log_or_nothing(row, evidence)
    return _by_labels(row, row.product, row.block, evidence, context_parallel)


def _by_labels(
    row: Row, product: int, block: int, evidence: Evidence, context_parallel: int | None
) -> _Verdict:
    """Answer by blocks x block size, which is all that an older engine shows."""
    signs = [*_hybrid_signs(row, evidence.logs.attention_block)]
    if signs:
        return _unreliable(row, evidence, signs)
    if context_parallel is not None:
        return _multiplied(product, context_parallel)
    return _by_product(product, block, evidence)


def _by_size(row: Row, size: int, context: int | None) -> _Verdict:
    """Answer by the group-aware figure; one block is never usable where the labels tell which."""
    usable = size
    beside: dict[str, int | float] = {"kv_cache_size_tokens": size}
    notes: list[str] = []
    if row.product == size and row.block is not None:
        usable = size - row.block
    elif row.product is not None:
        beside["label_product"] = row.product
        notes.append(
            f"blocks x block size is {row.product:,}, which this model's cache groups make "
            f"meaningless; the engine's own figure is {size:,}"
        )
    implied = _implied(row, context)
    if implied is not None and implied < size * (1 - _SLACK) - (context or 0) * _SLACK:
        beside["implied_pool"] = implied
        notes.append(
            f"the engine says {size:,} and its concurrency {implied:,}: the smaller counts"
        )
        usable = min(usable, implied)
    if usable <= 0:
        return _Verdict(usable=None, doubt="has a single block, which is never usable")
    return _Verdict(usable=usable, note="; ".join(notes), beside=beside)


def _implied(row: Row, context: int | None) -> int | None:
    if row.concurrency is None or context is None:
        return None
    implied = row.concurrency * context
    return math.floor(implied) if 0 < implied <= LARGEST_FIGURE else None


def _hybrid_signs(row: Row, attention_block: int | None) -> Iterator[str]:
    """Answer why blocks x block size may not be tokens."""
    if any(map(row.is_set, ("mamba_block_size", "mamba_page_size_padded", "mamba_cache_mode"))):
        yield "it has state-space layers"
    if row.is_set("sliding_window"):
        yield "it has sliding-window layers"
    effective = whole(row.labels.get("effective_attention_block_size", ""))
    for other in (effective, attention_block):
        if other is not None and other != row.block:
            yield f"its attention blocks hold {other:,} tokens"


def _unreliable(row: Row, evidence: Evidence, signs: list[str]) -> _Verdict:
    if evidence.logs.smallest_pool is not None:
        return _from_log(evidence)
    beside: dict[str, int | float] = {"label_product": row.product or 0}
    block = evidence.logs.attention_block
    if block is not None and row.blocks is not None and figure(block * row.blocks):
        beside["product_by_attention_block"] = block * row.blocks
    return _Verdict(
        usable=None,
        doubt=(
            f"shows no kv_cache_size_tokens, and its block_size of {row.block} cannot be relied on "
            f"({', '.join(dict.fromkeys(signs))}): upgrade vLLM, or give its start-up log"
        ),
        beside=beside,
    )


def _multiplied(product: int, context_parallel: int) -> _Verdict:
    return _Verdict(
        usable=None,
        doubt=(
            f"shows {product:,} tokens of one device; a context-parallel size of "
            f"{context_parallel} is named, and nothing on the running engine proves the "
            f"{product * context_parallel:,} that it would make: upgrade to a vLLM that shows "
            "kv_cache_size_tokens"
        ),
        beside={"local_pool": product, "claimed_pool": product * context_parallel},
    )


def _by_log_or_nothing(row: Row, evidence: Evidence) -> _Verdict:
    if evidence.logs.smallest_pool is not None:
        return _from_log(evidence)
    unset = [name for name in ("num_gpu_blocks", "block_size") if not row.is_set(name)]
    return _Verdict(
        usable=None,
        doubt=f"does not expose {' and '.join(unset) or 'its pool'} in this version: upgrade vLLM, "
        "or give its start-up log",
    )


def _from_log(evidence: Evidence) -> _Verdict:
    logs = evidence.logs
    beside: dict[str, int | float] = {}
    note = f"the figure is that of the start-up log, {logs.smallest_pool:,}"
    if logs.pool is not None:
        beside["log_pool"] = logs.pool
    if logs.implied_pool is not None:
        beside["implied_pool"] = logs.implied_pool
    if logs.pool is not None and logs.implied_pool is not None:
        factor = round(max(logs.pool, logs.implied_pool) / min(logs.pool, logs.implied_pool), 2)
        if factor > 1 + 2 * _SLACK:
            beside["disagreement"] = factor
            note = (
                f"the start-up log says {logs.pool:,} and implies {logs.implied_pool:,} "
                f"(factor {factor}, a known defect on hybrid models): the smaller counts"
            )
    return _Verdict(usable=logs.smallest_pool, note=note, beside=beside)


def _by_product(product: int, block: int, evidence: Evidence) -> _Verdict:
    """Answer one block less than the labels say; the running engine counts before any log."""
    usable = figure(product - block)
    if usable is None:
        return _Verdict(usable=None, doubt="has a single block, which is never usable")
    printed = evidence.logs.pool
    if printed is None or printed == product:
        return _Verdict(usable=usable)
    return _Verdict(
        usable=usable,
        note=f"the running engine says {product:,} and a start-up log {printed:,}",
        beside={"label_product": product, "log_pool": printed},
    )
