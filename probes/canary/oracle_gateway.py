"""Oracle: no cache in front of the engines answers one tenant with what another was answered.

It needs the very same body from two tenants; prompts with markers of their own can never hit such a
cache, unless it takes prompts that are merely alike. Source: cases C12 to C14 of the public
reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from common.verdicts import Verdict
from probes.canary.contract import Evidence
from probes.canary.controls import Doubt, count_of, inconclusive, name_of, unexercised
from probes.canary.rounds import Row
from probes.canary.verdicts import check_of, settled
from probes.judgement import Check, Kind

SHARED_ANSWER = "shared_answer"
KIND = Kind.LEAK
LAYER: Final = "gateway response cache"
#: An answer so long is not the same twice by chance where the model samples. Unit: characters.
LONG: Final = 48
#: Headers that name the stored answer; the rest tell only whether there was one.
_KEYS: Final = ("x-litellm-cache-key",)
_HIT_WORDS: Final = frozenset({"hit", "true", "1", "yes"})


class Sign(StrEnum):
    """By what a later answer is seen to be a stored earlier one."""

    ID = "both answers carry the same id"
    HIT = "the gateway itself calls it a hit"
    KEY = "the same cache key and the same text"
    TEXT = "the same long text"


#: Signs that a model cannot make by saying the same again.
_CERTAIN: Final = frozenset({Sign.ID, Sign.HIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two answers; ``sign`` says by what they are one, None where they are two."""

    first: Row
    second: Row
    sign: Sign | None

    @property
    def is_across(self) -> bool:
        """Answer whether the two were made for different tenants."""
        return self.first.tenant != self.second.tenant


def judge_shared_answer(evidence: Evidence) -> Check:
    """Fail where a tenant got the stored answer of another."""
    pairs = [*_pairs(evidence)]
    found = (*_shared(pairs), *_alike(evidence))
    shared = [one for one in found if not _is_doubtful(evidence, one)]
    if shared:
        return _failed(evidence, shared[0])
    across = [one for one in pairs if one.is_across]
    stored = [one for one in pairs if not one.is_across and not _is_doubtful(evidence, one)]
    doubts = [*_doubt_text(pairs, stored), *_doubt_hits(evidence)]
    if not across:
        doubts.append(unexercised("no body was sent by both tenants and answered"))
    elif not any(one.sign for one in stored):
        doubts.append(
            unexercised(
                "not even the same tenant got a stored answer, so no cache in front was exercised"
            )
        )
    reason = (
        f"{count_of(len(across), 'answer')} made anew to a body that the other tenant had sent, "
        f"and the same tenant's repeat came from the cache; {_told_of_alike(evidence)}"
    )
    return settled(evidence, SHARED_ANSWER, doubts, reason, kind=KIND)


def _failed(evidence: Evidence, pair: _Pair) -> Check:
    body = "the same body" if pair.first.script == pair.second.script else "a similar body"
    return check_of(
        evidence,
        SHARED_ANSWER,
        Verdict.FAIL,
        f"{pair.second.tenant} got the answer that was made for {pair.first.tenant}, who had sent "
        f"{body} ({pair.sign}): a cache in front of the engines does not keep tenants apart; the "
        "engines themselves may be sound",
        kind=KIND,
        row=pair.second,
        layer=LAYER,
        requests=f"{pair.first.request}, {pair.second.request}",
    )


def _pairs(evidence: Evidence) -> Iterator[_Pair]:
    """Answer each answer beside the first one to the same body by each tenant before it."""
    firsts: dict[tuple[str, float], dict[str, Row]] = {}
    for row in _bodies(evidence):
        known = firsts.setdefault((row.script, row.temperature), {})
        for first in known.values():
            # What a tenant had been answered before may come back to it, whoever else knows it.
            is_open = row.tenant not in known or first.tenant == row.tenant
            yield _Pair(first=first, second=row, sign=_sign(first, row, is_open=is_open))
        known.setdefault(row.tenant, row)


def _bodies(evidence: Evidence) -> list[Row]:
    return [row for row in evidence.rows if row.script and row.is_served]


