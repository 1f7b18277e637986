"""Plan: many prompts of two tenants at once, and each answer is its own prompt's.

Under load engines have handed out other requests' first tokens and pages, and served cached prompts
first. Source: cases C08, C09, C11 of the public reports; PROMPTPEEK (NDSS 2025) for the order.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from fleet.speech import Form
from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.oracle_coverage import COVERAGE, judge_coverage
from probes.canary.oracle_foreign import FOREIGN_MARKER, judge_foreign_among
from probes.canary.oracle_opening import FIRST_TOKEN, judge_first_token
from probes.canary.oracle_order import ORDER, judge_order
from probes.canary.oracle_pages import CODES, PAGE_CODES, ROOM, judge_page_codes
from probes.canary.oracle_reference import REFERENCE, judge_reference
from probes.canary.oracles import ANSWERED, OWN_NONCE, judge_answered, judge_own_nonce
from probes.canary.rounds import Duty, Part, Sender, Sending, Way, cost_of
from probes.canary.scene import Scene
from probes.canary.sizing import SHORTEST, equal_length
from probes.canary.verdicts import checks_unsent, told_or_advice
from probes.judgement import Check, Kind

KEY = "concurrency"
KINDS: Final = {
    FOREIGN_MARKER: Kind.LEAK,
    OWN_NONCE: Kind.CORRUPTION,
    PAGE_CODES: Kind.CORRUPTION,
    FIRST_TOKEN: Kind.CORRUPTION,
    REFERENCE: Kind.CORRUPTION,
    ANSWERED: Kind.AVAILABILITY,
    COVERAGE: Kind.CORRUPTION,
    ORDER: Kind.TIMING,
}
#: Prompts of each tenant: one like no other, one that shares a page, one that shares its half.
_PROMPTS: Final = ("apart", "page", "half")
_WAVES: Final = 3
_ALONE: Final = 2
_BASE: Final = 1 + 2 * len(_PROMPTS) * (_ALONE + _WAVES)
#: Turns of three prompts of one tenant: known to another, known to itself, new. With so many the
#: sign test keeps its false-alarm rate though one turn goes the other way.
_TURNS: Final = 14
_ORDER: Final = 5 * _TURNS
#: Where the two ask for a code: at their ends and on the way there, or near their beginnings.
_ASKED_AT: Final = {"end": CODES, "beginning": 0}
#: Waves of two prompts that do not fit the pool together.
_PRESSED_WAVES: Final = len(_ASKED_AT)
_LEAST_WITH_ORDER: Final = (_BASE + _ORDER) * (SHORTEST + ROOM)
_FIRST_ORDER_WAVE: Final = _WAVES + _PRESSED_WAVES + 1
_ORDER_SCRIPT: Final = "turn-"
_STREAMED: Final = Form(is_streamed=True)


@PLANS.register(KEY)
class Concurrency:
    """Asks six prompts of two tenants alone, then all of them together, three times.

    All are equally long; of each tenant's two begin as two of the other's do, by exactly one page
    and by half. Each answer begins with the code that its prompt alone holds.
    """

    title = "Among others each prompt is answered as it is alone"
    oracles: Sequence[str] = tuple(KINDS)
    ways: Collection[Way] = tuple(Way)
    guards: Sequence[str] = ()

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer each prompt alone, the waves, and where it can be paid the turns for the order."""
        pressed = [*_pressed(scene)]
        rest = replace(scene, allowance=scene.allowance - cost_of(pressed).tokens)
        turns = _TURNS if rest.allowance >= _LEAST_WITH_ORDER else 0
        length = equal_length(
            rest,
            requests=_BASE + 5 * turns,
            new_tokens=ROOM,
            at_once=2 * len(_PROMPTS),
        )
        chance = random.Random(scene.seed)  # noqa: S311 - an order that any round can repeat
        short = Sending(
            part=Part.CONTROL,
            length=min(SHORTEST, length),
            max_new_tokens=ECHO_TOKENS,
            duty=Duty.ANSWER,
            purpose="short prompt",
        )
        prompts = [*_prompts(scene, length)]
        return (
            short,
            *(one for one in prompts for _ in range(_ALONE)),
            *_waves(prompts, chance),
            *pressed,
            *_turns(length, turns, chance),
        )

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer one check for each oracle; the order of answers is advice."""
        coverage = judge_coverage(evidence, workers=evidence.workers)
        return (
            judge_foreign_among(evidence),
            judge_own_nonce(evidence),
            told_or_advice(judge_page_codes(evidence)),
            judge_first_token(evidence),
            judge_reference(evidence),
            judge_answered(evidence),
            coverage.with_required(required=bool(evidence.workers)),
            _judge_order(evidence).as_advisory(),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the checks of a round of which nothing was sent."""
        checks = checks_unsent(plan=KEY, kinds=KINDS, target=target, reason=reason)
        return (*checks[:-1], checks[-1].as_advisory())


