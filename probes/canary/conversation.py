"""The requests of one round as they are sent: in turn, or several together, until a reason to stop.

The kill switch is asked before each request, in a wave too. What is under way then is let end:
a client that leaves half-way is the very thing that endangers others.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.contract import Completion, Speaker
from probes.canary.catalogue import Finder
from probes.canary.contract import Observer, RoundOrder
from probes.canary.departing import Left, Watch, row_of_leaver
from probes.canary.departure import Episode
from probes.canary.patience import timeout_of
from probes.canary.rounds import Cost, Outcome, Part, Progress, Row, Sending, Stay
from probes.canary.scene import Scene
from probes.canary.scripting import Line, Scripts, Unwritten, routes_to_count
from probes.canary.sight import Asked, look_at, unsent
from probes.canary.spending import tell_cost
from probes.canary.waves import IN_ROTATION, leave, leaves_after, steps_of, together

#: A chat template adds fewer tokens than this; more is no count to build on.
_MOST_ADDED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """A row and the whole answer, which is handed on and not kept."""

    row: Row
    text: str = field(default="", repr=False)


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One round under way. ``may_share``: several requests at once are allowed in it."""

    order: RoundOrder
    scene: Scene
    scripts: Scripts
    index: Finder
    observer: Observer
    total: int
    may_share: bool = False
    watch: Watch | None = None
    rows: list[Row] = field(default_factory=list)
    stop_reason: str = ""
    _begun: int = 0

    async def announce(self, cost: Cost) -> None:
        """Tell the observer what the round will cost at most."""
        label = f"at most {tell_cost(cost)}"
        await self.observer.progressed(Progress(done=0, total=self.total, label=label))

    async def run(self, sendings: Sequence[Sending]) -> None:
        """Send all of these, or record why one was not sent."""
        for step in steps_of(sendings):
            await self._count_routes(step)
            await self._take(step)

    async def finish(self) -> None:
        """Tell the observer that nothing more is sent."""
        label = "reading the nodes again"
        await self.observer.progressed(Progress(done=self.total, total=self.total, label=label))

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Answer what was watched, where clients left."""
        return () if self.watch is None else tuple(self.watch.episodes)

    async def _take(self, step: Sequence[Sending]) -> None:
        first = self._begun
        self._begun += len(step)
        # All of a wave is written before the first of it is sent: writing takes a while.
        lines = [
            await self._written(sending, position=first + number)
            for number, sending in enumerate(step)
        ]
        jobs = [self._sent(line, step) if isinstance(line, Line) else _done(line) for line in lines]
        for heard in await together(jobs):
            await self._keep(heard)

    async def _keep(self, heard: _Heard) -> None:
        self.rows.append(heard.row)
        if heard.row.is_sent:
            await self.observer.answered(heard.row, heard.text)

    async def _written(self, sending: Sending, *, position: int) -> Line | _Heard:
        tenant = self.order.tenant_a if sending.is_by_filler else self.order.tenant_b
        label = f"{tenant.name}: {sending.length:,} tokens, {sending.purpose}"
        await self.observer.progressed(Progress(done=position, total=self.total, label=label))
        try:
            await self._look_at_switch()
            self._object_to(sending)
            return await self.scripts.line(sending, position=position)
        except Unwritten as why:
            return _unsent(sending, tenant.name, position=position, reason=str(why))

    async def _sent(self, line: Line, step: Sequence[Sending]) -> _Heard:
        try:
            if len(step) > 1:
                await self._look_at_switch()
                self._object_to(line.sending)
            heard = await self._ask(line, step)
        except Unwritten as why:
            name, position = line.tenant.name, line.position
            return _unsent(line.sending, name, position=position, reason=str(why))
        self.stop_reason = self.stop_reason or _reason_to_stop(heard.row)
        return heard

    async def _look_at_switch(self) -> None:
        if not self.stop_reason and await self.observer.is_stopped():
            self.stop_reason = "somebody stopped the round"

    def _object_to(self, sending: Sending) -> None:
        """Do nothing where this request may be sent. Raises Unwritten."""
        reason = self.stop_reason or self.scene.hang_at(sending.length, sending.max_new_tokens)
        if not reason and sending.wave and not self.may_share:
            reason = IN_ROTATION
        if not reason and sending.stay is Stay.LEAVES_PAIR and self.order.direct is None:
            reason = "no pair is known to which a client could speak without the router"
        if not reason and sending.stay is not Stay.WHOLE:
            reason = self._object_to_leaving(sending)
        if reason:
            raise Unwritten(reason)

    def _object_to_leaving(self, sending: Sending) -> str:
        if not sending.wave:
            return "" if self.watch is None else self.watch.object_to(sending)
        if leaves_after(sending, self.rows) is None:
            return "the same prompt was not answered before, so no moment of leaving is known"
        return ""

    async def _ask(self, line: Line, step: Sequence[Sending]) -> _Heard:
        sending, speaker = line.sending, self._speaker_of(line.sending)
        asking = speaker.ask(
            token_ids=line.prompt.token_ids,
            max_new_tokens=sending.max_new_tokens,
            tenant_key=line.tenant.key,
            timeout_s=timeout_of(sending, beside=step),
            form=line.form,
            text=line.prompt.text,
        )
        asked = Asked(
            position=line.position,
            sending=sending,
            tenant=line.tenant,
            request=line.origin.request,
            nonce=line.prompt.nonce,
            planted=frozenset((one.tenant, one.request) for one in line.prompt.origins),
            worker=self._worker_of(speaker),
            asked_pages=line.prompt.asked_pages,
        )
        return self._heard(asked, await self._followed(sending, speaker, asking))

    async def _followed(
        self, sending: Sending, speaker: Speaker, asking: Coroutine[Any, Any, Completion]
    ) -> Completion | Left:
        if sending.wave:
            after_s = leaves_after(sending, self.rows)
            is_leaving = sending.stay is not Stay.WHOLE and after_s is not None
            return await leave(asking, after_s or 0.0) if is_leaving else await asking
        if self.watch is not None:
            return await self.watch.follow(sending, speaker.label, asking)
        return await asking

    def _heard(self, asked: Asked, came: Completion | Left) -> _Heard:
        if isinstance(came, Left):
            return _Heard(row=row_of_leaver(asked, came))
        if not (came.is_answered or came.seconds or came.text):
            # It did not leave us: this way cannot send it, or its address is refused.
            raise Unwritten(came.error or "it could not be sent by this way")
        names = {one.number: one.name for one in (self.order.tenant_a, self.order.tenant_b)}
        return _Heard(row=look_at(asked, came, index=self.index, names=names), text=came.text)

    def _speaker_of(self, sending: Sending) -> Speaker:
        direct = self.order.direct
        is_direct = sending.stay is Stay.LEAVES_PAIR and direct is not None
        return direct if is_direct and direct is not None else self.order.speaker

    def _worker_of(self, speaker: Speaker) -> str:
        """Answer who is known to answer: a pair is asked by name, or there is only one."""
        name = speaker.label.removeprefix("pair ").removeprefix("node ")
        names = [pair.name for pair in self.scene.pairs]
        return name if name in names else names[0] if len(names) == 1 else ""

    async def _count_routes(self, step: Sequence[Sending]) -> None:
        """See first what a route adds to a text, so that lengths by it are exact."""
        for sending in routes_to_count(step, self.order.dialect):
            api = sending.form.api
            if self.stop_reason or self.scripts.has_counted(api):
                continue
            line = await self._written(sending, position=self._begun)
            self._begun += 1
            heard = await self._sent(line, [sending]) if isinstance(line, Line) else line
            added = (heard.row.prompt_tokens or 0) - heard.row.length
            is_counted = heard.row.outcome is Outcome.ANSWERED and 0 <= added <= _MOST_ADDED
            self.scripts.learn(api, added if is_counted else None)
            counted = heard.row.length + added if is_counted else heard.row.length
            await self._keep(replace(heard, row=replace(heard.row, length=counted)))


async def _done(heard: _Heard) -> _Heard:
    return heard


def _unsent(sending: Sending, tenant: str, *, position: int, reason: str) -> _Heard:
    row = unsent(position=position, sending=sending, tenant=tenant, reason=reason)
    return _Heard(row=row)


def _reason_to_stop(row: Row) -> str:
    """Answer why nothing more may follow this row, or nothing where the next may.

    One time-out is enough: engines have held what timed out for 300 s, and more of them brought
    whole clusters down. Source: case C25 of the public reports.
    """
    before = f"the one of {row.length:,} tokens before it"
    if row.outcome is Outcome.NO_ANSWER:
        return f"{before} got no answer, and what it holds up must not be held up more; not sent"
    if row.outcome is Outcome.UNAUTHORISED:
        return f"{before} was turned away for its key; not sent"
    if row.part is Part.FILL and row.is_silent:
        return f"{before} failed; not sent"
    return ""