def _sign(first: Row, second: Row, *, is_open: bool) -> Sign | None:
    """Answer by what a later answer is the stored earlier one."""
    if first.answer_id and first.answer_id == second.answer_id:
        return Sign.ID
    if not is_open:
        return None
    if not _is_same_text(first, second):
        return None
    if _is_hit(second.cache_marks):
        return Sign.HIT
    if any(_same(first, second, one) for one in _KEYS):
        return Sign.KEY
    return Sign.TEXT if min(first.answer_length, second.answer_length) >= LONG else None


def _shared(pairs: Sequence[_Pair]) -> list[_Pair]:
    return [one for one in pairs if one.is_across and one.sign]


def _alike(evidence: Evidence) -> Iterator[_Pair]:
    """Answer answers to different bodies of two tenants that are one all the same.

    Each body asks for a code of its own, so a model that reads cannot say the same to both. That
    it reads is shown by answers that differ.
    """
    bodies = _bodies(evidence)
    reads = len({row.said_digest for row in bodies}) > 1
    for first, second in combinations(bodies, 2):
        if first.script == second.script or first.tenant == second.tenant:
            continue
        sign = _sign(first, second, is_open=reads)
        if sign is not None:
            yield _Pair(first=first, second=second, sign=sign)


def _is_doubtful(evidence: Evidence, pair: _Pair) -> bool:
    """Answer whether the same text may as well be what the model says each time it is asked.

    It may not where the same prompt was asked at another temperature, which makes another body of
    it, and was answered otherwise.
    """
    if pair.sign is None or pair.sign in _CERTAIN or pair.first.script != pair.second.script:
        return False
    return not any(
        row.script == pair.second.script
        and row.temperature != pair.second.temperature
        and min(row.temperature, pair.second.temperature) > 0
        and row.said_digest != pair.second.said_digest
        for row in _bodies(evidence)
    )


def _doubt_text(pairs: Sequence[_Pair], stored: Sequence[_Pair]) -> Iterator[Doubt]:
    """Answer why the same text for both tenants may mean that it was stored.

    Where the tenant's own repeat shows its cache by an id or a header, and the other tenant's
    answer shows neither, the model has said the same again.
    """
    if any(one.sign in _CERTAIN for one in stored):
        return
    shared = next((one for one in pairs if one.is_across and one.sign), None)
    if shared is not None:
        yield inconclusive(
            f"both tenants got {shared.sign}, and no control shows that the model would say "
            "something else to the same body when asked anew: nobody knows whether it was stored"
        )


def _doubt_hits(evidence: Evidence) -> Iterator[Doubt]:
    """Answer which answers the gateway calls stored though this tenant had sent nothing like it."""
    seen: set[tuple[str, str]] = set()
    said: set[tuple[str, str]] = set()
    for row in _bodies(evidence):
        is_known = (row.script, row.tenant) in seen or (row.said_digest, row.tenant) in said
        if _is_hit(row.cache_marks) and not is_known:
            yield inconclusive(
                f"the gateway calls the answer to {name_of(row)} of {row.tenant} a hit, and nobody "
                "in this round was answered so: whose it was is not known"
            )
        seen.add((row.script, row.tenant))
        said.add((row.said_digest, row.tenant))


def _told_of_alike(evidence: Evidence) -> str:
    """Answer whether a cache for similar prompts was seen at work within one tenant."""
    own = [
        (first, second)
        for first, second in combinations(_bodies(evidence), 2)
        if first.script != second.script and first.tenant == second.tenant
    ]
    if any(_sign(first, second, is_open=False) for first, second in own):
        return "similar bodies are answered alike within a tenant only"
    return "no cache for similar bodies showed itself"


def _is_hit(marks: Mapping[str, str]) -> bool:
    for name, value in marks.items():
        word = value.strip().lower()
        if name == "age" and word.isdecimal() and int(word[:9]) > 0:
            return True
        if name not in _KEYS and word.split(" ")[0].rstrip(",;") in _HIT_WORDS:
            return True
    return False


def _is_same_text(first: Row, second: Row) -> bool:
    return bool(first.said_digest) and first.said_digest == second.said_digest


def _same(first: Row, second: Row, name: str) -> bool:
    key = first.cache_marks.get(name)
    return bool(key) and key == second.cache_marks.get(name)
