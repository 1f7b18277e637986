"""Plan: fill the pool as one tenant, then ask as another just within and just over the limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.oracles import (
    ANSWERED,
    FOREIGN_MARKER,
    OWN_NONCE,
    REFUSAL,
    judge_answered,
    judge_foreign_marker,
    judge_own_nonce,
    judge_refusal,
    not_exercised,
)
from probes.canary.rounds import Duty, Part, Sending
from probes.canary.scene import Scene
from probes.judgement import Check
from probes.markers import FRAGMENT_CHARACTERS

KEY = "boundary"

#: A prompt that any engine has room for. Unit: tokens.
SHORT_TOKENS = 256
#: Below this a prompt holds little but its own ask. Unit: tokens.
SHORTEST_FILL_TOKENS = 128
#: Several markers fit into so long an answer, wherever in a page it begins. Unit: tokens.
LEAK_TOKENS = 192


@PLANS.register(KEY)
class Boundary:
    """Asks at L, at F, and at the longest prompt that decode admits.

    Over the limit comes first, while the pool still holds what tenant A left in it: an answer
    within the limit writes tenant B's own pages over it. A refusal is asked with one new token, so
    that the tokenizer does not refuse the new tokens instead; where decode admits what prefill
    refuses, the same length is asked again with room for an answer that could show a marker.
    Unit: tokens. Source: SGLang issue 30233, and the recorded runs of 0.5.19.
    """

    title = "At the limits, nobody reads another tenant's pages"
    oracles: Sequence[str] = (FOREIGN_MARKER, OWN_NONCE, REFUSAL, ANSWERED)

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer controls, the filling of the pool, and the asks, in this order."""
        return (*_controls(scene), *_fills(scene), *_over(scene), *_within(scene))

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer one check for each oracle."""
        return (
            judge_foreign_marker(evidence),
            judge_own_nonce(evidence),
            judge_refusal(evidence),
            judge_answered(evidence),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the four checks of a round of which nothing was sent."""
        return tuple(not_exercised(plan=KEY, oracles=self.oracles, target=target, reason=reason))


def _controls(scene: Scene) -> Iterator[Sending]:
    yield Sending(
        part=Part.CONTROL,
        length=min(SHORT_TOKENS, _longest_with_room(scene, ECHO_TOKENS)),
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


def _fills(scene: Scene) -> Iterator[Sending]:
    length = _longest_with_room(scene, ECHO_TOKENS)
    # Where not even a short prompt fits, one row that says so is enough.
    count = -(-scene.fill // length) if length >= SHORTEST_FILL_TOKENS else 1
    for _ in range(count):
        yield Sending(
            part=Part.FILL,
            length=length,
            max_new_tokens=ECHO_TOKENS,
            duty=Duty.ANSWER,
            purpose="fills the pool",
        )


def _over(scene: Scene) -> Iterator[Sending]:
    lengths = {scene.all_refuse: "first refused F", scene.first_refused: "first refused anywhere"}
    if scene.band is not None:
        lengths[scene.band[1]] = "last that decode admits"
    lengths[scene.all_refuse] = "first refused F"
    for length, purpose in lengths.items():
        yield _ask(scene, length, max_new_tokens=1, purpose=purpose)
        room = min(LEAK_TOKENS, scene.room_at(length))
        if _decode_admits(scene, length) and room >= FRAGMENT_CHARACTERS:
            yield _ask(
                scene, length, max_new_tokens=room, purpose=f"{purpose}, with room for an answer"
            )


def _within(scene: Scene) -> Iterator[Sending]:
    roomy, last = _longest_with_room(scene, LEAK_TOKENS), scene.last_admitted
    if roomy < last:
        yield _ask(
            scene, roomy, max_new_tokens=LEAK_TOKENS, purpose="longest with room for an answer"
        )
    new = max(1, min(LEAK_TOKENS, scene.room_at(last)))
    yield _ask(scene, last, max_new_tokens=new, purpose="last admitted L")


def _ask(scene: Scene, length: int, *, max_new_tokens: int, purpose: str) -> Sending:
    return Sending(
        part=Part.ASK,
        length=length,
        max_new_tokens=max_new_tokens,
        duty=scene.duty_at(length),
        purpose=purpose,
    )


def _decode_admits(scene: Scene, length: int) -> bool:
    return scene.band is not None and scene.band[0] <= length <= scene.band[1]


def _longest_with_room(scene: Scene, new_tokens: int) -> int:
    """Answer the longest admitted prompt that leaves room for so many new tokens, at least 1.

    Kept out of the hang band. Where even a short prompt would be in it the runner does not send it.
    """
    length = min(scene.last_admitted, scene.longest_fitting(new_tokens))
    lacking = new_tokens - scene.room_at(length)
    return max(1, length - max(0, lacking))
