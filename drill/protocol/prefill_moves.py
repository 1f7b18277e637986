"""What a prefill node and the wire can do with a request: admit, compute, send, land."""

from __future__ import annotations

from collections.abc import Iterator

from drill.protocol.state import NOBODY, Content, Decode, Prefill, Run, State, Way
from drill.protocol.steps import Here, Kind, Step

_STOPPABLE = frozenset({Prefill.QUEUED, Prefill.ADMITTED, Prefill.COMPUTED, Prefill.POSTED})


def prefill_moves(here: Here) -> Iterator[Step]:
    """Answer every move of the leg on prefill and of what it has on the wire."""
    leg = here.run.prefill
    if leg is Prefill.QUEUED:
        yield from _from_queue(here)
    elif leg is Prefill.ADMITTED:
        yield from _computed(here)
    elif leg is Prefill.COMPUTED:
        yield from _from_computed(here)
    if here.run.wired:
        yield _landed(here)
    if leg in _STOPPABLE:
        yield from _stopped(here)


def _from_queue(here: Here) -> Iterator[Step]:
    """Admit what decode has reserved for; only the door looks at a pending refusal."""
    if here.guards.door and here.setup.prefill_refuses(here.run.length):
        yield here.to(Kind.PREFILL_DOOR, prefill=Prefill.REFUSED)
    elif here.run.pages:
        yield here.to(Kind.PREFILL_ADMIT, prefill=Prefill.ADMITTED)


def _computed(here: Here) -> Iterator[Step]:
    """Compute; the pages that it takes may be those that a stopped transfer still reads."""
    for runs in _source_reuses(here):
        state = here.state._replace(runs=runs)
        yield here.to_state(Kind.COMPUTE, state, prefill=Prefill.COMPUTED)


def _source_reuses(here: Here) -> Iterator[tuple[Run, ...]]:
    runs = here.state.runs
    yield runs
    if here.guards.deferred_release:
        return
    for number, other in enumerate(runs):
        if other.wired and other.prefill is Prefill.STOPPED and other.carried == number:
            swapped = other._replace(carried=here.number)
            yield (*runs[:number], swapped, *runs[number + 1 :])


def _from_computed(here: Here) -> Iterator[Step]:
    """Send at once, or leave the pages on the wire; nobody asks whether decode still wants them."""
    if here.guards.retire and here.setup.prefill_refuses(here.run.length):
        yield here.to(Kind.RETIRE, prefill=Prefill.REFUSED)
        return
    pages = _destination(here)
    if here.run.holds:
        yield here.to_state(Kind.SEND, _written(here, pages, here.number), prefill=Prefill.SENT)
    yield here.to(Kind.POST, prefill=Prefill.POSTED, wired=len(pages), carried=here.number)


def _destination(here: Here) -> tuple[int, ...]:
    """Answer where the computed pages go: as many as there are, without a look at the rest."""
    return here.run.pages[: here.setup.computed(here.run.length)]


def _landed(here: Here) -> Step:
    """Let what is on the wire land. The transfer says "complete" without a look back."""
    run = here.run
    state = _written(here, run.pages[: run.wired], run.carried)
    return here.to_state(Kind.LAND, state, prefill=Prefill.SENT, wired=0, carried=NOBODY)


def _written(here: Here, pages: tuple[int, ...], writer: int) -> State:
    if not here.run.holds:
        return here.written(pages, Content(writer, Way.LATE))
    way = Way.SENT if writer == here.number else Way.SWAPPED
    return here.written(pages, Content(writer, way))


def _stopped(here: Here) -> Iterator[Step]:
    """Stop prefill's leg; what is on the wire cannot be called back."""
    if here.run.decode is Decode.ENDED:
        yield here.to(Kind.PREFILL_TOLD, prefill=Prefill.STOPPED)
        return
    if not here.run.pages:
        yield here.to(Kind.BOOTSTRAP_TIMEOUT, prefill=Prefill.STOPPED)
    if here.setup.has_aborts:
        yield here.to(Kind.PREFILL_ABORT, prefill=Prefill.STOPPED)
