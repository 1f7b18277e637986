"""Reads a streamed answer frame by frame: what was said, how it ended, when it began.

Source: streams of SGLang 0.5.19 to 0.5.23, vLLM 0.32.0, llama.cpp, sglang-router 0.3.2 and smg
1.13.0, as recorded. SGLang's /generate repeats the whole answer in every frame unless it runs with
``--incremental-streaming-output``; the routes under /v1 send what is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fleet.answer_fields import Piece, read_piece
from fleet.completions import complaint_about
from fleet.contract import Completion
from fleet.error_fields import ABORT
from fleet.events import EventReader
from fleet.jsontext import NotJson, parse_json
from fleet.spoken import Grown, Spoken

_DONE: Final = b"[DONE]"
_OK: Final = 200
_CUT_OFF: Final = "the stream was cut off: it ended without a finish reason or [DONE]"


class StreamReading:
    """One streamed answer, heard part by part. Never raises on any bytes.

    It is whole once it told a finish reason, an error or [DONE]; anything else is cut off.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.first_token_s: float | None = None
        self.is_done = False
        self._events = EventReader()
        self._merged = Merged()
        self._broken = 0
        self._raw = Spoken()

    def hear(self, part: bytes, seconds: float) -> bool:
        """Take a part and answer whether the stream said that it is over."""
        for lines in self._events.feed(part):
            self._take(lines, seconds)
        return self.is_done

    def end(self, seconds: float) -> None:
        """Take what stood unfinished when the bytes ended."""
        for lines in self._events.close():
            self._take(lines, seconds)

    @property
    def has_events(self) -> bool:
        """Answer whether anything at all came as an event."""
        return bool(self.frames or self._broken or self.is_done)

    @property
    def is_whole(self) -> bool:
        """Answer whether the engine ended the answer, be it with an error."""
        last = self._merged.piece
        return self.is_done or last.is_error or last.finish is not None

    @property
    def ended_by_itself(self) -> bool:
        """Answer whether nothing more can follow, so that a fault of the connection is nothing."""
        return self.is_done or self._merged.piece.is_error

    def completion(self, *, seconds: float, fault: str = "") -> Completion:
        """Answer what was heard. ``fault`` tells what broke the connection, where something did."""
        is_whole = self.ended_by_itself if fault else self.is_whole
        piece = self._merged.piece
        return Completion(
            status=_OK if is_whole else 0,
            text=self._text(),
            answer=self._merged.answer,
            token_ids=self._merged.token_ids,
            prompt_tokens=piece.prompt_tokens,
            completion_tokens=piece.completion_tokens,
            finish=piece.finish,
            error=self._complaint() if is_whole else self._why_cut_off(fault),
            seconds=seconds,
            cached_tokens=piece.cached_tokens,
            first_token_s=self.first_token_s,
            frames=self.frames,
            answer_id=piece.answer_id,
            model=piece.model,
            event_status=piece.event_status,
        )

    def _text(self) -> str:
        raw = Spoken()
        for line in self._events.other:
            raw.add_raw(line.decode("utf-8", errors="replace"))
        return "\n".join(part for part in (self._merged.text, self._raw.text, raw.text) if part)

    def _why_cut_off(self, fault: str) -> str:
        frames = "1 frame" if self.frames == 1 else f"{self.frames} frames"
        return f"{fault.rstrip('.')}, after {frames}" if fault else f"{_CUT_OFF}, after {frames}"

    def _complaint(self) -> str:
        piece = self._merged.piece
        if piece.is_error or piece.finish == ABORT:
            return complaint_about(piece)
        if self._broken:
            return f"{self._broken} of {self.frames + self._broken} frames are no JSON"
        if piece.finish is None:
            return "the stream tells no finish reason"
        return complaint_about(piece)

    def _take(self, lines: tuple[bytes, ...], seconds: float) -> None:
        for document in self._documents(lines):
            self.frames += 1
            piece = self._merged.add(document)
            if piece.holds_text and self.first_token_s is None:
                self.first_token_s = seconds

    def _documents(self, lines: tuple[bytes, ...]) -> Iterator[object]:
        """Answer the JSON of an event: of all its lines, or where that is none of each line."""
        if lines == (_DONE,):
            self.is_done = True
            return
        try:
            yield parse_json(b"\n".join(lines))
        except NotJson:
            if len(lines) > 1:
                for line in lines:
                    yield from self._documents((line,))
                return
            self._broken += bool(lines[0].strip())
            self._raw.add_raw(lines[0].decode("utf-8", errors="replace"))


