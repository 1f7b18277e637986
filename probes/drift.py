"""What changed on the nodes between two readings; any change or restart voids a proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, went_backwards
from probes.doubts import doubt_about
from probes.judgement import Check, Figure, Kind
from probes.stale_cache import judge_stale_cache

KEY = "drift"


def compare_fleets(before: FleetReading, after: FleetReading) -> tuple[Check, ...]:
    """Answer one check a node that either reading names; advisory, because it blocks by the gates.

    A changed figure or a restart fails; a node that cannot be compared is inconclusive. Where pages
    of before may lie in a storage and mean something else now, a check that blocks follows.
    """
    old = {reading.node: reading for reading in before.readings}
    new = {reading.node: reading for reading in after.readings}
    names = dict.fromkeys([*old, *new])
    drift = [_compare(name, old.get(name), new.get(name)) for name in names]
    stale = [
        judge_stale_cache(old[name], new[name]) for name in names if name in old and name in new
    ]
    return (*drift, *(check for check in stale if check is not None))


def _compare(node: str, before: Reading | None, after: Reading | None) -> Check:
    if before is None:
        return _check(node, Verdict.FAIL, f"{node} is new: prove it before it takes requests")
    if after is None:
        return _check(
            node, Verdict.FAIL, f"{node} is gone: proofs of its pairs say nothing of what is left"
        )
    verdict, reason, changes = _compare_readings(before, after)
    return _check(node, verdict, reason, changes)


def _compare_readings(before: Reading, after: Reading) -> tuple[Verdict, str, Mapping[str, str]]:
    node = after.node
    doubts = [doubt for doubt in map(doubt_about, (before, after)) if doubt]
    if doubts:
        return Verdict.INCONCLUSIVE, "; ".join(dict.fromkeys(doubts)), {}
    changes = changed_fields(before, after)
    if changes:
        names = ", ".join(changes)
        return Verdict.FAIL, f"{node} changed in {names}: earlier proofs are void", changes
    if went_backwards(before, after):
        reason = f"{node} restarted, for its counters fell: earlier proofs are void"
        return Verdict.FAIL, reason, {}
    if not (before.restart_is_visible and after.restart_is_visible):
        reason = f"{node} shows nothing by which a restart could be noticed"
        return Verdict.INCONCLUSIVE, reason, {}
    return Verdict.PASS, f"{node} is what it was", {}


def changed_fields(before: Reading, after: Reading) -> dict[str, str]:
    """Answer what differs between two readings of a node, each as "before -> after"."""
    old, new = dict(_flat(before.identity())), dict(_flat(after.identity()))
    return {
        name: f"{old.get(name)} -> {new.get(name)}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }


def _flat(identity: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in identity.items():
        if isinstance(value, Mapping):
            for part, inner in value.items():
                yield f"{name}.{part}", inner
        else:
            yield name, value


def _check(
    node: str, verdict: Verdict, reason: str, changes: Mapping[str, str] | None = None
) -> Check:
    figures: dict[str, Figure] = dict(changes or {})
    return Check(
        check=KEY,
        target=node,
        verdict=verdict,
        kind=Kind.CONFIG,
        reason=reason,
        required=False,
        figures=figures,
    )
