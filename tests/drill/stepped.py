"""The drill's engines stepped by hand, one request at a time, and read as a state of the model."""

# ruff: noqa: SLF001 - what the engines keep to themselves is what the model is held against

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from drill.books import Trace
from drill.decode import DecodeEngine
from drill.engine import Sight
from drill.fabric import Fabric, Room
from drill.guards import Guard, GuardSwitches
from drill.model import Speaker
from drill.prefill import PrefillEngine
from drill.protocol.findings import Finding
from drill.protocol.guards import ProtocolGuards
from drill.protocol.state import (
    EARLIER,
    NOBODY,
    Content,
    Decode,
    Prefill,
    Run,
    Setup,
    State,
    Way,
)
from drill.protocol.steps import Kind
from drill.request import Bootstrap, Req
from drill.settings import NodeSettings, Role
from drill.world import World

PORT = 8991
PAGE = 16
EARLIER_SERIAL = 999
WIRE_S = 1.0
Found = frozenset[Finding]


def tokens_of(pages: int) -> int:
    """A prompt of so many pages that leaves room for its answer in the last one."""
    return (pages - 1) * PAGE + 1


def settings_of(role: Role, figures: Figures) -> NodeSettings:
    """Prefill's limit comes from its context: its own pages are no part of the model."""
    setup, is_prefill = figures.setup, role is Role.PREFILL
    node = NodeSettings(
        name=str(role),
        role=role,
        engine_version=figures.version,
        pool=64 * PAGE if is_prefill else setup.decode_pages * PAGE,
        context=setup.prefill_longest * PAGE if is_prefill else 4096,
        page_size=PAGE,
        model="m",
        bootstrap_port=PORT,
        reserved_decode_tokens=setup.reserve * PAGE,
        transfer_s=WIRE_S if figures.is_on_wire else 0.0,
    )
    longest = setup.prefill_longest if is_prefill else setup.decode_longest
    assert tokens_of(longest) < node.first_refused <= tokens_of(longest + 1)
    return node


