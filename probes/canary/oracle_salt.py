"""Oracles: a prefix cached under one salt is not there under another, nor felt to be.

Engines that take a cache salt promise both. A hit across salts shows in the engine's own count of
cached tokens, where it reports them, and else in the time to the first token. Source: cases C15 and
C16 of the public reports; arXiv 2502.07776 for timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, count_of, inconclusive, unexercised
from probes.canary.ranks import chance_of_sooner, least_chance
from probes.canary.rounds import Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

FOREIGN_HIT = "foreign_hit"
FOREIGN_SPEED = "foreign_speed"
#: A first token so much sooner than that of a prompt that is new to everybody came from a cache.
HIT_RATIO = 0.5
#: One round in so many tells of a cache where there is none; where so few were asked that no order
#: is that rare, all of the known ones must come before all of the new.
FALSE_ALARM = 1e-3
#: So many of each are compared; fewer are told, and decide nothing.
LEAST_TIMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The served requests of a round by what the cache could know: see ``arms_of``."""

    new: tuple[Row, ...]
    same: tuple[Row, ...]
    other: tuple[Row, ...]


def arms_of(evidence: Evidence) -> Arms:
    """Answer the requests whose prompt was new, known under the same salt, and under another alone.

    Told by script, salt and tenant in the order of sending: where an identity sends a script again,
    its own cache may serve it, whoever else sent it in between.
    """
    seen: dict[str, set[tuple[str, str]]] = {}
    arms: dict[str, list[Row]] = {"new": [], "same": [], "other": []}
    for row in evidence.rows:
        if not row.script or not row.is_served:
            continue
        known, identity = seen.setdefault(row.script, set()), (row.salt, row.tenant)
        arm = "same" if identity in known else "other" if known else "new"
        arms[arm].append(row)
        known.add(identity)
    return Arms(**{name: tuple(rows) for name, rows in arms.items()})


def judge_foreign_hit(evidence: Evidence) -> Check:
    """Fail where the engine itself counts cached tokens that only another identity had sent."""
    arms = arms_of(evidence)
    hit = next((row for row in arms.other if (row.cached_tokens or 0) > _page(evidence)), None)
    first = next((row for row in arms.new if (row.cached_tokens or 0) > _page(evidence)), None)
    if hit is not None and first is None:
        return check_of(
            evidence,
            FOREIGN_HIT,
            Verdict.FAIL,
            f"{hit.tenant} sent a prompt of {hit.length:,} tokens for the first time under "
            f"{hit.salt or 'no salt'}, and the engine took {hit.cached_tokens:,} of them from its "
            "cache, where only another identity had put them",
            kind=Kind.LEAK,
            row=hit,
            cached_tokens=hit.cached_tokens,
        )
    doubts = [*_doubt_counts(arms)]
    if first is not None:
        doubts.append(
            inconclusive("a prompt that is new to everybody was taken from the cache in part")
        )
    reason = (
        f"no cached token in {count_of(len(arms.other), 'prompt')} that only another identity had "
        f"sent; {count_of(len(arms.same), 'prompt')} of the same identity did hit"
    )
    return settled(evidence, FOREIGN_HIT, doubts, reason, kind=Kind.LEAK)


def judge_foreign_speed(evidence: Evidence) -> Check:
    """Fail where a prompt that only another identity sent is answered as fast as a cached one."""
    arms = arms_of(evidence)
    doubts = [*_doubt_times(arms)]
    times = [_first_tokens(rows) for rows in (arms.new, arms.same, arms.other)]
    new, same, other = (median(one) if one else None for one in times)
    if doubts or new is None or same is None or other is None:
        return settled(evidence, FOREIGN_SPEED, doubts, "", kind=Kind.TIMING)
    ratios = {"ratio": round(other / new, 3), "own_ratio": round(same / new, 3)}
    if same > new * HIT_RATIO:
        doubts = [unexercised("not even the same identity's prompt came sooner: no cache is felt")]
        return settled(evidence, FOREIGN_SPEED, doubts, "", kind=Kind.TIMING, **ratios)
    is_sooner = other <= new * HIT_RATIO
    if is_sooner and not _is_ordered(times[2], times[0]):
        doubts = [inconclusive("another's prompts are sooner in the middle, not in most: ask more")]
        return settled(evidence, FOREIGN_SPEED, doubts, "", kind=Kind.TIMING, **ratios)
    if is_sooner:
        return check_of(
            evidence,
            FOREIGN_SPEED,
            Verdict.FAIL,
            f"a prompt that only another identity had sent brings its first token in {other:.3f} "
            f"s, one that is new to everybody in {new:.3f} s: whether somebody else sent a prompt "
            "can be told, though not what became of it",
            kind=Kind.TIMING,
            row=arms.other[0],
            **ratios,
        )
    reason = f"known to others alone, a prompt takes {other:.3f} s; new to everybody, {new:.3f} s"
    return settled(evidence, FOREIGN_SPEED, (), reason, kind=Kind.TIMING, **ratios)


def _page(evidence: Evidence) -> int:
    """Answer what every prompt shares with every other: less than a page of special tokens."""
    return max(0, evidence.scene.page_size - 1)


def _doubt_counts(arms: Arms) -> Iterator[Doubt]:
    if not arms.other:
        yield unexercised("no prompt was sent that only another identity had sent")
    silent = [row for row in (*arms.other, *arms.same) if row.cached_tokens is None]
    if silent:
        yield inconclusive(
            "the engine does not report cached tokens: start it with --enable-cache-report "
            "(SGLang) or --enable-prompt-tokens-details (vLLM)"
        )
    elif not any(row.cached_tokens for row in arms.same):
        yield unexercised("not even the same identity's prompt hit the cache: is it on?")


def _doubt_times(arms: Arms) -> Iterator[Doubt]:
    for name, rows in (("new", arms.new), ("own", arms.same), ("another's", arms.other)):
        timed = [row for row in rows if row.first_token_s is not None]
        if not rows:
            yield unexercised(f"no {name} prompt was sent")
        elif len(timed) < LEAST_TIMED:
            yield inconclusive(
                f"{count_of(len(timed), 'time')} to the first token of {name} prompts, and "
                f"{LEAST_TIMED} are the least that tell something"
            )


def _first_tokens(rows: Sequence[Row]) -> list[float]:
    return [row.first_token_s for row in rows if row.first_token_s is not None]


def _is_ordered(known: Sequence[float], new: Sequence[float]) -> bool:
    """Answer whether known prompts come before new ones more often than chance would have it."""
    bound = max(FALSE_ALARM, least_chance(len(known), len(new)))
    return chance_of_sooner(known, new) <= bound
