"""Generation over HTTP: `/generate`, completions and chat, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from drill import chat_replies, replies
from drill.inputs import BadInput, Job, read_chat, read_completion, read_generate
from drill.node import EngineDied, Node, Ticket
from drill.streams import ChatTelling, CompletionTelling, GenerateTelling, only_event, stream
from drill.wire import drop, json_reply, read_object


async def generate(node: Node, request: web.Request) -> web.StreamResponse:
    """Answer `POST /generate`."""
    try:
        job = read_generate(await read_object(request))
        job.check_context(node.settings.context)
    except BadInput as error:
        if await _is_streamed(request):
            return await only_event(request, replies.stream_error(str(error)))
        return json_reply(replies.generate_error(str(error)), 400)
    if job.is_streamed:
        return await stream(node, job, request, GenerateTelling(node=node))
    return await _whole(node, job, request, _generate_reply)


async def completions(node: Node, request: web.Request) -> web.StreamResponse:
    """Answer `POST /v1/completions`."""
    try:
        job = read_completion(await read_object(request))
        job.check_context(node.settings.context)
    except BadInput as error:
        return json_reply(replies.flat_error(str(error), 400), 400)
    if job.is_streamed:
        return await stream(node, job, request, CompletionTelling(node=node, job=job))
    return await _whole(node, job, request, _completion_reply)


async def chat(node: Node, request: web.Request) -> web.StreamResponse:
    """Answer `POST /v1/chat/completions`."""
    try:
        job = read_chat(await read_object(request))
        job.check_context(node.settings.context)
    except BadInput as error:
        return json_reply(replies.flat_error(str(error), 400), 400)
    if job.is_streamed:
        return await stream(node, job, request, ChatTelling(node=node, job=job))
    return await _whole(node, job, request, _chat_reply)


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
        return drop(request)
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
    return _refused(ticket) or json_reply(
        replies.completion_body(node, ticket, job.model or node.settings.model)
    )


def _chat_reply(node: Node, ticket: Ticket, job: Job) -> web.StreamResponse:
    return _refused(ticket) or json_reply(
        chat_replies.body(node, ticket, job.model or node.settings.model)
    )


def _refused(ticket: Ticket) -> web.Response | None:
    """Answer the refusal of an OpenAI route, or None."""
    refusal = replies.refusal_of(ticket.req)
    if refusal is None:
        return None
    status = refusal.status or 500
    return json_reply(replies.flat_error(refusal.message, status), status)