@dataclass
class Leg:
    """Both halves of a request in the drill, and the room where they meet."""

    prefill: Req
    decode: Req
    room: Room | None = None
    is_stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a drill is started with. `is_on_wire`: transfers land when told, else at once."""

    version: str
    setup: Setup
    lengths: tuple[int, ...]
    is_used: bool
    is_on_wire: bool = False
    switches: tuple[Guard, ...] = ()


@dataclass
class Drill:
    """The drill's engines, stepped by hand, and the same as a state of the model."""

    figures: Figures
    prefill: PrefillEngine
    decode: DecodeEngine
    now: list[float]
    legs: list[Leg] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    late: dict[int, int] = field(default_factory=dict)

    @classmethod
    def start(cls, figures: Figures) -> Drill:
        fabric, now = Fabric(), [0.0]
        fabric.bootstrap_ports.add(PORT)
        world = World(switches=GuardSwitches(dict.fromkeys(figures.switches, True)))
        more: dict[str, Any] = {
            "sight": Sight(),
            "clock": lambda: now[0],
            "fabric": fabric,
            "world": world,
        }
        drill = cls(
            figures=figures,
            prefill=PrefillEngine(settings_of(Role.PREFILL, figures), **more),
            decode=DecodeEngine(settings_of(Role.DECODE, figures), **more),
            now=now,
        )
        if figures.is_used:
            slots = range(PAGE, (figures.setup.decode_pages + 1) * PAGE)
            drill.decode.pool.write(slots, [65] * len(slots), EARLIER_SERIAL)
        drill._note_late_writes()
        drill._note_reads()
        return drill

    def _note_late_writes(self) -> None:
        write = self.decode.pool.write

        def note_and_write(slots: Sequence[int], tokens: Iterable[int], writer: int) -> None:
            owners = self._owners()
            for page in {slot // PAGE for slot in slots if slot % PAGE == 0}:
                owner = owners.get(page, writer)
                self.late[page] = NOBODY if owner == writer else owner
            write(slots, tokens, writer)

        self.decode.pool.write = note_and_write  # type: ignore[method-assign]

    def _note_reads(self) -> None:
        speaker, traces = self.decode._speaker, self.decode.books.traces

        def note_and_speak(req: Req) -> Speaker | None:
            count = len(traces)
            said = speaker(req)
            if len(traces) > count:
                self.found.append(self._found(traces[-1]))
            return said

        self.decode._speaker = note_and_speak  # type: ignore[method-assign]

    def _found(self, trace: Trace) -> Found:
        """By the first slot of each page: a page is the model's smallest part."""
        strangers = {at for at in trace.not_own if at % PAGE == 0}
        foreign = strangers.intersection(trace.foreign)
        late = {at for at in foreign if self.late.get(trace.slots[at] // PAGE) == trace.serial}
        return frozenset(
            ({Finding.REFUSED_PROMPT} if foreign - late else set())
            | ({Finding.LATE_WRITE} if late else set())
            | ({Finding.UNWRITTEN} if strangers - foreign else set())
        )

    def _owners(self) -> dict[int, int]:
        """Answer whose each page of decode is, those that are held for a late write too."""
        held = {page: req.serial for req, pages, _ in self.decode._held for page in pages}
        return held | {page: n for n, leg in enumerate(self.legs) for page in leg.decode.pages}

    @property
    def guards(self) -> ProtocolGuards:
        """As the engines have them; a write of the drill always lands within the deferral."""
        engine = self.decode.guards
        return ProtocolGuards(
            door=engine.refuses_at_door,
            retire=engine.retires_after_forward,
            deferred_release=engine.defers_release,
            bounded_transfer=True,
            checksum=engine.sums_transfers,
            page_tags=engine.tags_pages,
        )

    def send(self) -> None:
        number = len(self.legs)
        reqs = [
            Req(
                rid=f"r{number}",
                serial=number,
                input_ids=[66 + number] * tokens_of(self.figures.lengths[number]),
                max_new_tokens=2,
                bootstrap=Bootstrap(host="127.0.0.1", port=PORT, room=number),
            )
            for _ in range(2)
        ]
        self.prefill.submit(reqs[0])
        self.decode.submit(reqs[1])
        room = self.prefill._bootstrap.get(reqs[0]) or self.decode._prealloc.get(reqs[1])
        self.legs.append(Leg(prefill=reqs[0], decode=reqs[1], room=room))

    def state(self) -> State:
        """Read the engines as a state of the model."""
        count, owners = self.figures.setup.decode_pages, self._owners()
        contents = tuple(self._content(page, owners.get(page)) for page in range(1, count + 1))
        runs = tuple(self._run(number, owners) for number in range(len(self.figures.lengths)))
        free = tuple(page for page in range(count) if page + 1 not in owners)
        state = State(runs, contents, free)
        for number, run in enumerate(runs):
            state = state.with_run(number, run)
        return state

    def _content(self, page: int, owner: int | None) -> Content:
        (serial,) = self.decode.pool.writers_of([page * PAGE])
        writer = {-1: NOBODY, EARLIER_SERIAL: EARLIER}.get(serial, serial)
        if owner is None or writer == owner:
            return Content(writer, Way.SENT if writer == owner else Way.BEFORE)
        return Content(writer, Way.LATE if self.late.get(page) == owner else Way.BEFORE)

    def _run(self, number: int, owners: dict[int, int]) -> Run:
        run = Run(length=self.figures.lengths[number])
        if number >= len(self.legs):
            return run
        leg = self.legs[number]
        holds = number in owners.values()
        pages = tuple(page - 1 for page in leg.decode.pages)
        room = leg.room
        if not pages and room is not None and room.destination is not None:
            slots = room.destination.slots
            pages = tuple(dict.fromkeys(slot // PAGE - 1 for slot in slots))
        run = run._replace(
            prefill=self._prefill_place(leg),
            decode=self._decode_place(leg),
            pages=pages,
            holds=holds,
        )
        if room is None or room.wire is None or room.wire.is_done:
            return run
        wired = min(len(pages), self.figures.setup.computed(run.length))
        return run._replace(wired=wired, carried=number)

    def _prefill_place(self, leg: Leg) -> Prefill:
        """Answer where prefill stands; what decode has given up is stopped there at once."""
        req, room, finish = leg.prefill, leg.room, leg.prefill.finished_reason
        if room is not None and room.is_sent:
            return Prefill.SENT
        for queue, place in (
            (self.prefill._bootstrap, Prefill.QUEUED),
            (self.prefill._waiting, Prefill.ADMITTED),
            (self.prefill._inflight, Prefill.POSTED),
        ):
            if req in queue:
                leg.is_stopped = leg.is_stopped or (room is not None and room.failure is not None)
                return Prefill.STOPPED if leg.is_stopped else place
        is_refused = finish is not None and finish.status == 400 and not leg.is_stopped
        return Prefill.REFUSED if is_refused else Prefill.STOPPED

    def _decode_place(self, leg: Leg) -> Decode:
        req, finish = leg.decode, leg.decode.finished_reason
        for queue, place in (
            (self.decode._prealloc, Decode.QUEUED),
            (self.decode._transfer, Decode.RESERVED),
            (self.decode._batch, Decode.SPOKEN),
        ):
            if req in queue:
                return place
        if finish is not None and finish.kind == "length":
            return Decode.ANSWERED
        is_refused = finish is not None and finish.status == 400
        return Decode.REFUSED if is_refused else Decode.ENDED

    def seen(self, since: int) -> Found:
        """What the answers attended since then that their requests had not written."""
        return frozenset().union(*self.found[since:])

    def land(self, leg: Leg) -> None:
        """Let what is on the wire land, and decode free what it held for that."""
        if leg.room is not None and leg.room.wire is not None:
            self.decode.pool.backlog._finish(leg.room.wire)
        self.decode._do_what_lags()


@contextmanager
def only(queue: dict[Req, Any], req: Req, *, is_in_order: bool) -> Iterator[None]:
    """Hide what comes after a request, and what comes before where the engine passes it by."""
    before = dict(queue)
    is_ahead = is_in_order
    for other in before:
        is_ahead = is_ahead and other is not req
        if other is not req and not is_ahead:
            del queue[other]
    yield
    after = dict(queue)
    queue.clear()
    queue.update({one: what for one, what in before.items() if one is not req or one in after})
    queue.update(after)


Queue = tuple[dict[Req, Any], Req, Callable[[], bool]]


def take(drill: Drill, kind: Kind, leg: Leg) -> None:
    """Make the drill do one move of one request; prefill concludes at once what it has sent."""
    if kind is Kind.DECODE_ABORT:
        drill.decode.abort(leg.decode)
    elif kind is Kind.PREFILL_ABORT:
        drill.prefill.abort(leg.prefill)
    elif kind is Kind.LAND:
        drill.land(leg)
    for queue, req, step in _queues(drill, kind, leg):
        if req in queue:
            with only(queue, req, is_in_order=kind is Kind.RESERVE):
                step()


def _queues(drill: Drill, kind: Kind, leg: Leg) -> list[Queue]:
    """Answer which queues a move is made in, in their order."""
    prefill, decode = drill.prefill, drill.decode
    reserve: Queue = (decode._prealloc, leg.decode, decode._preallocate)
    admit: Queue = (decode._transfer, leg.decode, decode._pop_transferred)
    answer: Queue = (decode._batch, leg.decode, decode._step_batch)
    bootstrap: Queue = (prefill._bootstrap, leg.prefill, prefill._pop_bootstrapped)
    compute: Queue = (prefill._waiting, leg.prefill, prefill._compute)
    conclude: Queue = (prefill._inflight, leg.prefill, prefill._conclude_sent)
    return {
        Kind.RESERVE: [reserve],
        Kind.DECODE_ADMIT: [admit],
        Kind.DECODE_RETIRE: [admit],
        Kind.ANSWER: [answer],
        Kind.DECODE_ABORT: [answer],
        Kind.PREFILL_ADMIT: [bootstrap],
        Kind.COMPUTE: [compute, conclude],
        Kind.LAND: [conclude],
    }.get(kind, [])
