"""Says in words why a node did not answer, whatever library noticed it."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import aiohttp
import httpx

from fleet.contract import BadAnswer, FleetError, NodeUnreachable, Outcome

#: What the libraries raise; anything else is our own fault and must not be hidden.
TRANSPORT_FAULTS = (httpx.HTTPError, aiohttp.ClientError, OSError)

_CHECK = "check that it runs and that the address is right"


def explain(fault: BaseException, *, origin: str) -> FleetError:
    """Answer the error that tells what happened; it carries neither request nor key."""
    chain = tuple(_chain(fault))
    own = next((one for one in chain if isinstance(one, FleetError)), None)
    if own is not None:
        return own
    for is_so, error in _JUDGEMENTS:
        if any(is_so(one) for one in chain):
            return error(origin)
    return NodeUnreachable(f"{origin} could not be reached ({type(chain[-1]).__name__}): {_CHECK}")


def _silent(text: str, outcome: Outcome) -> NodeUnreachable:
    return NodeUnreachable(text, outcome=outcome)


def timed_out(origin: str, timeout_s: float) -> NodeUnreachable:
    """Answer the error for an answer that did not come whole in time."""
    return NodeUnreachable(
        f"{origin} did not answer within {timeout_s:g} s (time-out)", outcome=Outcome.TIMEOUT
    )


def _chain(fault: BaseException) -> Iterator[BaseException]:
    """Answer a fault and what caused it; aiohttp keeps some causes apart from ``__cause__``.

    ``__context__`` is left out: it may be a fault that the caller was just handling.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [fault]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, getattr(one, "os_error", None)]


def _is_name_fault(one: BaseException) -> bool:
    return isinstance(one, socket.gaierror | aiohttp.ClientConnectorDNSError)


def _is_tls_fault(one: BaseException) -> bool:
    return isinstance(one, ssl.SSLError | ssl.CertificateError | aiohttp.ClientSSLError)


def _is_refusal(one: BaseException) -> bool:
    return isinstance(one, ConnectionRefusedError) or _errno(one) == errno.ECONNREFUSED


def _is_no_route(one: BaseException) -> bool:
    return _errno(one) in {errno.EHOSTUNREACH, errno.ENETUNREACH}


def _is_cut_off(one: BaseException) -> bool:
    return isinstance(one, aiohttp.ClientPayloadError)


def _is_reset(one: BaseException) -> bool:
    kinds = (
        ConnectionResetError,
        BrokenPipeError,
        aiohttp.ServerDisconnectedError,
        httpx.RemoteProtocolError,
        httpx.ReadError,
        httpx.WriteError,
    )
    return isinstance(one, kinds) or _errno(one) in {errno.ECONNRESET, errno.EPIPE}


def _is_timeout(one: BaseException) -> bool:
    return isinstance(one, TimeoutError | httpx.TimeoutException)


def _is_no_http(one: BaseException) -> bool:
    return isinstance(one, aiohttp.ClientResponseError | httpx.DecodingError)


def _is_unplain_connect(one: BaseException) -> bool:
    return isinstance(one, httpx.ConnectError)


def _errno(one: BaseException) -> int | None:
    return one.errno if isinstance(one, OSError) else None


#: First match wins. A time-out stands behind reset, because the transport calls a reset a connect
#: time-out and keeps the truth only as its cause.
_JUDGEMENTS = (
    (
        _is_name_fault,
        lambda at: _silent(f"the name in {at} is not known (DNS): {_CHECK}", Outcome.DNS),
    ),
    (
        _is_tls_fault,
        lambda at: _silent(
            f"{at} failed the TLS handshake: check its certificate, and http against https",
            Outcome.TLS,
        ),
    ),
    (_is_refusal, lambda at: _silent(f"{at} refused the connection: {_CHECK}", Outcome.REFUSED)),
    (_is_no_route, lambda at: _silent(f"there is no route to {at}: {_CHECK}", Outcome.NO_ROUTE)),
    (_is_cut_off, lambda at: BadAnswer(f"{at} cut off its answer before the end")),
    (_is_no_http, lambda at: BadAnswer(f"{at} does not answer in HTTP: is it the right port?")),
    (
        _is_reset,
        lambda at: _silent(f"{at} closed the connection without an answer (reset)", Outcome.RESET),
    ),
    (
        _is_timeout,
        lambda at: _silent(f"{at} did not answer in time (time-out): {_CHECK}", Outcome.TIMEOUT),
    ),
    (
        _is_unplain_connect,
        lambda at: _silent(f"{at} refused the connection: {_CHECK}", Outcome.REFUSED),
    ),
)
