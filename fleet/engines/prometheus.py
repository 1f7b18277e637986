"""Reads the metrics text of an engine, and reduces it to the series that a reading needs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

#: Labels that are kept; any other may name a customer.
KEPT_LABELS: Final = ("dp_rank", "tp_rank", "pp_rank", "engine_type")
RANK_LABEL: Final = "dp_rank"
#: A page as large as this is not read (the client's own cap; a capture may hold a larger one).
LARGEST_PAGE: Final = 8 * 1024 * 1024

_NAME: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,99}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:-]{0,40}")
#: A series and its value as engines write nearly every line; any other goes to the library whole.
_USUAL: Final = re.compile(
    r"([A-Za-z_:][A-Za-z0-9_:]{0,99}(?:\{[^{}\\#\n]{0,400}\})?)"
    r" (-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-][0-9]{1,3})?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One series at one moment."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Answer the data-parallel rank; an engine with a single one does not label it."""
        label = self.labels.get(RANK_LABEL, "")
        return int(label) if label.isdecimal() else 0


def parse_metrics(text: str, *, labels: Collection[str] = KEPT_LABELS) -> tuple[Sample, ...]:
    """Answer every sample that can be read; a line that cannot is left out."""
    return tuple(sample for line in text.splitlines() for sample in _parse_line(line, labels))


def page_fault(text: str) -> str:
    """Answer why a page of metrics is not whole, or nothing; half a page must not look like one."""
    if len(text) > LARGEST_PAGE:
        return f"its page is larger than the {LARGEST_PAGE} bytes that are taken"
    if text.lstrip().startswith("<"):
        return "it is a page for people and none of metrics"
    if text and not text.endswith("\n") and not _is_whole(text.rpartition("\n")[2]):
        return "its page is cut off before the end"
    return ""


def reduce_metrics(
    text: str,
    *,
    names: Container[str],
    labels: Collection[str] = KEPT_LABELS,
    rank_label: str = RANK_LABEL,
) -> str:
    """Answer metrics text with only these series and only these labels.

    One more series is kept of each rank that no other series shows, so that a rank without its
    figure stays visible.
    """
    rank_of = re.compile(rf'[{{,]\s*{rank_label}="([0-9]{{1,5}})"')
    kept: list[Sample] = []
    strangers: dict[str, str] = {}
    for line in text.splitlines():
        name = _NAME.match(line)
        if name is None:
            continue
        if name[0] in names:
            kept += _parse_line(line, labels)
        elif rank_label in line and (rank := rank_of.search(line)):
            strangers.setdefault(rank[1], line)
    shown = {sample.labels.get(rank_label) for sample in kept}
    for number, line in strangers.items():
        if number not in shown:
            kept += _parse_line(line, labels)
    return "".join(f"{_line_of(sample)}\n" for sample in kept)


def total_by_name(samples: Iterable[Sample], name: str) -> float | None:
    """Answer the sum over data-parallel ranks, or None where the series is not there.

    Within a rank the largest counts: its tensor-parallel peers repeat the figure.
    """
    ranks: dict[int, float] = defaultdict(float)
    for sample in samples:
        if sample.name == name:
            ranks[sample.rank] = max(ranks[sample.rank], sample.value)
    return sum(ranks.values()) if ranks else None


def _is_whole(line: str) -> bool:
    return not line.strip() or line.startswith("#") or bool(_parse_line(line, ()))


def _parse_line(line: str, labels: Collection[str]) -> list[Sample]:
    if not line or line.startswith("#"):
        return []
    usual = _USUAL.fullmatch(line)
    known = _series(usual[1], tuple(labels)) if usual else None
    if usual and known:
        return [Sample(name=known.name, value=float(usual[2]), labels=known.labels)]
    return _parse_any(line, labels)


@lru_cache(maxsize=4096)
def _series(series: str, labels: tuple[str, ...]) -> Sample | None:
    """Answer name and kept labels of a series, which a node shows at every look; None where odd.

    The library takes thirty times as long as it takes to find them again.
    """
    found = _parse_any(f"{series} 1", labels)
    return found[0] if len(found) == 1 else None


def _parse_any(line: str, labels: Collection[str]) -> list[Sample]:
    try:
        families = list(text_string_to_metric_families(line))
    except (ValueError, IndexError, KeyError, TypeError):
        return []
    return [
        Sample(
            name=sample.name, value=float(sample.value), labels=_kept_labels(sample.labels, labels)
        )
        for family in families
        for sample in family.samples
    ]


def _kept_labels(shown: Mapping[str, str], labels: Collection[str]) -> dict[str, str]:
    return {name: shown[name] for name in labels if name in shown and _PLAIN.fullmatch(shown[name])}


def _line_of(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
    return (
        f"{sample.name}{{{labels}}} {sample.value!r}"
        if labels
        else f"{sample.name} {sample.value!r}"
    )
