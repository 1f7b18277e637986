"""What a decode node can do with a request: reserve, admit, read, answer, release."""

from __future__ import annotations

from collections.abc import Iterator

from drill.protocol.findings import Finding
from drill.protocol.state import Content, Decode, Prefill, State, Way
from drill.protocol.steps import Here, Kind, Step

_BUSY = frozenset({Decode.RESERVED, Decode.ADMITTED, Decode.SPOKEN})
_LEFT = frozenset({Prefill.REFUSED, Prefill.STOPPED})


def decode_moves(here: Here) -> Iterator[Step]:
    """Answer every move of the leg on decode."""
    leg = here.run.decode
    if here.setup.has_aborts and (leg is Decode.QUEUED or leg in _BUSY):
        yield _ended(here, Kind.DECODE_ABORT)
    if leg is Decode.QUEUED:
        yield from _from_queue(here)
    elif leg is Decode.RESERVED:
        yield from _from_reserved(here)
    elif leg in (Decode.ADMITTED, Decode.SPOKEN):
        yield from _from_running(here)
    elif leg is Decode.COPYING:
        yield _copied(here)
    elif leg is Decode.ENDED and here.run.holds:
        yield from _from_held(here)


def _from_queue(here: Here) -> Iterator[Step]:
    if here.guards.door and here.setup.decode_refuses(here.run.length):
        yield here.to(Kind.DECODE_DOOR, decode=Decode.REFUSED)
        return
    waits_behind = any(run.decode is Decode.QUEUED for run in here.state.runs[: here.number])
    if waits_behind or not _fits(here):
        return
    for pages in _choices(here):
        contents = list(here.state.contents)
        for page in pages:
            contents[page] = Content(contents[page].writer)
        free = tuple(page for page in here.state.free if page not in pages)
        taken = here.state._replace(contents=tuple(contents), free=free)
        yield here.to_state(Kind.RESERVE, taken, decode=Decode.RESERVED, pages=pages, holds=True)


def _fits(here: Here) -> bool:
    """Tell whether the head of the queue fits, with a reserve for it and for each busy request."""
    busy = sum(run.decode in _BUSY for run in here.state.runs)
    wanted = here.setup.reserved(here.run.length) + here.setup.reserve * (busy + 1)
    return wanted <= len(here.state.free)


def _choices(here: Here) -> Iterator[tuple[int, ...]]:
    """Answer the pages that may be taken, one choice of those that differ in nothing but number."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for page in here.state.free:
        alike.setdefault(_mark(here.state, page), []).append(page)
    stacks = tuple(tuple(pages) for pages in alike.values())
    return _taken(stacks, here.setup.reserved(here.run.length))


def _taken(stacks: tuple[tuple[int, ...], ...], count: int) -> Iterator[tuple[int, ...]]:
    """Answer every order of so many pages, where a stack is always taken from its front."""
    if not count:
        yield ()
        return
    for at, stack in enumerate(stacks):
        if stack:
            rest = (*stacks[:at], stack[1:], *stacks[at + 1 :])
            yield from ((stack[0], *more) for more in _taken(rest, count - 1))


def _mark(state: State, page: int) -> tuple[object, ...]:
    """Answer what tells a free page from another: content, and who can still write or copy it."""
    after_it = [(n, run.pages.index(page)) for n, run in enumerate(state.runs) if page in run.pages]
    return state.contents[page].is_unwritten, *after_it


def _from_reserved(here: Here) -> Iterator[Step]:
    run = here.run
    if run.prefill is Prefill.SENT and not run.wired:
        yield _admitted(here)
        return
    is_own_refusal = here.setup.decode_refuses(run.length)
    if here.guards.retire and is_own_refusal and run.prefill in _LEFT:
        yield here.releasing(Kind.DECODE_RETIRE, decode=Decode.REFUSED)
    yield _ended(here, Kind.WAITING_TIMEOUT)


def _admitted(here: Here) -> Step:
    """Answer what decode does with a transfer that is said to be complete."""
    if here.guards.checksum and here.seen():
        return _ended(here, Kind.DECODE_ADMIT)
    if here.setup.decode_refuses(here.run.length):
        return here.releasing(Kind.DECODE_ADMIT, decode=Decode.REFUSED)
    return here.to(Kind.DECODE_ADMIT, decode=Decode.ADMITTED)


def _from_running(here: Here) -> Iterator[Step]:
    yield _read(here)
    if here.run.decode is Decode.SPOKEN:
        yield _answered(here)


def _read(here: Here) -> Step:
    """Answer a step of generation, which attends to all pages of the request."""
    found = here.seen()
    if found and here.guards.page_tags:
        return _ended(here, Kind.READ)
    move, state = here.to(Kind.READ, decode=Decode.SPOKEN)
    return move._replace(found=found), state


def _answered(here: Here) -> Step:
    if not here.setup.has_tier:
        return here.releasing(Kind.ANSWER, decode=Decode.ANSWERED)
    if here.guards.deferred_release:
        return here.to(Kind.ANSWER, decode=Decode.COPYING)
    return here.releasing(Kind.ANSWER, decode=Decode.COPYING)


def _copied(here: Here) -> Step:
    """Answer the copy of a finished request's pages to the host tier; the tier reads, too."""
    move, state = here.releasing(Kind.COPY, decode=Decode.ANSWERED)
    if here.guards.page_tags:
        return move, state
    return move._replace(found=_taken_since(here) or here.seen()), state


def _taken_since(here: Here) -> frozenset[Finding]:
    """Answer whether another owner has written into pages that were released too early."""
    if here.run.holds:
        return frozenset()
    contents = [here.state.contents[page] for page in here.run.pages]
    is_taken = any(way is Way.SENT and writer != here.number for writer, way in contents)
    return frozenset({Finding.HOST_COPY}) if is_taken else frozenset()


def _from_held(here: Here) -> Iterator[Step]:
    if here.run.has_prefill_ended:
        yield here.releasing(Kind.RELEASE)
    elif not here.guards.bounded_transfer:
        yield here.releasing(Kind.HOLD_TIMEOUT)


def _ended(here: Here, kind: Kind) -> Step:
    """Answer the end without an answer: pages go at once, or are held while writes can land."""
    if here.guards.deferred_release and not here.run.has_prefill_ended:
        return here.to(kind, decode=Decode.ENDED)
    return here.releasing(kind, decode=Decode.ENDED)
