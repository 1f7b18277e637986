"""Whether a cache that outlives the process still holds pages of what was changed since."""

from __future__ import annotations

from common.verdicts import Verdict
from fleet.reading import Reading
from probes.judgement import Check, Figure, Kind
from probes.limits import SGLANG
from probes.vouched import resting, resting_figures, word_about

KEY = "persistent_cache"

#: What the bytes of a page mean; storage keys leave some of it out (upstream issues 33268, 24758).
MEANING = ("kv_cache_dtype", "dtype", "quantization", "page_size", "weights")
BACKEND = "hicache_storage_backend"
PATHS = "spill_paths"
#: Attested: somebody emptied the storage after the change.
CLEARED = "storage_cleared"


def judge_stale_cache(before: Reading, after: Reading) -> Check | None:
    """Answer whether old pages can be read as new ones; None where nothing of that kind changed.

    It blocks: no gate over one reading can see it.
    """
    changed = {
        name: f"{before.layout[name]} -> {after.layout[name]}"
        for name in MEANING
        if None not in {before.layout.get(name), after.layout.get(name)}
        if before.layout[name] != after.layout[name]
    }
    if not changed or after.engine != SGLANG or _has_none(before) or _has_none(after):
        return None
    cleared = word_about(after, CLEARED)
    verdict, reason = _verdict(before, after, ", ".join(changed))
    if verdict is not Verdict.PASS and (cleared.value or "").lower() in {"true", "1", "yes"}:
        verdict = Verdict.PASS
        reason = f"{after.node} changed in {', '.join(changed)}, and its storage was cleared"
    used = [cleared] if verdict is Verdict.PASS else []
    figures: dict[str, Figure] = {
        **changed,
        "storage": after.flags.get(BACKEND),
        "path": after.flags.get(PATHS),
        **resting_figures(used),
    }
    return Check(
        check=KEY,
        target=after.node,
        verdict=verdict,
        kind=Kind.CONFIG,
        reason=reason + resting(used),
        figures=figures,
    )


def _has_none(reading: Reading) -> bool:
    """Answer whether the engine says that it keeps nothing beyond its process."""
    storage, path = reading.flags.get(BACKEND), reading.flags.get(PATHS)
    return storage == "null" and path is None


def _verdict(before: Reading, after: Reading, changed: str) -> tuple[Verdict, str]:
    node, storage = after.node, after.flags.get(BACKEND)
    old, new = before.flags.get(PATHS), after.flags.get(PATHS)
    if storage is None and new is None:
        return Verdict.INCONCLUSIVE, (
            f"{node} changed in {changed}, and does not show whether a storage holds pages of "
            f"before: clear it and attest {CLEARED}"
        )
    if old is not None and new is not None and not {*old.split(", ")} & {*new.split(", ")}:
        return Verdict.PASS, f"{node} changed in {changed} and keeps its pages in another path"
    return Verdict.FAIL, (
        f"{node} changed in {changed}, and its storage ({storage or new}) still holds pages of "
        f"before, which would be read as if they were new: clear it or change its path, attest "
        f"{CLEARED}, and run a canary that plants, evicts and asks again"
    )