class Merged:
    """All frames of a stream as one piece, and all their texts.

    Whether /generate repeats itself is told by its counts: as many ids in a frame as tokens so far,
    or fewer. Until they tell, both readings are kept.
    """

    def __init__(self) -> None:
        self.piece = Piece()
        self._grown: Grown | None = Grown()
        self._chained: Spoken | None = Spoken()
        self._repeats: bool | None = None
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._latest_text = ""
        self._latest_ids: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Answer every text of every frame."""
        readings = [one.text for one in (self._grown, self._chained) if one is not None]
        return "\n".join(dict.fromkeys(one for one in readings if one))

    @property
    def answer(self) -> str:
        """Answer what the model visibly said, once."""
        return "".join(self._texts) if self._repeats is False else self._latest_text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Answer the ids of the output, once."""
        return tuple(self._ids) if self._repeats is False else self._latest_ids

    def add(self, document: object) -> Piece:
        """Take a frame, and answer what it says alone."""
        piece = read_piece(document)
        if self._repeats is None and not piece.is_error:
            self._decide(piece)
        for reading in (self._grown, self._chained):
            if reading is not None:
                reading.add(document)
        if not piece.is_error:
            self._keep(piece)
        self.piece = _merge(self.piece, piece)
        return piece

    def _decide(self, piece: Piece) -> None:
        """Say whether frames repeat what came before, as soon as a frame shows it."""
        if piece.is_generate:
            repeats = self._is_repeated_by(piece)
        else:
            # A frame without text (usage, a comment) comes in both kinds of stream.
            repeats = False if piece.has_answer else None
        if repeats is True:
            self._chained = None
        elif repeats is False:
            self._grown = None
        self._repeats = repeats

    def _is_repeated_by(self, piece: Piece) -> bool | None:
        so_far, shown = piece.completion_tokens, len(piece.token_ids)
        if so_far is not None and (shown or self._ids):
            if shown < so_far:
                return False
            return True if 0 < len(self._latest_ids) < shown else None
        before, now = self._latest_text, piece.answer
        is_other = not now.startswith(before) and not before.startswith(now)
        return False if piece.has_answer and is_other else None

    def _keep(self, piece: Piece) -> None:
        if self._repeats is not True:
            self._texts.append(piece.answer)
            self._ids += piece.token_ids
        if self._repeats is not False and piece.is_generate:
            self._latest_text = piece.answer if piece.has_answer else self._latest_text
            self._latest_ids = piece.token_ids


def _merge(before: Piece, piece: Piece) -> Piece:
    return Piece(
        holds_text=before.holds_text or piece.holds_text,
        is_error=before.is_error or piece.is_error,
        has_answer=before.has_answer or piece.has_answer,
        finish=before.finish if piece.finish is None else piece.finish,
        error=before.error or piece.error,
        event_status=before.event_status or piece.event_status,
        prompt_tokens=_later(before.prompt_tokens, piece.prompt_tokens),
        completion_tokens=_later(before.completion_tokens, piece.completion_tokens),
        cached_tokens=_later(before.cached_tokens, piece.cached_tokens),
        answer_id=before.answer_id or piece.answer_id,
        model=before.model or piece.model,
    )


def _later(before: int | None, now: int | None) -> int | None:
    return before if now is None else now
