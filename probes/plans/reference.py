"""Plan: the same prompts alone, after others filled the pool, and together, at temperature 0.

Corruption shows here long before anybody's text does, and on models that repeat nothing as well.
Source: detection.md A1; cases C07 and C08 of the public reports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from common.verdicts import Verdict
from probes.canary.asking import alone_twice, fills
from probes.canary.contract import PLANS, Evidence
from probes.canary.controls import ECHO_TOKENS
from probes.canary.lengths import SHORTEST_TOKENS, longest_with_room, page_borders
from probes.canary.oracle_foreign import FOREIGN_MARKER, judge_foreign_marker
from probes.canary.oracle_pages import CODES, PAGE_CODES, ROOM, judge_page_codes
from probes.canary.oracle_reference import KIND, REFERENCE, judge_reference
from probes.canary.oracles import ANSWERED, OWN_NONCE, judge_answered, judge_own_nonce
from probes.canary.oracles import KINDS as ORACLE_KINDS
from probes.canary.rounds import Duty, Part, Row, Sending, Way
from probes.canary.scene import Scene
from probes.canary.verdicts import checks_unsent, told_or_advice
from probes.canary.waves import IN_ROTATION
from probes.judgement import Check, Kind

KEY = "reference"
TOGETHER: Final = "together"
KINDS: Final[dict[str, Kind]] = {
    REFERENCE: KIND,
    TOGETHER: KIND,
    PAGE_CODES: Kind.CORRUPTION,
    OWN_NONCE: ORACLE_KINDS[OWN_NONCE],
    FOREIGN_MARKER: ORACLE_KINDS[FOREIGN_MARKER],
    ANSWERED: ORACLE_KINDS[ANSWERED],
}
_SHORT_TOKENS: Final = 256
#: From this length on a prompt asks for the codes of several of its pages.
_LONG_TOKENS: Final = 1_024
_WAVE: Final = 1


@PLANS.register(KEY)
class Reference:
    """Asks each prompt alone twice, again after tenant A filled the pool, and all at once.

    Some begin as another prompt does, to the token: with one token less than a page, a whole page,
    and one more. Their companion comes to the cache only after the filling, so that the prompt is
    answered alone without it and again with it. All at once is a check of its own, which needs the
    pair out of rotation or a named person; where that is the only thing lacking it does not block.
    """

    title = "The same prompt is answered the same, alone, among others and after churn"
    oracles: Sequence[str] = tuple(KINDS)
    ways: Collection[Way] = tuple(Way)
    guards: Sequence[str] = ()

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer what is asked alone, the filling, what is asked again, and the wave."""
        asks = [*_asks(scene), *_stemmed(scene)]
        alone = (sending for ask in asks for sending in alone_twice(ask))
        again = [sending for ask in asks for sending in _again(ask)]
        together = [replace(one, wave=_WAVE) for one in again if one.length <= _shared(scene)]
        pool = max(pair.prefill_free for pair in scene.pairs)
        return (*alone, *fills(scene, at_least=pool), *again, *together)

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer one check for each oracle."""
        sent = replace(evidence, rows=tuple(row for row in evidence.rows if not _is_held_back(row)))
        apart = replace(evidence, rows=tuple(row for row in evidence.rows if not row.wave))
        return (
            judge_reference(apart),
            _judge_together(evidence),
            told_or_advice(judge_page_codes(sent)),
            judge_own_nonce(sent),
            judge_foreign_marker(sent),
            judge_answered(sent),
        )

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer the same checks for a round of which nothing was sent."""
        return checks_unsent(plan=KEY, kinds=KINDS, target=target, reason=reason)


def _asks(scene: Scene) -> Iterator[Sending]:
    """Answer prompts of several lengths: short, at the end of a page, long."""
    longest = longest_with_room(scene, ROOM)
    named = {min(_SHORT_TOKENS, longest): "short prompt"}
    for length in page_borders(scene):
        named.setdefault(length, "at the end of a page")
    for length in (longest // 4, longest):
        named.setdefault(length, "long prompt")
    for length, purpose in named.items():
        if length <= longest:
            yield _ask(length, purpose=purpose)


def _stemmed(scene: Scene) -> Iterator[Sending]:
    page = scene.page_size
    for stem in (page - 1, page, page + 1) if page > 1 else ():
        length = max(_SHORT_TOKENS, stem + SHORTEST_TOKENS)
        if length <= longest_with_room(scene, ROOM):
            ask = _ask(length, purpose=f"shares its first {stem:,} tokens")
            yield replace(ask, script=f"{ask.script}, stem {stem}", stem=KEY, stem_tokens=stem)


def _again(ask: Sending) -> Iterator[Sending]:
    """Answer a prompt again, behind another that begins as it does where it shares a beginning."""
    if ask.stem:
        yield replace(ask, script="", purpose=f"begins alike for {ask.stem_tokens:,} tokens")
    yield ask


def _ask(length: int, *, purpose: str) -> Sending:
    return Sending(
        part=Part.ASK,
        length=length,
        max_new_tokens=ROOM if length >= _LONG_TOKENS else ECHO_TOKENS,
        duty=Duty.ANSWER,
        purpose=purpose,
        script=f"{length} tokens",
        codes=CODES if length >= _LONG_TOKENS else 1,
    )


def _shared(scene: Scene) -> int:
    """Answer the longest prompt of which several fit beside each other."""
    return longest_with_room(scene, ROOM) // 4


def _is_held_back(row: Row) -> bool:
    return bool(row.wave) and not row.is_sent and row.reason == IN_ROTATION


def _judge_together(evidence: Evidence) -> Check:
    rows = [row for row in evidence.rows if row.part is Part.CONTROL or row.wave]
    check = judge_reference(replace(evidence, rows=tuple(rows)))
    waves = [row for row in rows if row.wave]
    is_held_back = bool(waves) and all(map(_is_held_back, waves))
    return replace(
        check,
        check=f"{evidence.plan}.{TOGETHER}",
        required=not (is_held_back and check.verdict is Verdict.NOT_EXERCISED),
    )
