"""Streams of events: what a node says of a request while it runs, on each generation route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from drill import chat_replies, replies, tokenizer
from drill.inputs import Job
from drill.node import EngineDied, Node, Ticket
from drill.wire import drop, dumps

_DONE = b"data: [DONE]\n\n"
_CUT_SHORT = "\ufffd"
"""How a text ends whose last character is not whole yet."""


class Telling(Protocol):
    """What a route says of a request. One for a stream."""

    @property
    def opens_at_once(self) -> bool:
        """Tell whether the status is sent before there is anything to say."""

    def news(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer the events about what is new."""

    def last(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer the events after the end of the request."""


async def stream(
    node: Node, job: Job, request: web.Request, telling: Telling
) -> web.StreamResponse:
    """Answer a request as a stream of events."""
    response = _response()
    if telling.opens_at_once:
        await response.prepare(request)
    ticket = node.submit(job)
    try:
        # What was refused at the door has ended already, and is told like every other end.
        is_over = False
        while not is_over:
            await ticket.change()
            await response.prepare(request)
            is_over = ticket.req.finished()
            for event in telling.news(ticket):
                await response.write(event)
    except EngineDied:
        return drop(request)
    finally:
        node.close(ticket)
    for event in telling.last(ticket):
        await response.write(event)
    await response.write(_DONE)
    return response


async def only_event(request: web.Request, body: object) -> web.StreamResponse:
    """Answer a stream that says one thing."""
    response = _response()
    await response.prepare(request)
    await response.write(_event(body) + _DONE)
    return response


def _response() -> web.StreamResponse:
    return web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})


def _event(body: object) -> bytes:
    return b"data: " + dumps(body).encode() + b"\n\n"


def _error_event(body: object) -> bytes:
    """Answer an error of the OpenAI routes, which the engine writes with spaces, in ASCII."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@dataclass(slots=True, kw_only=True)
class GenerateTelling:
    """`/generate`: every event tells all that was said so far, an abort included."""

    node: Node
    opens_at_once: bool = True

    def news(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer one event."""
        yield _event(replies.generate_body(self.node, ticket))

    def last(self, _ticket: Ticket) -> Iterator[bytes]:
        """Answer nothing."""
        yield from ()


@dataclass(slots=True, kw_only=True)
class CompletionTelling:
    """`/v1/completions`: what is new of the text, even if empty; usage in the end if asked for."""

    node: Node
    job: Job
    said: str = ""
    opens_at_once: bool = False

    @property
    def _model(self) -> str:
        return self.job.model or self.node.settings.model

    def news(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer one event: text, or the engine's refusal."""
        refusal = replies.refusal_of(ticket.req)
        if refusal is not None:
            yield _error_event(replies.stream_refusal(refusal))
            return
        text = _whole_characters(ticket)
        yield _event(replies.completion_chunk(ticket, self._model, text[len(self.said) :]))
        self.said = text

    def last(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer the usage if it was asked for."""
        if self.job.has_usage:
            yield _event(replies.completion_usage_chunk(self.node, ticket, self._model))


@dataclass(slots=True, kw_only=True)
class ChatTelling:
    """`/v1/chat/completions`: the role, then what is new of the text, then the finish."""

    node: Node
    job: Job
    said: str = ""
    has_begun: bool = False
    opens_at_once: bool = False

    @property
    def _model(self) -> str:
        return self.job.model or self.node.settings.model

    def _chunk(self, ticket: Ticket, finish: str | None = None, **delta: str) -> bytes:
        return _event(chat_replies.chunk(ticket, self._model, delta, finish))

    def news(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer the engine's refusal, or the role once and what there is of new text."""
        refusal = replies.refusal_of(ticket.req)
        if refusal is not None:
            yield _error_event(replies.stream_refusal(refusal))
            return
        if not self.has_begun:
            self.has_begun = True
            yield self._chunk(ticket, role="assistant", content="")
        text = _whole_characters(ticket)
        if len(text) > len(self.said):
            yield self._chunk(ticket, content=text[len(self.said) :])
        self.said = text

    def last(self, ticket: Ticket) -> Iterator[bytes]:
        """Answer the finish unless the engine refused, and the usage if it was asked for."""
        finish = ticket.req.finished_reason
        if finish is not None and replies.refusal_of(ticket.req) is None:
            yield self._chunk(ticket, finish=finish.kind)
        if self.job.has_usage:
            yield _event(chat_replies.usage_chunk(self.node, ticket, self._model))


def _whole_characters(ticket: Ticket) -> str:
    """Answer the text so far, without a last character that may not be whole yet."""
    text = tokenizer.decode(ticket.req.output_ids)
    return text if ticket.req.finished() else text.rstrip(_CUT_SHORT)
