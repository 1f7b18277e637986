"""What closes a failing check: exact flags per node, what is left then, and what it costs.

Every remedy with flags was judged by the gate itself over the fleet as it would be; one that would
not close the check is not named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading
from probes import cures, length_cures
from probes.contract import GATES
from probes.judgement import Check, Remedy

#: Failing targets of one check that get remedies of their own; the rest need the same. A large
#: fleet gets fewer, because each remedy looks at every node.
MOST_TARGETS = 32
MOST_TARGETS_OF_MANY = 4
MANY_NODES = 256

_CURES: Mapping[str, Callable[[FleetReading, Check], Iterable[Remedy]]] = {
    "pool_covers_context": length_cures.for_pool,
    "pair_exposure": length_cures.for_exposure,
    "pair_limits": length_cures.for_limits,
    "decode_admission": length_cures.for_admission,
    "safe_rejection": cures.for_rejection,
    "pair_match": cures.for_mismatch,
    "pair_layout": cures.for_layout,
    "deferred_release": cures.for_release,
    "bounded_transfer": cures.for_transfer,
    "corruption_detection": cures.for_detection,
    "secret_exposure": cures.for_secrets,
    "spill_directory": cures.for_spilling,
}


def remedies_for(fleet: FleetReading, checks: Iterable[Check]) -> tuple[Remedy, ...]:
    """Answer what closes each failing check, in the order of the checks."""
    return tuple(_remedies(fleet, checks))


def _remedies(fleet: FleetReading, checks: Iterable[Check]) -> Iterator[Remedy]:
    seen: Counter[str] = Counter()
    most = MOST_TARGETS if len(fleet.readings) <= MANY_NODES else MOST_TARGETS_OF_MANY
    for check in checks:
        cure = _CURES.get(check.check)
        if check.verdict is not Verdict.FAIL or cure is None or check.check not in GATES:
            continue
        seen[check.check] += 1
        if seen[check.check] <= most:
            yield from cure(fleet, check)
