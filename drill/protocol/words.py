"""A trace in words: who does what to whose pages, one line a move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from drill.protocol.explore import Trace, TraceStep
from drill.protocol.findings import Finding
from drill.protocol.state import EARLIER, NOBODY, Decode, Run, Setup, State
from drill.protocol.steps import Kind

_ORDINALS = ("", " second", " third", " fourth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One move, told."""

    actor: str
    kind: str
    text: str


def before(trace: Trace) -> str:
    """Answer what is so before the first move of a trace."""
    count = len(trace.start.contents)
    if trace.start.contents[0].writer == NOBODY:
        return f"decode's {pages_of(count)} are new: nobody ever wrote them"
    return (
        f"decode's {pages_of(count)} hold what an earlier request of tenant A left; "
        "nobody wipes a page"
    )


def lines(trace: Trace, setup: Setup) -> list[Line]:
    """Answer a trace move by move."""
    return [_line(step, setup) for step in trace.steps]


def rest(trace: Trace, setup: Setup) -> str | None:
    """Answer what a trace ends in where nothing moves any more, None where its last move tells."""
    if trace.finding is Finding.WAITS_FOR_EVER:
        return _waiting(trace.end, setup)
    return _held_up(trace.end) if trace.finding is Finding.HELD_RESERVATION else None


def _waiting(state: State, setup: Setup) -> str:
    number = next(n for n, run in enumerate(state.runs) if run.decode is Decode.QUEUED)
    wanted = setup.reserved(state.runs[number].length) + setup.reserve
    free = pages_of(len(state.free))
    return (
        f"{whose(number)} waits at the head of decode's queue for ever, and all behind it: "
        f"it wants {pages_of(wanted)} with the reserve, decode has {setup.decode_pages}; "
        f"{free} are free"
    )


def _held_up(state: State) -> str:
    held = next(run for run in state.runs if run.decode is Decode.RESERVED)
    return (
        f"decode holds {pages_of(len(held.pages))} until its waiting time-out (300 s by "
        "default), and the client waits with it"
    )


def pages_of(count: int) -> str:
    """Answer a number of pages."""
    return "1 page" if count == 1 else f"{count} pages"


def whose(number: int) -> str:
    """Answer whose request it is: tenant B's, then A's, in turn."""
    return f"tenant {'BA'[number % 2]}'s{_ORDINALS[number // 2]} request"


def _owner(writer: int) -> str:
    return "tenant A's earlier request" if writer == EARLIER else whose(writer)


