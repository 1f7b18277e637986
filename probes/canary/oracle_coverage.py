"""Oracle: every node or pair of the deployment was asked, by name.

A router that chooses hides a broken member: one of eight shows in a tenth of the answers. Source:
case C11 of the public reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import inconclusive, unexercised
from probes.canary.rounds import Echo, Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

COVERAGE = "coverage"
KIND = Kind.CORRUPTION


def judge_coverage(evidence: Evidence, *, workers: Sequence[str]) -> Check:
    """Fail where a worker answers wrongly, whatever the others do; pass where each was asked.

    ``workers`` are all that there are, by name. A missing code counts only where the model repeats
    one at all: random weights never do, seen on healthy SGLang 0.5.19.
    """
    served = [row for row in evidence.rows if row.is_served]
    asked = Counter(row.worker for row in served if row.worker)
    can_echo = any(row.echo is Echo.WHOLE for row in served)
    wrong = Counter(
        row.worker for row in served if row.worker and _is_wrong(row, can_echo=can_echo)
    )
    worst = next(iter(wrong.most_common(1)), None)
    if worst is not None:
        name, count = worst
        return check_of(
            evidence,
            COVERAGE,
            Verdict.FAIL,
            f"{name} answers {count} of {asked[name]} prompts without reading them; "
            f"{_others(asked, wrong, name)}: take it out of rotation",
            kind=KIND,
            worker=name,
            wrong=count,
            asked=asked[name],
        )
    read = {row.worker for row in served if row.echo in {Echo.WHOLE, Echo.BEGINS}}
    missed = [name for name in workers if name not in read]
    doubts = []
    if not workers:
        doubts.append(unexercised("nobody says which workers there are"))
    elif missed:
        doubts.append(
            inconclusive(
                f"{len(missed)} of {len(workers)} workers are not known to have read a prompt "
                f"({', '.join(missed[:8])}): probe each of them by its own address"
            )
        )
    if served and not can_echo:
        doubts.append(
            inconclusive(
                "no prompt's own code came back from anywhere, so a missing one tells of the model "
                "and not of a worker"
            )
        )
    reason = f"all {len(workers)} workers were asked, and each read what it was asked"
    return settled(evidence, COVERAGE, doubts, reason, kind=KIND)


def _is_wrong(row: Row, *, can_echo: bool) -> bool:
    return bool(row.foreign) or (can_echo and row.echo is Echo.MISSING)


def _others(asked: Counter[str], wrong: Counter[str], name: str) -> str:
    bad = sum(count for one, count in wrong.items() if one != name)
    total = sum(count for one, count in asked.items() if one != name)
    return f"of the others {bad} of {total}"
