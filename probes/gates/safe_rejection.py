"""Gate: a prompt that a node of a pair refuses ends at the door, before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading, Role
from probes.contract import GATES
from probes.doubts import doubt_about, doubt_about_role
from probes.judgement import Check, Figure, Kind, Skipped
from probes.pairs import is_stray
from probes.versions import SAFE_SINCE, place_version

KEY = "safe_rejection"


@GATES.register(KEY)
class SafeRejection:
    """Reads from the version whether a refused prompt can still enter an admission queue.

    Source: upstream changes 36988 (0.5.20) and 38935 (0.5.21), read in the released wheels.
    """

    title = "Refusal ends at the door"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a prefill or decode node."""
        alone = []
        for reading in fleet.readings:
            if reading.role is Role.UNIFIED and not is_stray(reading):
                alone.append(reading.node)
            else:
                yield self._judge_node(reading)
        if alone:
            names = ", ".join(alone)
            yield Skipped(check=KEY, reason=f"unified, so it hands no request on: {names}")
        elif not fleet.readings:
            yield Skipped(check=KEY, reason="no node was named")

    def _judge_node(self, reading: Reading) -> Check:
        verdict, reason = _verdict(reading)
        figures: dict[str, Figure] = {
            "version": reading.version,
            "safe_since": SAFE_SINCE.get(reading.engine),
        }
        return Check(
            check=KEY,
            target=reading.node,
            verdict=verdict,
            kind=self.kind,
            reason=reason,
            figures=figures,
        )


def _verdict(reading: Reading) -> tuple[Verdict, str]:
    doubt = doubt_about(reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt
    placed = place_version(reading.engine, reading.version)
    if placed.guards is None:
        return Verdict.INCONCLUSIVE, (
            f"whether {reading.node} ends a refused prompt at the door is not known: "
            f"{placed.problem}; run a final release that is known to"
        )
    since = SAFE_SINCE[reading.engine]
    if not placed.guards.refuses_at_the_door:
        return Verdict.FAIL, (
            f"{reading.node} runs {reading.version}, which lets a refused prompt into its "
            f"admission queue: upgrade it to {since} or later"
        )
    doubt = doubt_about_role(reading)
    if doubt:
        return Verdict.INCONCLUSIVE, doubt
    note = f"; {placed.note}" if placed.note else ""
    return Verdict.PASS, (
        f"{reading.node} runs {reading.version}, which ends a refused prompt before anything is "
        f"allocated (since {since}){note}"
    )
