"""Gate: what a transfer brings is verified before anybody reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG
from probes.pairs import judge_pairs
from probes.versions import CHECKSUM_SINCE, is_since, place_version

KEY = "corruption_detection"

CHECKSUM = "disaggregation_enable_kv_checksum"
CANARY = "kv_canary"
_WATCHING = frozenset({"log", "raise"})
_FLAG = "--disaggregation-enable-kv-checksum"
#: What both sides must share, or the checksum is skipped in silence (0.5.23: layout signature).
_LAYOUT = ("kv_cache_dtype", "dtype", "page_size")
_PARALLEL = ("tp_size", "pp_size", "dcp_size")


@GATES.register(KEY)
class CorruptionDetection:
    """Wants the transfer checksum on both sides, of the same version and layout.

    kv-canary, which watches the pages inside a node, is told beside it. Source: sglang 0.5.21 to
    0.5.23: one-sided it shifts the metadata buffers; with unlike layouts nothing is verified.
    """

    title = "Corruption of a transfer is noticed"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a pair."""
        return judge_pairs(
            fleet, check=KEY, kind=self.kind, judge_pair=_judge_pair, needs_both=False
        )


def _judge_pair(prefill: Reading, decode: Reading) -> tuple[Verdict, str, Mapping[str, Figure]]:
    figures: dict[str, Figure] = {
        "checksum": _both(prefill.flags.get(CHECKSUM), decode.flags.get(CHECKSUM)),
        "kv_canary": _both(prefill.flags.get(CANARY), decode.flags.get(CANARY)),
        "version": _both(prefill.version, decode.version),
    }
    verdict, reason = _verdict(prefill, decode)
    return verdict, reason, figures


def _both(prefill: str | None, decode: str | None) -> str:
    return f"{prefill or 'not shown'} / {decode or 'not shown'}"


def _verdict(prefill: Reading, decode: Reading) -> tuple[Verdict, str]:
    both = (prefill, decode)
    doubts = [doubt for doubt in map(doubt_about, both) if doubt]
    if doubts:
        return Verdict.INCONCLUSIVE, "; ".join(doubts)
    if {one.engine for one in both} != {SGLANG}:
        return Verdict.INCONCLUSIVE, (
            f"no check of transfers is known of {prefill.engine} and {decode.engine}"
        )
    on = [one.node for one in both if one.flags.get(CHECKSUM) == "true"]
    off = [one for one in both if one.flags.get(CHECKSUM) == "false" or _is_too_old(one)]
    if off:
        return Verdict.FAIL, _unchecked(on, off)
    if len(on) < len(both):
        silent = ", ".join(one.node for one in both if one.node not in on)
        return Verdict.INCONCLUSIVE, f"{silent} does not show whether {_FLAG} is on"
    return _verdict_of_checked(prefill, decode)


def _is_too_old(reading: Reading) -> bool:
    """Answer whether the key is absent because this release has no checksum."""
    if reading.flags.get(CHECKSUM) is not None or not reading.version:
        return False
    placed = place_version(reading.engine, reading.version)
    return placed.guards is not None and not is_since(reading.version, CHECKSUM_SINCE)


def _unchecked(on: list[str], off: list[Reading]) -> str:
    names = " and ".join(one.node for one in off)
    old = [one for one in off if _is_too_old(one)]
    if on:
        return (
            f"the checksum is on at {' and '.join(on)} and off at {names}; one-sided it shifts the "
            f"metadata buffers: set {_FLAG} on both sides, of the same version"
        )
    if old:
        told = " and ".join(f"{one.node} ({one.version})" for one in old)
        return (
            f"{told} cannot verify a transfer: upgrade every node to {CHECKSUM_SINCE} or later and "
            f"set {_FLAG} on all; until then --kv-canary log at least watches the pages in a node"
        )
    return f"no transfer is verified on {names}: set {_FLAG} on every prefill and decode node"


def _verdict_of_checked(prefill: Reading, decode: Reading) -> tuple[Verdict, str]:
    unlike = [*_unlike(prefill, decode)]
    if unlike:
        return Verdict.FAIL, (
            f"{prefill.node} and {decode.node} differ in {', '.join(unlike)}, so the checksum is "
            "skipped in silence: start both with the same version and layout"
        )
    unknown = [doubt for doubt in map(doubt_about_role, (prefill, decode)) if doubt]
    unknown += [
        f"{one.node} does not show {name}"
        for one in (prefill, decode)
        for name, value in {**_terms(one), "version": one.version}.items()
        if value is None and name in {"version", "kv_cache_dtype", "page_size", "tp_size"}
    ]
    if unknown:
        return Verdict.INCONCLUSIVE, "; ".join(unknown)
    blind = [one.node for one in (prefill, decode) if one.flags.get(CANARY) not in _WATCHING]
    told = (
        f"; pages overwritten inside {' and '.join(blind)} go unnoticed without --kv-canary log"
        if blind
        else "; kv-canary watches the pages inside both"
    )
    return Verdict.PASS, (f"{decode.node} verifies the checksum of what {prefill.node} sends{told}")


def _unlike(prefill: Reading, decode: Reading) -> Iterator[str]:
    mine = {**_terms(prefill), "version": prefill.version}
    theirs = {**_terms(decode), "version": decode.version}
    for name, value in mine.items():
        if None not in {value, theirs[name]} and value != theirs[name]:
            yield f"{name} ({value} / {theirs[name]})"


def _terms(reading: Reading) -> dict[str, str | None]:
    return {name: reading.layout.get(name) for name in _LAYOUT} | {
        name: reading.parallel.get(name) for name in _PARALLEL
    }
