"""Whether a signed proof still holds: its age, and the nodes as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.judgement import Check, Judgement, Kind
from probes.proof_bundle import SKEW, GateProof, ProvedNode

SIGNATURE_CHECK = "proof_signature"
AGE_CHECK = "proof_age"
NODE_CHECK = "proof_node"
SCOPE_CHECK = "proof_scope"


def broken(reason: str, *, target: str) -> Judgement:
    """Answer the judgement of a proof that nobody with this key signed."""
    why = f"{reason}; run the gate again with --proof, and keep the file as it wrote it"
    return Judgement(checks=(_check(SIGNATURE_CHECK, target, Verdict.FAIL, why),))


def check_proof(
    proof: GateProof, *, target: str, at: datetime, live: FleetReading | None
) -> Judgement:
    """Answer whether a signed proof opens a door now.

    Without ``live`` only signature, verdict and age are checked. A node that changed fails; what
    could not be read, is missing or was never proved is inconclusive.
    """
    checks = [_signature(proof, target), _age(proof, target, at)]
    if live is not None:
        checks += [*_nodes(proof, live), *_scope(proof, target, live)]
    return Judgement(checks=tuple(checks))


def _signature(proof: GateProof, target: str) -> Check:
    if proof.verdict != Verdict.PASS:
        reason = f"it is signed, but what it says is {proof.verdict}, not pass"
        return _check(SIGNATURE_CHECK, target, Verdict.FAIL, reason)
    if not proof.nodes:
        return _check(SIGNATURE_CHECK, target, Verdict.INCONCLUSIVE, "it is about no node at all")
    reason = f"signed by this key; says pass for {len(proof.nodes)} nodes ({proof.issuer})"
    return _check(SIGNATURE_CHECK, target, Verdict.PASS, reason)


def _age(proof: GateProof, target: str, at: datetime) -> Check:
    issued, ends = (f"{one:%Y-%m-%d %H:%M}Z" for one in (proof.issued_at, proof.expires_at))
    if proof.issued_at > at + SKEW:
        reason = f"it was issued {issued}, which is not yet: correct the clock of one machine"
        return _check(AGE_CHECK, target, Verdict.INCONCLUSIVE, reason)
    if at >= proof.expires_at:
        reason = f"it ended {ends}: run the gate again with --proof"
        return _check(AGE_CHECK, target, Verdict.INCONCLUSIVE, reason)
    return _check(AGE_CHECK, target, Verdict.PASS, f"issued {issued}, holds until {ends}")


def _nodes(proof: GateProof, live: FleetReading) -> Iterator[Check]:
    now_by_place = {_place(one.url, str(one.role), one.node): one for one in live.readings}
    proved = {_place(one.url, one.role, one.name): one for one in proof.nodes}
    for place, node in proved.items():
        yield _compare(node, now_by_place.get(place))
    for place, reading in now_by_place.items():
        if place not in proved:
            reason = f"{reading.node} ({reading.url}) is not in the proof: run the gate with it"
            yield _check(NODE_CHECK, reading.node, Verdict.INCONCLUSIVE, reason)


def _compare(node: ProvedNode, reading: Reading | None) -> Check:
    if reading is None:
        reason = f"{node.name} ({node.url}) is in the proof, and nobody named it now"
        return _check(NODE_CHECK, node.name, Verdict.INCONCLUSIVE, reason)
    if not reading.is_read:
        reason = f"{reading.node} could not be read: {reading.problem.rstrip('.')}"
        return _check(NODE_CHECK, node.name, Verdict.INCONCLUSIVE, reason)
    if reading.fingerprint != node.fingerprint:
        reason = f"{reading.node} changed or restarted since the proof: run the gate again"
        return _check(NODE_CHECK, node.name, Verdict.FAIL, reason)
    if any(reading.counters.get(name, value) < value for name, value in node.counters.items()):
        reason = f"a counter of {reading.node} went backwards, so it restarted: run the gate again"
        return _check(NODE_CHECK, node.name, Verdict.FAIL, reason)
    return _check(NODE_CHECK, node.name, Verdict.PASS, f"{reading.node} is as it was proved")


def _scope(proof: GateProof, target: str, live: FleetReading) -> Iterator[Check]:
    """Answer whether the proof was asked for at least what is wanted now."""
    wider = []
    if live.headroom > proof.headroom:
        wider.append(f"headroom {live.headroom} is wanted, {proof.headroom} was proved")
    if live.advertised is not None and live.advertised > (proof.advertised or 0):
        shown = "none" if proof.advertised is None else f"{proof.advertised:,}"
        wider.append(f"context {live.advertised:,} is promised, {shown} was named in the proof")
    if wider:
        yield _check(SCOPE_CHECK, target, Verdict.INCONCLUSIVE, "; ".join(wider))


def _place(url: str, role: str, name: str) -> tuple[str, str]:
    """Answer what a node is found by again: its address, else the name that somebody gave it."""
    return role, url or name


def _check(check: str, target: str, verdict: Verdict, reason: str) -> Check:
    return Check(check=check, target=target, verdict=verdict, kind=Kind.CONFIG, reason=reason)
