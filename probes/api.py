"""``POST /api/gate``: a machine sends a capture and gets the judgement."""

from __future__ import annotations

import json
from typing import Final

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from common import trail
from common.exits import UsageError
from fleet.captures import Capture, parse_capture
from probes.advising import gates_with, shelf_of
from probes.answering import fleet_of, refuse_lowered_context
from probes.judge import judge_fleet
from probes.judgement import Judgement
from probes.models import ApiToken
from probes.tokens import AskedTooOften, TokenUnknown, token_use

LARGEST_BYTES: Final = 8 * 1024 * 1024
_SCHEME: Final = "bearer"


@csrf_exempt  # a token is no cookie: no browser sends it by itself
@login_not_required
def gate(request: HttpRequest) -> JsonResponse:
    """Answer the judgement of the capture in the body; every refusal is JSON too.

    Errors: 401 without a standing token, 405, 413, 422 for no capture, 429 above the rate. The
    status of a judgement is 200 whatever its verdict.
    """
    if request.method != "POST":
        return _refuse(405, "only POST is taken here", Allow="POST")
    try:
        token = token_use(text=_token_in(request))
    except TokenUnknown:
        why = "a standing token is needed: Authorization: Bearer TOKEN"
        return _refuse(401, why, **{"WWW-Authenticate": 'Bearer realm="pagewarden"'})
    except AskedTooOften:
        why = "this token has asked too often: wait a minute"
        return _refuse(429, why, **{"Retry-After": "60"})
    # One byte more than is taken tells a body that is too large without reading all of it.
    body = request.read(LARGEST_BYTES + 1)
    if len(body) > LARGEST_BYTES:
        return _refuse(413, f"the body is larger than {LARGEST_BYTES // 1024**2} MiB")
    try:
        capture = parse_capture(body)
        judgement = _judge(capture)
    except UsageError as fault:
        return _refuse(422, str(fault))
    _record(token, capture, judgement)
    return JsonResponse(json.loads(json.dumps(judgement.document(), allow_nan=False)))


def _token_in(request: HttpRequest) -> str:
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if scheme.lower() == _SCHEME else ""


def _judge(capture: Capture) -> Judgement:
    """Answer what all gates say. Raises UsageError."""
    fleet = fleet_of(capture.nodes, headroom=capture.headroom, advertised=capture.context)
    refuse_lowered_context(fleet, capture.context, "the context of the capture")
    return judge_fleet(fleet, gates=gates_with(shelf_of(capture.advisories)))


def _record(token: ApiToken, capture: Capture, judgement: Judgement) -> None:
    trail.record(
        actor=f"api token {token.name}",
        action="gate asked",
        subject=f"capture of {len(capture.nodes)} nodes",
        verdict=str(judgement.verdict),
    )


def _refuse(status: int, why: str, **headers: str) -> JsonResponse:
    response = JsonResponse({"error": why}, status=status)
    for name, value in headers.items():
        response[name] = value
    return response