def _judge_order(evidence: Evidence) -> Check:
    rows = tuple(row for row in evidence.rows if row.script.startswith(_ORDER_SCRIPT))
    check = judge_order(replace(evidence, rows=rows))
    if rows or not evidence.rows:
        return check
    return replace(
        check,
        reason="the order of answers was not asked: it takes a grant of "
        f"{_LEAST_WITH_ORDER:,} tokens beside what prompts of most of the pool cost "
        "(--budget-tokens)",
    )


def _prompts(scene: Scene, length: int) -> Iterator[Sending]:
    """Answer every prompt as it is sent alone."""
    page = scene.page_size
    stems = {"page": page, "half": length // 2 // page * page}
    for name, sender in product(_PROMPTS, Sender):
        tokens = stems.get(name, 0)
        is_shared = 0 < tokens <= length // 2
        yield Sending(
            part=Part.CONTROL,
            length=length,
            max_new_tokens=ROOM,
            duty=Duty.ANSWER,
            purpose=f"alone, {name}",
            sender=sender,
            script=f"{name}-{sender}",
            form=_STREAMED,
            stem=name if is_shared else "",
            stem_tokens=tokens if is_shared else 0,
            codes=CODES,
        )


def _waves(prompts: Sequence[Sending], chance: random.Random) -> Iterator[Sending]:
    for wave in range(1, _WAVES + 1):
        for one in chance.sample(prompts, len(prompts)):
            purpose = one.purpose.replace("alone", "among others")
            yield replace(one, part=Part.ASK, wave=wave, purpose=purpose)


def _pressed(scene: Scene) -> Iterator[Sending]:
    """Answer two prompts that need each other's pages, together and alone, where they are paid for.

    Together they are longer than the smallest pool: what is freed too early is written at once.
    """
    free = min(min(pair.prefill_free, pair.decode_free) for pair in scene.pairs)
    # Three quarters each, so that most of what one holds is wanted by the other.
    longest = min(scene.longest_fitting(ROOM), scene.last_admitted - ROOM, free * 3 // 4)
    sendings = [*_of_two(longest)]
    least = _BASE * (SHORTEST + ROOM)
    is_paid = cost_of(sendings).tokens + least <= scene.allowance
    has_room = scene.room_at(longest) >= ROOM
    if is_paid and has_room and longest > max(SHORTEST, free // 2):
        yield from sendings


def _of_two(length: int) -> Iterator[Sending]:
    """Answer two waves of two prompts; a code at one end of a prompt tells nothing of the other."""
    for wave, (place, codes) in enumerate(_ASKED_AT.items(), start=_WAVES + 1):
        alone = [
            Sending(
                part=Part.CONTROL,
                length=length,
                max_new_tokens=ROOM,
                duty=Duty.ANSWER,
                purpose="alone, most of the pool",
                sender=sender,
                script=f"pressed-{place}-{sender}",
                form=_STREAMED,
                codes=codes,
            )
            for sender in Sender
        ]
        # Together first: what a cache knows already needs no pages of anybody.
        purpose = "among others, most of the pool"
        yield from (replace(one, part=Part.ASK, wave=wave, purpose=purpose) for one in alone)
        yield from (one for one in alone for _ in range(_ALONE))


def _turns(length: int, count: int, chance: random.Random) -> Iterator[Sending]:
    """Answer what tells whether a prompt comes sooner because somebody else had sent it.

    None of these has the part of an ask: one new token shows nothing of what was read.
    """
    for number in range(count):
        known = {"other": Sender.FILLER, "own": Sender.ASKER}
        for name, sender in known.items():
            yield _turn(length, f"{number}-{name}", sender, "sent before, to be known")
        names = chance.sample(["other", "own", "new"], 3)
        for name in names:
            one = _turn(length, f"{number}-{name}", Sender.ASKER, f"which comes first: {name}")
            yield replace(one, wave=_FIRST_ORDER_WAVE + number)


def _turn(length: int, name: str, sender: Sender, purpose: str) -> Sending:
    return Sending(
        part=Part.FILL,
        length=length,
        max_new_tokens=1,
        duty=Duty.ANSWER,
        purpose=purpose,
        sender=sender,
        script=f"{_ORDER_SCRIPT}{name}",
        form=_STREAMED,
    )