def _line(step: TraceStep, setup: Setup) -> Line:
    kind, number = step.move.kind, step.move.run
    seen = _Seen(step=step, setup=setup, run=step.before.runs[number], who=whose(number))
    actor, tell = _TOLD[kind]
    return Line(actor=actor, kind=str(kind), text=tell(seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A move as its teller sees it."""

    step: TraceStep
    setup: Setup
    run: Run
    who: str

    @property
    def is_refused(self) -> bool:
        return self.setup.prefill_refuses(self.run.length)


def _reserve(seen: _Seen) -> str:
    count = seen.setup.reserved(seen.run.length)
    return (
        f"the router tells decode the prompt length of {seen.who}, {pages_of(seen.run.length)}: "
        f"decode reserves {count}"
    )


def _prefill_admit(seen: _Seen) -> str:
    if seen.is_refused:
        return f"admits {seen.who}, which it has refused: only finished() is asked, not to_finish"
    return f"admits {seen.who}"


def _compute(seen: _Seen) -> str:
    if seen.is_refused:
        text = "runs one token, the placeholder of the refused prompt"
    else:
        text = f"computes the {pages_of(seen.run.length)} of {seen.who}"
    before_, after = (state.runs for state in (seen.step.before, seen.step.after))
    swapped = [n for n, run in enumerate(after) if run.carried != before_[n].carried]
    return text + "".join(f", into pages that {whose(n)} still sends from" for n in swapped)


def _sent(seen: _Seen) -> str:
    computed = seen.setup.computed(seen.run.length)
    return f"{pages_of(computed)} of {seen.who}"


def _send(seen: _Seen) -> str:
    return f'sends {_sent(seen)} and says "transfer complete"'


def _land(seen: _Seen) -> str:
    text = f'the write for {seen.who} lands and says "transfer complete"'
    if seen.run.carried != seen.step.move.run:
        text += f", with what {_owner(seen.run.carried)} has put into its source pages"
    return text + ("" if seen.run.holds else _strangers(seen))


def _strangers(seen: _Seen) -> str:
    """Answer whose pages a late write hits."""
    hit = set(seen.run.pages[: seen.run.wired])
    owners = [
        whose(number)
        for number, run in enumerate(seen.step.before.runs)
        if run.holds and hit & set(run.pages)
    ]
    where = " and of ".join(owners)
    return f", in pages of {where}" if owners else ", in pages that are free"


def _decode_admit(seen: _Seen) -> str:
    after = seen.step.after.runs[seen.step.move.run].decode
    if after is Decode.ENDED:
        return f"the checksum does not match: {seen.who} ends with HTTP 500"
    if after is Decode.REFUSED:
        return f"ends {seen.who}, which it refuses itself, with HTTP 400"
    if seen.is_refused:
        return f"admits {seen.who} by the same check; nobody compares the counts"
    return f"admits {seen.who}"


def _read(seen: _Seen) -> str:
    after = seen.step.after.runs[seen.step.move.run].decode
    if after is Decode.ENDED:
        return f"a page's mark is not of {seen.who}: it ends with HTTP 500"
    count = len(seen.run.pages)
    which = f"all {count} pages" if count > 1 else "the 1 page"
    return f"generates over {which} of {seen.who}: {_held(seen)}"


def _held(seen: _Seen) -> str:
    """Answer what each page of a request holds, counted from its page 0."""
    number = seen.step.move.run
    writers = [seen.step.before.contents[page].writer for page in seen.run.pages]
    parts = []
    for writer, places in groupby(range(len(writers)), key=writers.__getitem__):
        span = _span(list(places))
        if writer == number:
            parts.append(f"{span} its own")
        elif writer == NOBODY:
            parts.append(f"{span} never written")
        else:
            parts.append(f"{span} what {_owner(writer)} left")
    return ", ".join(parts)


def _span(places: Sequence[int]) -> str:
    if len(places) == 1:
        return f"page {places[0]}"
    return f"pages {places[0]}-{places[-1]}"


def _answer(seen: _Seen) -> str:
    number, run = seen.step.move.run, seen.run
    if seen.setup.has_tier and not seen.step.after.runs[number].holds:
        tail = "; its pages are free, and the copy to the host tier has yet to read them"
    else:
        tail = ""
    others = {seen.step.before.contents[page].writer for page in run.pages} - {number, NOBODY}
    status = "HTTP 200 instead of 400" if seen.is_refused else "HTTP 200"
    text = f"{seen.who} gets {status} for {pages_of(run.length)}"
    if others:
        text += f", with text of {' and of '.join(sorted(map(_owner, others)))} in it"
    return text + tail


def _copy(seen: _Seen) -> str:
    return f"copies the pages of {seen.who} to its tier: {_held(seen)}"


def _gone(text: str) -> Callable[[_Seen], str]:
    """Answer a teller for the end of a decode leg, with what becomes of its pages."""

    def tell(seen: _Seen) -> str:
        told = text.format(who=seen.who)
        if not seen.run.holds:
            return told
        after = seen.step.after.runs[seen.step.move.run]
        count = pages_of(len(seen.run.pages))
        return f"{told} and {f'holds its {count}' if after.holds else f'frees its {count} at once'}"

    return tell


def _plain(text: str) -> Callable[[_Seen], str]:
    return lambda seen: text.format(who=seen.who)


_TOLD: dict[Kind, tuple[str, Callable[[_Seen], str]]] = {
    Kind.RESERVE: ("decode", _reserve),
    Kind.DECODE_DOOR: ("decode", _plain("refuses {who} at its door with HTTP 400")),
    Kind.DECODE_ADMIT: ("decode", _decode_admit),
    Kind.DECODE_RETIRE: ("decode", _plain("ends {who}, which both have refused, with HTTP 400")),
    Kind.READ: ("decode", _read),
    Kind.ANSWER: ("client", _answer),
    Kind.COPY: ("host", _copy),
    Kind.RELEASE: ("decode", _plain("frees the held pages of {who}: its transfer is over")),
    Kind.HOLD_TIMEOUT: (
        "decode",
        _plain("stops waiting for the transfer of {who} (30 s) and frees its pages anyway"),
    ),
    Kind.WAITING_TIMEOUT: ("decode", _gone("has waited too long for {who}")),
    Kind.DECODE_ABORT: ("decode", _gone("is told that the client of {who} left,")),
    Kind.PREFILL_DOOR: ("prefill", _plain("refuses {who} at its door; decode is not told")),
    Kind.PREFILL_ADMIT: ("prefill", _prefill_admit),
    Kind.COMPUTE: ("prefill", _compute),
    Kind.RETIRE: ("prefill", _plain("ends {who} with its own error; decode is not told")),
    Kind.SEND: ("prefill", _send),
    Kind.POST: ("prefill", lambda seen: f"puts {_sent(seen)} on the wire; they have not landed"),
    Kind.LAND: ("wire", _land),
    Kind.PREFILL_TOLD: ("prefill", _plain("hears that decode has ended {who}, and stops")),
    Kind.PREFILL_ABORT: ("prefill", _plain("gives up {who}; what is on the wire stays there")),
    Kind.BOOTSTRAP_TIMEOUT: ("prefill", _plain("has waited too long for decode with {who}")),
}
