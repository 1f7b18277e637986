"""Plan: leave while prompts are computed and sent, and look at those who were not asked to leave.

What a cancelled request leaves half-written reaches its retry, or somebody who had nothing to do
with it. Source: case C07 of the public reports (SGLang issue 23392): a bystander was wrong in 15 of
15 runs; case C19: answers shifted by one after a cancel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fleet.speech import Form
from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.oracle_foreign import FOREIGN_MARKER, judge_foreign_among
from probes.canary.oracle_pages import CODES, PAGE_CODES, ROOM, judge_page_codes
from probes.canary.oracle_reference import REFERENCE, judge_reference
from probes.canary.oracles import ANSWERED, OWN_NONCE, judge_answered, judge_own_nonce
from probes.canary.rounds import Duty, Part, Sender, Sending, Stay, Way
from probes.canary.scene import Scene
from probes.canary.sizing import SHORTEST, equal_length
from probes.canary.strays import doubt_strays, strays_of
from probes.canary.verdicts import checks_unsent, doubted, told_or_advice
from probes.judgement import Check, Kind

KEY = "abort"
KINDS: Final = {
    FOREIGN_MARKER: Kind.LEAK,
    OWN_NONCE: Kind.CORRUPTION,
    PAGE_CODES: Kind.CORRUPTION,
    REFERENCE: Kind.CORRUPTION,
    ANSWERED: Kind.AVAILABILITY,
}
#: When clients leave, as shares of the time in which the same length alone comes to its first
#: token, so that they spread over prefill and transfer; beyond 1 decode is speaking.
SHARES: Final = (0.25, 0.5, 0.9, 1.2)
_BYSTANDERS: Final = ("bystander-1", "bystander-2")
#: Who leaves, who stays with the same prompt, a retry, and the bystanders.
_AT_ONCE: Final = 3 + len(_BYSTANDERS)
_ALONE: Final = 2


@PLANS.register(KEY)
class Abort:
    """Leaves at four moments, asks the same beside and after it, and asks others in each wave.

    A prompt that is cancelled is new to every cache, and one more of its length alone, just before,
    shows how long it takes. What the retries should bring is asked alone afterwards.
    """

    title = "Who leaves half-way changes nobody's answer"
    oracles: Sequence[str] = tuple(KINDS)
    ways: Collection[Way] = tuple(Way)
    guards: Sequence[str] = ("deferred_release",)

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer controls, a wave for each moment, and the cancelled prompts alone."""
        length = _length(scene)
        return (
            _control(min(SHORTEST, length), ECHO_TOKENS, "short prompt"),
            *_bystanders_alone(length),
            *_waves(length),
            *_retries_alone(length),
        )

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer one check for each oracle; none passes where nobody left half-way."""
        stayed = _without_strays(evidence)
        doubts = [*doubt_strays(evidence, speaking=len(SHARES))]
        return (
            doubted(judge_foreign_among(evidence), doubts),
            doubted(judge_own_nonce(evidence), doubts),
            told_or_advice(doubted(judge_page_codes(stayed), doubts)),
            doubted(judge_reference(stayed), doubts),
            doubted(judge_answered(evidence), doubts),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the four checks of a round of which nothing was sent."""
        return checks_unsent(plan=KEY, kinds=KINDS, target=target, reason=reason)


def _without_strays(evidence: Evidence) -> Evidence:
    """Answer the evidence without what nobody waited for: it has no like among the others."""
    strays = strays_of(evidence)
    return replace(evidence, rows=tuple(row for row in evidence.rows if row not in strays))


def _length(scene: Scene) -> int:
    """Answer the length of the cancelled prompts; all others are no longer."""
    requests = 1 + len(SHARES) * (4 + _ALONE) + len(_BYSTANDERS) * (_ALONE + len(SHARES) + 1)
    return equal_length(scene, requests=requests, new_tokens=ROOM, at_once=_AT_ONCE)


def _control(length: int, new_tokens: int, purpose: str) -> Sending:
    return Sending(
        part=Part.CONTROL,
        length=length,
        max_new_tokens=new_tokens,
        duty=Duty.ANSWER,
        purpose=purpose,
    )


def _bystanders_alone(length: int) -> Iterator[Sending]:
    for script in _BYSTANDERS:
        for _ in range(_ALONE):
            yield _of_script(script, _beside(length), Part.CONTROL, "bystander, alone")


def _beside(length: int) -> int:
    """Answer a bystander's length: another than what tells how soon a client must leave."""
    return max(1, length - 1)


def _waves(length: int) -> Iterator[Sending]:
    for number, share in enumerate(SHARES, start=1):
        yield _control(length, 1, "shows when a first token comes")
        yield Sending(
            part=Part.ASK,
            length=length,
            max_new_tokens=ROOM,
            duty=Duty.EITHER,
            purpose=f"its client leaves at {share:g} of the time to a first token",
            stay=Stay.LEAVES,
            sender=Sender.FILLER,
            script=_cancelled(number),
            wave=number,
            leave_share=share,
            codes=CODES,
            form=Form(is_streamed=share > 1),
        )
        yield _of_script(_cancelled(number), length, Part.ASK, "the same, staying", number)
        yield from _others(length, wave=number)
    yield from _others(length, wave=len(SHARES) + 1)


def _others(length: int, *, wave: int) -> Iterator[Sending]:
    """Answer who stays in a wave: the retry of what was cancelled in the one before, bystanders."""
    if wave > 1:
        yield _of_script(_cancelled(wave - 1), length, Part.ASK, "retry of a cancelled one", wave)
    for script in _BYSTANDERS:
        yield _of_script(script, _beside(length), Part.ASK, "bystander", wave)


def _retries_alone(length: int) -> Iterator[Sending]:
    for number in range(1, len(SHARES) + 1):
        for _ in range(_ALONE):
            yield _of_script(_cancelled(number), length, Part.CONTROL, "once cancelled, alone")


def _of_script(script: str, length: int, part: Part, purpose: str, wave: int = 0) -> Sending:
    is_bystander = script in _BYSTANDERS
    return Sending(
        part=part,
        length=length,
        max_new_tokens=ROOM,
        duty=Duty.ANSWER,
        purpose=purpose,
        sender=Sender.ASKER if is_bystander else Sender.FILLER,
        script=script,
        wave=wave,
        is_bystander=is_bystander,
        codes=CODES,
    )


def _cancelled(number: int) -> str:
    return f"cancelled-{number}"
