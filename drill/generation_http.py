"""Generation over HTTP: `/generate` and `/v1/completions`, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from drill import replies, tokenizer
from drill.inputs import BadInput, Job, read_completion, read_generate
from drill.node import EngineDied, Node, Ticket
from drill.wire import dumps, json_reply, read_object

_DONE = b"data: [DONE]\n\n"


async def generate(node: Node, request: web.Request) -> web.StreamResponse:
    """Answer `POST /generate`."""
    try:
        job = read_generate(await read_object(request))
        job.check_context(node.settings.context)
    except BadInput as error:
        if await _is_streamed(request):
            return await _only_event(request, replies.stream_error(str(error)))
        return json_reply(replies.generate_error(str(error)), 400)
    if job.is_streamed:
        return await _stream_generate(node, job, request)
    return await _whole(node, job, request, _generate_reply)


async def completions(node: Node, request: web.Request) -> web.StreamResponse:
    """Answer `POST /v1/completions`."""
    try:
        job = read_completion(await read_object(request))
        job.check_context(node.settings.context)
    except BadInput as error:
        return json_reply(replies.flat_error(str(error), 400), 400)
    if job.is_streamed:
        return await _stream_completion(node, job, request)
    return await _whole(node, job, request, _completion_reply)


async def _is_streamed(request: web.Request) -> bool:
    return (await read_object(request)).get("stream") is True


async def _whole(
    node: Node,
    job: Job,
    request: web.Request,
    reply: Callable[[Node, Ticket, Job], web.StreamResponse],
) -> web.StreamResponse:
    ticket = node.submit(job)
    try:
        await ticket.end()
    except EngineDied:
        return _drop(request)
    finally:
        node.close(ticket)
    return reply(node, ticket, job)


def _generate_reply(node: Node, ticket: Ticket, _job: Job) -> web.StreamResponse:
    refusal = replies.refusal_of(ticket.req)
    if refusal is None:
        return json_reply(replies.generate_body(node, ticket))
    status = refusal.status or 500
    if status == web.HTTPBadRequest.status_code:
        return json_reply(replies.generate_error(refusal.message), status)
    return json_reply(replies.flat_error(refusal.message, status), status)


def _completion_reply(node: Node, ticket: Ticket, job: Job) -> web.StreamResponse:
    refusal = replies.refusal_of(ticket.req)
    if refusal is None:
        model = job.model or node.settings.model
        return json_reply(replies.completion_body(node, ticket, model))
    status = refusal.status or 500
    return json_reply(replies.flat_error(refusal.message, status), status)


def _drop(request: web.Request) -> web.StreamResponse:
    """Cut the connection, as the end of a process does."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


async def _events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def _say(response: web.StreamResponse, event: object) -> None:
    await response.write(b"data: " + dumps(event).encode() + b"\n\n")


async def _only_event(request: web.Request, event: object) -> web.StreamResponse:
    response = await _events(request)
    await _say(response, event)
    await response.write(_DONE)
    return response


async def _stream_generate(node: Node, job: Job, request: web.Request) -> web.StreamResponse:
    response = await _events(request)
    ticket = node.submit(job)
    try:
        while not ticket.req.finished():
            await ticket.change()
            await _say(response, replies.generate_body(node, ticket))
    except EngineDied:
        return _drop(request)
    finally:
        node.close(ticket)
    await response.write(_DONE)
    return response


async def _stream_completion(node: Node, job: Job, request: web.Request) -> web.StreamResponse:
    response = await _events(request)
    model = job.model or node.settings.model
    ticket = node.submit(job)
    said = ""
    try:
        while not ticket.req.finished():
            await ticket.change()
            said = await _say_more(response, ticket, model, said)
    except EngineDied:
        return _drop(request)
    finally:
        node.close(ticket)
    if job.has_usage:
        await _say(response, replies.completion_usage_chunk(node, ticket, model))
    await response.write(_DONE)
    return response


async def _say_more(response: web.StreamResponse, ticket: Ticket, model: str, said: str) -> str:
    refusal = replies.refusal_of(ticket.req)
    if refusal is not None:
        await _say(response, replies.completion_stream_error(refusal))
        return said
    text = tokenizer.decode(ticket.req.output_ids)
    if not ticket.req.finished():
        text = text.rstrip("\ufffd")
    await _say(response, replies.completion_chunk(ticket, model, text[len(said) :]))
    return text
