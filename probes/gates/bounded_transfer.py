"""Gate: no transfer outlasts the time for which its pages are held."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.contract import GATES
from probes.doubts import doubt_about
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG
from probes.pairs import is_stray
from probes.versions import BATCH_LIMIT_SINCE, back_end_family, is_since, place_version
from probes.vouched import (
    BATCH_LIMIT,
    Word,
    back_end_of,
    resting,
    resting_figures,
    shows_environment,
    word_about,
)

KEY = "bounded_transfer"

VLLM = "vllm"
#: Names under which a vLLM lease is known: of 0.32, and of older releases.
LEASE = ("kv_lease_duration", "VLLM_NIXL_ABORT_REQUEST_TIMEOUT")
#: Longest time in seconds that a request waits in the router; no engine can know it.
QUEUE = "router_queue_s"
#: The producer's own word that a lease ran out before its pages were read.
AFTER_EXPIRY = "vllm:nixl_num_notifications_after_expiry_total"
EXPIRED = "vllm:nixl_num_kv_expired_reqs_total"

_Found = tuple[Verdict, str, dict[str, Figure], list[Word]]


@GATES.register(KEY)
class BoundedTransfer:
    """SGLang with Mooncake: how much one call may send. vLLM: lease against the router's queue.

    Only the sending side matters: prefill nodes, and such as can become one. Unit: pages a call;
    seconds. Source: SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES, 0 = unbounded, which is the default
    of 0.5.22 and 0.5.23 (upstream change 32758); vLLM 0.32 kv_lease_duration, seen leaking.
    """

    title = "No transfer outlasts its pages"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a sending node."""
        senders = [one for one in fleet.readings if _sends(one)]
        if not senders:
            yield Skipped(check=KEY, reason="no node is a prefill node, so none sends pages")
        for reading in senders:
            yield self._judge_node(reading)

    def _judge_node(self, reading: Reading) -> Check | Skipped:
        found = _found(reading)
        if isinstance(found, str):
            return Skipped(check=KEY, reason=found)
        verdict, reason, figures, words = found
        return Check(
            check=KEY,
            target=reading.node,
            verdict=verdict,
            kind=self.kind,
            reason=reason + resting(words),
            figures={**figures, **resting_figures(words)},
        )


def _sends(reading: Reading) -> bool:
    can_become_one = reading.flags.get("enable_pd_role_switch") == "true"
    split = reading.role is Role.DECODE and can_become_one
    return reading.role is Role.PREFILL or split or is_stray(reading)


def _found(reading: Reading) -> _Found | str:
    """Answer verdict, reason, figures and whose words they rest on; a text where none applies."""
    doubt = doubt_about(reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt, {}, []
    if reading.engine == VLLM:
        return _judge_lease(reading)
    if reading.engine != SGLANG:
        reason = f"what bounds a transfer of {reading.node} ({reading.engine}) is not known"
        return Verdict.INCONCLUSIVE, reason, {}, []
    back_end = back_end_of(reading)
    if back_end.value is None:
        reason = f"{reading.node} does not show its transfer back end: attest transfer_backend"
        return Verdict.INCONCLUSIVE, reason, {}, []
    if back_end_family(back_end.value) != "mooncake":
        return (
            f"{reading.node} sends by {back_end.value}; the bound is one of Mooncake"
            f"{resting([back_end])}"
        )
    limit = word_about(reading, BATCH_LIMIT)
    verdict, reason = _judge_batch(reading, limit)
    figures: dict[str, Figure] = {
        "pages_a_call": limit.value or ("0" if shows_environment(reading) else None),
        "transfer_backend": back_end.value,
        "version": reading.version,
    }
    return verdict, reason, figures, [back_end, limit]


def _judge_batch(reading: Reading, limit: Word) -> tuple[Verdict, str]:
    node = reading.node
    if limit.value is None and not shows_environment(reading):
        return Verdict.INCONCLUSIVE, (
            f"{node} does not show its environment, and the default of {BATCH_LIMIT} is 0, "
            "unbounded: attest it, or start the node with SGLANG_EXPOSE_OWN_ENV_VARS=1"
        )
    value = (limit.value or "0").strip()
    if not value.isdecimal():
        return Verdict.INCONCLUSIVE, f"{node} has {BATCH_LIMIT} at a value that is no number"
    if int(value) == 0:
        return Verdict.FAIL, (
            f"{node} sends a whole prompt in one call, which may outlast the time for which its "
            f"pages are held: start it with {BATCH_LIMIT}=1024"
        )
    placed = place_version(reading.engine, reading.version)
    if placed.guards is None or not reading.version:
        return Verdict.INCONCLUSIVE, (
            f"whether {node} heeds {BATCH_LIMIT} is not known: {placed.problem}"
        )
    if not is_since(reading.version, BATCH_LIMIT_SINCE):
        return Verdict.INCONCLUSIVE, (
            f"{node} has {BATCH_LIMIT}={value}, but {reading.version} is not known to heed it: "
            f"upgrade it to {BATCH_LIMIT_SINCE} or later"
        )
    note = f"; {placed.note}" if placed.note else ""
    return Verdict.PASS, f"{node} sends at most {int(value):,} pages a call{note}"


def _judge_lease(reading: Reading) -> _Found:
    node = reading.node
    lease, queue = word_about(reading, *LEASE), word_about(reading, QUEUE)
    late = reading.counters.get(AFTER_EXPIRY, 0)
    expired = reading.counters.get(EXPIRED, 0)
    figures: dict[str, Figure] = {"lease_s": lease.value, "router_queue_s": queue.value}
    if late > 0:
        figures["read_after_expiry"] = int(late)
        reason = (
            f"{node} says that {int(late):,} times pages were read after their lease had run out, "
            "so another request may have owned them: raise kv_lease_duration above the longest "
            "time that a request waits in the router"
        )
        return Verdict.FAIL, reason, figures, []
    if expired > 0:
        figures["expired"] = int(expired)
    held, waited = _seconds(lease), _seconds(queue)
    if held is None or waited is None:
        unknown = f"its lease ({LEASE[0]}; 30 s by default)" if held is None else ""
        other = f"the longest time that a request waits in the router ({QUEUE})"
        told = " and ".join(one for one in (unknown, other if waited is None else "") if one)
        return Verdict.INCONCLUSIVE, f"{node}: attest {told}", figures, [lease, queue]
    if held <= waited:
        reason = (
            f"{node} holds pages for {held} s, and a request may wait {waited} s in the router: "
            f"then another request's pages are read; raise kv_lease_duration above {waited}"
        )
        return Verdict.FAIL, reason, figures, [lease, queue]
    if expired > 0:
        reason = (
            f"{node} holds pages for {held} s, longer than the {waited} s of the router's queue, "
            f"yet {int(expired):,} leases ran out unread: find out why"
        )
        return Verdict.INCONCLUSIVE, reason, figures, [lease, queue]
    reason = f"{node} holds pages for {held} s, longer than a request waits ({waited} s)"
    return Verdict.PASS, reason, figures, [lease, queue]


def _seconds(word: Word) -> Decimal | None:
    """Answer a time above or at 0; None where the text is none."""
    try:
        seconds = None if word.value is None else Decimal(word.value.removesuffix("s").strip())
    except InvalidOperation:
        return None
    return seconds if seconds is not None and seconds.is_finite() and seconds >= 0 else None
