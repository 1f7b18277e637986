"""What a gate and a canary plan must be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from common.registry import Registry
from fleet.reading import FleetReading
from probes.judgement import Check, Kind, Skipped

#: Checks that a deployment's profile requires unless it names others (design).
DEFAULT_REQUIRED = ("pool_covers_context", "pair_exposure", "pair_match", "safe_rejection")


class Gate(Protocol):
    """A pure judgement over readings. It never raises and never passes without a figure.

    ``kind`` is the one kind of all its findings. Source of each rule: the gate's own docstring.
    """

    title: str
    kind: Kind

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer the checks of this gate, or why it does not apply."""
        ...


GATES: Registry[Gate] = Registry("gate")
