"""Plan: the very same body from two tenants, to see whose answer a cache in front hands out.

Prompts with markers of their own can never hit such a cache; the same body can, and one that is
merely alike. Source: cases C12 to C14 of the public reports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from fleet.speech import Api, Form
from probes.canary.contract import PLANS, Evidence
from probes.canary.oracle_gateway import KIND, SHARED_ANSWER, judge_shared_answer
from probes.canary.rounds import Duty, Part, Sender, Sending, Way
from probes.canary.scene import Scene
from probes.canary.sizing import SHORTEST, equal_length
from probes.canary.verdicts import checks_unsent
from probes.judgement import Check

KEY = "gateway"
#: An answer of so many tokens is long enough not to be the same twice by chance.
_NEW_TOKENS: Final = 96
#: Longer bodies tell a gateway nothing more. Unit: tokens.
_LONGEST: Final = 512
_SAMPLED: Final = Form(api=Api.CHAT, temperature=1.0, has_own_id=False)
#: Another temperature makes another body of the same prompt, which no exact cache knows.
_ANEW: Final = replace(_SAMPLED, temperature=0.9)
#: Each tenant is the first with one body; two more are alike but for one word.
_BODIES: Final = {Sender.FILLER: "body-1", Sender.ASKER: "body-2"}
_ALIKE: Final = {Sender.FILLER: ("alike-1", "alike-2"), Sender.ASKER: ("alike-3",)}
_REQUESTS: Final = 1 + 4 * len(_BODIES) + 3


@PLANS.register(KEY)
class Gateway:
    """Sends a body, repeats it as the same tenant, sends it as the other one, and one like it.

    Answers are sampled, so that the same long text twice is a stored one: the same prompt at
    another temperature, which a cache takes for another body, shows that the model varies.
    """

    title = "No cache in front of the engines answers one tenant with another's answer"
    oracles: Sequence[str] = (SHARED_ANSWER,)
    ways: Collection[Way] = (Way.ROUTER,)
    guards: Sequence[str] = ()

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer first sendings, the tenant's own repeats, and then those of the other tenant.

        A cache may take a moment to store, so repeats come as late as they can.
        """
        length = min(_LONGEST, equal_length(scene, requests=_REQUESTS, new_tokens=_NEW_TOKENS))
        return (
            _short(min(SHORTEST, length)),
            *_first(length),
            *_anew(length),
            *_own(length),
            *_other(length),
            *_alike(length),
        )

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer whether one tenant got what was stored for another."""
        if evidence.is_same_key:
            target = evidence.scene.target
            return self.not_exercised(target, "both tenants have one key, and are one to any cache")
        return (judge_shared_answer(evidence),)

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the check of a round of which nothing was sent."""
        kinds = {SHARED_ANSWER: KIND}
        return checks_unsent(plan=KEY, kinds=kinds, target=target, reason=reason)


def _short(length: int) -> Sending:
    return Sending(
        part=Part.CONTROL,
        length=length,
        max_new_tokens=_NEW_TOKENS,
        duty=Duty.ANSWER,
        purpose="short prompt",
        form=_SAMPLED,
    )


def _first(length: int) -> Iterator[Sending]:
    for sender, script in _BODIES.items():
        yield _body(length, script, sender, "first of its body")


def _anew(length: int) -> Iterator[Sending]:
    for sender, script in _BODIES.items():
        one = _body(length, script, sender, "the same prompt in another body")
        yield replace(one, form=_ANEW)


def _own(length: int) -> Iterator[Sending]:
    for sender, script in _BODIES.items():
        yield _body(length, script, sender, "the same tenant's repeat")


def _other(length: int) -> Iterator[Sending]:
    for sender, (owner, script) in product(Sender, _BODIES.items()):
        if sender is not owner:
            yield _body(length, script, sender, "another tenant's body")


def _alike(length: int) -> Iterator[Sending]:
    for sender, scripts in _ALIKE.items():
        for script in scripts:
            one = _body(length, script, sender, "alike but for one word")
            yield replace(one, stem="alike", stem_tokens=length // 2)


def _body(length: int, script: str, sender: Sender, purpose: str) -> Sending:
    return Sending(
        part=Part.ASK,
        length=length,
        max_new_tokens=_NEW_TOKENS,
        duty=Duty.ANSWER,
        purpose=purpose,
        sender=sender,
        script=script,
        form=_SAMPLED,
    )
