"""Hears the answer to one prompt as it comes, whole or streamed, and makes a completion of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fleet.completions import cache_marks, nothing_came, read_completion
from fleet.contract import Completion, Reply
from fleet.jsontext import clean_text
from fleet.streaming import StreamReading

_OK: Final = 200

#: Answers whether the caller has heard enough of a stream.
Enough = Callable[[StreamReading], bool]


class Ear:
    """Listens to one answer; asked at the end what it came to. Never raises on any bytes.

    An answer that was broken off is no answer (status 0), but its text is kept: it may quote
    someone.
    """

    def __init__(self, *, is_streamed: bool = False, enough: Enough | None = None) -> None:
        self._is_streamed = is_streamed
        self._enough = enough
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._body = bytearray()
        self._stream: StreamReading | None = None
        self._is_left = False
        self._heard_s: float | None = None

    @property
    def body(self) -> bytes:
        """Answer the body of an answer that was no stream."""
        return bytes(self._body)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Hear the head; it tells whether a stream of events follows.

        A router names an event stream what is a plain error, and some gateways name a stream
        nothing at all.
        """
        self._status, self._headers = status, headers
        kind = headers.get("content-type", "").lower()
        is_stream = "event-stream" in kind or (self._is_streamed and "json" not in kind)
        self._stream = StreamReading() if is_stream and status == _OK else None

    def hear(self, part: bytes, seconds: float) -> bool:
        """Hear a part of the body, and answer whether that is enough."""
        self._heard_s = seconds
        if self._stream is None:
            self._body += part
            return False
        if not self._stream.has_events:
            # Kept until the first event shows that these are some.
            self._body += part
        is_over = self._stream.hear(part, seconds)
        self._is_left = not is_over and self._enough is not None and self._enough(self._stream)
        return is_over or self._is_left

    def completion(self, *, seconds: float, fault: str = "") -> Completion:
        """Answer what came. ``fault`` tells what broke the connection, where something did.

        ``seconds`` counts where nothing more exact is known: it may include waiting for a place.
        """
        if not fault and self._heard_s is not None:
            seconds = self._heard_s
        if self._is_left:
            fault = "the caller had heard enough of the stream"
        fault = clean_text(fault)
        if self._stream is not None:
            self._stream.end(seconds)
            if self._stream.has_events:
                return self._of_stream(self._stream, seconds, fault)
        if fault:
            return nothing_came(fault, seconds, text=self._body.decode("utf-8", "replace"))
        return self._of_whole(seconds)

    def _of_stream(self, stream: StreamReading, seconds: float, fault: str) -> Completion:
        came = stream.completion(seconds=seconds, fault=fault)
        return replace(came, cache_marks=cache_marks(self._headers))

    def _of_whole(self, seconds: float) -> Completion:
        reply = Reply(
            status=self._status, headers=self._headers, body=bytes(self._body), seconds=seconds
        )
        came = read_completion(reply)
        if self._stream is None or came.answer or came.finish is not None or came.event_status:
            return came
        # Something that calls itself a stream and held no event at all.
        return replace(came, status=0, error=f"the stream held no events; {came.error}")
