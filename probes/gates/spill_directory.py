"""Gate: no two ranks of a node spill their pages into the same directory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.doubts import doubt_about
from probes.judgement import Check, Figure, Kind, Skipped
from probes.limits import SGLANG

KEY = "spill_directory"

BACKEND = "hicache_storage_backend"
PATHS = "spill_paths"
#: A part of a path that every rank fills in for itself.
_PLACEHOLDER = re.compile(
    r"\{[^}]*(?:rank|tp|worker|gpu|device)[^}]*\}|%[0-9]*d|\$\{?\w*RANK", re.IGNORECASE
)
#: A part that names one rank, which one setting for all ranks gives to all of them.
_ONE_RANK = re.compile(r"(?:rank|tp|worker|gpu)[_-]?[0-9]+", re.IGNORECASE)


@GATES.register(KEY)
class SpillDirectory:
    """Wants a per-rank part in the path of the disk tier where several ranks share a setting.

    Source: upstream issue 35484: eight ranks wrote bucket files of the same names into one path and
    overwrote each other in silence.
    """

    title = "Every rank spills into a directory of its own"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a node that may spill to disk."""
        without = [one.node for one in fleet.readings if not _may_spill(one)]
        if without or not fleet.readings:
            names = ", ".join(without) or "none was named"
            yield Skipped(check=KEY, reason=f"no disk tier that is known: {names}")
        for reading in fleet.readings:
            if _may_spill(reading):
                verdict, reason = _verdict(reading)
                figures: dict[str, Figure] = {
                    "ranks": _ranks(reading),
                    "backend": reading.flags.get(BACKEND),
                    "paths": reading.flags.get(PATHS),
                }
                yield Check(
                    check=KEY,
                    target=reading.node,
                    verdict=verdict,
                    kind=self.kind,
                    reason=reason,
                    figures=figures,
                )


def _may_spill(reading: Reading) -> bool:
    """Answer whether the node has a storage tier, or does not show that it has none."""
    if reading.engine != SGLANG:
        return reading.flags.get(PATHS) is not None
    if reading.flags.get(PATHS) is not None or doubt_about(reading):
        return True
    if reading.flags.get("enable_hierarchical_cache") == "false":
        return reading.flags.get(BACKEND) not in {None, "null"}
    return reading.flags.get(BACKEND) != "null"


def _ranks(reading: Reading) -> int | None:
    """Answer how many processes share the setting; None where the engine does not show it."""
    # Under data-parallel attention the replicas are counted among the tensor ranks.
    is_inside = reading.flags.get("enable_dp_attention") == "true"
    names = ("tp_size", "pp_size") if is_inside else ("tp_size", "pp_size", "dp_size")
    sizes = [reading.parallel.get(name) for name in names]
    if sizes[0] is None or not all(one is None or one.isdecimal() for one in sizes):
        return None
    ranks = 1
    for one in sizes:
        ranks *= max(1, int(one or 1))
    return ranks


def _verdict(reading: Reading) -> tuple[Verdict, str]:
    unknown = doubt_about(reading) or _unknown(reading)
    ranks, paths = _ranks(reading), reading.flags.get(PATHS)
    if unknown:
        return Verdict.INCONCLUSIVE, unknown
    if ranks == 1:
        reason = f"{reading.node} has one rank, which shares its directory with no other"
        return Verdict.PASS, reason
    if ranks is None or paths is None:
        return Verdict.INCONCLUSIVE, (
            f"{reading.node} keeps pages in {reading.flags.get(BACKEND)}, but does not show in "
            "which directory: find out whether each rank has its own"
        )
    return _verdict_of_paths(reading.node, ranks, paths.split(", "))


def _unknown(reading: Reading) -> str:
    if reading.flags.get(PATHS) is None and reading.flags.get(BACKEND) is None:
        return f"{reading.node} does not show whether it spills pages to disk"
    if _ranks(reading) is None:
        return f"{reading.node} does not show how many ranks share its disk tier"
    return ""


def _verdict_of_paths(node: str, ranks: int, paths: list[str]) -> tuple[Verdict, str]:
    shared = [one for one in paths if not _PLACEHOLDER.search(one)]
    if not shared:
        return Verdict.PASS, f"{node} gives each of its {ranks} ranks a directory of its own"
    told = ", ".join(shared)
    if all(_ONE_RANK.search(one) for one in shared):
        return Verdict.INCONCLUSIVE, (
            f"{node} has {ranks} ranks and names {told}, the directory of one of them: find out "
            "where the others write"
        )
    return Verdict.FAIL, (
        f"{ranks} ranks of {node} write into {told} under the same names and overwrite each "
        "other's pages: give each rank a directory of its own, and run a canary over the disk tier"
    )
