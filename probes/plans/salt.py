"""Plan: what the prefix cache tells one identity of what another has sent, with salts and without.

Source: arXiv 2502.07776 for interleaved arms and prompts of random letters; cases C15 and C16 of
the public reports for salts that a hash or a tier ignores.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from common.verdicts import WORST_FIRST
from fleet.speech import PLAIN, Form
from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.oracle_salt import (
    FOREIGN_HIT,
    FOREIGN_SPEED,
    judge_foreign_hit,
    judge_foreign_speed,
)
from probes.canary.oracles import ANSWERED, judge_answered
from probes.canary.rounds import Duty, Part, Row, Sender, Sending, Way
from probes.canary.scene import Scene
from probes.canary.sizing import SHORTEST, equal_length
from probes.canary.verdicts import checks_unsent
from probes.judgement import Check, Kind

KEY = "salt"
UNSALTED = "unsalted"
KINDS: Final = {
    FOREIGN_HIT: Kind.LEAK,
    FOREIGN_SPEED: Kind.TIMING,
    ANSWERED: Kind.AVAILABILITY,
    UNSALTED: Kind.TIMING,
}
#: Prompts of each arm; eight of each tell a cached one from a new one at 1 in 1,000 by rank alone.
SALTED: Final = 8
BARE: Final = 8
#: Prompts of each arm that are not streamed: some routes count cached tokens in whole answers only.
COUNTED: Final = 2
#: New, by the same identity, by another one.
_ARMS: Final = 3
#: So many prompts are sent in turns before others are: what a cache has to hold in the meantime.
_IN_TURNS: Final = 2
#: Each of them is kept once for each identity, and as much again must be free.
_HELD: Final = 4 * _IN_TURNS
_NEW_TOKENS: Final = 4
_REQUESTS: Final = 1 + _ARMS * (SALTED + COUNTED + BARE)
_STREAMED: Final = Form(is_streamed=True)
_SALTS: Final = {Sender.FILLER: "salt of a", Sender.ASKER: "salt of b"}


@PLANS.register(KEY)
class Salt:
    """Sends prompts that nobody knows, then each again as the same identity and as another one.

    The arms are interleaved in a random order of the round's seed, so that load falls on all alike.
    Every prompt begins with a code of its own: none shares anything with another by chance. Each
    tenant has one salt, which is random and new in each round.
    """

    title = "A cache salt keeps tenants apart"
    oracles: Sequence[str] = tuple(KINDS)
    ways: Collection[Way] = tuple(Way)
    guards: Sequence[str] = ()

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer a short control and the arms, one in a random place after the other."""
        length = equal_length(scene, requests=_REQUESTS, new_tokens=_NEW_TOKENS, at_once=_HELD)
        short = Sending(
            part=Part.CONTROL,
            length=min(SHORTEST, length),
            max_new_tokens=ECHO_TOKENS,
            duty=Duty.ANSWER,
            purpose="short prompt",
            form=_STREAMED,
        )
        return short, *_interleaved(length, random.Random(scene.seed))  # noqa: S311 - no secret

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer what salts keep apart, and as advice what is shared without them."""
        salted = replace(evidence, rows=_rows(evidence, is_salted=True))
        counted = _reported(salted)
        hit = judge_foreign_hit(replace(salted, rows=counted or salted.rows))
        # Engines report cached tokens only when told to; what a cache does is felt all the same.
        return (
            hit.with_required(required=bool(counted)),
            judge_foreign_speed(salted),
            judge_answered(evidence),
            _unsalted(evidence),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the four checks of a round of which nothing was sent."""
        checks = checks_unsent(plan=KEY, kinds=KINDS, target=target, reason=reason)
        return (*checks[:-1], checks[-1].as_advisory())


def _unsalted(evidence: Evidence) -> Check:
    """Answer whether tenants without a salt share a cache: the worse of what counts and times say.

    Most deployments do, and no engine promises otherwise, so it is advice.
    """
    rows = () if evidence.is_same_key else _rows(evidence, is_salted=False)
    bare = replace(evidence, rows=rows)
    found = judge_foreign_hit(bare), judge_foreign_speed(bare)
    worst = min(found, key=lambda check: WORST_FIRST.index(check.verdict))
    return replace(
        worst,
        check=f"{evidence.plan}.{UNSALTED}",
        kind=Kind.TIMING,
        required=False,
        reason=f"without salts: {worst.reason}",
    )


def _rows(evidence: Evidence, *, is_salted: bool) -> tuple[Row, ...]:
    return tuple(row for row in evidence.rows if row.script and bool(row.salt) is is_salted)


def _reported(evidence: Evidence) -> tuple[Row, ...]:
    """Answer the rows of those prompts whose every answer counts its cached tokens."""
    silent = {row.script for row in evidence.rows if row.cached_tokens is None}
    return tuple(row for row in evidence.rows if row.script not in silent)


def _interleaved(length: int, chance: random.Random) -> Iterator[Sending]:
    """Answer the sendings of all groups, a few in turns at a time, of each group the new one first.

    Longer apart they would be evicted, which looks like a cache that keeps identities apart.
    """
    numbers = range(SALTED + COUNTED + BARE)
    groups = [_group(length, number, chance) for number in chance.sample(numbers, len(numbers))]
    for start in range(0, len(groups), _IN_TURNS):
        waiting = groups[start : start + _IN_TURNS]
        while waiting:
            group = chance.choice(waiting)
            yield group.pop(0)
            waiting = [one for one in waiting if one]


def _group(length: int, number: int, chance: random.Random) -> list[Sending]:
    """Answer one prompt's three sendings; either tenant may be the one that knows it."""
    is_salted = number < SALTED + COUNTED
    is_counted = SALTED <= number < SALTED + COUNTED
    first, second = chance.sample(list(Sender), 2)
    known = [("same identity", first), ("other identity", second)]
    order = [("new", first), *chance.sample(known, 2)]
    return [
        Sending(
            part=Part.ASK,
            length=length,
            max_new_tokens=_NEW_TOKENS,
            duty=Duty.ANSWER,
            purpose=f"{name}, {'salted' if is_salted else 'no salt'}",
            sender=sender,
            script=f"prompt-{number}",
            salt=_SALTS[sender] if is_salted else "",
            form=PLAIN if is_counted else _STREAMED,
        )
        for name, sender in order
    ]
