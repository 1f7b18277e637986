"""Plan: fill the pool, let what was there be evicted, come back; time after time.

Source: the reproducer of vllm issue 480 (detection.md A1): a prefix, the same again, a request that
takes the whole pool, the prefix once more; it gets worse pass by pass. Case C10: answers decay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from common.verdicts import Verdict
from probes.canary import oracle_trend
from probes.canary.asking import alone_twice, fills
from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.lengths import longest_with_room, page_borders
from probes.canary.oracle_foreign import FOREIGN_MARKER, judge_foreign_marker
from probes.canary.oracle_pages import CODES, PAGE_CODES, ROOM, judge_page_codes
from probes.canary.oracle_reference import KIND, REFERENCE, comparisons_of, judge_reference
from probes.canary.oracle_trend import TREND, judge_trend
from probes.canary.oracles import KINDS as ORACLE_KINDS
from probes.canary.oracles import OWN_NONCE, judge_own_nonce
from probes.canary.rounds import Duty, Part, Sending, Way
from probes.canary.scene import HOST_TIER, Scene
from probes.canary.verdicts import checks_unsent, told_or_advice
from probes.judgement import Check, Kind

KEY = "churn"
KINDS: Final[dict[str, Kind]] = {
    REFERENCE: KIND,
    PAGE_CODES: Kind.CORRUPTION,
    OWN_NONCE: ORACLE_KINDS[OWN_NONCE],
    FOREIGN_MARKER: ORACLE_KINDS[FOREIGN_MARKER],
    TREND: oracle_trend.KIND,
}
#: So often the pool is filled and the prompts come back.
TURNS: Final = 3
#: Prompts that come back; with fewer no trend can be told.
_RETURNING: Final = 6
_SHORT_TOKENS: Final = 256
#: From this length on a prompt asks for the codes of several of its pages.
_LONG_TOKENS: Final = 1_024


@PLANS.register(KEY)
class Churn:
    """Asks tenant B's prompts alone twice, then again each time that tenant A filled the pool.

    What comes back after its pages were evicted is computed anew, or loaded from a tier beyond the
    pool where there is one; either way the answer must be what it was.
    """

    title = "What was evicted comes back as it was"
    oracles: Sequence[str] = tuple(KINDS)
    ways: Collection[Way] = tuple(Way)
    guards: Sequence[str] = ()

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer what is asked alone, and for each turn the filling and the return."""
        asks = list(_asks(scene))
        alone = [sending for ask in asks for sending in alone_twice(ask)]
        turns = [sending for turn in range(TURNS) for sending in _turn(scene, asks, turn + 1)]
        return (*alone, *turns)

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer one check for each oracle."""
        reference = judge_reference(evidence)
        if reference.verdict is not Verdict.FAIL:
            told = f"{reference.reason}; {_told_of_tiers(evidence)}"
            reference = replace(reference, reason=told)
        return (
            reference,
            told_or_advice(judge_page_codes(evidence)),
            judge_own_nonce(evidence),
            judge_foreign_marker(evidence),
            judge_trend(evidence),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the same checks for a round of which nothing was sent."""
        return checks_unsent(plan=KEY, kinds=KINDS, target=target, reason=reason)


def _asks(scene: Scene) -> Iterator[Sending]:
    longest = longest_with_room(scene, ROOM)
    lengths = [_SHORT_TOKENS, *page_borders(scene), longest // 2, longest // 8]
    # Where pages are tokens there are fewer; then some lengths come twice, in prompts of their own.
    for number in range(_RETURNING):
        length = min(lengths[number % len(lengths)], longest)
        yield Sending(
            part=Part.ASK,
            length=length,
            max_new_tokens=ROOM if length >= _LONG_TOKENS else ECHO_TOKENS,
            duty=Duty.ANSWER,
            purpose="comes back",
            script=f"prompt {number + 1}",
            codes=CODES if length >= _LONG_TOKENS else 1,
        )


def _turn(scene: Scene, asks: Sequence[Sending], turn: int) -> Iterator[Sending]:
    # What prefill holds must go too, and its pool may be the larger one.
    yield from fills(scene, at_least=max(pair.prefill_free for pair in scene.pairs))
    for ask in asks:
        yield replace(ask, purpose=f"comes back, turn {turn}")


def _told_of_tiers(evidence: Evidence) -> str:
    """Answer in words which tiers beyond the pool the prompts surely came back from."""
    tiers = evidence.scene.tiers
    if not tiers:
        return "no tier beyond the pool is shown to be on"
    page = evidence.scene.page_size
    returns = [row for one in comparisons_of(evidence) for row in one.again]
    is_loaded = any((row.cached_tokens or 0) > page for row in returns)
    # The pool was filled in between, so what is still cached came from beyond it. From which tier
    # no answer tells, and how much the first of them holds no reading does.
    untested = [tier for tier in tiers if not (is_loaded and tier == HOST_TIER)]
    told = f"{HOST_TIER}: loaded from" if is_loaded else ""
    unsure = f"not tested, though on: {', '.join(untested)}" if untested else ""
    return "; ".join(filter(None, (told, unsure)))
