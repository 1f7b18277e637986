"""All that a round knows of the fleet at one moment: readings, and what the router lists."""

from __future__ import annotations

from dataclasses import dataclass

from common.verdicts import Verdict
from fleet.endpoint import is_same_place, lookalikes_of, place_of, workers_at
from fleet.reading import FleetReading, Reading, Role, Worker
from probes.drift import compare_fleets

#: Endings of the counters that only prompts move; reading a node moves others.
_WORK = ("num_requests_total", "prompt_tokens_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Readings of every node that was named or listed, and the router's list.

    ``listed`` is None where the list could not be read; then ``listing_problem`` says why.
    ``named`` are the addresses that somebody named, whether listed or not. ``router_kind`` is what
    answered as the router, empty where that is not known.
    """

    readings: tuple[Reading, ...]
    listed: tuple[Worker, ...] | None
    listing_problem: str = ""
    named: tuple[str, ...] = ()
    router_kind: str = ""

    def reading_at(self, url: str) -> Reading | None:
        """Answer the reading of the node at an address, or None where none was taken."""
        return next((one for one in self.readings if is_same_place(one.url, url)), None)

    def lists(self, url: str) -> bool:
        """Answer whether the router certainly lists a worker at this address."""
        return bool(workers_at(self.listed or (), url))

    def may_list(self, url: str) -> bool:
        """Answer whether a listed worker may be at this address, under another spelling too."""
        return self.lists(url) or bool(lookalikes_of(self.listed or (), url))

    @property
    def listed_readings(self) -> tuple[Reading, ...]:
        """Answer the readings of the nodes that the router lists."""
        return tuple(one for one in self.readings if self.lists(one.url))

    def is_same_process_listed(self, reading: Reading) -> bool:
        """Answer whether a listed node is this very process under another address.

        Told by the whole fingerprint, which holds the moment of the start and the random seed.
        """
        if not (reading.started and reading.random_seed):
            return False
        return any(one.fingerprint == reading.fingerprint for one in self.listed_readings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What changed between the survey before a round and the one after it, in sentences.

    ``changes`` say that the engines were others than those that were read; ``gaps`` say that it
    cannot be known.
    """

    changes: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Answer all of it in one line, empty where nothing moved."""
        return "; ".join((*self.changes, *self.gaps))


def compare_surveys(before: Survey, after: Survey) -> Drift:
    """Answer what moved during a round."""
    checks = compare_fleets(
        FleetReading(readings=before.readings), FleetReading(readings=after.readings)
    )
    changes = [check.reason for check in checks if check.verdict is Verdict.FAIL]
    gaps = [check.reason for check in checks if check.verdict is Verdict.INCONCLUSIVE]
    if after.listed is None:
        gaps.append(f"the router's list could not be read again: {after.listing_problem}")
    elif _entries(before) != _entries(after):
        changes.append("the router's list of workers changed")
    return Drift(changes=tuple(changes), gaps=tuple(gaps))


def unreached(before: Survey, after: Survey, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Answer which of these nodes do not show that they took a request between two surveys."""
    old = {one.node: one for one in before.readings}
    new = {one.node: one for one in after.readings}
    return tuple(
        name
        for name in nodes
        if not (name in old and name in new and _took_requests(old[name], new[name]))
    )


def _entries(survey: Survey) -> set[tuple[str, Role | None]]:
    return {(place_of(worker.url), worker.role) for worker in survey.listed or ()}


def _took_requests(before: Reading, after: Reading) -> bool:
    return any(
        value > before.counters.get(name, 0.0)
        for name, value in after.counters.items()
        if name.endswith(_WORK)
    )
