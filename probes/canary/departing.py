"""Sends prompts whose client leaves half-way, and watches what the engines make of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.contract import Completion
from fleet.reading import Role
from probes.canary.contract import Surveyor
from probes.canary.departure import Episode, Glance, glance_at, is_over, kept_by
from probes.canary.rounds import Outcome, Row, Sending, Stay
from probes.canary.sight import Asked, unsent
from probes.canary.survey import Survey
from probes.markers import name_request

#: The moment of leaving as a share of the time that the same prompt took when its client stayed.
LEAVE_SHARE = 0.25
#: How long engines may take to let go after the prompt must have come through. Unit: seconds.
#: SGLang asks every 4 s whether a client is still there (SGLANG_REQUEST_STATE_WAIT_TIMEOUT).
SETTLE_S = 20.0
_LOOK_EVERY_S = 0.25
#: Within a shorter time a request is not surely on both engines when its client leaves.
_SHORTEST_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a client has in hand that left before the answer. Unit: seconds since it asked."""

    seconds: float


@dataclass(slots=True, kw_only=True)
class Watch:
    """The episodes of one round, one after the other."""

    surveyor: Surveyor
    is_stopped: Callable[[], Awaitable[bool]]
    episodes: list[Episode] = field(default_factory=list)

    def object_to(self, sending: Sending) -> str:
        """Answer why this request cannot be sent yet, or nothing where it can."""
        if sending.stay is Stay.WHOLE:
            return ""
        if self._control is None:
            return "the same prompt was not answered before, so no moment of leaving is known"
        if self._control.seconds < _SHORTEST_S:
            return (
                f"the same prompt took {self._control.seconds:.3f} s, too short to leave half-way: "
                "a longer one is needed (--budget-tokens)"
            )
        if not is_over(self.episodes[-1], kept=self._kept):
            return (
                "the engines do not show that they are done with the request before it, and what "
                "they hold must not become more; not sent"
            )
        return ""

    async def follow(
        self, sending: Sending, target: str, asking: Coroutine[Any, Any, Completion]
    ) -> Completion | Left:
        """Send one request and watch until it is over.

        The connection is closed when this goes on, whatever happens.
        """
        before = glance_at(await self.surveyor.survey())
        started = time.monotonic()
        task = asyncio.ensure_future(asking)
        try:
            await asyncio.wait({task}, timeout=self._leaves_after(sending))
            seconds = time.monotonic() - started
            came = task.result() if task.done() else Left(seconds=seconds)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        episode = Episode(
            stay=sending.stay,
            target=target,
            length=sending.length,
            max_new_tokens=sending.max_new_tokens,
            is_answered=_is_answer(came),
            seconds=round(seconds, 3),
            before=before,
            after=(),
        )
        self.episodes.append(await self._watched(episode))
        return came

    @property
    def _control(self) -> Episode | None:
        found = (one for one in self.episodes if one.stay is Stay.WHOLE and one.is_answered)
        return next(found, None)

    @property
    def _kept(self) -> dict[Role, int]:
        control = self._control
        return {} if control is None else {role: kept_by(control, role) for role in Role}

    def _leaves_after(self, sending: Sending) -> float | None:
        if sending.stay is Stay.WHOLE or self._control is None:
            return None
        return self._control.seconds * LEAVE_SHARE

    async def _watched(self, episode: Episode) -> Episode:
        left_at = time.monotonic()
        patience_s = SETTLE_S + (self._control.seconds if self._control else 0.0)
        kept = self._kept if episode.stay is not Stay.WHOLE else _ANYTHING
        while True:
            glance = await self._look(left_at)
            episode = replace(episode, after=(*episode.after, glance))
            is_late = glance.since_s > patience_s
            if is_late or is_over(episode, kept=kept) or await self.is_stopped():
                return episode
            # Large fleets are not looked at all the time.
            took_s = glance.until_s - glance.since_s
            await asyncio.sleep(max(_LOOK_EVERY_S, 2 * took_s))

    async def _look(self, left_at: float) -> Glance:
        since_s = time.monotonic() - left_at
        survey = await self.surveyor.survey()
        return glance_at(survey, since_s=since_s, until_s=time.monotonic() - left_at)


def around(
    sendings: Sequence[Sending], *, target: str, before: Survey, after: Survey
) -> tuple[Episode, ...]:
    """Answer the counters around a whole round, where a client of it leaves among others.

    No single request can be told apart there, so this is all that they show.
    """
    leaving = [one for one in sendings if one.wave and one.stay is not Stay.WHOLE]
    if not leaving:
        return ()
    return (
        Episode(
            stay=Stay.LEAVES,
            target=target,
            length=max(one.length for one in leaving),
            max_new_tokens=max(one.max_new_tokens for one in leaving),
            is_answered=False,
            seconds=0.0,
            before=glance_at(before),
            after=(glance_at(after),),
        ),
    )


def _is_answer(came: Completion | Left) -> bool:
    return isinstance(came, Completion) and came.is_answered and not came.is_refused


#: A prompt that ended as it should may leave behind what it likes.
_ANYTHING = dict.fromkeys(Role, 10**12)


def row_of_leaver(asked: Asked, left: Left) -> Row:
    """Answer the row of a request whose client left."""
    row = unsent(
        position=asked.position,
        sending=asked.sending,
        tenant=asked.tenant.name,
        reason=f"its client left after {left.seconds:.2f} s, as planned",
    )
    return replace(
        row,
        outcome=Outcome.LEFT,
        request=name_request(asked.request),
        seconds=round(left.seconds, 3),
    )
