"""The series of vLLM that tell pools, as figures by engine behind the port.

Source: vllm:cache_config_info, one series an engine; every label is a text, unset is "None".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleet.engines import vllm_fields as fields
from fleet.engines.documents import figure
from fleet.engines.prometheus import Sample
from fleet.engines.vllm_evidence import Evidence

_WHOLE: Final = re.compile(r"[0-9]{1,15}(?:\.0{1,6})?")
_DECIMAL: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,20})?")
_UNSET: Final = ("", "None", "none", "absent", "null")
_MOST_ENGINES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The labels of one engine's series as figures; None is unset."""

    labels: Mapping[str, str]
    block: int | None
    blocks: int | None
    size: int | None
    concurrency: float | None

    @property
    def product(self) -> int | None:
        """Answer blocks x block size, which means tokens only where there is one group."""
        if self.block is None or self.blocks is None:
            return None
        return figure(self.block * self.blocks)

    @property
    def odd(self) -> tuple[str, ...]:
        """Answer the labels that are set and hold no figure."""
        shown = (("block_size", self.block), ("num_gpu_blocks", self.blocks))
        named = (*shown, ("kv_cache_size_tokens", self.size))
        return tuple(name for name, held in named if held is None and self.is_set(name))

    def is_set(self, name: str) -> bool:
        """Answer whether a label says something."""
        return self.labels.get(name, "None") not in _UNSET


def rows_by_engine(evidence: Evidence) -> dict[int, list[Row]]:
    """Answer the series that tell a pool, by engine; an engine may show several."""
    rows: dict[int, list[Row]] = {}
    for sample in evidence.samples:
        index = _engine_of(sample)
        if sample.name == fields.CACHE_CONFIG and index is not None:
            rows.setdefault(index, []).append(_row(sample.labels))
    return rows


def _row(labels: Mapping[str, str]) -> Row:
    concurrency = labels.get("kv_cache_max_concurrency", "")
    return Row(
        labels=labels,
        block=whole(labels.get("block_size", "")),
        blocks=whole(labels.get("num_gpu_blocks", "")),
        size=whole(labels.get("kv_cache_size_tokens", "")),
        concurrency=float(concurrency) if _DECIMAL.fullmatch(concurrency) else None,
    )


def whole(label: str) -> int | None:
    """Answer a label as a figure, or None where it holds none."""
    return figure(int(label.partition(".")[0])) if _WHOLE.fullmatch(label) else None


def _engine_of(sample: Sample) -> int | None:
    """Answer the number of the engine; a series without one is that of a single engine, 0."""
    label = sample.labels.get(fields.ENGINE_LABEL)
    if label is None:
        return 0
    return int(label) if re.fullmatch(r"[0-9]{1,5}", label) else None


def row_of_config(evidence: Evidence) -> Row | None:
    """Answer what the configuration of a single engine says of its pool (development mode)."""
    if (figure(evidence.part("parallel_config").get("data_parallel_size")) or 1) > 1:
        return None
    config = evidence.part("cache_config")
    names = ("block_size", "num_gpu_blocks", "kv_cache_size_tokens")
    found = {name: str(number) for name in names if (number := figure(config.get(name)))}
    row = _row(found)
    return row if row.size is not None or row.product is not None else None


def engines_seen(evidence: Evidence, rows: Mapping[int, list[Row]]) -> tuple[set[int], bool]:
    """Answer the engines seen in any series, and whether an odd one was seen."""
    labelled = [one for one in evidence.samples if fields.ENGINE_LABEL in one.labels]
    numbers = {_engine_of(sample) for sample in labelled}
    known = {number for number in numbers if number is not None and number < _MOST_ENGINES}
    return (known | {*rows}) or {0}, len(known) != len(numbers)
