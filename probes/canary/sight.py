"""Turns an answer into a row: what came back, was the prompt read, whose markers are in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fleet.contract import Completion
from fleet.speakers import DECODE_SILENT
from probes.canary.catalogue import Finder
from probes.canary.prompts import LED_CHARACTERS
from probes.canary.rounds import Cause, Echo, Outcome, Row, Sending, Sighting, Tenant
from probes.markers import MARKER_CHARACTERS, Hit, as_written, name_request
from probes.marking.evidence import Finding, Grade

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
    """One request that was sent: by whom, under which nonce, with which code to come back.

    ``planted`` are the requests (tenant, nonce) whose markers the prompt brings itself; its own is
    one of them where nobody else sent the same script first. ``worker`` is who answers it, where
    that is known. ``asked_pages`` are those whose codes it asks for, where they are several.
    """

    position: int
    sending: Sending
    tenant: Tenant
    request: int
    nonce: str
    planted: frozenset[tuple[int, int]] = frozenset()
    worker: str = ""
    asked_pages: tuple[int, ...] = ()

    @property
    def own(self) -> frozenset[tuple[int, int]]:
        """Answer the requests of whose markers an answer may be full."""
        return self.planted or frozenset({(self.tenant.number, self.request)})


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
        script=sending.script,
        wave=sending.wave,
        salt=sending.salt,
        api=str(sending.form.api),
        is_streamed=sending.form.is_streamed,
        temperature=sending.form.temperature,
        is_bystander=sending.is_bystander,
    )


def look_at(
    asked: Asked, completion: Completion, *, index: Finder, names: Mapping[int, str]
) -> Row:
    """Answer the row of a request: only figures, fingerprints and our own markers are kept."""
    outcome, reason = outcome_of(completion, max_new_tokens=asked.sending.max_new_tokens)
    row = replace(
        unsent(
            position=asked.position, sending=asked.sending, tenant=asked.tenant.name, reason=reason
        ),
        request=name_request(asked.request),
        outcome=outcome,
        status=completion.status or None,
        cause=cause_of(completion) if outcome is Outcome.REFUSED else None,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        finish=completion.finish,
        seconds=round(completion.seconds, 3),
        sightings=tuple(_sightings(asked, completion.text, index, names)),
        answer_length=len(completion.text),
        answer_digest=hashlib.sha256(completion.text.encode("utf-8", "replace")).hexdigest(),
        said_digest=_digest(completion.answer),
        opening_digest=_digest(_opening_of(completion)),
        first_token_s=completion.first_token_s,
        cached_tokens=completion.cached_tokens,
        answer_id=completion.answer_id,
        cache_marks=completion.cache_marks,
        worker=asked.worker,
    )
    return _with_echo(row, asked, completion.text, index) if row.is_served else row


def _with_pages(row: Row, asked: Asked) -> Row:
    """Answer a row with the pages whose codes were asked for and did not come back whole."""
    back = {one.page for one in row.sightings if one.is_own and not one.is_suspect}
    missing = tuple(page for page in asked.asked_pages if page not in back)
    return replace(row, asked_pages=asked.asked_pages, missing_pages=missing)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() if text else ""


def _opening_of(completion: Completion) -> str:
    """Answer the first token where the engine shows it, else the first word of the answer."""
    if completion.token_ids:
        return str(completion.token_ids[0])
    return next(iter(completion.answer.split()), "")


def outcome_of(completion: Completion, *, max_new_tokens: int) -> tuple[Outcome, str]:
    """Answer what came back, and why that counts as what it does, where that needs saying."""
    silence = _silence_in(completion)
    if silence:
        return Outcome.NO_ANSWER, silence
    status = completion.said_status
    if status in _UNAUTHORISED:
        return Outcome.UNAUTHORISED, f"status {status}: the tenant's key was not taken"
    if completion.is_refused and (status == _OK or _is_refusal(status)):
        return Outcome.REFUSED, ""
    if status != _OK:
        return Outcome.FAILED, f"status {status} speaks of the server, not of the prompt"
    if _is_cut_short(completion, max_new_tokens):
        return Outcome.CUT_SHORT, (
            f"finish reason length after {completion.completion_tokens} of "
            f"{max_new_tokens} tokens: an abort in disguise"
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


def _is_cut_short(completion: Completion, max_new_tokens: int) -> bool:
    count = completion.completion_tokens
    return completion.finish == "length" and count is not None and count < max_new_tokens


def cause_of(completion: Completion) -> Cause:
    """Answer which rule a refusal names."""
    words = f"{completion.text}\n{completion.error}"
    return next((cause for cause, text in _CAUSES if text.search(words)), Cause.OTHER)


def _sightings(
    asked: Asked, text: str, index: Finder, names: Mapping[int, str]
) -> Iterator[Sighting]:
    """Answer the prompt's own codes as they stand, and all that another request planted."""
    for hit in index.search(text):
        if (hit.marker.tenant, hit.marker.request) in asked.own:
            yield _own(hit, names)
    for finding in index.find(text).foreign(asked.own).findings:
        yield _foreign(finding, names)


def _own(hit: Hit, names: Mapping[int, str]) -> Sighting:
    marker = hit.marker
    return Sighting(
        tenant=_name_of(marker.tenant, names),
        request=name_request(marker.request),
        page=marker.page,
        offset=hit.offset,
        length=hit.length,
        is_own=True,
    )


def _foreign(finding: Finding, names: Mapping[int, str]) -> Sighting:
    marker = finding.marker
    return Sighting(
        tenant=_name_of(marker.tenant, names),
        request=name_request(marker.request),
        page=marker.page,
        offset=finding.offset,
        length=finding.length,
        is_own=False,
        view=str(finding.view),
        net_bits=round(finding.net_bits, 1),
        is_suspect=finding.grade is not Grade.ALARM,
    )


def _name_of(tenant: int, names: Mapping[int, str]) -> str:
    return names.get(tenant, f"tenant {tenant}")


def _tells(finding: Finding) -> bool:
    return finding.grade is not Grade.NOTHING


def _with_echo(row: Row, asked: Asked, text: str, index: Finder) -> Row:
    row = _with_pages(row, asked)
    own = next((one for one in row.sightings if one.is_own), None)
    if own is not None:
        return replace(row, echo=Echo.WHOLE, echo_offset=own.offset - _lead(text))
    if any(one.run in asked.own for one in index.find(text).findings if _tells(one)):
        # Nearly whole: a model slips, and so much of a code is no chance.
        return replace(row, echo=Echo.WHOLE)
    said = as_written(text.strip().partition("\n")[0])
    codes = (asked.nonce, asked.nonce[LED_CHARACTERS:])
    if len(said) >= _SHORTEST_BEGINNING and any(code.startswith(said) for code in codes):
        return replace(row, echo=Echo.BEGINS, echo_offset=0)
    if len(said) < _SHORTEST_BEGINNING and row.max_new_tokens < MARKER_CHARACTERS:
        return row
    return replace(row, echo=Echo.MISSING)


def _lead(text: str) -> int:
    return len(text) - len(text.lstrip())
