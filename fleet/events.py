"""Cuts a stream of bytes into server-sent events, whatever the borders of its parts are.

Source: the HTML standard, "Parsing an event stream", and what engines and gateways make of it.
"""

from __future__ import annotations

from typing import Final

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: Values of ``event:`` that say nothing of their own.
_USUAL_EVENTS: Final = frozenset({b"message", b"error", b"ping", b"done", b"completion", b"chunk"})


class EventReader:
    """Takes parts as they come; answers the lines of data of every event that they end.

    What is neither data nor one of the usual words is kept in ``other``, so that nothing is lost.
    """

    def __init__(self) -> None:
        self.other: list[bytes] = []
        self._held: list[bytes] = []
        self._data: list[bytes] = []
        self._events: list[tuple[bytes, ...]] = []
        self._skips_line_feed = False
        self._is_first_line = True

    def feed(self, part: bytes) -> list[tuple[bytes, ...]]:
        """Answer the events that this part ends, each as its lines of data."""
        if self._skips_line_feed and part:
            part = part.removeprefix(b"\n")
            self._skips_line_feed = False
        for line in part.splitlines(keepends=True):
            self._held.append(line)
            if line.endswith((b"\n", b"\r")):
                self._end_line()
        self._skips_line_feed = self._skips_line_feed or part.endswith(b"\r")
        return self._taken()

    def close(self) -> list[tuple[bytes, ...]]:
        """Answer what stood unfinished at the end: a browser drops it, we do not."""
        self._end_line()
        self._end_event()
        return self._taken()

    def _taken(self) -> list[tuple[bytes, ...]]:
        events, self._events = self._events, []
        return events

    def _end_line(self) -> None:
        line = b"".join(self._held).rstrip(b"\r\n")
        self._held = []
        if self._is_first_line:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._is_first_line = False
        if line:
            self._take(line)
        else:
            self._end_event()

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name != b"event" or value not in _USUAL_EVENTS:
            self.other.append(line)

    def _end_event(self) -> None:
        if self._data:
            self._events.append(tuple(self._data))
        self._data = []
