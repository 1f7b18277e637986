"""Plan: fill the pool as one tenant, then ask as another just within and just over the limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from fleet.speech import PLAIN, Form
from probes.canary import oracle_alike, oracle_counts
from probes.canary.asking import fills
from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.lengths import longest_with_room, page_borders
from probes.canary.oracle_alike import ALIKE, judge_alike
from probes.canary.oracle_counts import COUNTS, judge_counts
from probes.canary.oracle_foreign import judge_foreign_marker
from probes.canary.oracles import KINDS as ORACLE_KINDS
from probes.canary.oracles import (
    judge_answered,
    judge_own_nonce,
    judge_refusal,
)
from probes.canary.rounds import Duty, Part, Sending, Way
from probes.canary.scene import Scene
from probes.canary.verdicts import checks_unsent
from probes.judgement import Check
from probes.markers import FRAGMENT_CHARACTERS

KEY = "boundary"

#: A prompt that any engine has room for. Unit: tokens.
SHORT_TOKENS = 256
#: Several markers fit into so long an answer, wherever in a page it begins. Unit: tokens.
LEAK_TOKENS = 192
_STREAMED = Form(is_streamed=True)
KINDS: Final = {**ORACLE_KINDS, COUNTS: oracle_counts.KIND, ALIKE: oracle_alike.KIND}


@PLANS.register(KEY)
class Boundary:
    """Asks at L, at F, at every other limit that was read, and where pages and chunks end.

    Over the limit comes first, while the pool still holds what tenant A left in it: an answer
    within the limit writes tenant B's own pages over it. A refusal is asked with one new token, so
    that the tokenizer does not refuse the new tokens instead; where decode admits what prefill
    refuses, the same length is asked again with room for an answer that could show a marker, and
    one between as well, so that several answers can be held against each other. A refusal costs the
    engine nothing, so every limit is asked; within the limit each length is paid for once.
    Unit: tokens. Source: SGLang issue 30233, and the recorded runs of 0.5.19.
    """

    title = "At the limits, nobody reads another tenant's pages"
    oracles: Sequence[str] = tuple(KINDS)
    ways: Collection[Way] = tuple(Way)
    guards: Sequence[str] = ()

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer controls, the filling of the pool, and the asks, in this order."""
        return (*_controls(scene), *fills(scene), *_over(scene), *_within(scene))

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer one check for each oracle."""
        return (
            judge_foreign_marker(evidence),
            judge_own_nonce(evidence),
            judge_refusal(evidence),
            judge_answered(evidence),
            judge_counts(evidence),
            judge_alike(evidence),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the same checks for a round of which nothing was sent."""
        return checks_unsent(plan=KEY, kinds=KINDS, target=target, reason=reason)


def _controls(scene: Scene) -> Iterator[Sending]:
    yield Sending(
        part=Part.CONTROL,
        length=min(SHORT_TOKENS, longest_with_room(scene, ECHO_TOKENS)),
        max_new_tokens=ECHO_TOKENS,
        duty=Duty.ANSWER,
        purpose="short prompt",
    )
    if scene.context is not None:
        yield Sending(
            part=Part.CONTROL,
            length=scene.context,
            max_new_tokens=1,
            duty=Duty.REFUSAL,
            purpose="as long as the context",
        )


def _over(scene: Scene) -> Iterator[Sending]:
    for length, purpose in _limits(scene).items():
        yield _ask(scene, length, max_new_tokens=1, purpose=purpose)
        yield from _with_room(scene, length, purpose)
    first = scene.all_refuse if scene.band is None else scene.band[1]
    yield _ask(scene, first, max_new_tokens=1, purpose="over the limit, streamed", form=_STREAMED)


def _limits(scene: Scene) -> dict[int, str]:
    """Answer every limit that was read and the length beyond it; of one length the first name."""
    named = [(scene.all_refuse, "first refused F"), (scene.first_refused, "first refused anywhere")]
    if scene.band is not None:
        first, last = scene.band
        named += [(last, "last that decode admits"), ((first + last) // 2, "within the band")]
    for pair in scene.pairs:
        named.append((pair.decode_first_refused, "first that decode refuses"))
        named.append((pair.prefill_first_refused, "first that prefill refuses"))
    if scene.context is not None:
        named += [(scene.pool, "as long as the pool"), (scene.pool + 1, "one more than the pool")]
        named.append((scene.context - 1, "one less than the context"))
    found: dict[int, str] = {}
    for length, purpose in named:
        if length >= scene.first_refused and (scene.context is None or length < scene.context):
            found.setdefault(length, purpose)
    return found


def _with_room(scene: Scene, length: int, purpose: str) -> Iterator[Sending]:
    room = min(LEAK_TOKENS, scene.room_at(length))
    if _decode_admits(scene, length) and room >= FRAGMENT_CHARACTERS:
        purpose = f"{purpose}, with room for an answer"
        yield _ask(scene, length, max_new_tokens=room, purpose=purpose)
        if length in {scene.all_refuse, scene.first_refused}:
            purpose = f"{purpose}, streamed"
            yield _ask(scene, length, max_new_tokens=room, purpose=purpose, form=_STREAMED)


def _within(scene: Scene) -> Iterator[Sending]:
    longest, last = longest_with_room(scene, LEAK_TOKENS), scene.last_admitted
    for length, purpose in _borders(scene).items():
        yield _ask(scene, length, max_new_tokens=ECHO_TOKENS, purpose=purpose)
    if longest < last:
        yield _ask(
            scene, longest, max_new_tokens=LEAK_TOKENS, purpose="longest with room for an answer"
        )
    new = max(1, min(LEAK_TOKENS, scene.room_at(last)))
    yield _ask(scene, last, max_new_tokens=new, purpose="last admitted L")


def _borders(scene: Scene) -> dict[int, str]:
    """Answer the lengths around the end of a page and of a chunk, as far as they fit."""
    found = dict.fromkeys(page_borders(scene), "at the end of a page")
    for size in scene.chunks:
        found |= dict.fromkeys((size - 1, size, size + 1), "at the end of a chunk")
    roomy = longest_with_room(scene, ECHO_TOKENS)
    return {length: purpose for length, purpose in found.items() if length <= roomy}


def _ask(
    scene: Scene, length: int, *, max_new_tokens: int, purpose: str, form: Form = PLAIN
) -> Sending:
    return Sending(
        part=Part.ASK,
        length=length,
        max_new_tokens=max_new_tokens,
        duty=scene.duty_at(length),
        purpose=purpose,
        form=form,
    )


def _decode_admits(scene: Scene, length: int) -> bool:
    return scene.band is not None and scene.band[0] <= length <= scene.band[1]
