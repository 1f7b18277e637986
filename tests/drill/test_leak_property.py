"""When an answer attends what its request did not write, and whose it then is."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from drill.books import Trace
from drill.decode import DecodeEngine
from drill.engine import Engine, Sight
from drill.fabric import Fabric
from drill.prefill import PrefillEngine
from drill.request import Bootstrap, Req
from drill.settings import NodeSettings, Role, WrongFigure, check

PORT = 8991
VERSIONS = ("0.5.5", "0.5.12", "0.5.19", "0.5.20", "0.5.21", "0.5.23", "0.6.0")
UNGUARDED = ("0.5.5", "0.5.12", "0.5.19")


@dataclass
class Pair:
    """Two engines without a network, and a second book of who wrote which slot of decode."""

    prefill: PrefillEngine
    decode: DecodeEngine
    serial: int = 0
    last_writer: dict[int, int] = field(default_factory=dict)

    @classmethod
    def start(cls, prefill: NodeSettings, decode: NodeSettings) -> Pair:
        fabric, sight = Fabric(), Sight()
        fabric.bootstrap_ports.add(PORT)
        one = PrefillEngine(prefill, sight=sight, clock=lambda: 0.0, fabric=fabric)
        two = DecodeEngine(decode, sight=sight, clock=lambda: 0.0, fabric=fabric)
        pair = cls(prefill=one, decode=two)
        write = two.pool.write

        def write_and_note(slots: list[int], tokens: list[int], writer: int) -> None:
            pairs = list(zip(slots, tokens, strict=False))
            pair.last_writer.update(dict.fromkeys((slot for slot, _ in pairs), writer))
            write(slots, tokens, writer)

        two.pool.write = write_and_note  # type: ignore[method-assign, assignment]
        return pair

    def send(self, length: int, new_tokens: int, engines: list[Engine] | None = None) -> list[Req]:
        self.serial += 1
        legs = []
        for engine in engines or [self.prefill, self.decode]:
            req = Req(
                rid=f"r{self.serial}",
                serial=self.serial,
                input_ids=[self.serial % 250 + 1] * length,
                max_new_tokens=new_tokens,
                bootstrap=Bootstrap(host="127.0.0.1", port=PORT, room=self.serial),
            )
            engine.submit(req)
            legs.append(req)
        return legs

    def settle(self) -> None:
        while self.prefill.step() + self.decode.step():
            pass

    def trace_of(self, req: Req) -> Trace | None:
        mine = [one for one in self.decode.books.traces if one.serial == req.serial]
        return mine[-1] if mine else None


@st.composite
def pairs(draw: st.DrawFn) -> tuple[NodeSettings, NodeSettings]:
    page_size = draw(st.sampled_from((1, 2, 16, 64)))
    version = draw(st.sampled_from(VERSIONS))
    context = draw(st.integers(16, 1500))
    reserve = draw(st.sampled_from((0, 4, 16)))
    most = {Role.PREFILL: 300, Role.DECODE: 900}
    both = [
        NodeSettings(
            name=str(role),
            role=role,
            engine_version=version,
            pool=page_size * draw(st.integers(-(-8 // page_size), most[role] // page_size)),
            context=context,
            page_size=page_size,
            model="m",
            bootstrap_port=PORT,
            reserved_decode_tokens=reserve,
        )
        for role in (Role.PREFILL, Role.DECODE)
    ]
    try:
        for one in both:
            check(one)
    except WrongFigure:
        assume(condition=False)
    return both[0], both[1]


loads = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 40), st.booleans()), max_size=6)
shares = st.floats(min_value=0, max_value=1)


def _warm(pair: Pair, load: list[tuple[int, int, bool]]) -> None:
    """Send other requests, some at once; give up those that can never be reserved."""
    for length, new_tokens, is_alone in load:
        prefill, decode = pair.send(length, new_tokens)
        if is_alone or not decode.finished():
            pair.settle()
        for engine, req in ((pair.prefill, prefill), (pair.decode, decode)):
            if not req.finished():
                engine.abort(req)
        pair.settle()


def _length(prefill: NodeSettings, decode: NodeSettings, share: float, *, near: bool) -> int:
    """Answer a length below the context, every other time at one of the limits."""
    limits = sorted((prefill.first_refused, decode.first_refused))
    low, high = (max(1, limits[0] - 2), limits[1] + 2) if near else (1, decode.context - 1)
    return min(decode.context - 1, low + round(share * (high - low)))


@settings(max_examples=400, deadline=None)
@given(figures=pairs(), load=loads, share=shares, near=st.booleans(), new_tokens=st.integers(2, 12))
def test_an_answer_attends_what_it_did_not_write_only_in_an_unguarded_band(
    figures: tuple[NodeSettings, NodeSettings],
    load: list[tuple[int, int, bool]],
    share: float,
    near: bool,
    new_tokens: int,
) -> None:
    prefill, decode = figures
    pair = Pair.start(prefill, decode)
    _warm(pair, load)
    length = _length(prefill, decode, share, near=near)
    before = dict(pair.last_writer)
    _, answer = pair.send(length, new_tokens)
    pair.settle()
    trace = pair.trace_of(answer)
    is_in_band = prefill.first_refused <= length < decode.first_refused
    is_guarded = prefill.engine_version not in UNGUARDED
    transferred = 1 if length >= prefill.first_refused else length
    expected = is_in_band and not is_guarded and length > transferred
    if trace is None:
        event("nothing was attended")
        assert not expected or not answer.finished() or len(answer.output_ids) < 2
        return
    event("a leak" if expected else "an own answer")
    assert bool(trace.not_own) is expected
    assert trace.transferred == transferred
    assert trace.not_own == (list(range(transferred, length)) if expected else [])
    written_before = {at for at in trace.not_own if trace.slots[at] in before}
    assert set(trace.foreign) == written_before
    for at in trace.foreign:
        assert trace.writers[at] == before[trace.slots[at]] != answer.serial


def _outcome(req: Req) -> str:
    finish = req.finished_reason
    if finish is None:
        return "waits"
    return f"refuses {finish.status}" if finish.is_abort else "answers"


def _expected(version: str, *, refused: tuple[bool, bool], is_blocked: bool) -> tuple[str, str]:
    """Answer what both legs do, by who refuses and which guard stands."""
    has_door = version in ("0.5.21", "0.5.23", "0.6.0")
    at_door = ["refuses 400" if has_door and one else "" for one in refused]
    if any(at_door):
        return at_door[0] or "waits", at_door[1] or "waits"
    if is_blocked:
        return "waits", "waits"
    decode = "refuses 400" if refused[1] else "answers"
    if not refused[0] or version in UNGUARDED:
        return "answers", decode
    return "refuses 400", decode if refused[1] else "waits"


@settings(max_examples=300, deadline=None)
@given(figures=pairs(), load=loads, share=shares, near=st.booleans())
def test_each_node_refuses_by_its_own_limit(
    figures: tuple[NodeSettings, NodeSettings],
    load: list[tuple[int, int, bool]],
    share: float,
    near: bool,
) -> None:
    prefill, decode = figures
    pair = Pair.start(prefill, decode)
    _warm(pair, load)
    length = _length(prefill, decode, share, near=near)
    legs = pair.send(length, 2)
    pair.settle()
    refused = length >= prefill.first_refused, length >= decode.first_refused
    reserved = (1 if refused[1] else length) + decode.reserved_decode_tokens
    computed = (1 if refused[0] else length) + 1 + prefill.page_size
    is_blocked = reserved > decode.pool or computed >= prefill.pool
    expected = _expected(prefill.engine_version, refused=refused, is_blocked=is_blocked)
    event(" / ".join(expected))
    assert tuple(_outcome(leg) for leg in legs) == expected


@settings(max_examples=100, deadline=None)
@given(figures=pairs(), load=loads)
def test_no_page_is_lost_or_held_twice(
    figures: tuple[NodeSettings, NodeSettings], load: list[tuple[int, int, bool]]
) -> None:
    pair = Pair.start(*figures)
    _warm(pair, load)
    for engine in (pair.prefill, pair.decode):
        assert engine.pool.used == 0
        pages = engine.pool.take(engine.pool.page_count)
        assert sorted(pages or []) == list(range(1, engine.pool.page_count + 1))
