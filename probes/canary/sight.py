"""Turns an answer into a row: what came back, was the prompt read, whose markers are in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet.contract import Completion
from fleet.speakers import DECODE_SILENT
from probes.canary.rounds import Cause, Echo, Outcome, Row, Sending, Sighting, Tenant
from probes.markers import MARKER_CHARACTERS, Hit, MarkerIndex, as_written, name_request

#: Statuses that say who may ask, not what may be asked.
_UNAUTHORISED = frozenset({401, 403})
#: Client errors that speak of the server's state or of the address, not of the prompt.
_NO_REFUSALS = frozenset({404, 405, 408, 409, 425, 429})
_OK = 200
_CLIENT_ERRORS = range(400, 500)
#: Shortest beginning of a code that counts as an echo, in characters: 20 bits.
_SHORTEST_BEGINNING = 4

#: Source: texts of SGLang 0.5.5 to 0.5.23, recorded from the running engines.
_CAUSES = (
    (Cause.LENGTH, re.compile(r"Input length \(\d+ tokens\) exceeds the maximum allowed length")),
    (Cause.CONTEXT, re.compile(r"is longer than the model's context length")),
    (Cause.TOKEN_COUNT, re.compile(r"Requested token count exceeds the model's maximum context")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that was sent: by whom, under which nonce, with which code to come back."""

    position: int
    sending: Sending
    tenant: Tenant
    request: int
    nonce: str


def unsent(*, position: int, sending: Sending, tenant: str, reason: str) -> Row:
    """Answer the row of a request that was not sent, and why."""
    return Row(
        position=position,
        part=sending.part,
        purpose=sending.purpose,
        tenant=tenant,
        request="",
        length=sending.length,
        max_new_tokens=sending.max_new_tokens,
        duty=sending.duty,
        outcome=Outcome.NOT_EXERCISED,
        reason=reason,
    )


def look_at(
    asked: Asked, completion: Completion, *, index: MarkerIndex, names: Mapping[int, str]
) -> Row:
    """Answer the row of a request: only figures, fingerprints and our own markers are kept."""
    outcome, reason = _outcome_of(asked.sending, completion)
    hits = index.search(completion.text)
    row = replace(
        unsent(
            position=asked.position, sending=asked.sending, tenant=asked.tenant.name, reason=reason
        ),
        request=name_request(asked.request),
        outcome=outcome,
        status=completion.status or None,
        cause=_cause_of(completion) if outcome is Outcome.REFUSED else None,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        finish=completion.finish,
        seconds=round(completion.seconds, 3),
        sightings=tuple(_sighting(hit, asked, names) for hit in hits),
        answer_length=len(completion.text),
        answer_digest=hashlib.sha256(completion.text.encode("utf-8", "replace")).hexdigest(),
    )
    return _with_echo(row, asked, completion.text) if row.is_served else row


def _outcome_of(sending: Sending, completion: Completion) -> tuple[Outcome, str]:
    silence = _silence_in(completion)
    if silence:
        return Outcome.NO_ANSWER, silence
    status = completion.status
    if status in _UNAUTHORISED:
        return Outcome.UNAUTHORISED, f"status {status}: the tenant's key was not taken"
    if completion.is_refused and (status == _OK or _is_refusal(status)):
        return Outcome.REFUSED, ""
    if status != _OK:
        return Outcome.FAILED, f"status {status} speaks of the server, not of the prompt"
    if _is_cut_short(sending, completion):
        return Outcome.CUT_SHORT, (
            f"finish reason length after {completion.completion_tokens} of "
            f"{sending.max_new_tokens} tokens: an abort in disguise"
        )
    return Outcome.ANSWERED, ""


def _silence_in(completion: Completion) -> str:
    """Answer why this counts as no answer at all, or nothing where something came."""
    if not completion.is_answered:
        return completion.error or "nothing came back"
    if DECODE_SILENT in completion.error:
        # The words of an error body are not repeated: they came from the engine.
        return (
            f"prefill answered with status {completion.status} and decode not at all: it was not "
            "told, and goes on holding pages for the prompt"
        )
    return ""


def _is_refusal(status: int) -> bool:
    return status in _CLIENT_ERRORS and status not in _NO_REFUSALS


def _is_cut_short(sending: Sending, completion: Completion) -> bool:
    count = completion.completion_tokens
    return completion.finish == "length" and count is not None and count < sending.max_new_tokens


def _cause_of(completion: Completion) -> Cause:
    words = f"{completion.text}\n{completion.error}"
    return next((cause for cause, text in _CAUSES if text.search(words)), Cause.OTHER)


def _sighting(hit: Hit, asked: Asked, names: Mapping[int, str]) -> Sighting:
    marker = hit.marker
    return Sighting(
        tenant=names.get(marker.tenant, f"tenant {marker.tenant}"),
        request=name_request(marker.request),
        page=marker.page,
        offset=hit.offset,
        length=hit.length,
        is_own=(marker.tenant, marker.request) == (asked.tenant.number, asked.request),
    )


def _with_echo(row: Row, asked: Asked, text: str) -> Row:
    own = next((one for one in row.sightings if one.is_own), None)
    if own is not None:
        return replace(row, echo=Echo.WHOLE, echo_offset=own.offset - _lead(text))
    said = as_written(text.strip().partition("\n")[0])
    if len(said) >= _SHORTEST_BEGINNING and asked.nonce.startswith(said):
        return replace(row, echo=Echo.BEGINS, echo_offset=0)
    if len(said) < _SHORTEST_BEGINNING and row.max_new_tokens < MARKER_CHARACTERS:
        return row
    return replace(row, echo=Echo.MISSING)


def _lead(text: str) -> int:
    return len(text) - len(text.lstrip())
