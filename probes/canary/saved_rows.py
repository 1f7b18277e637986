"""Reads the rows of a saved round: our own as we published them, others' from what they kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleet.completions import read_completion
from fleet.contract import Completion, Reply
from probes.canary.rounds import Cause, Duty, Echo, Outcome, Part, Row, Sighting
from probes.canary.saved_fields import (
    BadRound,
    Document,
    count_in,
    counts_in,
    object_in,
    objects_in,
    seconds_in,
    switch_in,
    text_in,
    whole_text_in,
    word_in,
)
from probes.canary.scene import Scene
from probes.canary.sight import cause_of, outcome_of
from probes.canary.strangers import Code, find_codes, holds

_OK = 200
#: What is taken where nobody says how long the answer might be.
_ANY_LENGTH = 1
_ANSWER_KEYS = ("answer", "response")


def read_row(document: Document, *, position: int, scene: Scene, codes: Sequence[Code]) -> Row:
    """Answer a row. Raises BadRound.

    Where the row names no outcome, it is told from status, finish reason, counts and answer, by the
    same rules as in a live round.
    """
    bare = _bare(document, position=position, scene=scene)
    if "outcome" in document:
        return _published(bare, document)
    completion = _completion(document)
    # An answer that nobody kept does not lack its code.
    is_kept = any(document.get(name) is not None for name in _ANSWER_KEYS)
    outcome, reason = outcome_of(completion, max_new_tokens=bare.max_new_tokens)
    if switch_in(document, "left"):
        outcome, reason = Outcome.LEFT, "its client left"
    row = replace(
        bare,
        outcome=outcome,
        reason=text_in(document, "reason") or reason,
        status=completion.status or None,
        cause=cause_of(completion) if outcome is Outcome.REFUSED else None,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        finish=completion.finish,
        cached_tokens=completion.cached_tokens,
        answer_id=completion.answer_id,
        answer_length=len(completion.text),
        answer_digest=_digest(completion.text),
        said_digest=text_in(document, "said_sha256") or _digest(completion.answer),
        opening_digest=_digest(completion.answer.split()[0] if completion.answer.split() else ""),
    )
    row = replace(row, sightings=_sightings(row, completion.text, codes))
    return _with_echo(row, document, completion.text) if row.is_served and is_kept else row


def _bare(document: Document, *, position: int, scene: Scene) -> Row:
    """Answer what is known of a request before anything came back."""
    length = count_in(document, "length")
    duty = word_in(document, "duty", Duty)
    if duty is None:
        duty = Duty.ANSWER if length is None else scene.duty_at(length)
    salt, adapter = text_in(document, "salt"), text_in(document, "adapter")
    new_tokens = count_in(document, "max_new_tokens")
    return Row(
        position=position,
        part=word_in(document, "part", Part) or Part.ASK,
        purpose=text_in(document, "purpose") or "saved",
        tenant=text_in(document, "tenant") or "a tenant",
        request=text_in(document, "request") or f"#{position}",
        length=length or 0,
        max_new_tokens=_ANY_LENGTH if new_tokens is None else new_tokens,
        duty=duty,
        outcome=Outcome.NOT_EXERCISED,
        seconds=seconds_in(document, "seconds") or 0.0,
        script=text_in(document, "script"),
        wave=count_in(document, "wave") or 0,
        salt=f"{salt}, adapter {adapter}" if adapter else salt,
        api=text_in(document, "api") or "generate",
        is_streamed=switch_in(document, "streamed") or False,
        temperature=seconds_in(document, "temperature") or 0.0,
        is_bystander=switch_in(document, "bystander") or False,
        first_token_s=seconds_in(document, "first_token_s"),
        cache_marks=_marks(document),
        worker=text_in(document, "worker"),
        asked_pages=counts_in(document, "asked_pages"),
        missing_pages=counts_in(document, "missing_pages"),
    )


def _marks(document: Document) -> dict[str, str]:
    marks = object_in(document, "cache_marks")
    return {name.lower(): str(value)[:200] for name, value in marks.items()}


def _published(bare: Row, document: Document) -> Row:
    """Answer a row as we published it, which holds no answer and needs none."""
    outcome = word_in(document, "outcome", Outcome)
    if outcome is None:
        raise BadRound("outcome is missing")
    return replace(
        bare,
        outcome=outcome,
        reason=text_in(document, "reason"),
        status=count_in(document, "status"),
        cause=word_in(document, "cause", Cause),
        prompt_tokens=count_in(document, "prompt_tokens"),
        completion_tokens=count_in(document, "completion_tokens"),
        finish=text_in(document, "finish") or None,
        echo=word_in(document, "echo", Echo) or Echo.NOT_LOOKED_FOR,
        echo_offset=count_in(document, "echo_offset"),
        sightings=tuple(_sighting(one) for one in objects_in(document, "markers")),
        answer_length=count_in(document, "answer_length") or 0,
        answer_digest=text_in(document, "answer_sha256"),
        said_digest=text_in(document, "said_sha256"),
        opening_digest=text_in(document, "opening_sha256"),
        cached_tokens=count_in(document, "cached_tokens"),
        answer_id=text_in(document, "answer_id"),
    )


def _sighting(document: Document) -> Sighting:
    page, offset, length = (count_in(document, name) for name in ("page", "offset", "length"))
    return Sighting(
        tenant=text_in(document, "tenant"),
        request=text_in(document, "request"),
        page=page or 0,
        offset=offset or 0,
        length=length or 0,
        is_own=switch_in(document, "is_own") or False,
        view=text_in(document, "view") or "plain",
        net_bits=seconds_in(document, "net_bits"),
        is_suspect=switch_in(document, "is_suspect") or False,
    )


def _completion(document: Document) -> Completion:
    """Answer what came back, from a text or from the whole body of an answer. Raises BadRound."""
    kept = next((document[name] for name in _ANSWER_KEYS if document.get(name) is not None), None)
    status = count_in(document, "status")
    if status is None:
        status = 0 if kept is None else _OK
    found = Completion(status=status)
    if isinstance(kept, str):
        found = replace(found, text=kept, answer=kept)
    elif isinstance(kept, dict | list):
        body = json.dumps(kept, allow_nan=False).encode()
        found = read_completion(Reply(status=status, headers={}, body=body))
        found = replace(found, error="" if found.answer or found.text else found.error)
    elif kept is not None:
        raise BadRound("answer is neither a text nor the body of an answer")
    error = whole_text_in(document, "error")
    return _overridden(replace(found, error=error or found.error), document)


def _overridden(found: Completion, document: Document) -> Completion:
    """Answer a completion with the figures that the row itself names."""
    named: Mapping[str, object] = {
        "prompt_tokens": count_in(document, "prompt_tokens"),
        "completion_tokens": count_in(document, "completion_tokens"),
        "cached_tokens": count_in(document, "cached_tokens"),
        "finish": text_in(document, "finish") or None,
        "answer_id": text_in(document, "answer_id") or None,
        "event_status": count_in(document, "event_status"),
    }
    known = {name: value for name, value in named.items() if value is not None}
    found = replace(found, **known)  # type: ignore[arg-type]
    if switch_in(document, "stalled"):
        got = found.completion_tokens
        after = "" if got is None else f" at output {got}"
        return replace(found, status=0, error=f"it stalled{after}")
    return found


def _sightings(row: Row, text: str, codes: Sequence[Code]) -> tuple[Sighting, ...]:
    return tuple(
        Sighting(
            tenant=one.code.tenant,
            request=one.code.request,
            page=one.code.page,
            offset=one.offset,
            length=one.length,
            is_own=(one.code.tenant, one.code.request) == (row.tenant, row.request),
            view=one.view,
            is_suspect=one.is_in_pieces,
        )
        for one in find_codes(codes, text)
    )


def _with_echo(row: Row, document: Document, text: str) -> Row:
    expected = whole_text_in(document, "expect")
    if not expected:
        return row
    return replace(row, echo=Echo.WHOLE if holds(text, expected) else Echo.MISSING)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() if text else ""
