"""Gate: pages of a failed transfer are held until no write can land in them any more."""

from __future__ import annotations

from collections.abc import Iterable

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG
from probes.pairs import is_stray
from probes.versions import (
    DEFERRED_SINCE,
    Release,
    back_end_family,
    place_version,
    release_default,
)
from probes.vouched import (
    DEFERRED_RELEASE,
    Word,
    back_end_of,
    resting,
    resting_figures,
    shows_environment,
    switch_of,
    word_about,
)

KEY = "deferred_release"


@GATES.register(KEY)
class DeferredRelease:
    """Reads from version, transfer back end and environment when freed pages may be written to.

    Where the engine does not show its environment the default of its version is told as such.
    Source: SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE in the wheels of 0.5.19 to 0.5.23;
    which back ends can do it: ``supports_deferred_decode_kv_release`` there.
    """

    title = "Pages of a failed transfer are held"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a prefill or decode node."""
        split = [one for one in fleet.readings if one.role is not Role.UNIFIED or is_stray(one)]
        if not split:
            yield Skipped(check=KEY, reason="no node is a prefill or decode node")
        others = sorted({one.engine for one in split} - {SGLANG})
        if others:
            told = ", ".join(others)
            yield Skipped(check=KEY, reason=f"{told} has no such setting; see bounded_transfer")
        for reading in split:
            if reading.engine == SGLANG:
                yield _judge_node(reading, self.kind)


def _judge_node(reading: Reading, kind: Kind) -> Check:
    back_end = back_end_of(reading)
    setting = word_about(reading, DEFERRED_RELEASE)
    verdict, reason = _verdict(reading, back_end, setting)
    figures: dict[str, Figure] = {
        "version": reading.version,
        "transfer_backend": back_end.value,
        "environment": setting.value or ("not set" if shows_environment(reading) else "not shown"),
        **resting_figures([back_end, setting]),
    }
    return Check(
        check=KEY,
        target=reading.node,
        verdict=verdict,
        kind=kind,
        reason=reason + resting([back_end, setting]),
        figures=figures,
    )


def _verdict(reading: Reading, back_end: Word, setting: Word) -> tuple[Verdict, str]:
    doubt = doubt_about(reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt
    if back_end.value is None:
        return Verdict.INCONCLUSIVE, (
            f"{reading.node} does not show its transfer back end: attest transfer_backend, or make "
            "its /server_info readable"
        )
    placed = place_version(reading.engine, reading.version)
    default = (
        release_default(reading.version, back_end.value)
        if placed.guards is not None and reading.version
        else None
    )
    if default is None:
        why = placed.problem or f"no table is known for the back end {back_end.value}"
        return Verdict.INCONCLUSIVE, (
            f"whether {reading.node} holds the pages of a failed transfer is not known: {why}"
        )
    if default is Release.AT_ONCE:
        return Verdict.FAIL, _unsupported(reading, back_end.value)
    verdict, reason = _by_setting(reading, default, setting)
    note = f"; {placed.note}" if placed.note else ""
    return verdict, reason + note


def _unsupported(reading: Reading, back_end: str) -> str:
    since = DEFERRED_SINCE.get(back_end_family(back_end))
    cure = f"upgrade it to {since} or later" if since else "run a back end that can hold them"
    return (
        f"{reading.node} runs {reading.version} with {back_end}, which frees the pages of a failed "
        f"transfer at once, so that a late write lands with their next owner: {cure}"
    )


def _by_setting(reading: Reading, default: Release, setting: Word) -> tuple[Verdict, str]:
    node = reading.node
    is_on = default is Release.DEFERRED if setting.value is None else switch_of(setting.value)
    if is_on is None:
        return Verdict.INCONCLUSIVE, f"{node} has {DEFERRED_RELEASE} at a value that is no switch"
    if not is_on:
        how = "by default" if setting.value is None else "by its environment"
        return Verdict.FAIL, (
            f"{node} ({reading.version}) {how} frees the pages of a failed transfer at once, so "
            f"that a late write lands with their next owner: start every prefill and decode node "
            f"with {DEFERRED_RELEASE}=1"
        )
    doubt = doubt_about_role(reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt
    how = "by its environment" if setting.value is not None else "by default"
    hidden = setting.value is None and not shows_environment(reading)
    told = "; its environment is not shown, and could say otherwise" if hidden else ""
    return Verdict.PASS, (
        f"{node} ({reading.version}) {how} holds the pages of a failed transfer until no write can "
        f"land{told}"
    )
